package clock

import (
	"context"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

func BenchmarkNow(b *testing.B) {
	c := New(NewWall(time.Millisecond))
	for b.Loop() {
		c.Now()
	}
}

// What nodes do: a watched source.
func benchClock() *Clock {
	return New(NewSteady(NewWall(time.Millisecond)))
}

func BenchmarkSnapshot(b *testing.B) {
	c := benchClock()
	ctx := context.Background()
	for b.Loop() {
		if _, err := c.Snapshot(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAssign(b *testing.B) {
	c := benchClock()
	for b.Loop() {
		c.Assign()
	}
}

func BenchmarkSettled(b *testing.B) {
	c := benchClock()
	ts := c.Now().Add(-time.Second)
	for b.Loop() {
		if !c.Settled(ts) {
			b.Fatal("not settled")
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	c := benchClock()
	var ts base.Timestamp
	for b.Loop() {
		ts = c.Now()
		_ = c.Observe(ts)
	}
}
