package query

import (
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/plan"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/prefetch"
	"github.com/godwitdb/godwit/sql/result"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/table"
)

// Foreign keys that a change has to do with are followed row by row, by the engine's editors of the
// tables that they connect. What these look at is locked and read before, for many rows at once and
// level by level (package prefetch).

// references are the editors of a table and of those that its foreign keys lead to.
type references struct {
	*plan.ForeignKeyHandler
	e *table.Editor
}

// keysRule is the engine's rule that finds the foreign keys of a change.
var keysRule = func() analyzer.RuleFunc {
	for _, r := range analyzer.OnceAfterDefault {
		if r.Id.String() == "applyForeignKeys" {
			return r.Apply
		}
	}
	return nil
}()

// references are those of a target; nil: no foreign key leads from it, or to it.
func (c *change) references(t *target) (*references, error) {
	if keysRule == nil {
		return nil, left("foreign keys")
	}
	db, err := c.cat.cat.Database(c.ctx, t.st.Def.Desc.DB)
	if err != nil {
		return nil, left("error of the catalog")
	}
	tab, ok, err := db.GetTableInsensitive(c.ctx, t.st.Name())
	if err != nil || !ok {
		return nil, left("error of the catalog")
	}
	// The rule looks for rows that refer to the table only where some may go.
	whole := c.ins == nil || c.ins.Replace || c.ins.dup != nil
	node := plan.NewInsertInto(db, plan.NewResolvedTable(tab, db, nil), plan.NewEmptyTableWithSchema(nil), whole,
		nil, nil, false)
	out, _, err := keysRule(c.ctx, c.r.Engine.Analyzer, node, nil, analyzer.DefaultRuleSelector, nil)
	if err != nil {
		return nil, left("foreign keys that are not resolved")
	}
	n, ok := out.(*plan.InsertInto)
	if !ok {
		return nil, left("foreign keys")
	}
	h, ok := n.Destination.(*plan.ForeignKeyHandler)
	if !ok {
		return nil, nil
	}
	e := prefetch.RowEditor(h.Editor.Editor)
	if e == nil {
		return nil, left("foreign keys of a table with full text")
	}
	return &references{ForeignKeyHandler: h, e: e}, nil
}

// editor is what the rows of a target go through.
type editor interface {
	sql.EditOpenerCloser
	Insert(ctx *sql.Context, row sql.Row) error
	Update(ctx *sql.Context, old, row sql.Row) error
	Delete(ctx *sql.Context, row sql.Row) error
}

// open begins the changes of a target.
func (c *change) open(t *target, res *result.Change) *writer {
	w := &writer{change: c, target: t, res: res}
	if t.refs != nil {
		w.e, w.to = t.refs.e, t.refs
	} else {
		w.e = t.st.Editor(c.ctx)
		if w.to = w.e; w.words() && w.e.Err == nil {
			w.to = t.st.Words(c.ctx, w.e).(editor)
		}
	}
	w.e.Most, w.e.Ask = gathered, c.paced().Err
	w.to.StatementBegin(c.ctx)
	return w
}

// words reports whether the table has full-text indexes, whose words follow its rows one by one.
func (w *writer) words() bool { return w.st.Def.HasFulltext() }

// keys are the foreign keys, as package prefetch follows them.
func (w *writer) keys() *plan.ForeignKeyEditor {
	if w.refs == nil {
		return nil
	}
	return w.refs.Editor
}

// known has the row found by its value, as the engine's editors do where there is no primary key.
func (w *writer) known(key base.Key, row sql.Row) error {
	if len(w.st.Def.PK) > 0 {
		return nil
	}
	enc, err := w.st.Def.AppendRow(w.ctx, nil, row)
	if err != nil {
		return schema.ClientError(err)
	}
	w.e.Txn.NoteHidden(w.st.Def, enc, schema.RefOfKey(key))
	return nil
}

// gone reports whether a cascade of a row before has deleted this one.
func (w *writer) gone(key base.Key) (bool, error) {
	if w.refs == nil || !w.refs.Editor.Cyclical && len(w.targets) == 1 {
		return false, nil
	}
	if err := w.e.Txn.Flush(w.ctx, nil); err != nil {
		return false, err
	}
	if !w.e.Txn.KV.Kept(base.PointSpan(key), kv.LockExclusive) {
		return false, nil // this transaction has not written it
	}
	rows, err := w.e.Txn.KV.Get(w.s.KVContext(w.ctx), []base.Key{key}, kv.LockExclusive)
	if err != nil {
		return false, w.e.Txn.Fail(err)
	}
	return rows[0].Value == nil, nil
}

// follow changes a row that foreign keys have to do with; row is nil if it is deleted.
func (w *writer) follow(key base.Key, old, row sql.Row) (changed bool, err error) {
	if gone, err := w.gone(key); gone || err != nil {
		return false, err
	}
	if err := w.known(key, old); err != nil {
		return false, err
	}
	if row == nil {
		return true, w.to.Delete(w.ctx, old)
	}
	return true, w.to.Update(w.ctx, old, row)
}

// ahead has what the changes of the next rows look at read in a few steps.
func (w *writer) ahead(from int) error {
	n, fk := w.ins, w.keys()
	if fk == nil && !w.words() && (n == nil && !w.ignore || n != nil && !n.meets()) {
		return nil
	}
	if w.s.AloneAhead() {
		w.s.DropAhead() // of the rows before
	}
	// Looking for the parent of a row makes the editor send those before it.
	self := fk != nil && !w.s.Stmt.Blind && slices.ContainsFunc(fk.References, func(r *plan.ForeignKeyReferenceHandler) bool {
		return r.ForeignKey.IsSelfReferential()
	})
	p := prefetch.Changes{Txn: w.e.Txn, Table: w.st, Keys: fk, Unique: n == nil || n.meets() || self}
	if n != nil && n.guess != nil {
		p.Becomes = func(old, row sql.Row) sql.Row {
			next, changed, _, err := n.guess.update(old, row, 0)
			if err != nil || !changed {
				return nil
			}
			return next
		}
	}
	p.Replace = n != nil && n.Replace
	for i := from; i < min(from+prefetch.Ahead, w.pending.Len()); i++ {
		next, err := w.pending.At(i)
		if err != nil {
			return err
		}
		switch {
		case n != nil:
			p.Add(nil, w.st.Def.AsKept(next.Vals))
		default:
			_, old, row, err := w.changed(next)
			if err != nil {
				return err
			}
			if row != nil || w.c.Kind == bind.Delete {
				p.Add(old, row)
			}
		}
	}
	return p.Read(w.ctx)
}
