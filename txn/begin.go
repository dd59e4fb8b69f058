package txn

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/obs"
)

// opening is a timestamp at or above every commit that was acknowledged before the transaction
// began. In GClock mode the owners' clocks give that by themselves. In the other modes the
// transaction fetches it from the oracle, beside its first statements, and commits above it (TC-8).
type opening struct {
	done chan struct{}
	ts   base.Timestamp
	hops int
	err  error
}

// started sees to it that the opening is on its way, in modes that need it.
func (t *Txn) started() {
	if t.opening != nil {
		return
	}
	if m, _ := t.db.clock.Mode(); m == clock.GClock {
		return
	}
	o := &opening{done: make(chan struct{})}
	t.opening = o
	go func() {
		defer close(o.done)
		tr := &obs.Trace{}
		o.ts, o.err = t.freshTimestamp(obs.WithTrace(context.Background(), tr))
		o.hops = tr.Hops()
	}()
}

// named gives a transaction that began when its node knew nothing of the time the name of one that
// begins now (TXN-9), if it is about to tell others its name.
func (t *Txn) named(ctx context.Context, told bool) error {
	if !t.blank || !told {
		return nil
	}
	ts, err := t.freshTimestamp(ctx)
	if err == nil {
		t.blank, t.id, t.opts.Age, t.meta.Age = false, t.db.newID(ts), ts, uint64(ts)
		t.meta.Id = t.id[:]
	}
	return err
}

// opened is the opening if it has arrived, else 0.
func (t *Txn) opened() base.Timestamp {
	if t.opening != nil {
		select {
		case <-t.opening.done:
			if t.opening.err == nil {
				return t.opening.ts
			}
		default:
		}
	}
	return 0
}

// open waits for the opening; it is 0 in GClock mode.
func (t *Txn) open(ctx context.Context) (base.Timestamp, error) {
	t.started()
	o := t.opening
	if o == nil {
		return 0, nil
	}
	select {
	case <-o.done: // it cost nothing
		return o.ts, o.err
	default:
	}
	select {
	case <-o.done:
		obs.TraceOf(ctx).AddHops(o.hops)
		return o.ts, o.err
	case <-ctx.Done():
		return 0, base.Errorf(base.CodeCanceled, "request ended: %v", context.Cause(ctx))
	}
}

// freshTimestamp is a timestamp at or above every commit that was acknowledged before, in as much
// time as a statement has for nodes that do not answer.
func (t *Txn) freshTimestamp(ctx context.Context) (base.Timestamp, error) {
	if ts, ok := t.db.clock.Assign(); ok {
		return ts, nil // the clock alone tells
	}
	p := kv.PatienceOf(ctx)
	p.Failed()
	sctx, cancel := context.WithTimeout(ctx, p.Left())
	defer cancel()
	ts, err := t.db.clock.Snapshot(sctx)
	if err == nil {
		p.Answered()
	}
	if err == nil || ctx.Err() != nil {
		return ts, err
	}
	p.Failed()
	return 0, base.Errorf(base.CodeUnavailable, "no timestamp in time: %v", err)
}

// now is a snapshot for reads that begin now.
func (t *Txn) now(ctx context.Context) (base.Timestamp, error) {
	if t.opening != nil && !t.stale {
		return t.open(ctx)
	}
	ts, err := t.freshTimestamp(ctx)
	if err != nil {
		return 0, err
	}
	if m, _ := t.db.clock.Mode(); m != clock.GClock && t.opening == nil {
		t.opening = &opening{done: make(chan struct{}), ts: ts}
		close(t.opening.done)
	}
	return ts, nil
}
