package txn

import (
	"context"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/txn/known"
	"github.com/godwitdb/godwit/txn/writes"
	"github.com/godwitdb/godwit/wire"
)

// plan says which group is asked for what in a commit, as far as this node knows who owns what.
type plan struct {
	writes map[base.GroupID][]*wire.Write
	// reads are what has to be validated; nil where locks protect it.
	reads map[base.GroupID][]*wire.Span
	// need is what an owner must have applied to know that it is the owner.
	need map[base.GroupID][]*wire.GroupIndex
	// pieces is how many pieces were staged in each group (largeCommit).
	pieces map[base.GroupID]uint32
}

// groups are those that take part: all that were written, read without locks, or locked.
func (p *plan) groups(parts []part) []base.GroupID {
	var gs []base.GroupID
	for g := range p.writes {
		gs = append(gs, g)
	}
	for g := range p.pieces {
		gs = append(gs, g)
	}
	for g := range p.reads {
		if len(p.writes[g]) == 0 {
			gs = append(gs, g)
		}
	}
	for _, q := range parts {
		if q.term != 0 && !slices.Contains(gs, q.group) {
			gs = append(gs, q.group)
		}
	}
	slices.Sort(gs)
	return gs
}

// require makes the owner of a group apply what it takes to know that it is.
func (p *plan) require(g base.GroupID, need []*wire.GroupIndex) {
	for _, n := range need {
		if p.need == nil {
			p.need = map[base.GroupID][]*wire.GroupIndex{}
		}
		p.need[g] = addNeed(p.need[g], n)
	}
}

// addNeed adds to a need. Requests that are under way keep theirs as it was.
func addNeed(need []*wire.GroupIndex, n *wire.GroupIndex) []*wire.GroupIndex {
	for i, o := range need {
		if o.Region != n.Region {
			continue
		}
		if n.Index > o.Index {
			need = slices.Clone(need)
			need[i] = &wire.GroupIndex{Region: n.Region, Index: n.Index}
		}
		return need
	}
	return append(need, &wire.GroupIndex{Region: n.Region, Index: n.Index})
}

// locate moves writes of some keys to the owners that the local replica names.
func (p *plan) locate(ctx context.Context, set *owner.Set, keys []base.Key) {
	owners := map[string]base.GroupID{}
	for i := 0; i < len(keys) && base.GoesOn(ctx, i); i++ {
		if g, ok := set.Locate(keys[i]); ok {
			owners[string(keys[i])] = g
		}
	}
	old := p.writes
	p.writes = map[base.GroupID][]*wire.Write{}
	for g, ws := range old {
		for _, w := range ws {
			to, ok := owners[string(w.Key)]
			if !ok {
				to = g
			}
			p.writes[to] = append(p.writes[to], w)
		}
	}
}

// reroute moves writes to the owners that a group named which was asked in error.
func (p *plan) reroute(from base.GroupID, foreign []*wire.Foreign) {
	to := map[string]*wire.Foreign{}
	for _, f := range foreign {
		to[string(f.Span.Start)] = f
	}
	var stay []*wire.Write
	for _, w := range p.writes[from] {
		f := to[string(w.Key)]
		if f == nil {
			stay = append(stay, w)
			continue
		}
		g := base.GroupID(f.Group)
		p.writes[g] = append(p.writes[g], w)
		p.require(g, f.Since)
	}
	if p.writes[from] = stay; len(stay) == 0 {
		delete(p.writes, from)
	}
}

// planLocked is the plan of a commit under locks. It makes sure of what the writes assume, and
// locks what several groups have to agree on.
func (t *Txn) planLocked(ctx context.Context) (plan, error) {
	p, gone, blind := t.planWrites(ctx)
	if err := t.lockGone(ctx, gone); err != nil {
		return p, err
	}
	meta := len(p.writes[base.MetaGroup]) > 0 || t.lockTerm(base.MetaGroup) != 0
	if len(blind) > 0 && len(p.groups(t.parts)) > 1 {
		// A Prepare at the wrong owner cannot be moved. The local replica mostly knows who owns
		// what. Where there is none, or an attempt went astray lately, the owners are found under
		// locks, at the price of a round trip. (Keys may be new in every attempt, so that an
		// attempt need not learn from the one before.)
		if t.strayed(blind) {
			if err := t.lockKeys(ctx, blind); err != nil {
				return p, err
			}
			return t.planLocked(ctx)
		}
		p.locate(ctx, t.db.set, blind)
	}
	if meta && len(t.pins) > 0 {
		return p, t.lockPins(ctx)
	}
	return p, base.Ended(ctx)
}

