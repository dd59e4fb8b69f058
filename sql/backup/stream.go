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
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/admit"
	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/backup/merge"
	"github.com/godwitdb/godwit/sql/backup/parallel"
	"github.com/godwitdb/godwit/sql/backup/turns"
	"github.com/godwitdb/godwit/sql/schema"
)

// stream is a shard of a table that is being written.
type stream struct {
	t     *taking
	table int // in the manifest
	of    *schema.Table
	at    int         // in the streams of the table
	was   *merge.Rows // keys that the parent had, while rows are compared with them
	// old is the parent's stream; nil: this one stands alone. byTime: the timestamps of commits
	// tell what has changed since.
	old    *archive.Stream
	byTime bool

	out  archive.Stream
	rows archive.Encoder
	keys archive.Encoder
	n    int
	all  int64
	sum  *archive.Sum // nil: a node before has not added up its rows
	// told is how many pieces the last part names, and parts how many parts there are.
	told  int
	parts int
}

// streams writes the rows of all tables.
func (t *taking) streams(ctx context.Context, tables []*schema.Table) error {
	var was map[base.TableID]*archive.Table
	if t.parent != nil {
		if err := t.parent.index(); err != nil {
			return err
		}
		was = t.parent.byID
	}
	var todo []*stream
	estimate := int64(0) // of rows that are read
	for i, d := range tables {
		shards := t.by.Shards(d)
		old := was[d.Desc.ID]
		alone := old == nil || !sameShards(old.Streams, shards)
		var then *schema.Table
		if !alone {
			var err error
			if then, _, err = t.parent.table(old); err != nil {
				return err
			}
		}
		to := &t.m.Tables[i]
		to.Alone, to.Streams = alone, make([]archive.Stream, len(shards))
		if len(shards) > 0 {
			to.Sum = &archive.Sum{}
		}
		all := false
		for j, s := range shards {
			x := &stream{t: t, table: i, of: d, at: j, out: archive.Stream{Shard: s}, rows: archive.Encoder{Kind: archive.RowPiece},
				keys: archive.Encoder{Kind: archive.KeyPiece}, sum: &archive.Sum{}}
			if !alone {
				x.old = &old.Streams[j]
				x.byTime = t.tells(then, x.old, d)
			}
			all = all || !x.byTime
			todo = append(todo, x)
		}
		if all {
			estimate += int64(t.g.Stats.Rows(d))
		}
	}
	t.job.Total(estimate)
	return parallel.Each(ctx, len(todo), parallel.Half(readAtOnce), func(ctx context.Context, i int) error {
		x := todo[i]
		todo[i] = nil
		if err := x.run(ctx); err != nil {
			return err
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		to := &t.m.Tables[x.table]
		to.Streams[x.at] = x.out
		to.Rows += x.all
		if x.sum == nil {
			to.Sum = nil
		} else if to.Sum != nil {
			to.Sum.Add(*x.sum)
		}
		return nil
	})
}

func sameShards(old []archive.Stream, now []base.ShardID) bool {
	return slices.EqualFunc(old, now, func(s archive.Stream, id base.ShardID) bool { return s.Shard == id })
}

// run writes the shard: what has changed since the parent, by the timestamps of commits if these
// tell it.
func (x *stream) run(ctx context.Context) error {
	done := x.t.parts[x.name()]
	if x.byTime && (done == nil || done.Stream.Changes) {
		err := x.changes(ctx)
		if base.CodeOf(err) != base.CodeTooOld {
			return err
		}
		x.t.g.Log.Info("an incremental backup reads all rows of a shard: versions since its parent have been collected",
			"backup", x.t.m.ID, "table", x.of.Desc.DB+"."+x.of.Desc.Name, "shard", x.out.Shard)
		x.compares(ctx)
	}
	return x.whole(ctx)
}

// resume takes over what a node before has written of the stream in the same way, if it has.
func (x *stream) resume(done *archive.Part) bool {
	if done.Stream.Changes != x.out.Changes || x.out.Changes && done.Sum == nil {
		return false
	}
	x.out.Rows, x.out.Keys, x.all, x.sum = done.Stream.Rows, done.Stream.Keys, done.All, done.Sum
	x.told = len(x.out.Rows) + len(x.out.Keys)
	if done.Done {
		x.sums()
	}
	return true
}

// sums notes what the stream comes to.
func (x *stream) sums() {
	if x.out.Sum = x.sum; x.out.Changes {
		x.out.Count = x.all
	}
}

// whole reads all rows of the shard, and writes what differs from the parent.
func (x *stream) whole(ctx context.Context) error {
	x.was = &merge.Rows{}
	if x.old != nil {
		was, release, err := x.t.list(ctx, x.of.Desc.ID, x.out.Shard)
		if err != nil {
			return err
		}
		defer release()
		x.was = was
	}
	if err := x.was.Next(ctx); err != nil {
		return err
	}
	p := x.of.Prefix(x.out.Shard, 0, 0)
	span := base.Span{Start: p, End: p.PrefixEnd()}
	if done := x.t.parts[x.name()]; done != nil && x.resume(done) {
		if done.Done {
			return nil
		}
		span.Start = append(p.Clone(), done.Next...)
		for !x.was.Done && string(x.was.Rec.PK) < string(done.Next) {
			if err := x.was.Next(ctx); err != nil {
				return err
			}
		}
	}
	turn := x.t.g.Turns.Turn(admit.Reading)
	defer turn.End()
	for span.Start != nil {
		rows, next, err := x.t.g.page(ctx, x.t.m.Timestamp, span)
		if err != nil {
			return err
		}
		for i := range rows {
			if i%turns.Every == 0 {
				if err := turns.Yield(ctx, &turn); err != nil {
					return err
				}
			}
			if err := x.row(ctx, &rows[i]); err != nil {
				return err
			}
		}
		x.t.job.Did(len(rows))
		span.Start = next
		if next != nil {
			if err := x.tell(ctx, next[len(p):]); err != nil {
				return err
			}
		}
	}
	for !x.was.Done {
		if err := x.gone(ctx); err != nil {
			return err
		}
	}
	return x.finish(ctx)
}

// finish writes what is left, and that this is all.
func (x *stream) finish(ctx context.Context) error {
	if err := cmp.Or(x.flush(ctx, &x.rows), x.flush(ctx, &x.keys)); err != nil {
		return err
	}
	x.sums()
	return x.part(ctx, &archive.Part{Stream: x.out, Done: true, All: x.all, Sum: x.sum})
}

// name is how the names of the stream's files begin.
func (x *stream) name() string { return fmt.Sprintf("t%d-s%d", x.of.Desc.ID, x.out.Shard) }

// How large a piece grows, and how many bytes of rows one read returns. Tests have less.
var (
	pieceSize = archive.PieceSize
	pageBytes = 1 << 20
)

// tellEvery is after how many pieces, at least, a stream tells how far it is.
const tellEvery = 8

// tell writes a part from time to time: seldom enough that all parts together are small. All rows
// below next are in the pieces then.
func (x *stream) tell(ctx context.Context, next []byte) error {
	pieces := len(x.out.Rows) + len(x.out.Keys)
	if pieces-x.told < max(tellEvery, x.told/2) {
		return nil
	}
	// Keys of the parent that are gone are noted when a row behind them is met: those between the
	// last row and next are still to come, also for a node that goes on.
	if err := cmp.Or(x.flush(ctx, &x.rows), x.flush(ctx, &x.keys)); err != nil {
		return err
	}
	return x.part(ctx, &archive.Part{Stream: x.out, Next: next, All: x.all, Sum: x.sum})
}

func (x *stream) part(ctx context.Context, p *archive.Part) error {
	x.told = len(x.out.Rows) + len(x.out.Keys)
	name := fmt.Sprintf("%s-%d-%d%s", x.name(), x.t.lease.Term(), x.parts, partSuffix)
	x.parts++
	b, err := p.Encode(x.t.m.ID, name, x.t.key)
	if err != nil {
		return err
	}
	return x.t.write(ctx, name, b)
}

// partSuffix is how the name of a part ends.
const partSuffix = ".part"

// mostPart bounds the file of a part.
const mostPart = 16 << 20

// readParts reads how far the nodes before have come.
func (t *taking) readParts(ctx context.Context) error {
	files, err := t.l.place.Files(ctx, t.o.Backup)
	if err != nil {
		return err
	}
	t.parts = map[string]*archive.Part{}
	for _, f := range files {
		var table uint64
		var shard, term, part int
		if n, err := fmt.Sscanf(f, "t%d-s%d-%d-%d"+partSuffix, &table, &shard, &term, &part); n != 4 || err != nil {
			continue
		}
		b, err := t.l.place.Read(ctx, t.o.Backup+"/"+f, mostPart)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		p, err := archive.DecodePart(t.o.Backup, f, b, t.l.keys)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("t%d-s%d", table, shard)
		if was := t.parts[name]; was == nil || p.Further(was) {
			t.parts[name] = p
		}
	}
	return nil
}

// page reads the first rows of a span at a timestamp; next is where to go on, nil at its end.
func (g *Env) page(ctx context.Context, ts base.Timestamp, span base.Span) (rows []kv.Row, next base.Key, err error) {
	err = g.at(ctx, ts, func(ctx context.Context, k kv.Txn) error {
		res, err := k.Scan(ctx, kv.ScanRequest{Spans: []base.Span{span}, MaxBytes: pageBytes})
		if err != nil {
			return err
		}
		rows, next = res.Rows, nil
		if res.Next != nil && len(rows) > 0 {
			next = rows[len(rows)-1].Key.Next()
		}
		return nil
	})
	return rows, next, err
}

// recordOf is a row as pieces have it.
func recordOf(r *kv.Row) *archive.Record {
	return &archive.Record{PK: r.Key[base.IndexPrefixLen:], TS: r.TS, Home: r.Home, Pinned: r.Label.Pinned(), Value: r.Value}
}

// row writes a row, unless the parent has it as it is, or another place gets it.
func (x *stream) row(ctx context.Context, r *kv.Row) error {
	if !x.t.by.MineIs(x.of, x.out.Shard, r.Home) {
		return nil
	}
	rec := recordOf(r)
	for !x.was.Done && string(x.was.Rec.PK) < string(rec.PK) {
		if err := x.gone(ctx); err != nil {
			return err
		}
	}
	same := false
	if !x.was.Done && string(x.was.Rec.PK) == string(rec.PK) {
		same = x.was.Rec.Same(rec)
		if err := x.was.Next(ctx); err != nil {
			return err
		}
	}
	x.all++
	if x.sum != nil {
		x.sum.Add(rec.Sum())
	}
	if !same {
		if err := x.add(ctx, &x.rows, rec); err != nil {
			return err
		}
	}
	return x.add(ctx, &x.keys, rec)
}

// gone notes that a row of the parent is not there any more.
func (x *stream) gone(ctx context.Context) error {
	err := x.add(ctx, &x.rows, &archive.Record{PK: x.was.Rec.PK, TS: x.t.m.Timestamp, Deleted: true})
	return cmp.Or(err, x.was.Next(ctx))
}

func (x *stream) add(ctx context.Context, e *archive.Encoder, r *archive.Record) error {
	e.Add(r)
	if e.Size() < pieceSize {
		return nil
	}
	return x.flush(ctx, e)
}

// flush writes a piece.
func (x *stream) flush(ctx context.Context, e *archive.Encoder) error {
	if e.Size() == 0 {
		return nil
	}
	files := &x.out.Rows
	if e.Kind == archive.KeyPiece {
		files = &x.out.Keys
	}
	name := fmt.Sprintf("%s-%d-%d%s", x.name(), x.t.lease.Term(), x.n, e.Kind.Suffix())
	b, f, err := e.Finish(x.t.m.ID, name, x.t.key)
	if err != nil {
		return err
	}
	x.n++
	*files = append(*files, f)
	return x.t.write(ctx, name, b)
}

func (t *taking) write(ctx context.Context, name string, b []byte) error {
	file := t.m.ID + "/" + name
	if err := t.g.Pace.Wait(ctx, len(b)); err != nil {
		return err
	}
	if err := t.l.place.Write(ctx, file, b); err != nil {
		return fmt.Errorf("backup file %s: %w", file, err)
	}
	return nil
}

// tidy removes the files that only a node needs that goes on with the backup.
func (t *taking) tidy(ctx context.Context) {
	t.removeFiles(ctx, func(f string) bool { return f == markName || strings.HasSuffix(f, partSuffix) })
}

// remove removes what was written, as far as that can be done. What stays is no backup, since its
// manifest is not there.
func (t *taking) remove(ctx context.Context) {
	t.removeFiles(ctx, func(string) bool { return true })
}

func (t *taking) removeFiles(ctx context.Context, which func(string) bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanFor)
	defer cancel()
	files, err := t.l.place.Files(ctx, t.o.Backup)
	for _, f := range files {
		if which(f) && err == nil {
			err = t.l.place.Remove(ctx, t.o.Backup+"/"+f)
		}
	}
	if err != nil {
		t.g.Log.Info("files of a backup that nobody needs are left", "backup", t.o.Backup, "err", err)
	}
}
