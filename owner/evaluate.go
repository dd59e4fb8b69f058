package owner

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// findings are what one view of the store says about the writes of an attempt. A view is newer than
// every lock held, so what it says stays true until the locks are released. They are made anew for
// each view.
type findings struct {
	writes   []*wire.Write // those to be logged: deletes of absent keys are dropped
	handover []base.Span   // gaps that the writes give to other groups
	// as handover: the write of each gap, if its move can be left out, else nil
	movers  []*wire.Write
	since   base.Timestamp
	foreign []*wire.Foreign    // keys and ranges that other groups own
	need    []*wire.GroupIndex // to be applied here before what was found counts
	own     []view.Seen        // for Config.Serves: the keys written
	exists  base.Key           // of an insert, if the key is there
}

// missingLocks are gaps that an attempt gives away and has not locked.
type missingLocks struct {
	gaps []base.Span
	// soft are those of moves that can be left out, by write.
	soft map[*wire.Write]base.Span
}

// lockWrites locks the writes exclusively.
func (e *evaluation) lockWrites(ctx context.Context) error {
	if len(e.q.Writes) == 0 {
		return nil
	}
	spans := make([]base.Span, len(e.q.Writes))
	for i, w := range e.q.Writes {
		spans[i] = base.Span{Start: w.Key}
	}
	if _, err := e.r.lock(ctx, e.x, e.term, lock.Exclusive, spans...); err != nil {
		return err
	}
	patched := patchedSpans(e.q.Writes)
	if len(patched) == 0 {
		return nil
	}
	// It relies on what the rows are before slots ahead.
	return e.waitForSlots(ctx, patched)
}

// waitForSlots waits for slots that are due on what the attempt has read, and bounds it by those
// that lie ahead.
func (e *evaluation) waitForSlots(ctx context.Context, spans []base.Span) error {
	e.r.mu.Lock()
	defer e.r.mu.Unlock()
	_, err := e.r.underSlots(ctx, e.x, e.term, lock.Shared, spans)
	return err
}

// lookWrites evaluates the writes, and locks the gaps that they give away, until a view is newer
// than all locks that they need.
func (e *evaluation) lookWrites(ctx context.Context) error {
	for {
		e.arrivals = view.Arrivals{}
		e.r.beginArrivals(&e.arrivals)
		missing, again, err := e.lookOnce(ctx)
		if err != nil {
			return err
		}
		if again {
			continue
		}
		if len(missing.gaps) == 0 && len(missing.soft) == 0 {
			return nil
		}
		if len(missing.gaps) > 0 {
			if _, err := e.r.lock(ctx, e.x, e.term, lock.Exclusive, missing.gaps...); err != nil {
				return err
			}
		}
		for w, gap := range missing.soft {
			ok, err := e.r.tryLock(e.x, e.term, gap)
			if err != nil {
				return err
			}
			if !ok {
				w.Move = 0 // not worth a wait: another transaction works in the gap behind the row
			}
		}
	}
}

// lookReads locks and validates what a commit of one group has read without locks. It comes after
// the locks of the writes: while it waited for those, the rows might have changed.
func (e *evaluation) lookReads(ctx context.Context) error {
	if len(e.q.Reads) == 0 {
		return nil
	}
	spans := view.SpansOf(e.q.Reads)
	if _, err := e.r.lock(ctx, e.x, e.term, lock.Shared, spans...); err != nil {
		return err
	}
	// The locks of a slot are shared, too: one that lies ahead bounds this commit as it does any
	// reader's (REL-4).
	if err := e.waitForSlots(ctx, spans); err != nil {
		return err
	}
	return e.validate(ctx)
}

// lookOnce evaluates all writes on one view. again: the view was not complete here, and what was
// missing has arrived since.
func (e *evaluation) lookOnce(ctx context.Context) (missing missingLocks, again bool, err error) {
	missing, err = e.lookAll()
	if len(e.need) > 0 {
		err = e.r.waitVector(ctx, e.need)
		return missingLocks{}, true, err
	}
	return missing, false, err
}

