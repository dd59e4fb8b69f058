package owner

import (
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/owner/lead"
	"github.com/godwitdb/godwit/owner/state"
)

// Apply implements group.StateMachine. Package state does all that is a function of the log.
func (r *Replica) Apply(b *store.Batch, ents []group.Entry) ([]any, error) {
	if err := state.Knows(r.id, ents, r.store.Knows()); err != nil && !r.cfg.SkipUnknown {
		return nil, err
	}
	results := make([]any, len(ents))
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, e := range ents {
		res, err := r.rep.Apply(&r.logged, b, e)
		if err != nil {
			return nil, err
		}
		results[i] = res
		r.appliedHere(e)
	}
	r.rep.Save(&r.logged, b)
	return results, nil
}

// appliedHere notes what an entry means to this replica beyond the replicated state. mu is held.
func (r *Replica) appliedHere(e group.Entry) {
	if q := e.Cmd.Lease; q != nil && base.NodeID(q.Holder) == r.cfg.Self && e.Term == r.lead.Term &&
		r.lead.State != lead.Relieved {
		now := time.Now()
		r.renewals.Add(now, r.lead.Granted(base.Timestamp(q.End), now)-tickInterval)
		r.wake()
	}
	if q := e.Cmd.Collect; q != nil {
		r.collected.Store(max(r.collected.Load(), q.Below))
	}
}

// loadState fills the replicated state from the store.
func (r *Replica) loadState() error {
	s, err := state.Load(&r.logged)
	if err != nil {
		return err
	}
	index, err := r.store.Applied(r.id)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.rep = s
	r.applied.Store(max(index, r.applied.Load()))
	r.closed.Store(max(uint64(s.Closed), r.closed.Load()))
	r.wake()
	r.mu.Unlock()
	return nil
}

// Applied implements group.StateMachine.
func (r *Replica) Applied(index uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applied.Store(index)
	if len(r.rep.Fresh) > 0 {
		r.rep.Shown()
		r.changes.Add(1)
		r.set.versionsChanged(r)
	}
	c := uint64(r.rep.Closed)
	for _, p := range r.heartbeats.Due(index) {
		c = max(c, uint64(p.Closed))
		r.heardHold(p.Held)
	}
	if r.lead.Term == 0 && c > r.closed.Load() {
		r.heardClosed(base.Timestamp(c))
	}
	r.closeTo(c)
	r.wakeWaiting()
}

// SnapshotInstalled implements group.StateMachine.
func (r *Replica) SnapshotInstalled(index uint64) {
	if err := r.loadState(); err != nil {
		r.cfg.Logger.Error("replica cannot be read after a snapshot", "group", r.id, "err", err)
		return
	}
	r.collected.Store(max(r.collected.Load(), uint64(r.store.GCThreshold(r.shard))))
	r.changes.Add(1) // before anything that is visible now counts as closed
	r.Applied(index)
	r.set.versionsChanged(r)
}
