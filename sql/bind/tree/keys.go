package tree

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"
)

// Keys are the rows of a table that statements of a text name, with ? for each literal.
type Keys struct {
	Table   string // db.table; empty: none of interest, or several
	Inserts bool
	Reads   bool    // and neither locks nor changes rows
	Params  int     // how many literals the text has
	Rows    [][]int // of each row, which literals are its primary key
}

// maxNamed is how many rows of one statement count.
const maxNamed = 256

// KeysOf reads a text. keyOf are the columns of a table's primary key, by its name in lower case,
// as db.table; nil: the table is of no interest.
func KeysOf(text, db string, keyOf func(table string) []string) *Keys {
	p := &Keys{Params: strings.Count(text, "?")}
	stmt, err := Parse(text, Mode{IgnoreSpace: true})
	if err != nil {
		return p
	}
	if r, ok := stmt.(*Returning); ok {
		stmt = r.StmtNode
	}
	if a, ok := stmt.(*Aliased); ok {
		stmt = a.InsertStmt
	}
	var from *ast.TableRefsClause
	var where ast.ExprNode
	switch n := stmt.(type) {
	case *ast.SelectStmt:
		from, where = n.From, n.Where
		p.Reads = n.LockInfo == nil || n.LockInfo.LockType == ast.SelectLockNone
	case *ast.UpdateStmt:
		from, where = n.TableRefs, n.Where
	case *ast.DeleteStmt:
		from, where = n.TableRefs, n.Where
	case *ast.InsertStmt:
		from, p.Inserts = n.Table, true
	default:
		return p
	}
	name := only(from, db)
	key := keyOf(name)
	if len(key) == 0 {
		return p
	}
	p.Table = name
	if n, ok := stmt.(*ast.InsertStmt); ok {
		p.Rows = insertedKeys(n, key)
	} else {
		p.Rows = namedKeys(where, key)
	}
	return p
}

// only is the one table of a FROM, as db.table in lower case; empty: there are others.
func only(from *ast.TableRefsClause, db string) string {
	if from == nil || from.TableRefs == nil || from.TableRefs.Right != nil {
		return ""
	}
	s, ok := from.TableRefs.Left.(*ast.TableSource)
	if !ok {
		return ""
	}
	t, ok := s.Source.(*ast.TableName)
	if !ok {
		return ""
	}
	if t.Schema.L != "" {
		db = t.Schema.L
	}
	return strings.ToLower(db + "." + t.Name.L)
}

// param is which literal an expression is; false: it is none.
func param(e ast.ExprNode) (int, bool) {
	p, ok := e.(*Param)
	if !ok {
		return 0, false
	}
	return p.Order, true
}

// insertedKeys are the rows of INSERT ... VALUES whose keys are literals. Without a list of columns
// it is not known which value is which, unless the key stands first, as it does as a rule.
func insertedKeys(n *ast.InsertStmt, key []string) (out [][]int) {
	for _, row := range n.Lists {
		var k []int
		for i, col := range key {
			at := i
			if len(n.Columns) > 0 {
				at = len(row)
				for j, c := range n.Columns {
					if c.Name.L == strings.ToLower(col) {
						at = j
					}
				}
			}
			if at >= len(row) {
				return nil
			}
			order, ok := param(row[at])
			if !ok {
				return nil
			}
			k = append(k, order)
		}
		if out = append(out, k); len(out) == maxNamed {
			break
		}
	}
	return out
}

// namedKeys are the rows that a condition names by all columns of the key.
func namedKeys(where ast.ExprNode, key []string) (out [][]int) {
	by := map[string][]int{}
	equals(where, by)
	out = [][]int{nil}
	for _, col := range key {
		values := by[strings.ToLower(col)]
		if len(values) == 0 || len(values)*len(out) > maxNamed {
			return nil
		}
		var more [][]int
		for _, k := range out {
			for _, v := range values {
				more = append(more, append(append([]int(nil), k...), v))
			}
		}
		out = more
	}
	return out
}

// equals gathers of which columns a condition demands which literals.
func equals(e ast.ExprNode, by map[string][]int) {
	switch n := e.(type) {
	case *ast.ParenthesesExpr:
		equals(n.Expr, by)
	case *ast.BinaryOperationExpr:
		switch n.Op {
		case opcode.LogicAnd:
			equals(n.L, by)
			equals(n.R, by)
		case opcode.EQ:
			equal(n.L, n.R, by)
			equal(n.R, n.L, by)
		}
	case *ast.PatternInExpr:
		if n.Not || n.Sel != nil {
			return
		}
		var all []int
		for _, v := range n.List {
			order, ok := param(v)
			if !ok {
				return
			}
			all = append(all, order)
		}
		if c, ok := n.Expr.(*ast.ColumnNameExpr); ok {
			by[c.Name.Name.L] = all
		}
	}
}

func equal(col, value ast.ExprNode, by map[string][]int) {
	c, ok := col.(*ast.ColumnNameExpr)
	order, given := param(value)
	if ok && given {
		by[c.Name.Name.L] = []int{order}
	}
}
