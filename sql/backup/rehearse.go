package backup

import (
	"context"
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/backup/decode"
	"github.com/godwitdb/godwit/sql/schema"
)

// VERIFY BACKUP ... WITH TABLES rehearses a restore of the newest backup: it reads what a
// restore would write, of all backups that it builds on and of all places, makes the rows and
// their index entries of it, and adds up the rows of each table. The sums must be those that the
// backup has made of the rows when it read them in the cluster.

// rehearse runs it.
func (l *library) rehearse(ctx context.Context) (rows []sql.Row, err error) {
	v, _, err := l.newest(ctx)
	if err != nil {
		return nil, err
	}
	if v == nil {
		return nil, schema.Invalid("there is no complete backup in that place")
	}
	srcs, err := l.sources(ctx, v)
	if err != nil {
		return nil, err
	}
	p := &plan{g: l.g, srcs: srcs, v: v, base: v}
	for _, s := range srcs {
		for _, x := range s.chain {
			if err := x.index(); err != nil {
				return nil, s.l.in(err)
			}
		}
	}
	var wrong string
	for i := range v.Tables {
		def, d, err := v.table(&v.Tables[i])
		if err != nil {
			return nil, err
		}
		row, err := p.rehearse(ctx, &planned{was: d, old: def, def: def, desc: d, from: &v.Tables[i]})
		if err != nil {
			return nil, err
		}
		if rows = append(rows, row); row[2] != same && row[2] != unknown && wrong == "" {
			wrong = fmt.Sprintf("the rows of table %s that backup %s leads to are not those that it has read: their checksum is %v, and was %v",
				row[1], v.ID, row[4], row[5])
		}
	}
	if wrong != "" {
		return nil, schema.Invalid(wrong)
	}
	return rows, nil
}

// What is said of a table.
const (
	same    = "ok"
	unknown = "no checksum: an older release has taken the backup"
)

// rehearse reads the rows of a table.
func (p *plan) rehearse(ctx context.Context, t *planned) (sql.Row, error) {
	var now, then archive.Sum
	rows, known := int64(0), true
	for _, src := range p.srcs {
		at := src.top().byID[t.was.ID]
		if at == nil {
			continue
		}
		if at.Sum != nil {
			then.Add(*at.Sum)
		}
		known = known && (at.Sum != nil || len(at.Streams) == 0)
		for _, s := range at.Streams {
			f := &filling{p: p, t: t, src: src, shard: s.Shard}
			err := f.records(ctx, func(dec *archive.Decoder, r *archive.Record) error {
				row, ref, err := decode.Row(ctx, t.old, dec, r)
				if err == nil && !t.old.Virtual { // entries of virtual columns take the engine
					_, err = t.old.RowWrites(ctx, row, r.Value, ref, r.Home)
				}
				if err != nil {
					return src.l.in(err)
				}
				now.Add(r.Sum())
				f.rows++
				return nil
			})
			if err == nil {
				err = f.counted()
			}
			if err != nil {
				return nil, err
			}
			rows += f.rows
		}
	}
	out := sql.Row{p.v.ID, t.was.DB + "." + t.was.Name, same, rows, now.String(), then.String()}
	switch {
	case !known:
		out[2], out[5] = unknown, nil
	case now != then:
		out[2] = "differs"
	}
	return out, nil
}
