package ddl

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// Existing says what a CREATE does if the object exists.
type Existing uint8

// An object that exists is an error, is replaced, or stays, with a note.
const (
	Refuse Existing = iota
	Replace
	Leave
)

// SaveFunction stores a function.
func (g *Env) SaveFunction(ctx *sql.Context, o *schema.ObjectDesc, about Existing) error {
	m, err := g.mutate(ctx)
	if err != nil {
		return err
	}
	if m.snap().Database(o.DB) == nil {
		return sql.ErrDatabaseNotFound.New(o.DB)
	}
	there, err := m.lock(ctx, schema.CatalogKey(schema.IxFunction, o.DB, o.Name))
	switch {
	case err != nil:
		return err
	case there && about == Refuse:
		return mysql.NewSQLError(1304, "42000", "FUNCTION %s already exists", o.Name)
	case there && about == Leave:
		note(ctx, 1304, "FUNCTION "+o.Name+" already exists")
		return ended(ctx)
	}
	o.V = o.Format()
	m.putObject(schema.IxFunction, o)
	return ended(ctx)
}

// ended commits a change of definitions in a client's transaction, which ends with it. With
// autocommit the statement's end commits it.
func ended(ctx *sql.Context) error {
	s := session.Of(ctx)
	if !s.Explicit(ctx) {
		return nil
	}
	err := s.CommitTransaction(ctx, s.Txn())
	if err == nil {
		ctx.SetTransaction(nil)
	}
	return err
}

// note adds a note to the warnings of a statement.
func note(ctx *sql.Context, code int, text string) {
	ctx.Session.Warn(&sql.Warning{Level: "Note", Code: code, Message: text})
}

// ChangeFunction changes a function as change does, or drops it if change is nil. quiet: that there
// is none is a note.
func (g *Env) ChangeFunction(ctx *sql.Context, db, name string, quiet bool, change func(*schema.ObjectDesc)) error {
	m, err := g.mutate(ctx)
	if err != nil {
		return err
	}
	there, err := m.lock(ctx, schema.CatalogKey(schema.IxFunction, db, name))
	if err != nil {
		return err
	}
	var o *schema.ObjectDesc
	if d := m.snap().Database(db); there && d != nil {
		o = d.Objects[schema.IxFunction][strings.ToLower(name)]
	}
	switch {
	case o == nil && quiet:
		note(ctx, 1305, "FUNCTION "+db+"."+name+" does not exist")
		return ended(ctx)
	case o == nil:
		return ErrNoFunction(db, name)
	case change == nil:
		m.delObject(schema.IxFunction, o.DB, o.Name)
		return ended(ctx)
	}
	own, f := *o, *o.Function
	own.Function = &f
	change(&own)
	m.putObject(schema.IxFunction, &own)
	return ended(ctx)
}

// ErrNoFunction says that there is no such function.
func ErrNoFunction(db, name string) error {
	return mysql.NewSQLError(1305, "42000", "FUNCTION %s.%s does not exist", db, name)
}
