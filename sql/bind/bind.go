package bind

import (
	"errors"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind/tree"
	"github.com/godwitdb/godwit/sql/expr"
)

// Session is what the meaning of a text hangs on besides the text.
type Session struct {
	Catalog algebra.Catalog
	// DB is the current database; empty: none.
	DB   string
	Mode Mode
	// Collation is that of literals (collation_connection).
	Collation sql.CollationID
	// DefaultCollation is the one that a character set has by name; ok is false if there is none.
	DefaultCollation func(charset string) (sql.CollationID, bool)
	// SysVar is the value of a system variable (named: the statement says its scope), UserVar that
	// of a user variable.
	SysVar  func(name string, global, named bool) (expr.Node, error)
	UserVar func(name string) (expr.Node, error)
	// Local is the value of a local variable of a stored program, or of a column of OLD or NEW
	// (row); nil: there is none of that name.
	Local func(row, name string) (expr.Node, error)
	// Params are the values of the parameters of a prepared statement, by number from 0.
	Params []expr.Node
	// Limit is sql_select_limit, of statements without LIMIT; nil: there is none.
	Limit expr.Node
	// MayRead reports whether the user may read tables and views. With it the client gets the
	// binder's errors; nil: it gets those of go-mysql-server.
	MayRead func([]Use) bool
	// Places is div_precision_increment; nil: its default. It is of the statement, and of the views
	// in it: a definition of a table means the same to all sessions.
	Places *int
	// Check, if there is one, is asked now and then whether to go on: its error ends the binding.
	Check func() error
}

// Mode is what of sql_mode matters to the binder.
type Mode = tree.Mode

// ModeOf reads a sql_mode.
func ModeOf(text string) Mode { return tree.ModeOf(text) }

// Parse parses one statement. What the parser does not take is Unsupported: go-mysql-server has a
// parser of its own, and words the error.
func Parse(text string, m Mode) (Stmt, error) {
	stmt, err := tree.Parse(text, m)
	if err != nil {
		return nil, unsupported("%s", err)
	}
	return stmt, nil
}

// Query is a SELECT that is bound.
type Query struct {
	Rel algebra.Rel
	// Out are the columns of the result, in order. Two may have the same number.
	Out []Output
	// Uses are the tables and views that the statement reads, for the check of privileges.
	Uses []Use
	// Updates are those whose rows FOR UPDATE locks.
	Updates []Use
	// Next is the first number that no column has.
	Next expr.ColID
	// Page is LIMIT of a statement with SQL_CALC_FOUND_ROWS: its rows are counted without it.
	Page *algebra.Limit
	// Lock is the strongest lock that clauses FOR UPDATE and FOR SHARE ask for. Which tables they
	// speak of is said by the scans.
	Lock algebra.LockKind
}

// Output is a column of a result.
type Output struct {
	ID   expr.ColID
	Name string
	Type expr.Type
	// Table is the name under which the statement knows the table, Origin the base column.
	Table string
	Origin
}

// Use is a table or view that a statement reads.
type Use struct {
	DB, Name string
	// Through are the views by which the statement came to it, outermost first; empty: it names it
	// itself.
	Through []string
	// As is the account, name and host, with whose rights it is read; zero: the user's.
	As [2]string
	// Columns are those that the statement reads.
	Columns *Columns
}

// Columns are the columns of a table or view that a statement reads, in the order in which it
// names them.
type Columns struct {
	Names []string
	// Star are those that it names by * alone.
	Star map[string]bool
}

// add notes that a column is read.
func (c *Columns) add(name string, star bool) {
	if !slices.Contains(c.Names, name) {
		c.Names = append(c.Names, name)
		if star {
			if c.Star == nil {
				c.Star = map[string]bool{}
			}
			c.Star[name] = true
		}
	} else if !star {
		delete(c.Star, name)
	}
}

// Stmt is the syntax tree of a statement.
type Stmt = ast.StmtNode

// Bind binds a SELECT.
func Bind(stmt Stmt, s *Session) (q *Query, err error) {
	err = expr.Settle(s.UserVar, s.Collation, func(a *expr.Assigned) (err error) {
		q, err = (&binder{s: s, next: 1, db: s.DB, vars: a}).bind(stmt)
		return err
	})
	return q, err
}

