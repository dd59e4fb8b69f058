package infile

import (
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/charset"
	"github.com/godwitdb/godwit/sql/expr"
)

// Load is a LOAD DATA as an INSERT from its file.
type Load struct {
	*bind.Load
	*File
	// Ctx, Env and Strict are those of the statement when values are asked for.
	Ctx    *sql.Context
	Env    *expr.Env
	Strict bool
	// columns are the fields that go to columns.
	columns []int
}

func left(reason string) error { return &bind.Unsupported{Reason: reason} }

// Of reads a LOAD DATA. It returns nil of another statement, [bind.Unsupported] of one that is left
// to go-mysql-server, and [bind.Refusal] of fields of fixed length (1235), and of a character set
// in which no files are read (1115, 1235). noEscapes says that sql_mode has NO_BACKSLASH_ESCAPES.
func Of(stmt bind.Stmt, noEscapes bool) (*Load, error) {
	n := bind.LoadOf(stmt)
	if n == nil {
		return nil, nil
	}
	if !n.Client || n.Other {
		return nil, left("LOAD DATA with other options")
	}
	set, err := charset.OfFile(n.Charset)
	if err != nil {
		return nil, &bind.Refusal{Err: err}
	}
	l := &Load{Load: n, File: &File{skip: n.Skip, Batch: expr.BatchSize, Set: set}}
	y := Layout{FieldEnd: "\t", LineEnd: "\n", Enclosed: -1, Escape: '\\'}
	if noEscapes {
		y.Escape = -1
	}
	for to, text := range map[*string]*string{&y.FieldEnd: n.FieldEnd, &y.LineEnd: n.LineEnd, &y.LineStart: n.LineStart} {
		if text != nil {
			*to = *text
		}
	}
	if n.Enclosed != nil {
		y.Enclosed = first(*n.Enclosed)
	}
	if n.Escape != nil {
		y.Escape = first(*n.Escape)
	}
	if y.FieldEnd == "" && y.Enclosed < 0 {
		return nil, &bind.Refusal{Err: mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support "+
			"'LOAD DATA of fields of fixed length': name a terminator, or use SUBSTRING of a variable in SET")}
	}
	l.layout = y
	return l, nil
}

// Insert is the statement as an INSERT or REPLACE ... SELECT from the file. all are the columns of
// the table, for a statement that lists none, typ is the type of each, and coll the collation of
// the fields.
func (l *Load) Insert(all []string, typ func(column string) (expr.Type, bool), coll sql.CollationID) (bind.Stmt, error) {
	stmt, why := l.Load.Insert(Name, field, all, func(column string) (string, bool) {
		t, ok := typ(column)
		as, known := castTo(t)
		return as, ok && known
	})
	if why != "" {
		return nil, left(why)
	}
	l.columns = nil
	for i := range max(len(l.Vars), len(all)) {
		if l.Vars == nil || l.Vars[i] == "" {
			l.columns = append(l.columns, i)
		}
		l.cols = append(l.cols, fieldColumn(i, coll))
	}
	return stmt, nil
}

// castTo is the type to which CAST brings a text as a column of type t does that it is stored in,
// empty if it stays a text. Numbers for columns of whole ones are rounded, as they are stored.
func castTo(t expr.Type) (as string, ok bool) {
	switch t.Kind {
	case expr.Int, expr.Uint, expr.Year:
		return "DECIMAL(20,0)", true
	case expr.Decimal:
		return fmt.Sprintf("DECIMAL(%d,%d)", t.Precision, t.Scale), true
	case expr.Float:
		return "DOUBLE", true
	case expr.Text:
		return "", true
	case expr.Date:
		return "DATE", true
	case expr.Datetime, expr.Timestamp:
		return fmt.Sprintf("DATETIME(%d)", t.Scale), true
	case expr.Duration:
		return fmt.Sprintf("TIME(%d)", t.Scale), true
	}
	return "", false
}
