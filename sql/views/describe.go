package views

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/information_schema"

	"github.com/godwitdb/godwit/sql/algebra"
)

// Columns of information_schema.views.
const viewsDB, viewsName, viewsText, viewsCheck, viewsUpdatable = 1, 2, 3, 4, 5

// checkOptions are the values of CHECK_OPTION.
var checkOptions = map[algebra.ViewCheck]string{
	algebra.NoCheck: "NONE", algebra.CheckLocal: "LOCAL", algebra.CheckCascaded: "CASCADED",
}

// Describe lets information_schema.views say which views can be changed, and what is checked then.
func Describe(is sql.Database, updatable func(*sql.Context, *algebra.View) bool) {
	t, _, err := is.GetTableInsensitive(sql.NewEmptyContext(), information_schema.ViewsTableName)
	x, ok := t.(*information_schema.InformationSchemaTable)
	if err != nil || !ok {
		panic("the engine has no table of views any more, which package views mends")
	}
	read := x.Reader
	x.Reader = func(ctx *sql.Context, cat sql.Catalog) (sql.RowIter, error) {
		it, err := read(ctx, cat)
		if err != nil {
			return nil, err
		}
		rows, err := sql.RowIterToRows(ctx, it)
		for _, row := range rows {
			describe(ctx, cat, row, updatable)
		}
		return sql.RowsToRowIter(rows...), err
	}
}

// describe mends a row of information_schema.views.
func describe(ctx *sql.Context, cat sql.Catalog, row sql.Row, updatable func(*sql.Context, *algebra.View) bool) {
	db, _ := row[viewsDB].(string)
	name, _ := row[viewsName].(string)
	d, err := cat.Database(ctx, db)
	if err != nil {
		return
	}
	vd, ok := d.(sql.ViewDatabase)
	if !ok {
		return
	}
	def, ok, err := vd.GetViewDefinition(ctx, name)
	if err != nil || !ok {
		return
	}
	v := Of(d.Name(), &def)
	row[viewsText], row[viewsCheck], row[viewsUpdatable] = v.Text, checkOptions[v.Check], "NO"
	if updatable(ctx, v) {
		row[viewsUpdatable] = "YES"
	}
}
