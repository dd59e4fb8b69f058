package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/backup/delta"
	"github.com/godwitdb/godwit/sql/backup/merge"
	"github.com/godwitdb/godwit/sql/schema"
)

// An incremental backup reads what was committed since its parent's moment, as the log of changes
// does. Where such versions may have been collected, or the parent does not say enough, a stream
// reads all rows and compares them with the keys and versions that the parent had: with the list of
// the last backup that has one, and the rows of those behind it.

// tells reports whether the timestamps of commits tell what has changed in a stream since the
// parent's moment.
func (t *taking) tells(was *schema.Table, old *archive.Stream, now *schema.Table) bool {
	switch {
	case old.Sum == nil: // an older release has taken it
	case was.Desc.Locality.Async || now.Desc.Locality.Async:
		// What a region had not passed on is taken back when the region is lost: no commit says so.
	case t.by != nil && (was.PlacedAt(old.Shard) != now.PlacedAt(old.Shard) || !t.sameRegions()):
		// To whose place rows go has changed without a commit.
	default:
		return true
	}
	return false
}

// sameRegions reports whether the regions that have places are those that the parent knew.
func (t *taking) sameRegions() bool {
	topo := t.g.DB.Topology()
	for r := base.RegionID(1); r <= base.MaxRegions; r++ {
		if t.by.With.Has(r) && t.parent.Regions[r] != topo.RegionName(r) {
			return false
		}
	}
	return true
}

// changes reads what has changed since the parent, and writes it.
func (x *stream) changes(ctx context.Context) error {
	p := x.of.Prefix(x.out.Shard, 0, 0)
	span := base.Span{Start: p, End: p.PrefixEnd()}
	sum := *x.old.Sum
	x.out.Changes, x.all, x.sum = true, x.old.Number(), &sum
	if done := x.t.parts[x.name()]; done != nil && x.resume(done) {
		if done.Done {
			return nil
		}
		span.Start = append(p.Clone(), done.Next...)
	}
	d := &delta.Period{Since: x.t.parent.Timestamp, UpTo: x.t.m.Timestamp, At: x.t.g.at, MaxBytes: pageBytes}
	err := d.Read(ctx, x.t.g.DB, span, func(page []delta.Change, next base.Key) error {
		for i := range page {
			if err := x.change(ctx, &page[i]); err != nil {
				return err
			}
		}
		x.t.job.Did(len(page))
		if next == nil {
			return nil
		}
		return x.tell(ctx, next[len(p):])
	})
	if err != nil {
		return err
	}
	return x.finish(ctx)
}

// change writes a key that was written since the parent's moment.
func (x *stream) change(ctx context.Context, c *delta.Change) error {
	was := c.Was != nil && x.t.by.MineIs(x.of, x.out.Shard, c.Was.Home)
	if was {
		x.sum.Sub(recordOf(c.Was).Sum())
		x.all--
	}
	if c.Is != nil && x.t.by.MineIs(x.of, x.out.Shard, c.Is.Home) {
		r := recordOf(c.Is)
		x.sum.Add(r.Sum())
		x.all++
		return x.add(ctx, &x.rows, r)
	}
	if !was {
		return nil
	}
	return x.add(ctx, &x.rows, &archive.Record{PK: c.Key[base.IndexPrefixLen:], TS: x.t.m.Timestamp, Deleted: true})
}

// compares makes the stream one that reads all rows, whatever was written of it.
func (x *stream) compares(ctx context.Context) {
	for _, f := range x.out.Rows {
		if err := x.t.l.place.Remove(ctx, x.t.m.ID+"/"+f.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			x.t.g.Log.Info("a file of a backup that nobody needs is left", "file", x.t.m.ID+"/"+f.Name, "err", err)
		}
	}
	x.out = archive.Stream{Shard: x.out.Shard}
	x.rows = archive.Encoder{Kind: archive.RowPiece}
	x.all, x.sum, x.told = 0, &archive.Sum{}, 0
	x.t.mu.Lock()
	defer x.t.mu.Unlock()
	_, total := x.t.job.Progress()
	x.t.job.Total(total + x.old.Number())
}

// manyLists is of how many backups the list of keys may be put together at several streams at once:
// of each a piece is in memory.
const manyLists = mostPieces / readAtOnce

// list is the keys of a stream of the parent with their versions; release ends its use.
func (t *taking) list(ctx context.Context, id base.TableID, shard base.ShardID) (m *merge.Rows, release func(), err error) {
	t.mu.Lock()
	if t.chain == nil {
		t.chain, err = t.l.chain(ctx, t.parent)
		for _, v := range t.chain {
			err = cmp.Or(err, v.index())
		}
		t.chainErr = err
	}
	chain, err := t.chain, t.chainErr
	t.mu.Unlock()
	if err != nil {
		return nil, nil, err
	}
	var of []*volume
	var streams []*archive.Stream
	for _, v := range slices.Backward(chain) {
		s := v.byID[id].Stream(shard)
		if s == nil {
			break
		}
		of, streams = append(of, v), append(streams, s)
		if !s.Changes {
			break
		}
	}
	if n := len(streams); n == 0 || streams[n-1].Changes {
		return nil, nil, t.parent.bad("no backup that it builds on lists all keys of shard %d of a table", shard)
	}
	release = func() {}
	if len(of) > manyLists {
		t.lists.Lock()
		release = t.lists.Unlock
	}
	m = &merge.Rows{}
	for i, v := range slices.Backward(of) {
		kind := archive.KeyPiece
		if streams[i].Changes {
			kind = archive.RowPiece
		}
		c := v.cursor(streams[i], kind)
		if err := c.Next(ctx); err != nil {
			release()
			return nil, nil, err
		}
		m.Cursors = append(m.Cursors, c)
	}
	return m, release, nil
}

// compared are the tables of an incremental backup all of whose rows were read and compared with
// the parent's.
func (v *volume) compared() (names []string) {
	for i := range v.Tables {
		t := &v.Tables[i]
		if t.Alone || !slices.ContainsFunc(t.Streams, func(s archive.Stream) bool { return !s.Changes }) {
			continue
		}
		if _, d, err := v.table(t); err == nil {
			names = append(names, d.DB+"."+d.Name)
		}
	}
	return names
}

// howRead says in words which rows a backup has read.
func (v *volume) howRead() string {
	names := v.compared()
	for _, p := range v.Places {
		names = append(names, p.Compared...)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	switch n := len(names); {
	case v.Parent == "":
		return "all rows"
	case n == 0:
		return "changes"
	case n > mostProblems:
		names = append(names[:mostProblems], fmt.Sprintf("and %d more", n-mostProblems))
	}
	return "changes; all rows of " + strings.Join(names, ", ")
}
