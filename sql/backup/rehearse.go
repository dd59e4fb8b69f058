package backup

import (
	"context"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/hold"
	"github.com/godwitdb/godwit/sql/admit"
	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/backup/merge"
	"github.com/godwitdb/godwit/sql/backup/rehearse"
	"github.com/godwitdb/godwit/sql/backup/turns"
	"github.com/godwitdb/godwit/sql/schema"
)

// VERIFY BACKUP ... WITH TABLES rehearses a restore to a moment: it reads what a restore would
// write, of all backups that it builds on, of all places, and of the log of changes behind them. It
// makes the rows and their index entries of it, and adds up the rows of each table. At the moment
// of a backup the sums must be those that the backup has made of the rows when it read them; at a
// moment behind it, those of the rows that the cluster shows as of that moment.

// sortBytes is how much of a log that is sorted is kept in memory. Tests have less.
var sortBytes = 64 << 20

// rehearsal is a rehearsal under way.
type rehearsal struct {
	*plan
	tables []*rehearse.Table
	byID   map[base.TableID]*rehearse.Table
	files  []*archive.Decoder // of changes, for errors
	of     []*library         // these lie in
}

// rehearse runs it.
func (l *library) rehearse(ctx *sql.Context, st *Statement) (rows []sql.Row, err error) {
	v, at, err := l.at(ctx, l.g, st)
	if err != nil {
		return nil, err
	}
	r := &rehearsal{plan: &plan{g: l.g, o: &order{Moment: at}, v: v, base: v}, byID: map[base.TableID]*rehearse.Table{}}
	asOf := ""
	if at > v.Timestamp {
		asOf = moment(at)
		r.srcs, _, _, err = l.logs(ctx, v, at)
	} else {
		r.srcs, err = l.sources(ctx, v)
	}
	for _, s := range r.srcs {
		for _, x := range s.chain {
			if err == nil {
				err = s.l.in(x.index())
			}
		}
	}
	if err == nil && r.behind() {
		r.v, err = v.asOf(r.srcs[0].log, at, len(r.srcs) == 1)
	}
	if err != nil {
		return nil, err
	}
	compares := r.behind() && v.Cluster == l.g.DB.Topology().ClusterID
	if compares { // what it will read last
		h, err := hold.Take(ctx, l.g.DB, at, st.Name())
		if err != nil {
			return nil, err
		}
		defer l.g.keep(ctx, h)()
	}
	for i := range r.v.Tables {
		def, d, err := r.v.table(&r.v.Tables[i])
		if err != nil {
			return nil, err
		}
		t := &rehearse.Table{Desc: d, Def: def}
		r.tables, r.byID[d.ID] = append(r.tables, t), t
	}
	if err = r.add(ctx); err == nil && compares {
		err = r.ask(ctx)
	} else if !r.behind() {
		r.then()
	}
	if err != nil {
		return nil, err
	}
	all, err := rehearse.Answer(v.ID, l.name, asOf, r.tables)
	for _, row := range all {
		rows = append(rows, row)
	}
	return rows, err
}

// add adds up the rows that a restore would write.
func (r *rehearsal) add(ctx context.Context) error {
	log := merge.NewSorter(ctx, "", sortBytes)
	defer log.Close()
	for _, src := range r.srcs {
		for _, s := range src.log {
			if err := r.sort(ctx, s, log); err != nil {
				return src.l.in(err)
			}
		}
	}
	changes, err := log.Changes()
	if err != nil {
		return err
	}
	turn := r.g.Turns.Turn(admit.Reading)
	defer turn.End()
	n := 0
	return merge.Each(ctx, r.shards(), changes, func(id base.TableID, rec *archive.Record, d *archive.Decoder, file int) error {
		if n++; n%turns.Every == 0 {
			if err := turns.Yield(ctx, &turn); err != nil {
				return err
			}
		}
		var in *library
		if d == nil {
			d, in = r.files[file], r.of[file]
		}
		return in.in(r.byID[id].Restored(ctx, rec, d))
	})
}

// sort hands the versions of a segment on that a restore applies.
func (r *rehearsal) sort(ctx context.Context, s *segment, log *merge.Sorter) error {
	for _, f := range s.Pieces {
		r.files, r.of = append(r.files, archive.Nothing(s.folder+"/"+f.Name)), append(r.of, s.l)
		err := s.each(ctx, f, func(_ *archive.Decoder, rec *archive.Record, _ base.ShardID, id base.TableID, _ []byte) error {
			if !r.applies(rec.TS, id) || r.byID[id] == nil {
				return nil
			}
			c := merge.Change{Record: *rec, File: len(r.files) - 1}
			c.PK = c.PK[:len(c.PK)-8]
			return log.Add(c)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// shards are those that the backups have rows of.
func (r *rehearsal) shards() (out []merge.Shard) {
	for _, t := range r.tables {
		of := map[base.ShardID][]*filling{}
		for _, src := range r.srcs {
			for _, s := range src.streams(t.Desc.ID) {
				of[s.Shard] = append(of[s.Shard], &filling{p: r.plan, t: &planned{was: t.Desc}, src: src, shard: s.Shard})
			}
		}
		for shard, list := range of {
			out = append(out, merge.Shard{ID: shard, Table: t.Desc.ID, Open: func(ctx context.Context) (rows []*merge.Rows, err error) {
				for _, f := range list {
					cursors, err := f.cursors(ctx)
					if err != nil {
						return nil, err
					}
					rows = append(rows, &merge.Rows{Cursors: cursors})
				}
				return rows, nil
			}, Close: func(rows []*merge.Rows) error {
				for i, f := range list {
					f.rows = rows[i].Number
					if err := f.counted(); err != nil {
						return err
					}
				}
				return nil
			}})
		}
	}
	return out
}

// then takes the sums of the backup, as of its moment.
func (r *rehearsal) then() {
	for _, t := range r.tables {
		t.Known = true
		for _, src := range r.srcs {
			if at := src.top().byID[t.Desc.ID]; at != nil && at.Sum != nil {
				t.Then.Sum.Add(*at.Sum)
			} else if at != nil && len(at.Streams) > 0 {
				t.Known = false
			}
		}
	}
}

// ask adds up the rows that the cluster shows as of the moment, as far as it has kept them.
func (r *rehearsal) ask(ctx context.Context) error {
	snap, err := schema.LoadSnapshot(ctx, r.g.DB, nil, r.o.Moment)
	if base.CodeOf(err) == base.CodeTooOld {
		return nil
	}
	if err != nil {
		return err
	}
	here, err := chosen(&order{}, snap)
	if err != nil {
		return err
	}
	here.here = r.g.DB.Region()
	c := &rehearse.Cluster{Turns: r.g.Turns, Record: recordOf, Page: func(ctx context.Context, s base.Span) ([]kv.Row, base.Key, error) {
		return r.g.page(ctx, r.o.Moment, s)
	}}
	c.Readable, _ = here.tables()
	for _, db := range snap.Databases {
		for _, t := range db.Tables {
			c.All = append(c.All, t)
		}
	}
	if !strings.HasPrefix(r.v.Target, "TABLE ") {
		dbs, _, err := r.v.contents()
		if err != nil {
			return err
		}
		r.tables = append(r.tables, c.Lost(dbs, r.tables)...)
	}
	return c.Ask(ctx, r.tables)
}