// lookAll evaluates all writes on one view. What the transaction has seen under its locks is not
// looked up again (OWN-12).
func (e *evaluation) lookAll() (missing missingLocks, err error) {
	r := e.r
	r.mu.Lock()
	seen := e.x.Seen
	r.mu.Unlock()
	at := view.Lazy{Store: r.store}
	defer at.Close()
	e.findings = findings{writes: e.q.Writes[:0:0]}
	for _, w := range e.q.Writes {
		if err := e.lookAt(&at, seen, w); err != nil {
			return missing, err
		}
	}
	e.counted = true
	if len(e.foreign) > 0 {
		return missing, base.Errorf(base.CodeWrongOwner, "group %v does not own %d of the keys", r.id, len(e.foreign))
	}
	if e.exists != nil {
		err := base.Errorf(base.CodeExists, "key %v exists", e.exists)
		err.Key = e.exists.Clone()
		return missing, err
	}
	if len(e.handover) > 0 {
		missing = e.missing()
	}
	return missing, nil
}

// missing are the locks of gaps that the attempt does not have yet.
func (e *evaluation) missing() (m missingLocks) {
	e.r.mu.Lock()
	defer e.r.mu.Unlock()
	for i, s := range e.handover {
		switch {
		case e.by.holds(e, s):
		case e.movers[i] != nil:
			if m.soft == nil {
				m.soft = map[*wire.Write]base.Span{}
			}
			m.soft[e.movers[i]] = s
		default:
			m.gaps = append(m.gaps, s)
		}
	}
	return m
}

// lookAt evaluates one write: the owner of its key, whether an inserted key is absent, and the
// label to log.
func (e *evaluation) lookAt(at *view.Lazy, seen []view.Seen, w *wire.Write) error {
	r := e.r
	if e.by.blind() && keepsLabel(w) && r.ownsSection(w.Key) {
		// Whether the key is there changes neither its owner nor its label.
		w.Label, w.Move = uint64(base.MakeLabel(r.region, 0, 0)), 0
		e.writes = append(e.writes, w)
		return nil
	}
	p, err := e.locate(at, seen, w)
	if err != nil {
		return err
	}
	if p.Owner != r.id {
		e.foreign = append(e.foreign, p.Foreign(w.Key))
		return nil
	}
	e.note(w.Key, &p)
	there := p.Found && !p.V.Tombstone
	if there {
		e.noteRow(w, &p)
	}
	out := e.logged(w, &p, there)
	if out == nil {
		return nil
	}
	if w.Patch != nil && len(e.need) == 0 && len(e.foreign) == 0 {
		if out, err = e.patched(w, &p, there); err != nil {
			return err
		}
	}
	e.writes = append(e.writes, out)
	if r.handsOver(out) {
		return e.noteHandover(at, w, out)
	}
	return nil
}

// locate finds the owner of a key. A key that was seen under its lock is looked up again only if
// the entry needs its value.
func (e *evaluation) locate(at *view.Lazy, seen []view.Seen, w *wire.Write) (view.Place, error) {
	p, known := view.Recall(seen, w.Key)
	if known && w.Kind != wire.WriteKind_MOVE && w.Patch == nil {
		return p, nil
	}
	return view.Locate(at.Reader(), w.Key)
}

// noteRow takes down that a written row is there.
func (e *evaluation) noteRow(w *wire.Write, p *view.Place) {
	if w.Kind == wire.WriteKind_INSERT && e.exists == nil {
		e.exists = w.Key
	}
	if !e.counted {
		e.countWrite(w, p)
	}
}

// keepsLabel reports whether a write leaves the label of its key as it is, whatever that is.
func keepsLabel(w *wire.Write) bool {
	return (w.Kind == wire.WriteKind_PUT || w.Kind == wire.WriteKind_DELETE) && w.Pin == wire.Pin_KEEP && w.Patch == nil
}

// note takes down a key that this group owns.
func (e *evaluation) note(key base.Key, p *view.Place) {
	r := e.r
	if !p.Found {
		e.need = append(e.need, r.Missing(p.Writer)...)
	}
	e.since = max(e.since, p.Since)
	e.arrivals.Note(r.region, p.Writer, p.Since)
	if r.cfg.Serves != nil {
		e.own = append(e.own, view.Seen{Key: key, Place: *p})
	}
}

// noteHandover takes down the gap that a write, logged as out, gives to another group.
func (e *evaluation) noteHandover(at *view.Lazy, w, out *wire.Write) error {
	s, err := e.r.writeSpans(at.Reader(), out)
	if err != nil {
		return err
	}
	e.handover = append(e.handover, s)
	if out.Move == 0 || !w.Soft {
		w = nil
	}
	e.movers = append(e.movers, w)
	return nil
}

