// Package selected makes CREATE TABLE ... SELECT two statements: a CREATE TABLE that names all
// columns, and what fills the table. The first is run by who runs definitions, the second by who
// runs queries.
package selected

import (
	"regexp"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/token"
)

// Table is a table that is made of a query.
type Table struct {
	// Ignore and Replace say what is done about rows with a key that is there.
	Ignore, Replace bool

	head  string // CREATE TABLE name
	defs  string // between the parentheses; empty: there are none
	after string // the options
	query string
	mode  token.Mode
}

// Column is a column of the query.
type Column struct {
	Name string
	Type sql.Type
	// Digits are those of a TIME behind the point.
	Digits  int
	NotNull bool
	// Default is the text of the default of the column that is selected; empty: it has none. Base
	// says that it is a column of a table, and no expression.
	Default string
	Base    bool
}

var reCreate = regexp.MustCompile(`(?is)^\s*CREATE\s+(?:TEMPORARY\s+)?TABLE\b`)

// Maybe reports whether a text may be such a statement.
func Maybe(text string) bool {
	return base.ContainsFold(text, "SELECT") && reCreate.MatchString(text)
}

// Cut takes a statement apart; nil if it is another one.
func Cut(text string, m token.Mode) *Table {
	if !Maybe(text) {
		return nil
	}
	ts := token.Scan(text, m)
	name, end := nameEnd(ts), -1
	open, closed := -1, -1
	for i, depth := name, 0; ts[i].Kind != token.End && end < 0; i++ {
		switch {
		case depth == 0 && begins(ts[i:]):
			end = i
		case ts[i].Is("("):
			if depth++; i == name {
				open = i
			}
		case ts[i].Is(")"):
			if depth--; depth == 0 && closed < 0 {
				closed = i
			}
		}
	}
	if end < name || open >= 0 && closed < 0 {
		return nil
	}
	t := &Table{query: text[ts[end].From:], mode: m}
	for ts[end-1].Is("as", "ignore", "replace") {
		end--
		t.Ignore, t.Replace = t.Ignore || ts[end].Is("ignore"), t.Replace || ts[end].Is("replace")
	}
	if t.head = text[:ts[name-1].To]; open < 0 {
		t.after = text[ts[name-1].To:ts[end-1].To]
		return t
	}
	t.defs, t.after = text[ts[open].To:ts[closed].From], text[ts[closed].To:ts[end-1].To]
	return t
}

// nameEnd is the position behind the name of the table.
func nameEnd(ts []token.Token) int {
	i := 0
	for !ts[i].Is("table") {
		i++
	}
	if i++; ts[i].Is("if") && len(ts) > i+3 {
		i += 3 // NOT EXISTS
	}
	if i+2 < len(ts) && ts[i+1].Is(".") {
		i += 2
	}
	return min(i+1, len(ts)-1)
}

// begins reports whether a query begins with these tokens.
func begins(ts []token.Token) bool {
	for ts[0].Is("(") {
		ts = ts[1:]
	}
	return ts[0].Is("select", "with", "values")
}

// Plain is the statement without options, some of which parsers do not know.
func (t *Table) Plain() string {
	if t.defs == "" {
		return t.head + " AS " + t.query
	}
	return t.head + " (" + t.defs + ") AS " + t.query
}

// Create is the text of CREATE TABLE with the columns of the query. explicit are those that the
// statement defines, in lower case. As in MySQL, those that are not in the query come first, and
// the others follow in its order.
func (t *Table) Create(explicit map[string]bool, cols []Column) (string, error) {
	own := map[string]string{}
	var defs, rest []string
	for _, d := range t.parts() {
		if name := strings.ToLower(d.name); explicit[name] {
			own[name] = d.text
		} else {
			rest = append(rest, d.text)
		}
	}
	var queried []string
	seen := map[string]bool{}
	for _, c := range cols {
		low := strings.ToLower(c.Name)
		if seen[low] {
			return "", mysql.NewSQLError(mysql.ERDupFieldName, "42S21", "Duplicate column name '%s'", c.Name)
		}
		if seen[low] = true; own[low] != "" {
			queried = append(queried, own[low])
			continue
		}
		queried = append(queried, c.definition())
	}
	for _, d := range t.parts() {
		if name := strings.ToLower(d.name); explicit[name] && !seen[name] {
			defs = append(defs, d.text)
		}
	}
	defs = append(append(defs, queried...), rest...)
	return t.head + " (" + strings.Join(defs, ", ") + ")" + t.after, nil
}

// part is a column, a key or a constraint as the statement defines it. The name of a column is its
// first word.
type part struct{ name, text string }

// parts splits the definitions at their commas.
func (t *Table) parts() (out []part) {
	ts := token.Scan(t.defs, t.mode)
	depth, from := 0, 0
	for i, x := range ts {
		switch {
		case x.Is("("):
			depth++
		case x.Is(")"):
			depth--
		case x.Kind == token.End && i > from || x.Is(",") && depth == 0:
			p := part{text: t.defs[ts[from].From:ts[i-1].To]}
			if ts[from].Named() {
				p.name = ts[from].Text
			}
			out = append(out, p)
			from = i + 1
		}
	}
	return out
}

// definition is the text of a column of the query.
func (c *Column) definition() string {
	text := quote(c.Name) + " " + c.typeText()
	if !c.NotNull {
		if c.Type.Type() == sqltypes.Timestamp {
			text += " NULL"
		}
		if c.Default != "" {
			text += " DEFAULT " + c.Default
		}
		return text
	}
	switch text += " NOT NULL"; {
	case c.Default != "":
		text += " DEFAULT " + c.Default
	case c.Base:
	case sql.IsNumberType(c.Type) && !types.IsBit(c.Type):
		text += " DEFAULT '0'"
	case c.Type.Type() == sqltypes.VarChar || c.Type.Type() == sqltypes.Char:
		text += " DEFAULT ''"
	}
	return text
}

// typeText is the type as CREATE TABLE takes it.
func (c *Column) typeText() string {
	switch c.Type.Type() {
	case sqltypes.Null:
		return "binary(0)"
	case sqltypes.Time:
		if c.Digits > 0 {
			return "time(" + string(rune('0'+c.Digits)) + ")"
		}
		return "time"
	}
	if t, ok := c.Type.(sql.TypeWithCollation); ok { // whatever that of the table is
		return t.StringWithTableCollation(sql.Collation_Unspecified)
	}
	return c.Type.String()
}

func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
