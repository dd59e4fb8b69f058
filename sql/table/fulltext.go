package table

import (
	"cmp"
	"io"

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
	words, err := t.FulltextOver(ctx, func(t *Table) fulltext.EditableTable { return t }, "")
	if err != nil {
		return nil, err
	}
	m, err := fulltext.CreateMultiTableEditor(ctx, e, words...)
	if err != nil || t.Env.WrapFulltext == nil {
		return m, err
	}
	return t.Env.WrapFulltext(e, m.(fulltext.MultiTableEditor)), nil
}

// FulltextOver are the editors of the tables behind the full-text indexes, or behind the one with a
// name. Those of the engine take texts apart into words.
func (t *Table) FulltextOver(ctx *sql.Context, over func(*Table) fulltext.EditableTable, name string) (out []sql.TableEditor,
	err error) {
	snap, err := t.Env.Snapshot(ctx)
	if err != nil {
		return nil, err
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
		if !x.IsFullText() || name != "" && !schema.SameName(name, x.ID()) {
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
				return nil, err
			}
		}
		if f.Parser == "" {
			sets = append(sets, set)
			continue
		}
		own, err := newParsedEditor(ctx, x, set)
		if err != nil {
			return nil, err
		}
		out = append(out, own)
	}
	if len(sets) > 0 {
		e, err := fulltext.CreateEditor(ctx, t, config, sets...)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// FillFulltext fills a new full-text index with the words of the rows that there are.
func (t *Table) FillFulltext(ctx *sql.Context, name string) error {
	es, err := t.FulltextOver(ctx, func(t *Table) fulltext.EditableTable { return t }, name)
	if err != nil {
		return err
	}
	parts, err := t.Partitions(ctx)
	if err != nil {
		return err
	}
	rows := sql.NewTableRowIter(ctx, t, parts)
	for _, e := range es {
		e.StatementBegin(ctx)
	}
	for err == nil {
		var row sql.Row
		if row, err = rows.Next(ctx); err != nil {
			break
		}
		for _, e := range es {
			if err == nil {
				err = e.Insert(ctx, row)
			}
		}
	}
	end := sql.TableEditor.StatementComplete
	if err == io.EOF {
		err = nil
	} else {
		cause := err
		end = func(e sql.TableEditor, ctx *sql.Context) error { return e.DiscardChanges(ctx, cause) }
	}
	for _, e := range es {
		err = cmp.Or(err, end(e, ctx), e.Close(ctx))
	}
	return cmp.Or(err, rows.Close(ctx))
}
