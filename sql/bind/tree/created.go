package tree

import (
	"github.com/pingcap/tidb/pkg/parser/ast"
)

// Created is what a CREATE TABLE ... SELECT makes.
type Created struct {
	DB, Name    string // DB is empty if the statement names none
	IfNotExists bool
	// Explicit are the columns that are defined, in lower case.
	Explicit map[string]bool
	Query    ast.StmtNode
}

// CreatedBy is what a statement makes of a query; nil if it is another one.
func CreatedBy(stmt ast.StmtNode) *Created {
	n, ok := stmt.(*ast.CreateTableStmt)
	if !ok || n.Select == nil {
		return nil
	}
	q, ok := n.Select.(ast.StmtNode)
	if !ok {
		return nil
	}
	c := &Created{DB: n.Table.Schema.O, Name: n.Table.Name.O, IfNotExists: n.IfNotExists, Explicit: map[string]bool{}, Query: q}
	for _, col := range n.Cols {
		c.Explicit[col.Name.Name.L] = true
	}
	return c
}

// Fill is the INSERT, or REPLACE, of the rows of the query into columns of the table.
func (c *Created) Fill(columns []string, ignore, replace bool) ast.StmtNode {
	name := &ast.TableName{Schema: ast.NewCIStr(c.DB), Name: ast.NewCIStr(c.Name)}
	n := &ast.InsertStmt{
		Table:     &ast.TableRefsClause{TableRefs: &ast.Join{Left: &ast.TableSource{Source: name}}},
		IsReplace: replace, IgnoreErr: ignore, Select: c.Query.(ast.ResultSetNode),
	}
	for _, col := range columns {
		n.Columns = append(n.Columns, &ast.ColumnName{Name: ast.NewCIStr(col)})
	}
	return n
}
