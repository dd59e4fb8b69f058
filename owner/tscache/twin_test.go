package tscache_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/tscache"
)

// twin remembers every read.
type twin []read

type read struct {
	span base.Span
	ts   base.Timestamp
	by   base.TxnID
}

// read is what the cache must answer as long as it has forgotten nothing: for each key or range
// that was read, its newest timestamp, or the one before where only the asker has read at that.
func (w twin) read(s base.Span, by base.TxnID) (out base.Timestamp) {
	type mark struct {
		ts   base.Timestamp
		only bool // the asker's
	}
	marks := map[string]mark{}
	for _, r := range w {
		if !r.span.Overlaps(s) {
			continue
		}
		name := r.span.String()
		m, mine := marks[name], r.by == by && !by.IsZero()
		switch {
		case r.ts > m.ts:
			m = mark{r.ts, mine}
		case r.ts == m.ts:
			m.only = m.only && mine
		}
		marks[name] = m
	}
	for _, m := range marks {
		if m.only {
			m.ts = m.ts.Prev()
		}
		out = max(out, m.ts)
	}
	return out
}

// others is the largest timestamp at which another transaction has read something of the span: the
// least that the cache may answer, whatever it has forgotten.
func (w twin) others(s base.Span, by base.TxnID) (out base.Timestamp) {
	for _, r := range w {
		if r.span.Overlaps(s) && (r.by != by || by.IsZero()) {
			out = max(out, r.ts)
		}
	}
	return out
}

// TestTwin: with room the cache answers what its twin does; without, it forgets to nobody's harm,
// and never claims a read above all that there were.
func TestTwin(t *testing.T) {
	for seed := uint64(0); seed < 200; seed++ {
		rng := rand.New(rand.NewPCG(seed, 3))
		room := 1 << 20
		if seed%2 == 1 {
			room = 600 + rng.IntN(3000) // a handful of marks
		}
		c, w := tscache.New(false, func() int { return room }), twin{}
		key := func() base.Key { return base.Key(fmt.Sprintf("%02d", rng.IntN(30))) }
		span := func() base.Span {
			s := base.PointSpan(key())
			if rng.IntN(3) == 0 {
				s.End = base.Key(fmt.Sprintf("%s%d", s.Start, rng.IntN(9)))
				if rng.IntN(2) == 0 {
					s.End = base.Key("99")
				}
			}
			return s
		}
		var newest base.Timestamp
		for step := range 300 {
			by := base.TxnID{byte(rng.IntN(4))} // 0 is nobody in particular
			if rng.IntN(3) > 0 {
				r := read{span(), base.Timestamp(1 + step/3 + rng.IntN(40)), by}
				c.Add([]base.Span{r.span}, r.ts, r.by)
				w, newest = append(w, r), max(newest, r.ts)
				continue
			}
			s := span()
			got := c.Read(s, by)
			if want := w.read(s, by); seed%2 == 0 && got != want {
				t.Fatalf("seed %d, step %d: %v was read at %d for %v, want %d", seed, step, s, got, by, want)
			}
			if least := w.others(s, by); got < least || got > newest {
				t.Fatalf("seed %d, step %d: %v was read at %d for %v; others at %d, all at %d", seed, step, s, got,
					by, least, newest)
			}
		}
		if c.High != newest {
			t.Errorf("seed %d: the largest is %d, want %d", seed, c.High, newest)
		}
	}
}

// TestEndsTwin: the answer is at least the largest end that was told by the time given, and is an
// end that was told.
func TestEndsTwin(t *testing.T) {
	for seed := uint64(0); seed < 100; seed++ {
		rng := rand.New(rand.NewPCG(seed, 4))
		e := tscache.Ends{Low: 5}
		type end struct{ ts, told base.Timestamp }
		all := []end{{5, 0}}
		now := base.Timestamp(1_000_000)
		for range 6000 {
			now += base.Timestamp(rng.IntN(400_000))
			ts := now + base.Timestamp(rng.IntN(2_000_000)) - 1_000_000
			e.Add(ts, now)
			all = append(all, end{ts, now})
			if rng.IntN(40) > 0 {
				continue
			}
			began := now - base.Timestamp(rng.IntN(int(now)))
			if rng.IntN(10) == 0 {
				began = 0
			}
			got := e.Before(began)
			var least, most base.Timestamp
			for _, x := range all {
				if began == 0 || x.told <= began {
					least = max(least, x.ts)
				}
				most = max(most, x.ts)
			}
			if got < least || got > most {
				t.Fatalf("seed %d: ended before %d: %d, want %d to %d", seed, began, got, least, most)
			}
		}
	}
}
