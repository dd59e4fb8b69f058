// Package rehearse adds up the rows of tables that a restore would write, and those that a cluster
// shows, and says whether they are the same.
package rehearse

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/admit"
	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/backup/decode"
	"github.com/godwitdb/godwit/sql/backup/parallel"
	"github.com/godwitdb/godwit/sql/backup/residence"
	"github.com/godwitdb/godwit/sql/backup/turns"
	"github.com/godwitdb/godwit/sql/schema"
)

// Added is what rows come to.
type Added struct {
	Rows int64
	Sum  archive.Sum
}

// Table is one that is rehearsed.
type Table struct {
	Desc *schema.TableDesc
	Def  *schema.Table // reads the rows
	Is   Added         // what a restore would write
	Then Added         // what it should be, if that is Known
	// Known is whether somebody has said what it should be.
	Known bool
	lost  bool // the cluster had the table, and a restore does not make it
}

// Restored adds a row that a restore would write, with the index entries that it would have. d is
// for errors.
func (t *Table) Restored(ctx context.Context, r *archive.Record, d *archive.Decoder) error {
	row, ref, err := decode.Row(ctx, t.Def, d, r)
	if err == nil && !t.Def.Virtual { // entries of virtual columns take the engine
		_, err = t.Def.RowWrites(ctx, row, r.Value, ref, r.Home)
	}
	if err != nil {
		return err
	}
	t.Is.Sum.Add(r.Sum())
	t.Is.Rows++
	return nil
}

// Cluster is what a cluster shows as of a moment.
type Cluster struct {
	Turns *admit.Pool
	// Page reads the first rows of a span, and says where to go on, and Record makes records of
	// them.
	Page   func(context.Context, base.Span) ([]kv.Row, base.Key, error)
	Record func(*kv.Row) *archive.Record
	// All are its tables, and Readable those whose rows this node can read.
	All, Readable []*schema.Table
}

// Lost are the tables of databases, with rows for any place, that are not among those that a
// restore makes.
func (c *Cluster) Lost(dbs []*schema.DatabaseDesc, made []*Table) (out []*Table) {
	for _, t := range c.All {
		has := slices.ContainsFunc(dbs, func(d *schema.DatabaseDesc) bool { return schema.SameName(d.Name, t.Desc.DB) })
		placed := slices.ContainsFunc(residence.Placements(t.Desc), func(p base.Placed) bool { return p.ID != 0 })
		left := placed || t.Desc.Locality.Kind == schema.MultiMaster
		if has && !left && find(made, t.Desc.ID) == nil {
			out = append(out, &Table{Desc: t.Desc, lost: true})
		}
	}
	return out
}

func find(tables []*Table, id base.TableID) *Table {
	if i := slices.IndexFunc(tables, func(t *Table) bool { return t.Desc.ID == id }); i >= 0 {
		return tables[i]
	}
	return nil
}

// Ask adds up the rows of tables, as far as their versions are kept.
func (c *Cluster) Ask(ctx context.Context, tables []*Table) (err error) {
	of := func(list []*schema.Table, t *Table) *schema.Table {
		for _, x := range list {
			if x.Desc.ID == t.Desc.ID {
				return x
			}
		}
		return nil
	}
	for _, t := range tables {
		def := of(c.Readable, t)
		if def == nil {
			t.Known = of(c.All, t) == nil // there is no such table, and so no row
			continue
		}
		switch t.Then, err = c.add(ctx, def); {
		case err == nil:
			t.Known = true
		case base.CodeOf(err) != base.CodeTooOld:
			return err
		}
	}
	return nil
}

// readAtOnce is how many shards are read at the same time.
const readAtOnce = 4

// add adds up the rows of a table.
func (c *Cluster) add(ctx context.Context, t *schema.Table) (all Added, err error) {
	shards := t.Shards()
	var mu sync.Mutex
	err = parallel.Each(ctx, len(shards), readAtOnce, func(ctx context.Context, i int) error {
		var a Added
		turn := c.Turns.Turn(admit.Reading)
		defer turn.End()
		p := t.Prefix(shards[i], 0, 0)
		for span := (base.Span{Start: p, End: p.PrefixEnd()}); span.Start != nil; {
			rows, next, err := c.Page(ctx, span)
			if err != nil {
				return err
			}
			for i := range rows {
				if i%turns.Every == 0 {
					if err := turns.Yield(ctx, &turn); err != nil {
						return err
					}
				}
				a.Sum.Add(c.Record(&rows[i]).Sum())
			}
			a.Rows += int64(len(rows))
			span.Start = next
		}
		mu.Lock()
		defer mu.Unlock()
		all.Rows += a.Rows
		all.Sum.Add(a.Sum)
		return nil
	})
	return all, err
}

// What is said of a table.
const (
	same        = "ok"
	unknown     = "no checksum: an older release has taken the backup"
	notCompared = "not compared"
	notKnown    = "not known" // the checksum
)

// Answer says of each table whether it is the same, in the columns that the statement has. That
// one is not is an error. asOf is the moment, if it lies behind the backup, and else empty.
func Answer(backup, place, asOf string, tables []*Table) (rows [][]any, err error) {
	for _, t := range tables {
		name := t.Desc.DB + "." + t.Desc.Name
		row := []any{backup, name, same, t.Is.Rows, t.Is.Sum.String(), t.Then.Sum.String()}
		rows = append(rows, row)
		switch {
		case !t.Known && asOf != "":
			row[2], row[5] = notCompared, notKnown
		case !t.Known:
			row[2], row[5] = unknown, nil
		case asOf == "" && t.Is.Sum == t.Then.Sum, asOf != "" && t.Is == t.Then && !t.lost, err != nil:
		case asOf != "":
			err = schema.Invalid(fmt.Sprintf("the rows of table %s that backup %s in '%s' and the log of changes behind it lead to are "+
				"not those that the cluster shows as of %s: there are %d, with checksum %v, and should be %d, with checksum %v", name,
				backup, place, asOf, t.Is.Rows, row[4], t.Then.Rows, row[5]))
		default:
			err = schema.Invalid(fmt.Sprintf("the rows of table %s that backup %s in '%s' leads to are not those that it has read: their "+
				"checksum is %v, and was %v", name, backup, place, row[4], row[5]))
		}
	}
	return rows, err
}
