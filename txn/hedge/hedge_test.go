package hedge

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const ms = time.Millisecond

// says answers after a while, unless its context ends before.
func says(what string, after time.Duration, err error, ends *atomic.Int64) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		select {
		case <-time.After(after):
			return what, err
		case <-ctx.Done():
			ends.Add(1)
			return "", ctx.Err()
		}
	}
}

// TestAsk: what is answered in the usual time is asked for once. Later a second node is asked, too,
// whichever answers first counts, and the other one's context ends. One that fails leaves it to the
// other one.
func TestAsk(t *testing.T) {
	bad, worse := errors.New("bad"), errors.New("worse")
	for _, c := range []struct {
		name          string
		first, second time.Duration
		err, err2     error
		want          string
		fails         error
		took          time.Duration
		asked, won    int64
		ends          int64
	}{
		{name: "in time", first: 40 * ms, want: "first", took: 40 * ms},
		{name: "late, and sooner than the second", first: 70 * ms, second: 50 * ms, want: "first", took: 70 * ms, asked: 1, ends: 1},
		{name: "silent", first: time.Hour, second: 30 * ms, want: "second", took: 80 * ms, asked: 1, won: 1, ends: 1},
		{name: "fails in time", first: 40 * ms, err: bad, fails: bad, took: 40 * ms},
		{name: "fails late", first: 60 * ms, err: bad, second: 30 * ms, want: "second", took: 80 * ms, asked: 1, won: 1},
		{name: "the second fails", first: 90 * ms, second: 10 * ms, err2: worse, want: "first", took: 90 * ms, asked: 1},
		{name: "both fail", first: 90 * ms, err: bad, second: 10 * ms, err2: worse, fails: bad, took: 90 * ms, asked: 1},
		{name: "both fail, the second last", first: 60 * ms, err: bad, second: 70 * ms, err2: worse, fails: bad, took: 120 * ms,
			asked: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, ends := &Reads{}, new(atomic.Int64)
				for range 16 {
					r.took(1, 20*ms)
				}
				began := time.Now()
				got, err := Ask(t.Context(), r, 1, 30*ms, says("first", c.first, c.err, ends),
					says("second", c.second, c.err2, ends))
				took := time.Since(began)
				synctest.Wait()
				if c.fails == nil && got != c.want || err != c.fails || took != c.took {
					t.Errorf("%q, %v after %v; want %q, %v after %v", got, err, took, c.want, c.fails, c.took)
				}
				if a, w := r.Asked.Load(), r.Won.Load(); a != c.asked || w != c.won || ends.Load() != c.ends {
					t.Errorf("a second node was asked %d times and won %d times, %d were told that they are not needed; "+
						"want %d, %d, %d", a, w, ends.Load(), c.asked, c.won, c.ends)
				}
			})
		})
	}
}

// TestBudget: while the first node is silent not every read is asked of the second one.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, ends := &Reads{}, new(atomic.Int64)
		for range 200 {
			if _, err := Ask(t.Context(), r, 1, 0, says("", time.Second, nil, ends), says("", 0, nil, ends)); err != nil {
				t.Fatal(err)
			}
		}
		if n := r.Asked.Load(); n < 19 || n > 20 {
			t.Errorf("%d of 200 reads were asked of a second node", n)
		}
	})
}
