package bind

import (
	"maps"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/sql/bind/tree"
	"github.com/godwitdb/godwit/sql/expr"
)

// column is a column that can be named.
type column struct {
	id        expr.ColID
	name      string // as it is declared
	table, db string // the name by which the statement knows its table
	typ       expr.Type
	// hidden columns are not part of *: invisible ones, and the second of two that USING made one.
	hidden bool
	// merged columns of USING and NATURAL are found by their name alone; what they were made of
	// (second) only with the name of its table.
	second bool
	// src is the base column, for the description of the result.
	org Origin
	// of are the columns that are read of the table or view that it is one of; nil: of none that
	// takes a privilege.
	of *Columns
}

// read notes that the statement reads the column.
func (c *column) read(star bool) {
	if c.of != nil {
		c.of.add(c.name, star)
	}
}

// readInto are the columns, which note in a list that they are read; nil: nowhere.
func readInto(in []column, of *Columns) []column {
	out := slices.Clone(in)
	for i := range out {
		out[i].of = of
	}
	return out
}

// Origin is the base column that a column of a result comes from; it is empty if there is none.
type Origin struct{ DB, Table, OrgTable, Column string }

// scope is the columns that the expressions of one query can name, and the query around it.
type scope struct {
	outer *scope
	cols  []column
	q     *query
}

func (c *column) is(db, table, name string) bool {
	if !strings.EqualFold(c.name, name) {
		return false
	}
	if table == "" {
		return !c.second
	}
	return strings.EqualFold(c.table, table) && (db == "" || strings.EqualFold(c.db, db))
}

// find looks for a column in this scope alone.
func (s *scope) find(db, table, name, clause string) (*column, error) {
	var found *column
	for i := range s.cols {
		c := &s.cols[i]
		if !c.is(db, table, name) {
			continue
		}
		if found != nil && found.id != c.id {
			return nil, ambiguous(tree.Qualified(db, table, name), clause)
		}
		if found == nil {
			found = c
		}
	}
	return found, nil
}

// node is an expression that reads the column.
func (c *column) node() *expr.Col {
	c.read(false)
	return &expr.Col{ID: c.id, Name: c.name, T: c.typ}
}

// lookup finds a column in this scope or the ones around it, and notes in the queries between that
// they use a column of an outer one.
func (s *scope) lookup(db, table, name, clause string) (*expr.Col, *scope, error) {
	for at := s; at != nil; at = at.outer {
		c, err := at.find(db, table, name, clause)
		if err != nil {
			return nil, nil, err
		}
		if c != nil {
			s.uses(c.id, at)
			return c.node(), at, nil
		}
		if n, err := at.aliasFor(s, table, name); n != nil || err != nil {
			if n != nil {
				s.uses(n.ID, at)
			}
			return n, at, err
		}
	}
	return nil, nil, unknownColumn(tree.Qualified(db, table, name), clause)
}

// aliasFor lets subqueries in HAVING name the SELECT list of the query around them; that is left to
// go-mysql-server.
func (s *scope) aliasFor(from *scope, table, name string) (*expr.Col, error) {
	if s == from || table != "" || s.q == nil {
		return nil, nil
	}
	for _, it := range s.q.items {
		if it.alias && strings.EqualFold(it.name, name) {
			return nil, unsupported("subquery names an alias")
		}
	}
	return nil, nil
}

// uses notes that the queries from s up to, and without, at use a column of at.
func (s *scope) uses(id expr.ColID, at *scope) {
	for ; s != at; s = s.outer {
		s.q.outer[id] = true
	}
}

// outerUses are the outer columns that the queries from s outwards use so far.
func (s *scope) outerUses() (out []map[expr.ColID]bool) {
	for ; s != nil; s = s.outer {
		out = append(out, maps.Clone(s.q.outer))
	}
	return out
}

// restoreUses forgets what was used since outerUses.
func (s *scope) restoreUses(uses []map[expr.ColID]bool) {
	for _, u := range uses {
		clear(s.q.outer)
		maps.Copy(s.q.outer, u)
		s = s.outer
	}
}
