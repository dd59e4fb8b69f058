package ahead

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/schema"
)

// counted looks for expressions over the AUTO_INCREMENT column of a table, which no definition may
// have: its value is not known when they are computed.
type counted struct {
	table  string
	column string // lower case
	fresh  bool   // the statement makes it
	// taken are the names of checks.
	taken map[string]bool
}

// overCounter is what is wrong in the definitions of a statement: error 3109, 3771 or 3818 for a
// generated column, a default or a check over the AUTO_INCREMENT column. d is the table as it is,
// nil if it is made. What an older build has allowed stays.
func overCounter(table string, d *schema.TableDesc, specs []*sqlparser.TableSpec, stays func(col string) bool, dropped map[string]bool) error {
	c := counted{table: table, taken: map[string]bool{}}
	if d != nil {
		for i := range d.Cols {
			if d.Cols[i].AutoInc && stays(d.Cols[i].Name) {
				c.column = strings.ToLower(d.Cols[i].Name)
			}
		}
		for _, x := range d.Checks {
			c.taken[strings.ToLower(x.Name)] = true
		}
	}
	for _, s := range specs {
		for _, col := range s.Columns {
			if col.Type.Autoincrement {
				c.column, c.fresh = col.Name.Lowered(), true
			}
		}
	}
	if c.column == "" {
		return nil
	}
	for _, s := range specs {
		if err := c.spec(s); err != nil {
			return err
		}
	}
	if d == nil || !c.fresh {
		return nil
	}
	return c.old(d, specs, stays, dropped)
}

func (c *counted) in(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return strings.ToLower(name) == c.column })
}

func (c *counted) generated(name string) error {
	return mysql.NewSQLError(3109, "HY000", "Generated column '%s' cannot refer to auto-increment column.", name)
}

func (c *counted) byDefault(name string) error {
	return mysql.NewSQLError(3771, "HY000", "Default value expression of column '%s' cannot refer to an auto-increment column.", name)
}

func (c *counted) check(name string) error {
	return mysql.NewSQLError(3818, "HY000", "Check constraint '%s' cannot refer to an auto-increment column.", name)
}

// spec looks at what is defined anew.
func (c *counted) spec(s *sqlparser.TableSpec) error {
	checks := s.Constraints
	for _, col := range s.Columns {
		switch {
		case c.in(columnsOf(col.Type.GeneratedExpr)):
			return c.generated(col.Name.String())
		case c.in(columnsOf(col.Type.Default)):
			return c.byDefault(col.Name.String())
		}
		if x := col.Type.Constraint; x != nil {
			checks = append(checks[:len(checks):len(checks)], x)
		}
	}
	for _, x := range checks {
		k, ok := x.Details.(*sqlparser.CheckConstraintDefinition)
		if !ok {
			continue
		}
		name := x.Name
		for i := 1; name == ""; i++ {
			if n := c.table + "_chk_" + strconv.Itoa(i); !c.taken[strings.ToLower(n)] {
				name = n
			}
		}
		c.taken[strings.ToLower(name)] = true
		if c.in(columnsOf(k.Expr)) {
			return c.check(name)
		}
	}
	return nil
}

// old looks at what was there before the column became one that counts.
func (c *counted) old(d *schema.TableDesc, specs []*sqlparser.TableSpec, stays func(col string) bool, dropped map[string]bool) error {
	anew := func(name string) bool {
		return slices.ContainsFunc(specs, func(s *sqlparser.TableSpec) bool {
			return slices.ContainsFunc(s.Columns, func(col *sqlparser.ColumnDefinition) bool {
				return strings.EqualFold(col.Name.String(), name)
			})
		})
	}
	for i := range d.Cols {
		col := &d.Cols[i]
		if !stays(col.Name) || anew(col.Name) {
			continue
		}
		switch {
		case c.in(columnsIn(col.Generated)):
			return c.generated(col.Name)
		case c.in(columnsIn(col.Default)):
			return c.byDefault(col.Name)
		}
	}
	for _, x := range d.Checks {
		if !dropped[strings.ToLower(x.Name)] && c.in(columnsIn(&schema.ExprDesc{Text: x.CheckExpression})) {
			return c.check(x.Name)
		}
	}
	return nil
}

// columnsOf are the columns that an expression names.
func columnsOf(e sqlparser.SQLNode) (names []string) {
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if c, ok := n.(*sqlparser.ColName); ok {
			names = append(names, c.Name.String())
		}
		return true, nil
	}, e) // it never fails
	return names
}