func (b *binder) bind(stmt Stmt) (*Query, error) {
	n, ok := stmt.(ast.ResultSetNode)
	if !ok {
		return nil, unsupported("statement %s", kindOf(stmt))
	}
	var limit *ast.Limit
	b.first, limit = tree.FirstOf(stmt)
	if b.first != nil && b.first.SelectStmtOpts != nil && b.first.SelectStmtOpts.CalcFoundRows && limit != nil {
		b.limitOf = limit
	}
	r, err := b.query(n, nil)
	if err != nil {
		return nil, b.final(err)
	}
	if len(b.vars.Found) > 0 {
		if err := inPlace(r.rel); err != nil {
			return nil, err
		}
	}
	if limit == nil && b.s.Limit != nil {
		r.rel = &algebra.Limit{In: r.rel, Count: b.s.Limit}
	}
	q := &Query{Page: b.page, Rel: r.rel, Uses: b.uses, Updates: b.updates, Next: b.next, Lock: b.lock}
	for i := range r.cols {
		c := &r.cols[i]
		q.Out = append(q.Out, Output{c.id, c.name, c.typ, c.table, c.org})
	}
	return q, nil
}

// final makes an error one that the client gets, unless the user may not read the tables: the error
// may show what they are like.
func (b *binder) final(err error) error {
	var r *Refusal
	var me *mysql.SQLError
	if errors.As(err, &r) || !errors.As(err, &me) || me.Num == 1235 || b.s.MayRead == nil || !b.s.MayRead(b.uses) {
		return err
	}
	return &Refusal{Err: me}
}

// kindOf names a kind of statement for the count of what is left to go-mysql-server.
func kindOf(stmt ast.StmtNode) string {
	switch stmt.(type) {
	case *ast.SelectStmt, *ast.SetOprStmt:
		return "select"
	case *ast.InsertStmt, *tree.Aliased:
		return "insert"
	case *ast.UpdateStmt:
		return "update"
	case *ast.DeleteStmt:
		return "delete"
	}
	return "other"
}

// binder binds one statement.
type binder struct {
	s     *Session
	next  expr.ColID
	db    string // in which names without a database are looked up; another one inside of views
	uses  []Use
	views []string  // that are being expanded
	as    [2]string // the account with whose rights they are
	of    []scanned
	// updates are the tables and views whose rows FOR UPDATE locks.
	updates []Use
	// blocks is how many query blocks were bound, steps in how many recursive ones the binder is.
	blocks, steps int
	subs          expr.ColID // subqueries in expressions
	// exists is the query of the EXISTS bound last: * in it reads no column.
	exists ast.Node
	ctes   *cteScope
	// first is the first SELECT of the statement. limitOf is the LIMIT of one that counts all rows
	// (page).
	first   *ast.SelectStmt
	limitOf *ast.Limit
	page    *algebra.Limit
	cteNo   int
	lock    algebra.LockKind // the strongest that a clause asks for
	vars    *expr.Assigned
	past    expr.Node // the operand of AS OF of the table or view that is bound; nil: there is none
}

// scanned is a scan, and what it reads.
type scanned struct {
	scan *algebra.Scan
	use  Use
}

func (b *binder) newID() expr.ColID {
	id := b.next
	b.next++
	return id
}

// subNumber is a number for a subquery.
func (b *binder) subNumber() expr.ColID {
	b.subs++
	return b.subs
}

// bound is a query expression that is bound.
type bound struct {
	rel  algebra.Rel
	cols []column
	// outer are the columns of queries around it that it uses.
	outer map[expr.ColID]bool
}

// query binds a query expression.
func (b *binder) query(n ast.Node, outer *scope) (*bound, error) {
	if err := b.block(); err != nil {
		return nil, err
	}
	switch n := n.(type) {
	case *ast.SelectStmt:
		return b.selectStmt(n, outer)
	case *ast.SetOprStmt:
		return b.setOperation(n.With, n.SelectList, n.OrderBy, n.Limit, outer)
	case *ast.SetOprSelectList:
		return b.setOperation(n.With, n, n.OrderBy, n.Limit, outer)
	case *ast.SubqueryExpr:
		return b.query(n.Query, outer)
	}
	return nil, unsupported("query %T", n)
}

// A statement may have so many query blocks, with those of the views and common table expressions
// that it uses. After the first ones, an expression that is used again is not bound again.
const (
	manyBlocks = 200
	mostBlocks = 20_000
)

// mostTables is how many tables one FROM may name, as in MySQL.
const mostTables = 61

// block counts a query block.
func (b *binder) block() error {
	if b.blocks++; b.blocks > mostBlocks {
		return refuse(1436, "HY000", "The statement has more than %d query blocks, with those of its views and common "+
			"table expressions: split it", mostBlocks)
	}
	return b.interrupted()
}

// interrupted is why the binder should not go on; nil if it should.
func (b *binder) interrupted() error {
	if b.s.Check != nil {
		return b.s.Check()
	}
	return nil
}

// fold is a name in lower case, as names of columns are compared.
func fold(s string) string { return strings.ToLower(s) }
