package assign

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/schema"
)

// Variable is a variable of a stored program as a column: typ is its type, and coll the collation
// of texts that name none; 0: the default.
func Variable(name, typ string, coll sql.CollationID) (*schema.Column, error) {
	text := typ
	if !strings.ContainsAny(text, "'\"") {
		text = strings.ToLower(text)
	}
	d := &schema.ColumnDesc{Name: name, Type: text, Nullable: true}
	c, err := schema.NewColumn(d)
	if err == nil && coll != 0 && c.Kind == schema.KindString && !collated(text) {
		d.Collation = coll
		c, err = schema.NewColumn(d)
	}
	if err != nil {
		return nil, mysql.NewSQLError(1064, "42000", "You have an error in your SQL syntax near '%s'", typ)
	}
	return c, nil
}

// collated reports whether a type names a character set or collation.
func collated(typ string) bool {
	words := strings.Fields(strings.ReplaceAll(typ, ")", ") "))
	for _, w := range words[1:] {
		switch strings.ToLower(w) {
		case "charset", "character", "char", "collate", "ascii", "unicode", "binary":
			return true
		}
	}
	return false
}

// TypeOf is the type of the values of a column.
func TypeOf(c *schema.Column) expr.Type {
	t := expr.FromSQL(c.Type)
	if t.Kind == expr.Duration {
		t.Scale = c.Digits
	}
	return t
}
