package table

import (
	"reflect"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/fulltext"

	"github.com/godwitdb/godwit/sql/expr/collate"
	text "github.com/godwitdb/godwit/sql/expr/fulltext"
	"github.com/godwitdb/godwit/sql/function"
	"github.com/godwitdb/godwit/sql/schema"
)

// searches is the refusal of a node that has a MATCH over an index WITH PARSER: the engine would
// look for words. nil: the node has none.
func searches(ctx *sql.Context, n sql.Node) error {
	e, ok := n.(sql.Expressioner)
	if !ok {
		return nil
	}
	found := false
	for _, x := range e.Expressions() {
		sql.Inspect(ctx, x, func(_ *sql.Context, x sql.Expression) bool {
			if m, ok := x.(*expression.MatchAgainst); ok {
				i, ours := m.GetIndex().(*schema.EngineIndex)
				found = found || ours && i.Index.Desc.Fulltext != nil && i.Index.Desc.Fulltext.Parser != ""
			}
			return !found
		})
	}
	if found {
		return function.ErrMatch
	}
	return nil
}

// parsedEditor keeps up a full-text index WITH PARSER: the engine's editor knows words only. Of the
// tables that the engine makes for an index it writes the one that searches read, and, where rows
// have no key, the one that says how often each row is there.
type parsedEditor struct {
	parser text.Parser
	key    func(string) string
	cols   []int
	keys   []int // empty: rows are known by a digest
	words  sql.TableEditor
	rows   sql.TableEditor
	row    sql.Index // of rows, by the digest
}

var _ sql.TableEditor = (*parsedEditor)(nil)

func newParsedEditor(ctx *sql.Context, x *schema.EngineIndex, set fulltext.TableSet) (*parsedEditor, error) {
	p, ok := text.ParserNamed(x.Index.Desc.Fulltext.Parser)
	if !ok {
		return nil, schema.Invalid("index " + x.ID() + " has the parser " + x.Index.Desc.Fulltext.Parser +
			", which this version does not know: drop the index")
	}
	coll := collate.Of(fulltext.GetCollationFromSchema(ctx, set.DocCount.Schema(ctx)))
	e := &parsedEditor{
		parser: p, cols: x.Positions, keys: x.SearchKey().Positions,
		words: set.DocCount.Inserter(ctx).(sql.TableEditor), rows: set.RowCount.Inserter(ctx).(sql.TableEditor),
		key: func(w string) string { return string(coll.AppendAlone(nil, w)) },
	}
	if coll.Binary {
		e.key = func(w string) string { return w }
	}
	ix, err := set.RowCount.GetIndexes(ctx)
	if err == nil {
		e.row = ix[0] // the primary key
	}
	return e, err
}

// counts are the tokens of a row.
func (e *parsedEditor) counts(ctx *sql.Context, row sql.Row) ([]text.Count, error) {
	var parts []string
	for _, c := range e.cols {
		v, err := sql.UnwrapAny(ctx, row[c])
		if err != nil {
			return nil, err
		}
		switch v := v.(type) {
		case string:
			parts = append(parts, v)
		case []byte:
			parts = append(parts, string(v))
		}
	}
	return e.parser.Counts(strings.Join(parts, " "), e.key), nil
}

// entry is the row of a token of a row.
func (e *parsedEditor) entry(c text.Count, row sql.Row, hash string) sql.Row {
	out := sql.Row{c.Token}
	for _, p := range e.keys {
		out = append(out, row[p])
	}
	if len(e.keys) == 0 {
		out = append(out, hash)
	}
	return append(out, c.N)
}

// Insert implements sql.RowInserter.
func (e *parsedEditor) Insert(ctx *sql.Context, row sql.Row) error {
	hash, first, err := e.count(ctx, row, true)
	if err != nil || !first {
		return err
	}
	cs, err := e.counts(ctx, row)
	for i := 0; err == nil && i < len(cs); i++ {
		err = e.words.Insert(ctx, e.entry(cs[i], row, hash))
	}
	return err
}

// Delete implements sql.RowDeleter.
func (e *parsedEditor) Delete(ctx *sql.Context, row sql.Row) error {
	hash, last, err := e.count(ctx, row, false)
	if err != nil || !last {
		return err
	}
	cs, err := e.counts(ctx, row)
	for i := 0; err == nil && i < len(cs); i++ {
		err = e.words.Delete(ctx, e.entry(cs[i], row, hash))
	}
	return err
}

