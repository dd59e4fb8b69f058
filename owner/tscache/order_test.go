package tscache

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"github.com/godwitdb/godwit/base"
)

func TestTSCache(t *testing.T) {
	c := New(false, func() int { return maxEraBytes })
	k := func(s string) base.Key { return base.Key(s) }
	span := func(a, b string) base.Span { return base.Span{Start: k(a), End: k(b)} }
	a, b := base.TxnID{1}, base.TxnID{2}
	check := func(s base.Span, by base.TxnID, want base.Timestamp) {
		t.Helper()
		if got := c.Read(s, by); got != want {
			t.Errorf("%v was read at %d as transaction %v sees it, want %d", s, got, by, want)
		}
	}
	c.Add([]base.Span{base.PointSpan(k("m"))}, 10, a)
	check(base.PointSpan(k("m")), b, 10)
	check(base.PointSpan(k("m")), a, 9) // its own read does not push it
	check(base.PointSpan(k("n")), b, 0)
	check(span("l", "n"), b, 10)
	c.Add([]base.Span{base.PointSpan(k("m"))}, 10, b) // both at the same
	check(base.PointSpan(k("m")), a, 10)
	c.Add([]base.Span{base.PointSpan(k("m"))}, 8, b)
	check(base.PointSpan(k("m")), a, 10)
	c.Add([]base.Span{span("a", "f")}, 20, a)
	c.Add([]base.Span{span("a", "f")}, 15, b)
	check(base.PointSpan(k("c")), b, 20)
	check(base.PointSpan(k("f")), b, 0)
	check(span("e", "z"), b, 20)
	if c.High != 20 {
		t.Errorf("the largest is %d", c.High)
	}

	// It forgets, never to anybody's harm.
	for i := range 3 * maxPointMarks {
		c.Add([]base.Span{base.PointSpan(k(fmt.Sprint("p", i)))}, base.Timestamp(100+i), a)
	}
	for i := range 3 * maxRangeMarks {
		c.Add([]base.Span{span(fmt.Sprint("r", i), fmt.Sprint("s", i))}, base.Timestamp(1_000_000+i), a)
	}
	if n := len(c.cur.points) + len(c.old.points); n > 2*maxPointMarks {
		t.Errorf("it holds %d keys", n)
	}
	if n := len(c.cur.ranges) + len(c.old.ranges); n > 2*maxRangeMarks {
		t.Errorf("it holds %d ranges", n)
	}
	for i := range 3 * maxPointMarks {
		if got := c.Read(base.PointSpan(k(fmt.Sprint("p", i))), b); got < base.Timestamp(100+i) {
			t.Fatalf("p%d was read at %d, and %d is all that is known", i, 100+i, got)
		}
	}
	if got := c.Read(base.PointSpan(k("m")), b); got < 10 {
		t.Errorf("m was read at 10, and %d is all that is known", got)
	}
}

// TestTSCacheMemory: however long the keys are, and however many groups a node has, what is
// remembered is bounded in bytes.
func TestTSCacheMemory(t *testing.T) {
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	for _, groups := range []int{1, 30, 5000} {
		room := EraRoom(groups)
		if all := groups * room; groups < allEraBytes/minEraBytes && all > allEraBytes {
			t.Errorf("%d groups may hold %d bytes", groups, all)
		}
		for _, length := range []int{8, 2000} {
			for _, ranges := range []bool{false, true} {
				before := heap()
				c := New(false, func() int { return room })
				key := make([]byte, length)
				n := 3 * room / (length + markBytes)
				for i := range n {
					binary.BigEndian.PutUint64(key, uint64(i))
					s := base.Span{Start: base.Key(key)}
					if ranges {
						s.End = append(base.Key(nil), key...)
						s.End[length-1]++
					}
					c.Add([]base.Span{s}, base.Timestamp(i+1), base.TxnID{1})
				}
				if got := heap() - before; got > 2*room+room/2 {
					t.Errorf("%d groups, keys of %d bytes (ranges: %v): one holds %d bytes, "+
						"two generations of %d are allowed", groups, length, ranges, got, room)
				}
				if c.low == 0 || c.low > base.Timestamp(n) {
					t.Errorf("%d groups, keys of %d bytes (ranges: %v): forgotten up to %d of %d", groups, length,
						ranges, c.low, n)
				}
				binary.BigEndian.PutUint64(key, 0)
				if got := c.Read(base.PointSpan(base.Key(key)), base.TxnID{2}); got < 1 {
					t.Error("what was forgotten does not count as read")
				}
				runtime.KeepAlive(c)
			}
		}
	}
}

func TestEndsOfTransactions(t *testing.T) {
	e := Ends{Low: 5}
	ms := base.Timestamp(1_000_000)
	check := func(began, want base.Timestamp) {
		t.Helper()
		if got := e.Before(began); got != want {
			t.Errorf("ends before %d are up to %d, want %d", began, got, want)
		}
	}
	check(0, 5)
	check(7, 5)
	e.Add(10*ms, 8*ms)
	e.Add(9*ms, 9*ms) // nothing new
	e.Add(20*ms, 18*ms)
	e.Add(21*ms, 18*ms+10) // counts as if told with the one before
	check(0, 21*ms)
	check(8*ms-1, 5)
	check(8*ms, 10*ms)
	check(17*ms, 10*ms)
	check(18*ms, 21*ms)
	e.Add(30*ms, 0) // a clock that cannot tell when
	check(18*ms, 30*ms)
	for i := range base.Timestamp(2 * maxEnds) {
		e.Add(40*ms+i*ms, 38*ms+i*ms)
	}
	if len(e.list) > maxEnds {
		t.Errorf("%d ends are remembered", len(e.list))
	}
	if got := e.Before(1); got < 30*ms {
		t.Errorf("forgotten ends count: %d", got)
	}
}
