package table

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/fulltext"

	"github.com/godwitdb/godwit/sql/schema"
)

// wrapped is the editor of the table, together with those of its full-text indexes.
func (t *Table) wrapped(ctx *sql.Context) sql.TableEditor {
	e := t.Editor(ctx)
	if e.Err != nil || !t.Def.HasFulltext() {
		return e
	}
	wrapped, err := t.fulltextEditor(ctx, e)
	if err != nil {
		e.Err = err
		return e
	}
	return wrapped
}

// Words is the editor of the table, together with those of its full-text indexes, over an editor of
// its rows.
func (t *Table) Words(ctx *sql.Context, e *Editor) sql.TableEditor {
	w, err := t.fulltextEditor(ctx, e)
	if err != nil {
		e.Err = err
		return e
	}
	return w
}

func (t *Table) fulltextEditor(ctx *sql.Context, e *Editor) (sql.TableEditor, error) {
	fe, err := t.FulltextOver(ctx, func(t *Table) fulltext.EditableTable { return t })
	if err != nil {
		return nil, err
	}
	m, err := fulltext.CreateMultiTableEditor(ctx, e, fe)
	if err != nil || t.Env.WrapFulltext == nil {
		return m, err
	}
	return t.Env.WrapFulltext(e, m.(fulltext.MultiTableEditor)), nil
}

// FulltextOver is the engine's editor of the tables behind the full-text indexes.
func (t *Table) FulltextOver(ctx *sql.Context, over func(*Table) fulltext.EditableTable) (none fulltext.TableEditor, err error) {
	snap, err := t.Env.Snapshot(ctx)
	if err != nil {
		return none, err
	}
	find := func(name string) (fulltext.EditableTable, error) {
		o := snap.Table(t.Def.Desc.DB, name)
		if o == nil {
			return nil, sql.ErrTableNotFound.New(name)
		}
		return over(New(t.Env, o)), nil
	}
	var sets []fulltext.TableSet
	var config fulltext.EditableTable
	for _, ix := range t.Def.EngineIndexes() {
		x := ix.(*schema.EngineIndex)
		if !x.IsFullText() {
			continue
		}
		f := x.Index.Desc.Fulltext
		set := fulltext.TableSet{Index: x}
		for _, p := range []struct {
			name string
			to   *fulltext.EditableTable
		}{{f.Position, &set.Position}, {f.DocCount, &set.DocCount}, {f.GlobalCount, &set.GlobalCount},
			{f.RowCount, &set.RowCount}, {f.Config, &config}} {
			if *p.to, err = find(p.name); err != nil {
				return none, err
			}
		}
		sets = append(sets, set)
	}
	return fulltext.CreateEditor(ctx, t, config, sets...)
}
