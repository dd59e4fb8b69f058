// Package recall has a new leader outlive the leases of the leaders before it (OWN-1), or be told
// by them that they have released these (TIME-1b).
package recall

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/owner/route"
	"github.com/godwitdb/godwit/owner/state"
	"github.com/godwitdb/godwit/wire"
)

// Holder is a node whose lease a new leader has to outlive, if it is not released.
type Holder struct {
	state.Lease
	Node     base.NodeID
	released chan *wire.ReleaseResponse // capacity 1
}

// Released reports whether an answer waits to be taken.
func (h *Holder) Released() bool { return len(h.released) > 0 }

// release has the holder count as one that has released its lease; what came first stands.
func (h *Holder) release(resp *wire.ReleaseResponse) {
	select {
	case h.released <- resp:
	default:
	}
}

// Holders are those that the log of a new leader knows of, and the newest end of the leases that
// bind nobody any more.
func Holders(s *state.State, self base.NodeID, term uint64) (hs []*Holder, newest base.Timestamp) {
	add := func(n base.NodeID, l state.Lease, binds bool) {
		if !binds {
			newest = max(newest, l.End)
			return
		}
		hs = append(hs, &Holder{l, n, make(chan *wire.ReleaseResponse, 1)})
	}
	for n, l := range s.Leases {
		add(n, l, n != self && !l.Revoked)
	}
	if t := &s.Transfer; t.Target != 0 {
		// if the term is the next one, the target cannot have led in between
		add(t.Target, t.Lease, t.Target != self && t.Term+1 != term)
	}
	return hs, newest
}

// Waiter is a new leader that waits.
type Waiter struct {
	Clock  *clock.Clock
	Length time.Duration // of leases that do not say it
	Half   bool          // waits for half of their length (Breaks.EarlySuccessors)
	Caller route.Caller
	GoesOn func() bool // it still waits
	// From is the predecessor that hands its lead over, if one does, and Arrived is closed when its
	// state has come. Patient waits for that as long as it takes (Breaks.PatientSeals).
	From    base.NodeID
	Arrived <-chan struct{}
	Patient bool
}

// left is how long a lease may still bind its holder: true time has not certainly passed its end,
// nor has its length passed since its entry came to this replica, by a clock that may run a little
// fast. Only the length counts where the end, or this node's own reading, does not come from a
// clock with a bound.
func (w *Waiter) left(l *state.Lease) time.Duration {
	length := l.Length
	if length == 0 {
		length = w.Length
	}
	if w.Half {
		length /= 2
	}
	d := time.Until(l.Learned.Add(clock.Stretched(length)))
	if !l.Virtual {
		passed, wait := w.Clock.PassedBy(l.End)
		if passed {
			return 0
		}
		d = min(d, wait)
	}
	return d
}

// askPatience is how long one question takes at most: a round trip, and a node that is late.
const askPatience = 700 * time.Millisecond

// latePatience is how long a transfer target that was elected waits for the transferred state
// before it tells the old leader that it was: that one may be stuck behind its disk, or hear late.
const latePatience = 200 * time.Millisecond

// isLate waits for the state of a predecessor that hands its lead over, for a moment.
func (w *Waiter) isLate(ctx context.Context) bool {
	if w.Patient {
		return false
	}
	select {
	case <-time.After(latePatience):
		return w.GoesOn()
	case <-w.Arrived:
	case <-ctx.Done():
	}
	return false
}

// Ask asks the holder to release its lease, until it answers or the lease is over. An error is the
// holder's: it does not know, or it sends more. One that hands its lead over sends more unasked, if
// it hears that it leads no longer.
func (w *Waiter) Ask(ctx context.Context, h *Holder, q *wire.ReleaseRequest) error {
	if h.Node == w.From && !w.isLate(ctx) {
		return nil
	}
	q.LeaseEnd = uint64(h.End)
	for w.left(&h.Lease) > 0 && w.GoesOn() {
		var resp wire.ReleaseResponse
		one, cancel := context.WithTimeout(ctx, askPatience)
		err := w.Caller.Call(one, h.Node, wire.KindRelease, q, &resp)
		cancel()
		if err == nil {
			if err = route.ErrorOf(resp.Status); err == nil {
				h.release(&resp)
			}
			return err
		}
		select {
		case <-time.After(askPatience / 7):
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

// Outlive waits until the holder has released its lease, or has certainly stopped serving under it,
// or has sent its state. end is where its service ended at the latest, and
// held the catalog hold above that; saved is what the release has saved; ok is false if ctx has
// ended.
func (w *Waiter) Outlive(ctx context.Context, h *Holder) (end, held base.Timestamp, saved time.Duration, ok bool) {
	for {
		d := w.left(&h.Lease)
		if d <= 0 {
			return h.End, 0, 0, true
		}
		select {
		case <-time.After(d):
		case <-w.Arrived:
			return h.End, 0, 0, true
		case resp := <-h.released:
			return base.Timestamp(resp.Floor), base.Timestamp(resp.Held), w.left(&h.Lease), true
		case <-ctx.Done():
			return 0, 0, 0, false
		}
	}
}
