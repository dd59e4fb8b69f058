package ddl

import (
	"context"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
)

// Tables whose rows are written before anybody can see them: RESTORE (package sql/backup) takes ids
// for them, notes these as garbage, writes the rows, and shows all tables with one transaction that
// takes the ids back from the garbage.

// ReserveEvery is how often a restore that takes long calls StayReserved. After rewriteAge without
// that its rows are removed.
const ReserveEvery = time.Hour

// NewTableIDs takes ids for tables, each with the region whose tables' ids it gets.
func (g *Env) NewTableIDs(ctx context.Context, regions []base.RegionID) (ids []base.TableID, err error) {
	_, err = kv.Run(ctx, g.DB, kv.Options{}, func(k kv.Txn) error {
		ids = ids[:0]
		for _, r := range regions {
			id, err := NextTableID(ctx, k, r)
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return nil
	})
	return ids, err
}

// Reserve notes that rows will be written for tables whose definitions are not there yet. If this
// node dies, the rows are found and removed.
func (g *Env) Reserve(ctx context.Context, tables []*schema.Table) error {
	_, err := kv.Run(ctx, g.DB, kv.Options{}, func(k kv.Txn) error {
		for _, t := range tables {
			g.note(k, t, g.DB.Node())
		}
		return nil
	})
	return err
}

func (g *Env) note(k kv.Txn, t *schema.Table, node base.NodeID) {
	d := GarbageOf(t)
	d.Node = node
	k.Put(garbageKey(t.Desc.ID, 0), schema.Marshal(d), 0)
}

// StayReserved does so again for those that are reserved still: tables that Keep has taken back
// must not become garbage.
func (g *Env) StayReserved(ctx context.Context, tables []*schema.Table) error {
	return g.noteAgain(ctx, tables, g.DB.Node())
}

// Abandon has the rows of tables removed that are reserved still.
func (g *Env) Abandon(ctx context.Context, tables []*schema.Table) error {
	if err := g.noteAgain(ctx, tables, 0); err != nil {
		return err
	}
	g.GC.Kick()
	return nil
}

func (g *Env) noteAgain(ctx context.Context, tables []*schema.Table, node base.NodeID) error {
	_, err := kv.Run(ctx, g.DB, kv.Options{}, func(k kv.Txn) error {
		rows, err := reserved(ctx, k, tables)
		for i, r := range rows {
			if r.Value != nil {
				g.note(k, tables[i], node)
			}
		}
		return err
	})
	return err
}

// reserved reads, under locks, what notes that tables are reserved.
func reserved(ctx context.Context, k kv.Txn, tables []*schema.Table) ([]kv.Row, error) {
	keys := make([]base.Key, len(tables))
	for i, t := range tables {
		keys[i] = garbageKey(t.Desc.ID, 0)
	}
	return k.Get(ctx, keys, kv.LockExclusive)
}

// Keep takes reserved tables back from the garbage, in the transaction that writes their
// definitions. It fails if the collector was faster.
func Keep(ctx context.Context, k kv.Txn, tables []*schema.Table) error {
	rows, err := reserved(ctx, k, tables)
	if err != nil {
		return err
	}
	for i, r := range rows {
		if r.Value == nil {
			return base.Errorf(base.CodeInvalid, "rows of table %s.%s have been collected: nothing was written for too long",
				tables[i].Desc.DB, tables[i].Desc.Name)
		}
		k.Delete(r.Key)
	}
	return nil
}

// Discard has the rows of a table removed whose definition the transaction replaces.
func (g *Env) Discard(k kv.Txn, t *schema.Table) {
	g.note(k, t, 0)
}

// Work is a job that is not about one table.
type Work struct{ j *job }

// Work registers a job. total is how many rows it will count; 0: nobody knows.
func (o *Jobs) Work(ctx *sql.Context, kind, what string, total int64) Work {
	j := o.add(ctx, kind, what)
	j.stop = func() {}
	j.total.Store(total)
	return Work{j}
}

// Resume registers a job that has an id of its own: it may have begun at another node.
func (o *Jobs) Resume(id uint64, kind, what string, total int64) Work {
	j := o.add(nil, kind, what)
	j.mu.Lock()
	j.desc.ID = id
	j.mu.Unlock()
	j.stop = func() {}
	j.total.Store(total)
	return Work{j}
}

// Progress is how many rows the job has counted, and how many it will count.
func (w Work) Progress() (done, total int64) { return w.j.rows.Load(), w.j.total.Load() }

// Total corrects how many rows the job will count.
func (w Work) Total(n int64) { w.j.total.Store(n) }

// Did counts rows.
func (w Work) Did(n int) { w.j.count(n) }

// End notes how the job went.
func (w Work) End(err error) { w.j.end(err) }