// planWrites assigns the writes to groups. gone are keys that were inserted and deleted again, and
// must not have been there; blind are those whose owner is a guess, because they were not locked.
func (t *Txn) planWrites(ctx context.Context) (p plan, gone, blind []base.Key) {
	p.writes = map[base.GroupID][]*wire.Write{}
	walk := known.WalkOf(&t.rows)
	writes := t.buf.All()
	msgs := make([]wire.Write, 0, min(len(writes), maxBlock))
	var room [1]piece
	for i := 0; i < len(writes) && base.GoesOn(ctx, i); i++ {
		w := writes[i]
		if w.Cancelled() {
			gone = append(gone, w.Key)
			continue
		}
		g, ok := walk.Owner(w.Key)
		if !ok {
			blind = append(blind, w.Key)
			guessed := t.guess(room[:0], 0, base.PointSpan(w.Key), 0)[0]
			g = guessed.group
			p.require(g, guessed.need)
		}
		if len(msgs) == cap(msgs) {
			msgs = make([]wire.Write, 0, min(len(writes)-i, maxBlock))
		}
		msgs = msgs[:len(msgs)+1]
		m := &msgs[len(msgs)-1]
		w.Fill(m, t.opts.Follow)
		p.writes[g] = append(p.writes[g], m)
	}
	return p, gone, blind
}

// maxBlock is how many messages are allocated at a time.
const maxBlock = 64

// lockGone locks keys that were inserted and deleted again, and fails if one was there before.
func (t *Txn) lockGone(ctx context.Context, keys []base.Key) error {
	if len(keys) == 0 {
		return base.Ended(ctx)
	}
	f := fetch{lock: kv.LockExclusive, spans: pointSpans(keys)}
	if err := f.run(ctx, t); err != nil {
		return err
	}
	for _, g := range f.got {
		for _, r := range g.rows {
			if !r.Absent {
				return exists(r.Key)
			}
		}
		if g.cut != nil {
			return base.Errorf(base.CodeInvalid, "too many keys are inserted and deleted again in one transaction")
		}
	}
	return nil
}

func pointSpans(keys []base.Key) []base.Span {
	spans := make([]base.Span, len(keys))
	for i, k := range keys {
		spans[i] = base.PointSpan(k)
	}
	return spans
}

// strayed reports whether one of the keys was lately not where it was looked for, or lies in a
// shard that is not held here.
func (t *Txn) strayed(keys []base.Key) bool {
	for _, k := range keys {
		if _, ok := t.db.hints.Get(k); ok || k.Shard() != base.MetaShard && !t.db.set.Holds(k.Shard()) {
			return true
		}
	}
	return false
}

// lockKeys locks keys for writing at their owners, and so finds these.
func (t *Txn) lockKeys(ctx context.Context, keys []base.Key) error {
	if t.rows.Full(len(keys)) {
		return base.Errorf(base.CodeInvalid, "a transaction writes at most %d keys in several groups: "+
			"commit in smaller pieces", known.Max)
	}
	for len(keys) > 0 {
		f := fetch{lock: kv.LockExclusive, spans: pointSpans(keys)}
		if err := f.run(ctx, t); err != nil {
			return err
		}
		var rest []base.Key
		for i, g := range f.got {
			if g.cut != nil {
				rest = append(rest, keys[i])
			}
		}
		keys = rest
	}
	return nil
}

// planReads is the plan of a commit that validates what the transaction has read instead of holding
// locks.
func (t *Txn) planReads() plan {
	p := plan{writes: map[base.GroupID][]*wire.Write{}, reads: map[base.GroupID][]*wire.Span{}}
	for _, w := range t.buf.All() {
		if !w.Cancelled() {
			g := t.expectedOwner(&p, w.Key)
			p.writes[g] = append(p.writes[g], t.shipped(w))
		}
	}
	var entries map[base.TableID]struct{}
	if t.mode == bySlot {
		entries = t.buf.WithEntriesByHome()
	}
	for _, s := range t.reads {
		if s.IsPoint() {
			g := t.expectedOwner(&p, s.Start)
			_, homed := entries[s.Start.Table()] // they would lie where the row was (REL-3a)
			p.reads[g] = append(p.reads[g], &wire.Span{Start: s.Start, MayMove: t.mode == bySlot && !homed})
			continue
		}
		segs, ok := t.db.set.Segments(s, maxReads)
		if !ok {
			segs = []owner.Segment{{Span: s, Owner: t.db.homeGroup(s.Start.Shard())}}
		}
		for _, g := range segs {
			p.reads[g.Owner] = append(p.reads[g.Owner], &wire.Span{Start: g.Span.Start, End: g.Span.End})
		}
	}
	return p
}

// shipped is a write as its owner gets it: the patch alone, if the transaction does not depend on
// what the row was.
func (t *Txn) shipped(w *writes.Write) *wire.Write {
	if w.Patch != nil && t.hasRead(w.Key) {
		t.dependOn(w)
	}
	m := w.Wire(t.opts.Follow)
	if w.Patch != nil {
		m.Value, m.Follow, m.Patch = nil, false, w.Patch
	}
	return m
}

// expectedOwner guesses the owner of a key, and has the plan require what that owner must have
// applied.
func (t *Txn) expectedOwner(p *plan, k base.Key) base.GroupID {
	if h, ok := t.db.hints.Get(k); ok {
		p.require(h.Group, h.Need)
		return h.Group
	}
	if g, ok := t.db.set.Locate(k); ok {
		return g
	}
	if g, ok := t.rows.Owner(k); ok {
		return g
	}
	return t.db.lastOwner(k)
}
