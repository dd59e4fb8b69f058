// Package infoschema lets SHOW and information_schema say of stored tables what package describe
// does. The engine words the tables that are not stored.
package infoschema

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/information_schema"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/planbuilder"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/describe"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// yesNo is how information_schema shows a truth.
func yesNo(b bool) string {
	if b {
		return "YES"
	}
	return "NO"
}

// orNull is a text, nil if it is empty.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// viewColumns are the rows of SHOW COLUMNS of a view. Its columns have the types of expressions.
func viewColumns(ctx *sql.Context, n *plan.ShowColumns) (rows []sql.Row, ok bool) {
	declared := declaredColumns(ctx, n.Child)
	for i, col := range n.TargetSchema() {
		d := schema.ColumnDesc{Type: col.Type.String()}
		if err := d.Redefine(&sql.Column{Name: col.Name, Type: col.Type, Nullable: col.Nullable}); err != nil {
			return nil, false // of a type that no column has
		}
		if i < len(declared) && declared[i] != nil && declared[i].Kind == schema.KindTimespan {
			d = *declared[i].Desc // the engine's TIME has no digits
		}
		var def, collation any
		if col.Default != nil {
			def = col.Default.String()
			if v, err := col.Default.Eval(ctx, nil); err == nil && col.Default.IsLiteral() && v != nil {
				if shown, err := col.Type.SQL(ctx, nil, v); err == nil {
					def = shown.ToString()
				}
			}
		}
		extra := col.Extra
		if extra == "" && !col.Default.IsLiteral() {
			extra = "DEFAULT_GENERATED"
		}
		if t, text := col.Type.(sql.TypeWithCollation); text && t.Collation() != sql.Collation_binary {
			collation = t.Collation().Name()
		}
		if n.Full {
			rows = append(rows, sql.Row{col.Name, describe.TypeText(&d), collation, yesNo(col.Nullable), "", def, extra, "",
				col.Comment})
			continue
		}
		rows = append(rows, sql.Row{col.Name, describe.TypeText(&d), yesNo(col.Nullable), "", def, extra})
	}
	return rows, true
}

// declaredColumns are the columns of tables that the columns of a view are; nil in place of those
// that are expressions, or columns of other views.
func declaredColumns(ctx *sql.Context, view sql.Node) (out []*schema.Column) {
	alias, ok := view.(*plan.SubqueryAlias)
	if !ok {
		return nil
	}
	tables := map[string]*schema.Table{}
	var shown []sql.Expression
	transform.Inspect(alias.Child, func(n sql.Node) bool {
		switch n := n.(type) {
		case *plan.Project:
			if shown == nil {
				shown = n.Projections
			}
		case *plan.SubqueryAlias, *plan.SetOp, *plan.GroupBy:
			return false
		case *plan.TableAlias:
			if t := ourTable(n.Child); t != nil {
				tables[strings.ToLower(n.Name())] = t.Def
			}
			return false
		case *plan.ResolvedTable:
			if t := ourTable(n); t != nil {
				tables[strings.ToLower(t.Name())] = t.Def
			}
		}
		return true
	})
	if shown == nil { // all columns of one table
		for _, c := range alias.Child.Schema(ctx) {
			shown = append(shown, expression.NewGetFieldWithTable(0, 0, c.Type, "", c.Source, c.Name, c.Nullable))
		}
	}
	for _, e := range shown {
		if a, is := e.(*expression.Alias); is {
			e = a.Child
		}
		out = append(out, nil)
		f, is := e.(*expression.GetField)
		if !is || tables[strings.ToLower(f.Table())] == nil {
			continue
		}
		t := tables[strings.ToLower(f.Table())]
		if at := t.Desc.ColByName(f.Name()); at >= 0 {
			out[len(out)-1] = t.Cols[at]
		}
	}
	return out
}

// Columns are the rows of SHOW COLUMNS for a user with rights; ok is false of tables that are not
// ours.
func Columns(ctx *sql.Context, n *plan.ShowColumns, mine rights.Set) (rows []sql.Row, ok bool) {
	t := ourTable(n.Child)
	if _, view := n.Child.(*plan.SubqueryAlias); view {
		return viewColumns(ctx, n)
	}
	if t == nil {
		return nil, false
	}
	for _, c := range describe.Columns(ctx, t.Def, n.Extended) {
		if !n.Full {
			rows = append(rows, sql.Row{c.Name, c.Type, yesNo(c.Nullable), c.Key, c.Default, c.Extra})
			continue
		}
		var may []string
		for _, p := range columnPrivileges {
			if mine.Column(t.Def.Desc.DB, t.Name(), c.Name, p.of) {
				may = append(may, p.word)
			}
		}
		rows = append(rows, sql.Row{c.Name, c.Type, c.Collation, yesNo(c.Nullable), c.Key, c.Default, c.Extra,
			strings.Join(may, ","), c.Comment})
	}
	return rows, true
}

