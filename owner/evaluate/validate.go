package evaluate

import (
	"bytes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// Reads are what one view of the store says about the keys and ranges that an attempt has read.
type Reads struct {
	Foreign []*wire.Foreign    // parts that other groups own
	Need    []*wire.GroupIndex // to be applied here before the answer counts
}

// validation is one look at all that an attempt has read.
type validation struct {
	*Attempt
	Reads
	rd       *store.Reader
	snapshot base.Timestamp
}

// Validate makes sure, under locks on all that the request says was read, that nothing of it has
// changed since: no version is newer than the snapshot, or the row has only moved and may. Parts
// that others own are Foreign, also with the error. A snapshot below the collection threshold is
// stale (TXN-2a).
func (a *Attempt) Validate() (Reads, error) {
	v := validation{Attempt: a, rd: a.Group.Store.NewReader(), snapshot: base.Timestamp(a.Request.Snapshot)}
	defer v.rd.Close()
	err := v.all()
	return v.Reads, err
}

func (v *validation) all() error {
	for _, w := range v.Request.Reads {
		s := view.SpanOf(w)
		// The threshold is raised before anything goes: what this view lacks has raised it.
		if v.snapshot < v.Group.Store.GCThreshold(s.Start.Shard()) {
			return v.stale(s.Start)
		}
		var err error
		if s.IsPoint() {
			err = v.key(s.Start, w.MayMove)
		} else {
			err = v.span(s)
		}
		if err != nil {
			return err
		}
	}
	if len(v.Foreign) > 0 {
		return base.Errorf(base.CodeWrongOwner, "group %v does not own %d of the keys and ranges read", v.Group.ID,
			len(v.Foreign))
	}
	return nil
}

// stale is the error of an attempt that has read a key which has been changed since.
func (v *validation) stale(k base.Key) error {
	return base.Changed(v.Request.Txn.Id, "read", k)
}

func (v *validation) key(key base.Key, mayMove bool) error {
	p, err := view.Locate(v.rd, key)
	switch {
	case err != nil:
		return err
	case p.Owner != v.Group.ID:
		v.Foreign = append(v.Foreign, p.Foreign(key))
	case p.Found && p.V.TS > v.snapshot:
		if !mayMove {
			return v.stale(key)
		}
		if same, err := v.sameSince(p.V); err != nil || same {
			return err
		}
		return v.stale(key)
	case !p.Found:
		v.Need = append(v.Need, v.Group.Missing.Missing(p.Writer)...)
	}
	return nil
}

// maxSince is how many versions of a row are looked at, to find that it has only moved.
const maxSince = 8

// sameSince reports whether a row, of which the newest version is given, has the value that it had
// at the snapshot, and had no other in between: it has only moved (REL-3a). A version that another
// group wrote counts when all is here that the group relied on (HOME-9): an older owner's may be
// missing.
func (v *validation) sameSince(newest store.Version) (bool, error) {
	x, ok := newest, true
	for range maxSince {
		if !ok || x.Tombstone || !bytes.Equal(x.Value, newest.Value) {
			return false, nil
		}
		if x.TS <= v.snapshot {
			return true, nil
		}
		v.Need = append(v.Need, v.Group.Missing.Missing(x.Writer)...)
		var err error
		if x, ok, err = v.rd.Get(x.Key, x.TS-1); err != nil {
			return false, err
		}
	}
	return false, nil
}

func (v *validation) span(s base.Span) error {
	it := v.rd.Iter(s, base.MaxTimestamp, store.IterOptions{KeysOnly: true})
	defer it.Close()
	seg := view.Segmenter{Reader: v.rd, Span: s, Emit: v.noteSegment}
	for it.Next() {
		x := it.Version()
		if x.TS > v.snapshot && view.HomeGroup(x.Key, x.Label) == v.Group.ID {
			return v.stale(x.Key.Clone())
		}
		x.Key = x.Key.Clone()
		if err := seg.Add(&x); err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	return seg.Finish(false, s.End)
}

// noteSegment takes down a part of a range that was read, and its owner.
func (v *validation) noteSegment(g view.Segment) {
	if g.Owner != v.Group.ID {
		v.Foreign = append(v.Foreign, g.Foreign())
		return
	}
	for _, w := range g.Since {
		v.Need = append(v.Need, v.Group.Missing.Missing(base.GroupIndex{Region: base.RegionID(w.Region), Index: w.Index})...)
	}
}
