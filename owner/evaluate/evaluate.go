package evaluate

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// Attempt is one attempt of a commit or a vote, as far as it is evaluated.
type Attempt struct {
	Group   *view.Group
	Request *wire.CommitRequest
	Txn     *txns.Txn // nil: only reads are validated
	// Blind: a write that changes neither owner nor label of its key needs no view.
	Blind bool
	// Walk is from how many writes on their places are found by stepping from key to key. The
	// request has them in order (CheckCommit). 0: never.
	Walk int
	// MayLive reports whether a row of a shard may be given a home in a region; nil: in all.
	MayLive func(base.ShardID, base.RegionID) bool
	// HomeIn is where a row of a shard is at home whose gateway's region is given; nil: there.
	HomeIn func(base.ShardID, base.RegionID) base.RegionID
	// Count tells the policy of homes of a row that is written. It is called once for each row,
	// however often the writes are looked at, and may set where the row moves with its write.
	Count func(w *wire.Write, p *view.Place)

	counted bool
}

// Findings are what one view of the store says about the writes of an attempt. A view is newer than
// every lock held, so what it says stays true until the locks are released. They are made anew for
// each view.
type Findings struct {
	Writes   []*wire.Write // those to be logged: deletes of absent keys are dropped
	Handover []base.Span   // gaps that the writes give to other groups
	// as Handover: the write of each gap, if its move can be left out, else nil
	Movers  []*wire.Write
	Since   base.Timestamp     // the newest version whose label makes this group the owner
	Foreign []*wire.Foreign    // keys and ranges that other groups own
	Need    []*wire.GroupIndex // to be applied here before what was found counts
	Own     []view.Seen        // with view.Group.NotesAll: the keys written
	Stacked []Stacked          // patches that stack, in a vote for a slot

	exists base.Key // of an insert, if the key is there
}

// look is one look at all writes of an attempt.
type look struct {
	*Attempt
	*Findings
	at       view.Lazy
	walk     *view.Cursor // of an attempt with many writes
	seen     []view.Seen
	arrivals *view.Arrivals
}

// Look evaluates all writes on one view. What the transaction has seen under its locks is not
// looked up again (OWN-12). The findings are also of use with an error: Foreign and Need.
func (a *Attempt) Look(seen []view.Seen, arrivals *view.Arrivals) (Findings, error) {
	found := Findings{Writes: a.Request.Writes[:0:0]}
	l := look{Attempt: a, Findings: &found, at: view.Lazy{Store: a.Group.Store}, seen: seen, arrivals: arrivals}
	defer l.at.Close()
	if a.Walk > 0 && len(a.Request.Writes) >= a.Walk {
		l.walk = view.NewCursor(l.at.Reader())
		defer l.walk.Close()
	}
	for _, w := range a.Request.Writes {
		if err := l.write(w); err != nil {
			return found, err
		}
	}
	a.counted = true
	if len(found.Foreign) > 0 {
		return found, base.Errorf(base.CodeWrongOwner, "group %v does not own %d of the keys", a.Group.ID, len(found.Foreign))
	}
	if found.exists != nil {
		err := base.Errorf(base.CodeExists, "key %v exists", found.exists)
		err.Key = found.exists.Clone()
		return found, err
	}
	return found, nil
}

// write evaluates one write: the owner of its key, whether an inserted key is absent, and the
// label to log.
func (l *look) write(w *wire.Write) error {
	g := l.Group
	if l.Blind && keepsLabel(w) && g.OwnsSection(w.Key) && l.mayLive(g.ID.Region()) {
		// Whether the key is there changes neither its owner nor its label.
		w.Label, w.Move = uint64(base.MakeLabel(g.ID.Region(), 0, 0)), 0
		l.Writes = append(l.Writes, w)
		return nil
	}
	p, err := l.locate(w)
	if err != nil {
		return err
	}
	if p.Owner != g.ID {
		l.Foreign = append(l.Foreign, p.Foreign(w.Key))
		return nil
	}
	l.note(w.Key, &p)
	there := p.Found && !p.V.Tombstone
	if there {
		l.noteRow(w, &p)
	}
	out := l.logged(w, &p, there)
	if out == nil {
		return nil
	}
	if home := base.Label(out.Label).Home(); (!there || out.Move != 0) && !l.mayLive(home) {
		return base.Errorf(base.CodeAborted, "no row gets its home in region %d, which is being added or dropped, "+
			"or is not in the placement of the table: retry", home)
	}
	if w.Patch != nil && len(l.Need) == 0 && len(l.Foreign) == 0 {
		if out, err = l.patched(w, &p, there); err != nil {
			return err
		}
	}
	l.Writes = append(l.Writes, out)
	if g.HandsOver(out) {
		return l.noteHandover(w, out)
	}
	return nil
}

// mayLive reports whether a row may be given a home in a region; 0 is that of the meta shard.
func (l *look) mayLive(r base.RegionID) bool {
	return r == 0 || l.MayLive == nil || l.MayLive(l.Group.ID.Shard(), r)
}

// locate finds the owner of a key. A key that was seen under its lock is looked up again only if
// the entry needs its value.
func (l *look) locate(w *wire.Write) (view.Place, error) {
	if l.walk != nil && w.Kind != wire.WriteKind_MOVE && w.Patch == nil {
		return l.walk.Locate(w.Key)
	}
	p, known := view.Recall(l.seen, w.Key)
	if known && w.Kind != wire.WriteKind_MOVE && w.Patch == nil {
		return p, nil
	}
	return view.Locate(l.at.Reader(), w.Key)
}

// noteRow takes down that a written row is there.
func (l *look) noteRow(w *wire.Write, p *view.Place) {
	if w.Kind == wire.WriteKind_INSERT && l.exists == nil {
		l.exists = w.Key
	}
	if !l.counted {
		l.Count(w, p)
	}
}

// note takes down a key that this group owns.
func (l *look) note(key base.Key, p *view.Place) {
	if !p.Found {
		l.Need = append(l.Need, l.Group.Missing.Missing(p.Writer)...)
	}
	l.Since = max(l.Since, p.Since)
	l.arrivals.Note(l.Group.ID.Region(), p.Writer, p.Since)
	if l.Group.NotesAll {
		l.Own = append(l.Own, view.Seen{Key: key, Place: *p})
	}
}

// noteHandover takes down the gap that a write, logged as out, gives to another group.
func (l *look) noteHandover(w, out *wire.Write) error {
	s, err := l.Group.WriteSpan(l.at.Reader(), out)
	if err != nil {
		return err
	}
	l.Handover = append(l.Handover, s)
	if out.Move == 0 || !w.Soft {
		w = nil
	}
	l.Movers = append(l.Movers, w)
	return nil
}