// columnPrivileges are those that SHOW FULL COLUMNS names.
var columnPrivileges = []struct {
	of   sql.PrivilegeType
	word string
}{
	{sql.PrivilegeType_Select, "select"}, {sql.PrivilegeType_Insert, "insert"},
	{sql.PrivilegeType_Update, "update"}, {sql.PrivilegeType_References, "references"},
}

// ourTable is the table that a node names, nil if it is none of ours.
func ourTable(n sql.Node) *table.Table {
	if rt, ok := n.(*plan.ResolvedTable); ok {
		return table.Of(rt.UnderlyingTable())
	}
	return nil
}

// Indexes are the rows of SHOW INDEX; ok is false of tables that are not ours.
func Indexes(n *plan.ShowIndexes) (rows []sql.Row, ok bool) {
	t := ourTable(n.Child)
	if t == nil {
		return nil, false
	}
	for _, x := range describe.Indexes(t.Def) {
		for i, p := range x.Parts {
			d := describePart(x, p)
			rows = append(rows, sql.Row{t.Name(), nonUnique(x), x.Name, uint32(i + 1), d.column, d.collation, int64(0), d.prefix, nil,
				d.null, string(x.Kind), "", x.Comment, "YES", d.expr})
		}
	}
	return rows, true
}

// Where are the rows for which the condition of a SHOW holds. The engine drops it.
func Where(ctx *sql.Context, cat sql.Catalog, sch sql.Schema, rows []sql.Row, where sqlparser.Expr) (out []sql.Row, err error) {
	for _, row := range rows {
		e, err := withValues(where, sch, row)
		if err != nil {
			return nil, err
		}
		v, err := planbuilder.New(ctx, cat, nil).BuildScalarWithTable(e, nil).Eval(ctx, nil)
		if err != nil {
			return nil, err
		}
		if v == nil {
			continue
		}
		if holds, err := sql.ConvertToBool(ctx, v); err != nil {
			return nil, err
		} else if holds {
			out = append(out, row)
		}
	}
	return out, nil
}

