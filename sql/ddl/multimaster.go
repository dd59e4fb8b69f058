package ddl

import (
	"context"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// MULTI MASTER tables. Their rows lie in the shard of the epochs, each transaction reads them at
// the last epoch applied on this node, and writes them by submitting what it has buffered to the
// next one ([kv.Epochs]).
//
// Their definitions are rows of the meta shard like those of other tables, but nothing there orders
// transactions of epochs. So the version in force is a row of the epochs, too: a transaction that
// changes a definition declares it after the commit, and transactions are held to the version that
// they know ([kv.EpochTxn.Hold]). Should the node that changes one die in between, the first that
// waits for it declares it.

// beginEpochs has the cluster begin with epochs.
func (g *Env) beginEpochs(ctx *sql.Context) error {
	e, ok := g.DB.(kv.Epochs)
	if !ok {
		return schema.Invalid("this server has no MULTI MASTER tables")
	}
	return schema.ClientError(e.BeginEpochs(session.Of(ctx).KVContext(ctx)))
}

// unmixed refuses a definition with which a foreign key would lead from a MULTI MASTER table to
// another one, or the other way: whichever of the two tables comes later is the one refused.
func (m *mutation) unmixed(d *schema.TableDesc) error {
	check := func(fk *sql.ForeignKeyConstraint, child, parent *schema.TableDesc) error {
		if schema.SameName(fk.Table, fk.ParentTable) && schema.SameName(fk.Database, fk.ParentDatabase) ||
			(child.Locality.Kind == schema.MultiMaster) == (parent.Locality.Kind == schema.MultiMaster) {
			return nil
		}
		is, isNot := child.Name, parent.Name
		if parent.Locality.Kind == schema.MultiMaster {
			is, isNot = isNot, is
		}
		return schema.Invalid("foreign key " + fk.Name + " leads from table " + child.Name + " to table " +
			parent.Name + ", but " + is + " is MULTI MASTER and " + isNot +
			" is not: give both that locality or neither, or drop the foreign key")
	}
	for i := range d.FKs {
		if p := m.snap().Table(d.FKs[i].ParentDatabase, d.FKs[i].ParentTable); p != nil {
			if err := check(&d.FKs[i], d, p.Desc); err != nil {
				return err
			}
		}
	}
	if db := m.snap().Database(d.DB); db != nil {
		for _, fk := range db.ReferencedBy[strings.ToLower(d.Name)] {
			if c := m.snap().Table(fk.Database, fk.Table); c != nil {
				if err := check(&fk, c.Desc, d); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// resolve marks a foreign key of a MULTI MASTER table as resolved if it was declared before its
// parent (foreign_key_checks = 0) and fits it now. The engine would note that in the definition
// when rows are written, and no transaction writes both. As in MySQL, rows of before are not
// checked.
func (g *Env) resolve(ctx *sql.Context, snap *schema.Snapshot, fk *sql.ForeignKeyConstraint) {
	if fk.IsResolved {
		return
	}
	child, parent := snap.Table(fk.Database, fk.Table), snap.Table(fk.ParentDatabase, fk.ParentTable)
	if child == nil || parent == nil || child.Desc.Locality.Kind != schema.MultiMaster ||
		parent.Desc.Locality.Kind != schema.MultiMaster || len(fk.Columns) != len(fk.ParentColumns) {
		return
	}
	r := *fk
	r.Columns, r.ParentColumns = slices.Clone(fk.Columns), slices.Clone(fk.ParentColumns)
	from, to := New(g, child), New(g, parent)
	// by lower name; names are given their case
	theirs := func(t *Table, names []string) (map[string]*sql.Column, bool) {
		cols := map[string]*sql.Column{}
		for _, c := range t.Schema(ctx) {
			cols[strings.ToLower(c.Name)] = c
		}
		for i, n := range names {
			c := cols[strings.ToLower(n)]
			if c == nil {
				return nil, false
			}
			names[i] = c.Name
		}
		return cols, true
	}
	cols, known := theirs(from, r.Columns)
	parents, there := theirs(to, r.ParentColumns)
	if !known || !there || plan.ValidateForeignKeyDefinition(ctx, r, cols, parents) != nil {
		return
	}
	if _, ok, err := plan.FindFKIndexWithPrefix(ctx, to, r.ParentColumns, true); !ok || err != nil {
		return
	}
	r.IsResolved = true
	*fk = r
}

// retire makes sure that no transaction writes or reads what is to be removed from a MULTI MASTER
// table.
func (g *Env) retire(ctx context.Context, d *garbageDesc) error {
	e, ok := g.DB.(kv.Epochs)
	if !ok {
		return schema.Invalid("this server has no MULTI MASTER tables")
	}
	version := base.MaxTimestamp
	if d.Index != nil {
		snap, err := g.Catalog.Fresh(ctx)
		if err != nil {
			return err
		}
		if t := snap.ByID[d.Table]; t != nil {
			version = t.TS
		}
	}
	return e.Declare(ctx, d.Table, version)
}

func errMultiMasterRewrite(name string) error {
	return schema.Invalid("table " + name + " is MULTI MASTER, and this change would write all of its rows again " +
		"while other regions write them: make a new table and copy them")
}

// mayTurn refuses localities that a table cannot change to.
func (t *Table) mayTurn(m *mutation, d *schema.TableDesc, l schema.Locality) error {
	if d.Locality.Kind == schema.MultiMaster {
		return errMultiMasterRewrite(d.Name)
	}
	if l.Kind != schema.MultiMaster {
		return nil
	}
	if len(d.FKs) > 0 {
		return schema.Invalid("table " + d.Name + " has foreign keys: drop them first, and add them when all tables " +
			"concerned are MULTI MASTER")
	}
	for _, db := range m.snap().Databases {
		for _, o := range db.Tables {
			for _, k := range o.Desc.FKs {
				if schema.SameName(k.ParentTable, d.Name) && schema.SameName(k.ParentDatabase, d.DB) {
					return schema.Invalid("foreign keys of table " + o.Desc.Name + " refer to table " + d.Name +
						": drop them first, and add them when all tables concerned are MULTI MASTER")
				}
			}
		}
	}
	for i := range d.Indexes {
		if !d.Indexes[i].Stored() {
			return schema.Invalid("index " + d.Indexes[i].Name + " is of a kind that MULTI MASTER tables do not have")
		}
	}
	return nil
}