// Update implements sql.RowUpdater. Where the row keeps its key, what its old and new text have in
// common stays.
func (e *parsedEditor) Update(ctx *sql.Context, old, row sql.Row) error {
	same := len(e.keys) > 0
	for _, p := range e.keys {
		same = same && reflect.DeepEqual(old[p], row[p])
	}
	if !same {
		if err := e.Delete(ctx, old); err != nil {
			return err
		}
		return e.Insert(ctx, row)
	}
	was, err := e.counts(ctx, old)
	if err != nil {
		return err
	}
	is, err := e.counts(ctx, row)
	if err != nil {
		return err
	}
	left := make(map[string]text.Count, len(was))
	for _, c := range was {
		left[c.Key] = c
	}
	var added []text.Count
	for _, c := range is {
		o, ok := left[c.Key]
		delete(left, c.Key)
		switch {
		case !ok:
			added = append(added, c)
		case o.N != c.N:
			if err := e.words.Update(ctx, e.entry(o, old, ""), e.entry(text.Count{Token: o.Token, N: c.N}, row, "")); err != nil {
				return err
			}
		}
	}
	for _, c := range was {
		if _, gone := left[c.Key]; gone {
			if err := e.words.Delete(ctx, e.entry(c, old, "")); err != nil {
				return err
			}
		}
	}
	for _, c := range added {
		if err := e.words.Insert(ctx, e.entry(c, row, "")); err != nil {
			return err
		}
	}
	return nil
}

// count counts a row that comes or goes, where rows have no key. only reports whether there are no
// others like it, whose words are the same.
func (e *parsedEditor) count(ctx *sql.Context, row sql.Row, comes bool) (hash string, only bool, err error) {
	if len(e.keys) > 0 {
		return "", true, nil
	}
	if hash, err = fulltext.HashRow(ctx, row); err != nil {
		return "", false, err
	}
	typ := fulltext.SchemaRowCount[0].Type
	l := sql.IndexLookup{Index: e.row, Ranges: sql.MySQLRangeCollection{{sql.ClosedRangeColumnExpr(hash, hash, typ)}}}
	t := e.rows.(sql.ForeignKeyEditor).IndexedAccess(ctx, l)
	parts, err := t.LookupPartitions(ctx, l)
	if err != nil {
		return "", false, err
	}
	found, err := sql.RowIterToRows(ctx, sql.NewTableRowIter(ctx, t, parts))
	if err != nil {
		return "", false, err
	}
	like := func(n uint64) sql.Row { return sql.Row{hash, n, uint64(0)} }
	var n uint64
	if len(found) > 0 {
		n = found[0][1].(uint64)
	}
	switch {
	case comes && n == 0:
		return hash, true, e.rows.Insert(ctx, like(1))
	case comes:
		return hash, false, e.rows.Update(ctx, like(n), like(n+1))
	case n > 1:
		return hash, false, e.rows.Update(ctx, like(n), like(n-1))
	case n == 0:
		return hash, false, nil
	}
	return hash, true, e.rows.Delete(ctx, like(1))
}

// each does something with both editors.
func (e *parsedEditor) each(f func(sql.TableEditor) error) (err error) {
	for _, t := range []sql.TableEditor{e.words, e.rows} {
		if next := f(t); err == nil {
			err = next
		}
	}
	return err
}

// StatementBegin implements sql.EditOpenerCloser.
func (e *parsedEditor) StatementBegin(ctx *sql.Context) {
	e.words.StatementBegin(ctx)
	e.rows.StatementBegin(ctx)
}

// DiscardChanges implements sql.EditOpenerCloser.
func (e *parsedEditor) DiscardChanges(ctx *sql.Context, cause error) error {
	return e.each(func(t sql.TableEditor) error { return t.DiscardChanges(ctx, cause) })
}

// StatementComplete implements sql.EditOpenerCloser.
func (e *parsedEditor) StatementComplete(ctx *sql.Context) error {
	return e.each(func(t sql.TableEditor) error { return t.StatementComplete(ctx) })
}

// Close implements sql.Closer.
func (e *parsedEditor) Close(ctx *sql.Context) error {
	return e.each(func(t sql.TableEditor) error { return t.Close(ctx) })
}
