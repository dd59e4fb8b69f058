package view

import (
	"bytes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/wire"
)

// Place is what a view of the store says about one key.
type Place struct {
	Owner base.GroupID
	// Since is the timestamp of the version whose label says so: the owner writes the key only
	// above it (HOME-2). 0 for the default owner.
	Since  base.Timestamp
	Writer base.GroupIndex // log entry that wrote that version
	Found  bool            // the key has a version, V; else it lies in a gap
	V      store.Version   // newest version, maybe a tombstone
}

// Locate finds the owner of a key: the home of its newest version, else of its predecessor in the
// section, else the section's default owner (HOME-5).
func Locate(rd *store.Reader, key base.Key) (Place, error) {
	v, ok, err := rd.Newest(key)
	if err != nil {
		return Place{}, err
	}
	if ok {
		return Place{Owner: HomeGroup(key, v.Label), Since: v.TS, Writer: v.Writer, Found: true, V: v}, nil
	}
	if FixedOwner(key) {
		return Place{Owner: key.DefaultOwner()}, nil
	}
	p, ok, err := rd.Pred(key)
	if err != nil {
		return Place{}, err
	}
	if !ok {
		return Place{Owner: key.DefaultOwner()}, nil
	}
	return Place{Owner: HomeGroup(key, p.Label), Since: p.TS, Writer: p.Writer}, nil
}

// Foreign is the place as an answer to a node that thought that this group owns the key.
func (p *Place) Foreign(key base.Key) *wire.Foreign {
	s := Segment{Owner: p.Owner}
	s.note(p.Writer)
	return &wire.Foreign{Span: &wire.Span{Start: key}, Group: uint32(p.Owner), Since: s.Since}
}

// HomeGroup is the group that a label makes the owner of a key.
func HomeGroup(key base.Key, l base.Label) base.GroupID {
	return base.DataGroup(key.Shard(), l.Home())
}

// HandsOver reports whether a labelled write gives its key to another group.
func (g *Group) HandsOver(w *wire.Write) bool {
	return HomeGroup(w.Key, base.Label(w.Label)) != g.ID
}

// OwnsSection reports whether all keys of key's section are this group's for good: an index keyed
// by home has a section for each home, and all labels in it name that one.
func (g *Group) OwnsSection(key base.Key) bool {
	return key.Shard() != base.MetaShard && FixedOwner(key) && key.DefaultOwner() == g.ID
}

// FixedOwner reports whether all keys and gaps of key's section are the default owner's for good
// (OWN-12), so that no label need be looked up: in the meta shard, and in an index keyed by home.
// No group but the owner writes there.
func FixedOwner(key base.Key) bool {
	return key.Shard() == base.MetaShard || key.Index()&base.ByHome != 0 && len(key) > base.IndexPrefixLen
}

// WriteSpan is what a logged write locks: its key, and if its row belongs to another group from
// then on, the gap behind it as well: that gap changes hands, and nothing locked does (HOME-2).
func (g *Group) WriteSpan(rd *store.Reader, w *wire.Write) (base.Span, error) {
	key := base.Key(w.Key)
	if !g.HandsOver(w) {
		return base.PointSpan(key.Clone()), nil
	}
	end, err := GapEnd(rd, key)
	return base.Span{Start: key.Clone(), End: end}, err
}

// GapEnd is the end of the gap that begins at key: the next key with any version in the section,
// else the section's end.
func GapEnd(rd *store.Reader, key base.Key) (base.Key, error) {
	end := key.Section().PrefixEnd()
	it := rd.Iter(base.Span{Start: key.Next(), End: end}, base.MaxTimestamp, store.IterOptions{KeysOnly: true})
	defer it.Close()
	if it.Next() {
		return it.Version().Key.Clone(), nil
	}
	return end, it.Err()
}

// Seen is the place of a key that this group owns, as a view said that was taken while a
// transaction held the key's exclusive lock. It stays true until the lock is released (OWN-12).
type Seen struct {
	Key base.Key
	Place
}

// Recall finds the place of a key among those seen.
func Recall(seen []Seen, key base.Key) (Place, bool) {
	for i := range seen {
		if bytes.Equal(seen[i].Key, key) {
			return seen[i].Place, true
		}
	}
	return Place{}, false
}

// Arrivals are what a request learned of rows that other regions have handed over.
type Arrivals struct {
	// Newest is the timestamp of the newest hand-over of each region.
	Newest [base.MaxRegions + 1]base.Timestamp
	// Of are the incarnations of the shard's groups as they were before anything was looked up.
	Of [base.MaxRegions + 1]uint32
}

// Note takes the writer and timestamp of a version whose label makes the group of region here the
// owner.
func (a *Arrivals) Note(here base.RegionID, w base.GroupIndex, ts base.Timestamp) {
	if w.Region != here && w.Index != 0 && int(w.Region) < len(a.Newest) {
		a.Newest[w.Region] = max(a.Newest[w.Region], ts)
	}
}

// Lazy is a view of the store that is opened when it is first needed.
type Lazy struct {
	Store *store.Store
	rd    *store.Reader
}

// Reader is the view.
func (v *Lazy) Reader() *store.Reader {
	if v.rd == nil {
		v.rd = v.Store.NewPointReader()
	}
	return v.rd
}

// Close closes the view if it was opened.
func (v *Lazy) Close() {
	if v.rd != nil {
		v.rd.Close()
	}
}
