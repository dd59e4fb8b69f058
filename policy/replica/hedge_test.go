package replica

import (
	"testing"
	"time"
)

// TestHedgeUsual: a node is waited for as long as 95 of its last 64 answers in 100 took, within
// bounds, and what it took once is forgotten.
func TestHedgeUsual(t *testing.T) {
	var h Hedge
	took := func(n int, d time.Duration) {
		for range n {
			h.Took(7, d)
		}
	}
	expect := func(when string, want time.Duration) {
		t.Helper()
		if got := h.Sent(7, 30*ms); got != want {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	expect("nothing is known", 130*ms)
	took(15, 40*ms)
	expect("too little is known", 130*ms)
	took(1, 40*ms)
	expect("sixteen answers", 70*ms)
	took(16, 2*ms)
	expect("half of the answers are as slow", 70*ms)
	took(45, 2*ms)
	took(3, time.Second)
	expect("three of 64 are slow", 50*ms)
	took(16, time.Second)
	expect("many are slow", 280*ms)
	took(64, 100*ms)
	expect("all that was is forgotten", 130*ms)
	if got := h.Sent(8, 0); got != 100*ms {
		t.Errorf("another node: %v", got)
	}
}

// TestHedgeBudget: of reads that are all late one in twenty is asked of a second node, after ten at
// once.
func TestHedgeBudget(t *testing.T) {
	var h Hedge
	play := func(reads int) (asked int) {
		for range reads {
			h.Sent(1, 0)
			if h.Spend() {
				asked++
			}
		}
		return asked
	}
	if n := play(10); n != 10 {
		t.Errorf("%d of the first ten", n)
	}
	if n := play(1000); n < 49 || n > 51 {
		t.Errorf("%d of 1000 reads in a row", n)
	}
	for range 10_000 {
		h.Sent(1, 0)
	}
	if n := play(15); n != 10 {
		t.Errorf("%d at once after a quiet time", n)
	}
}