// label is the home label of the row's next version, without its writer. A row keeps its home
// unless the write moves it. A new row, also one in the place of a tombstone, gets that of the
// write.
func (e *evaluation) label(w *wire.Write, p *view.Place, there bool) (l base.Label, moved bool) {
	if e.r.shard == base.MetaShard {
		return 0, false
	}
	old := p.V.Label.WithWriter(0, 0).WithInTransit(false)
	if there {
		if w.Pin != wire.Pin_KEEP {
			old = old.WithPinned(w.Pin == wire.Pin_PIN)
		}
		if to := base.RegionID(w.Move); to != 0 && to != old.Home() && !e.r.ownsSection(w.Key) {
			return old.WithHome(to), true
		}
		return old, false
	}
	home := e.newHome(w)
	switch {
	case !p.Found:
		return base.MakeLabel(home, 0, 0), false
	case home != old.Home():
		return old.WithHome(home).WithPinned(false), false
	}
	return old.WithPinned(false), false
}

// newHome is the home of a new row: that of its section, else the one that the write asks for, else
// the region of its gateway.
func (e *evaluation) newHome(w *wire.Write) base.RegionID {
	if e.r.ownsSection(w.Key) {
		return e.r.region
	}
	if home := base.RegionID(w.Home); home != 0 {
		return home
	}
	if home := base.RegionID(e.q.Txn.GatewayRegion); home != 0 {
		return home
	}
	return e.r.region
}

// validate makes sure, under locks on all that the request says was read, that nothing of it has
// changed since: no version is newer than the snapshot. Parts that others own are foreign.
func (e *evaluation) validate(ctx context.Context) error {
	for {
		e.foreign, e.need = nil, nil
		rd := e.r.store.NewReader()
		err := e.validateAll(rd)
		rd.Close()
		if err != nil || len(e.need) == 0 {
			return err
		}
		if err := e.r.waitVector(ctx, e.need); err != nil {
			return err
		}
	}
}

func (e *evaluation) validateAll(rd *store.Reader) error {
	snapshot := base.Timestamp(e.q.Snapshot)
	for _, w := range e.q.Reads {
		var err error
		if s := view.SpanOf(w); s.IsPoint() {
			err = e.validateKey(rd, s.Start, snapshot)
		} else {
			err = e.validateRange(rd, s, snapshot)
		}
		if err != nil {
			return err
		}
	}
	if len(e.foreign) > 0 {
		return base.Errorf(base.CodeWrongOwner, "group %v does not own %d of the keys and ranges read", e.r.id, len(e.foreign))
	}
	return nil
}

// stale is the error of an attempt that has read a key which has been changed since.
func (e *evaluation) stale(k base.Key) error {
	return base.Errorf(base.CodeAborted, "transaction %v read %v, which has been changed since: retry", e.q.Txn.Id, k)
}

func (e *evaluation) validateKey(rd *store.Reader, key base.Key, snapshot base.Timestamp) error {
	p, err := view.Locate(rd, key)
	switch {
	case err != nil:
		return err
	case p.Owner != e.r.id:
		e.foreign = append(e.foreign, p.Foreign(key))
	case p.Found && p.V.TS > snapshot:
		return e.stale(key)
	case !p.Found:
		e.need = append(e.need, e.r.Missing(p.Writer)...)
	}
	return nil
}

func (e *evaluation) validateRange(rd *store.Reader, s base.Span, snapshot base.Timestamp) error {
	it := rd.Iter(s, base.MaxTimestamp, store.IterOptions{KeysOnly: true})
	defer it.Close()
	seg := view.Segmenter{Reader: rd, Span: s, Emit: e.noteSegment}
	for it.Next() {
		v := it.Version()
		if v.TS > snapshot && view.HomeGroup(v.Key, v.Label) == e.r.id {
			return e.stale(v.Key.Clone())
		}
		v.Key = v.Key.Clone()
		if err := seg.Add(&v); err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	return seg.Finish(false, s.End)
}

// noteSegment takes down a part of a range that was read, and its owner.
func (e *evaluation) noteSegment(g view.Segment) {
	if g.Owner != e.r.id {
		e.foreign = append(e.foreign, g.Foreign())
		return
	}
	for _, w := range g.Since {
		e.need = append(e.need, e.r.Missing(base.GroupIndex{Region: base.RegionID(w.Region), Index: w.Index})...)
	}
}
