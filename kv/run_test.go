package kv_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// scripted is a DB whose transactions fail to commit with given errors, one for each attempt.
type scripted struct {
	kv.DB
	now   base.Timestamp
	fails []error
	begun []kv.Options
	ended int // attempts rolled back
}

func (d *scripted) Clock() base.Timestamp { d.now++; return d.now }

func (d *scripted) Begin(opts kv.Options) kv.Txn {
	d.begun = append(d.begun, opts)
	return &scriptedTxn{d: d}
}

// scriptedTxn has the part of a transaction that Run uses; the others are nil.
type scriptedTxn struct {
	d *scripted
	kv.Reader
	kv.Prefetcher
	kv.Writer
	kv.Patcher
	kv.Mover
	kv.Pinner
	kv.Savepoints
	kv.Snapshots
}

func (t *scriptedTxn) ID() base.TxnID { return base.TxnID{} }

func (t *scriptedTxn) Commit(context.Context) (base.Timestamp, error) {
	if n := len(t.d.begun); n <= len(t.d.fails) {
		return 0, t.d.fails[n-1]
	}
	return 77, nil
}

func (t *scriptedTxn) Rollback(context.Context) { t.d.ended++ }

func abort(code base.Code) error { return base.Errorf(code, "told to fail") }

func nothing(kv.Txn) error { return nil }

func times(n int, err error) (out []error) {
	for range n {
		out = append(out, err)
	}
	return out
}

func TestRunRetriesWhatIsRetryable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, code := range []base.Code{base.CodeAborted, base.CodeLockTimeout, base.CodeOverloaded,
			base.CodeUnavailable, base.CodeSchemaChanged} {
			d := &scripted{fails: times(3, abort(code))}
			ts, err := kv.Run(t.Context(), d, kv.Options{}, nothing)
			if ts != 77 || err != nil || len(d.begun) != 4 || d.ended != 3 {
				t.Errorf("code %v: %v, %v after %d attempts, %d rolled back", code, ts, err, len(d.begun), d.ended)
			}
		}
		for _, code := range []base.Code{base.CodeExists, base.CodeInvalid, base.CodeAmbiguous} {
			d := &scripted{fails: times(3, abort(code))}
			if _, err := kv.Run(t.Context(), d, kv.Options{}, nothing); base.CodeOf(err) != code ||
				len(d.begun) != 1 || d.ended != 1 {
				t.Errorf("code %v: %v after %d attempts, %d rolled back", code, err, len(d.begun), d.ended)
			}
		}
	})
}

// TestRunKeepsAge: all attempts have the age of the first one, so that a transaction cannot starve.
func TestRunKeepsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &scripted{fails: times(5, abort(base.CodeAborted))}
		if _, err := kv.Run(t.Context(), d, kv.Options{}, nothing); err != nil {
			t.Fatal(err)
		}
		for i, o := range d.begun {
			if o.Age == 0 || o.Age != d.begun[0].Age {
				t.Errorf("attempt %d has age %v, the first one %v", i, o.Age, d.begun[0].Age)
			}
		}
	})
}

// TestRunLocksInTheEnd: after RelayTries aborts a transaction does not cross regions without locks
// any more; other failures do not count. All attempts share what they have touched.
func TestRunLocksInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &scripted{fails: append(times(2, abort(base.CodeUnavailable)), times(kv.RelayTries+1, abort(base.CodeAborted))...)}
		if _, err := kv.Run(t.Context(), d, kv.Options{Relay: true}, nothing); err != nil {
			t.Fatal(err)
		}
		for i, o := range d.begun {
			if want := i < kv.RelayTries+2; o.Relay != want {
				t.Errorf("attempt %d: crossing without locks is %v", i, o.Relay)
			}
			if o.Touched == nil || o.Touched != d.begun[0].Touched {
				t.Errorf("attempt %d does not share what was touched", i)
			}
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		d := &scripted{fails: times(1000, abort(base.CodeAborted))}
		began := time.Now()
		_, err := kv.Run(ctx, d, kv.Options{}, nothing)
		if took := time.Since(began); base.CodeOf(err) != base.CodeAborted || took != 10*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		// Back-off doubles up to half a second: at least 20 attempts, and nowhere near 1000.
		if n := len(d.begun); n < 20 || n > 100 {
			t.Errorf("%d attempts in ten seconds", n)
		}
	})
}

// TestRunGivesTheFunctionsError: an error of the function ends the attempt without a commit.
func TestRunGivesTheFunctionsError(t *testing.T) {
	d := &scripted{}
	mine := errors.New("mine")
	if _, err := kv.Run(t.Context(), d, kv.Options{}, func(kv.Txn) error { return mine }); !errors.Is(err, mine) || d.ended != 1 {
		t.Errorf("%v, %d rolled back", err, d.ended)
	}
}

// TestPauseWaitsForWhatWasMet: a pause lasts until the cause of the abort is over, if that is
// known, but not longer than the longest back-off.
func TestPauseWaitsForWhatWasMet(t *testing.T) {
	now := base.FromTime(time.Unix(1000, 0))
	met := func(d time.Duration) error {
		e := base.Errorf(base.CodeAborted, "met")
		e.After = now.Add(d)
		return e
	}
	for _, c := range []struct {
		err         error
		least, most time.Duration
	}{
		{met(100 * time.Millisecond), 100 * time.Millisecond, 102 * time.Millisecond},
		{met(time.Minute), 500 * time.Millisecond, 502 * time.Millisecond},
		{met(-time.Second), 10 * time.Millisecond, 30 * time.Millisecond},
		{abort(base.CodeAborted), 10 * time.Millisecond, 30 * time.Millisecond},
	} {
		for range 100 {
			if d := kv.Pause(c.err, 20*time.Millisecond, now); d < c.least || d >= c.most {
				t.Fatalf("a pause of %v, not of %v to %v", d, c.least, c.most)
			}
		}
	}
}
