// Package returning has what RETURNING asks for of the rows that a statement has changed. Its list
// is bound as that of a SELECT over the table, and computed from the rows as the statement has
// them: new ones as they are stored, and deleted ones as they were.
package returning

import (
	"errors"
	"strings"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/bind/tree"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/result"
)

// Cut divides a statement with RETURNING into what it does, and the SELECT of its list; that is nil
// if it has none.
func Cut(stmt bind.Stmt) (plain, list bind.Stmt) {
	if r, ok := stmt.(*tree.Returning); ok {
		return r.StmtNode, r.List
	}
	return stmt, nil
}

// List is a list that is bound.
type List struct {
	Out  []bind.Output
	Uses []bind.Use
	// Next is the first number that no column of Nodes has.
	Next expr.ColID
	// IDs are the columns of the table in Nodes, which are those of Out.
	IDs   []expr.ColID
	Nodes []expr.Node
}

// Bind binds the list of a statement that changes a table. All its errors are those of the client:
// go-mysql-server would read other rows than those that were written (1235).
func Bind(list bind.Stmt, s *bind.Session, of algebra.Target) (*List, error) {
	if err := grouped(list); err != nil {
		return nil, err
	}
	facts := *s
	facts.Limit = nil // sql_select_limit is for SELECTs
	q, err := bind.Bind(list, &facts)
	if err != nil {
		return nil, worded(err)
	}
	n := 0
	for _, u := range q.Uses {
		if strings.EqualFold(u.DB, of.DB()) && strings.EqualFold(u.Name, of.Name()) {
			n++
		}
	}
	if n > 1 {
		return nil, refuse(1093, "HY000", "You can't specify target table '"+of.Name()+"' for update in FROM clause")
	}
	result.ShowTimestamps(q)
	l := &List{Out: q.Out, Uses: q.Uses, Next: q.Next}
	by, err := l.columns(q.Rel, of)
	if err != nil {
		return nil, err
	}
	for _, o := range q.Out {
		l.Nodes = append(l.Nodes, by[o.ID])
	}
	return l, nil
}

// columns are the columns of a query as expressions over those of the table that it reads.
func (l *List) columns(r algebra.Rel, of algebra.Target) (map[expr.ColID]expr.Node, error) {
	switch r := r.(type) {
	case *algebra.Scan:
		by := map[expr.ColID]expr.Node{}
		l.IDs = r.IDs[:of.RowColumn()]
		for i, id := range l.IDs {
			by[id] = &expr.Col{ID: id, Name: of.Columns()[i].Name, T: of.Columns()[i].Type}
		}
		return by, nil
	case *algebra.Filter: // of a view: what it says of its rows was looked at when they were found or made
		return l.columns(r.In, of)
	case *algebra.Project:
		in, err := l.columns(r.In, of)
		if err != nil {
			return nil, err
		}
		by := map[expr.ColID]expr.Node{}
		for _, it := range r.Items {
			if by[it.ID], err = over(it.Node, in); err != nil {
				return nil, err
			}
		}
		return by, nil
	case *algebra.GroupBy, *algebra.Window:
		return nil, errGroup
	}
	return nil, refuse(1235, "42000", "This version of Godwit doesn't yet support 'RETURNING of a view that is made of "+
		"more than the columns of one table': name its table")
}

// over is an expression with what its columns are in their place.
func over(n expr.Node, by map[expr.ColID]expr.Node) (expr.Node, error) {
	return expr.Rewrite(n, func(n expr.Node) (expr.Node, error) {
		switch n := n.(type) {
		case *expr.Col:
			if x := by[n.ID]; x != nil {
				return x, nil
			}
		case *expr.Sub:
			for _, id := range n.Outer {
				if c, ok := by[id].(*expr.Col); by[id] != nil && (!ok || c.ID != id) {
					return nil, refuse(1235, "42000", "This version of Godwit doesn't yet support 'subquery in RETURNING over "+
						"a column that a view computes': name the table")
				}
			}
		}
		return n, nil
	})
}

// errGroup is the error of an aggregate: a list is of one row.
var errGroup = refuse(1111, "HY000", "Invalid use of group function")

// grouped refuses aggregates and window functions, but for those of subqueries.
func grouped(list bind.Stmt) error {
	aggregate, window := tree.Grouped(list)
	switch {
	case aggregate:
		return errGroup
	case window != "":
		return refuse(3593, "HY000", "You cannot use the window function '"+window+"' in this context.")
	}
	return nil
}

// worded is an error as the client gets it: it names the clause.
func worded(err error) error {
	if reason, ok := bind.Reason(err); ok {
		return refuse(1235, "42000", "This version of Godwit doesn't yet support '"+reason+" in RETURNING': SELECT the rows")
	}
	var me *mysql.SQLError
	var r *bind.Refusal
	if errors.As(err, &r) {
		err = r.Err
	}
	if !errors.As(err, &me) {
		return err
	}
	return refuse(me.Num, me.State, strings.Replace(me.Message, "in 'field list'", "in 'RETURNING'", 1))
}

func refuse(number int, state, message string) error {
	return &bind.Refusal{Err: mysql.NewSQLError(number, state, "%s", message)}
}