// withValues puts the values of a row into an expression, in place of the names of columns.
func withValues(e sqlparser.Expr, sch sql.Schema, row sql.Row) (_ sqlparser.Expr, err error) {
	buf := sqlparser.NewTrackedBuffer(func(buf *sqlparser.TrackedBuffer, n sqlparser.SQLNode) {
		c, ok := n.(*sqlparser.ColName)
		if !ok {
			n.Format(buf)
			return
		}
		at := sch.IndexOfColName(c.Name.Lowered())
		if at < 0 {
			err = sql.ErrColumnNotFound.New(c.Name.String())
			return
		}
		switch v := row[at].(type) {
		case nil:
			buf.WriteString("null")
		case string:
			buf.WriteString("'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(v) + "'")
		default:
			fmt.Fprint(buf, v)
		}
	})
	buf.Myprintf("select %v", e)
	if err != nil {
		return nil, err
	}
	stmt, err := sqlparser.Parse(buf.String())
	if err != nil {
		return nil, err
	}
	return stmt.(*sqlparser.Select).SelectExprs[0].(*sqlparser.AliasedExpr).Expr, nil
}

func nonUnique(x describe.Index) int32 {
	if x.Unique {
		return 0
	}
	return 1
}

// partRow is what SHOW INDEX and information_schema.statistics say of a part of an index.
type partRow struct {
	column, collation, prefix, expr any
	null                            string
}

func describePart(x describe.Index, p describe.IndexPart) partRow {
	r := partRow{column: orNull(p.Column), collation: "A", expr: orNull(p.Expr)}
	if x.Kind == describe.Fulltext {
		r.collation = nil
	}
	if p.Prefix > 0 {
		r.prefix = p.Prefix
	}
	if p.Nullable {
		r.null = "YES"
	}
	return r
}

// Columns of information_schema.statistics.
const statCatalog, statSchema, statTable = 0, 1, 2

// Statistics lets information_schema.statistics describe our tables.
func Statistics(read rights.SchemaReader) rights.SchemaReader {
	return func(ctx *sql.Context, cat sql.Catalog) (sql.RowIter, error) {
		it, err := read(ctx, cat)
		if err != nil {
			return nil, err
		}
		rows, err := sql.RowIterToRows(ctx, it)
		if err != nil {
			return nil, err
		}
		var out []sql.Row
		var look finder
		for _, row := range rows {
			again, err := look.table(ctx, row[statSchema], row[statTable])
			if err != nil {
				return nil, err
			}
			switch {
			case look.def == nil:
				out = append(out, row)
			case !again:
				out = append(out, statisticRows(row, look.def)...)
			}
		}
		return sql.RowsToRowIter(out...), nil
	}
}

// statisticRows are the rows of our table; one is the first that the engine has.
func statisticRows(one sql.Row, t *schema.Table) (rows []sql.Row) {
	for _, x := range describe.Indexes(t) {
		for i, p := range x.Parts {
			d := describePart(x, p)
			rows = append(rows, sql.Row{one[statCatalog], one[statSchema], one[statTable], nonUnique(x), one[statSchema], x.Name,
				uint32(i + 1), d.column, d.collation, int64(0), d.prefix, nil, d.null, string(x.Kind), "", x.Comment, "YES", d.expr})
		}
	}
	return rows
}

// Install lets information_schema.columns describe our tables. It is to be
// called before the first engine is made.
var Install = sync.OnceFunc(func() {
	columns := information_schema.NewColumnsTable
	information_schema.NewColumnsTable = func() *information_schema.ColumnsTable {
		t := columns()
		read := t.RowIter
		t.RowIter = func(ctx *sql.Context, cat sql.Catalog, all sql.Schema) (sql.RowIter, error) {
			it, err := read(ctx, cat, all)
			if err != nil {
				return nil, err
			}
			return &columnsIter{RowIter: it}, nil
		}
		return t
	}
})

// columnsIter mends what the engine says of the columns of our tables.
type columnsIter struct {
	sql.RowIter
	finder
}

// Columns of information_schema.columns.
const (
	colSchema, colTable, colName = 1, 2, 3
	colDefault                   = 5
	colDigits                    = 12
	colType, colKey, colExtra    = 15, 16, 17
	colGenerated                 = 20
)

// Next implements sql.RowIter.
func (i *columnsIter) Next(ctx *sql.Context) (sql.Row, error) {
	row, err := i.RowIter.Next(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := i.table(ctx, row[colSchema], row[colTable]); err != nil || i.def == nil {
		return row, err
	}
	name, _ := row[colName].(string)
	at := i.def.Desc.ColByName(name)
	if at < 0 {
		return row, nil
	}
	c := describe.ColumnOf(ctx, i.def, at)
	row[colDefault], row[colType], row[colKey], row[colExtra], row[colGenerated] = c.Default, c.Type, c.Key, c.Extra, c.Generated
	row[colDigits] = nil
	if c.Digits >= 0 {
		row[colDigits] = uint32(c.Digits)
	}
	return row, nil
}

// finder finds the tables of rows of information_schema. Rows of one table follow each other.
type finder struct {
	db, name string
	def      *schema.Table // nil: it is none of ours
}

// table finds the table of a row; again reports whether it was the one before.
func (f *finder) table(ctx *sql.Context, db, name any) (again bool, err error) {
	d, _ := db.(string)
	n, _ := name.(string)
	if d == f.db && n == f.name {
		return true, nil
	}
	f.db, f.name, f.def = d, n, nil
	s := session.Of(ctx)
	if s == nil {
		return false, nil
	}
	snap, err := s.Snapshot(ctx)
	if err != nil {
		return false, err
	}
	f.def = snap.Table(d, n)
	return false, nil
}

// CreateView is SHOW CREATE VIEW. The engine forgets that a view reads with the rights of its user,
// and a dump of it would read with those of whoever loads it.
func CreateView(it sql.RowIter, v *schema.ObjectDesc) sql.RowIter {
	if it == nil || v == nil || v.Definer != nil {
		return it
	}
	return invokerIter{it}
}

// invokerIter adds what the engine forgets to the statement in the second column.
type invokerIter struct{ sql.RowIter }

// Next implements sql.RowIter.
func (i invokerIter) Next(ctx *sql.Context) (sql.Row, error) {
	row, err := i.RowIter.Next(ctx)
	if err != nil || len(row) < 2 {
		return row, err
	}
	row = row.Copy()
	if text, ok := row[1].(string); ok {
		row[1] = strings.Replace(text, "CREATE VIEW", "CREATE SQL SECURITY INVOKER VIEW", 1)
	}
	return row, nil
}

// WithClause appends a clause to the statement of a SHOW CREATE.
func WithClause(it sql.RowIter, clause string) sql.RowIter { return &clauseIter{it, clause} }

// clauseIter appends to the statement in the second column.
type clauseIter struct {
	sql.RowIter
	clause string
}

// Next implements sql.RowIter.
func (i *clauseIter) Next(ctx *sql.Context) (sql.Row, error) {
	row, err := i.RowIter.Next(ctx)
	if err != nil || len(row) < 2 {
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	row = row.Copy()
	if text, ok := row[1].(string); ok {
		row[1] = text + i.clause
	}
	return row, nil
}
