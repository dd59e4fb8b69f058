package perfschema

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/statements"
	"github.com/godwitdb/godwit/sql/virtual"
)

// Schema is the name of the database.
const Schema = "performance_schema"

// Env is what the database asks.
type Env struct {
	Statements *statements.Recorder
	// Processes are the connections of this node.
	Processes func() []sql.Process
	// Cluster are the rows of a topic of SHOW GODWIT; nil: there is no cluster.
	Cluster interface {
		Status(ctx context.Context, topic string) [][]any
	}
	// Rights are those of the session's user.
	Rights func(*sql.Context) rights.Set
}

// live are the tables with rows.
type live struct {
	name, columns string
	rows          func(e *Env, ctx *sql.Context) ([]sql.Row, error)
	truncate      func(e *Env)
}

var all = slices.Concat(clientTables, eventTables, setupTables, lockTables, variableTables)

// schemas are the columns of all tables, which are made once.
var schemas = sync.OnceValue(func() map[string]sql.Schema {
	out := map[string]sql.Schema{}
	for name, list := range empty {
		out[name] = columns(list)
	}
	for _, t := range all {
		out[t.name] = columns(t.columns)
	}
	return out
})

// Database is performance_schema.
func (e *Env) Database() sql.Database {
	return &virtual.Database{Called: Schema, ReadOnly: func() error { return ddl.ErrReadOnlySystem(Schema) }, Tables: e.tables, Names: names}
}

// names are those of all tables, in order.
var names = sync.OnceValue(func() (out []string) {
	for name := range schemas() {
		out = append(out, name)
	}
	out = append(out, statements.ByDigest)
	slices.Sort(out)
	return out
})

func (e *Env) tables() []virtual.Table {
	out := []virtual.Table{e.Statements.Summary()}
	for name := range empty {
		out = append(out, virtual.Table{Name: name, Columns: schemas()[name],
			Rows: func(*sql.Context) ([]sql.Row, error) { return nil, nil }})
	}
	for _, t := range all {
		v := virtual.Table{Name: t.name, Columns: schemas()[t.name],
			Rows: func(ctx *sql.Context) ([]sql.Row, error) { return t.rows(e, ctx) }}
		if t.truncate != nil {
			v.Truncate = func() { t.truncate(e) }
		}
		out = append(out, v)
	}
	return out
}

// Granted leaves out of the privileges that information_schema shows those to the tables that
// everybody may read.
func Granted(read rights.SchemaReader) rights.SchemaReader {
	return func(ctx *sql.Context, cat sql.Catalog) (sql.RowIter, error) {
		it, err := read(ctx, cat)
		if err != nil {
			return nil, err
		}
		rows, err := sql.RowIterToRows(ctx, it)
		rows = slices.DeleteFunc(rows, func(r sql.Row) bool { return r[2] == Schema && session.IsOpen(fmt.Sprint(r[3])) })
		return sql.RowsToRowIter(rows...), err
	}
}

// sees reports whether the session's user may see what a connection of a user does.
func (e *Env) sees(ctx *sql.Context, user string) bool {
	return user == ctx.Client().User || e.Rights(ctx).Global(sql.PrivilegeType_Process)
}

// orNull is a text, nil if it is empty.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// mine is the session of ctx, and the number of its connection.
func mine(ctx *sql.Context) (*session.Session, uint64) {
	return session.Of(ctx), uint64(ctx.Session.ID())
}

// hostOf is the host of an address that may have a port.
func hostOf(address string) string {
	if i := strings.LastIndexByte(address, ':'); i > 0 && !strings.HasSuffix(address, "]") {
		return strings.Trim(address[:i], "[]")
	}
	return address
}

// Read reads a table for a session whose user has the right to, and is refused otherwise.
func (e *Env) Read(ctx *sql.Context, table string) (sql.Schema, []sql.Row, error) {
	if r := e.Rights(ctx); !r.Table(Schema, table, sql.PrivilegeType_Select) && !r.Global(sql.PrivilegeType_Process) {
		return nil, nil, rights.Refusal(ctx, "SELECT", table)
	}
	for _, t := range e.tables() {
		if t.Name == table {
			rows, err := t.Rows(ctx)
			return t.Columns, rows, err
		}
	}
	return nil, nil, sql.ErrTableNotFound.New(table)
}
