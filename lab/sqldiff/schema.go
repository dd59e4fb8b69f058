package sqldiff

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Column is a column of a table or of a derived one.
type Column struct {
	Name string
	Kind Kind
	Type string // of the definition
	// Loose text compares equal without being the same: which one DISTINCT shows is open.
	Loose  bool
	Values []string // literals that the column may hold
	Null   bool
	Single bool // FLOAT: few digits
	note   string
}

// Table is one of the schema.
type Table struct {
	Name    string
	Cols    []*Column
	Key     []int // primary key
	Indexes []string
	// Views are definitions of views of the table, with all of its columns: v and the table's name,
	// and one over that. They may have CHECK OPTION.
	Views []View
	Rows  [][]string // literals
}

// View is a view of a table.
type View struct{ Name, Where, Check string }

// Schema is a set of tables with rows.
type Schema struct{ Tables []*Table }

// typeChoice is a column type, and literals of its values: the edges, and some that are near one
// another.
type typeChoice struct {
	typ    string
	kind   Kind
	values []string
	loose  bool
	single bool
}

func quoted(vs ...string) (out []string) {
	for _, v := range vs {
		out = append(out, "'"+v+"'")
	}
	return out
}

var words = quoted("one", "ONE", "One", "two", "Two", "x", "", "abc", "aBC", "b_c", "b%c", "a b", "é", "e", "É",
	"ss", "10", "9", "1e1", "-1", "2024-01-31", "ñandú", "ZZ", "0x1", "ab\\\\c")

// sharp are words with some in which utf8mb4_unicode_ci sees more letters than there are, or fewer.
var sharp = append(quoted("ß", "e\u0301", "ﬁ", "FI", "½"), words...)

var dates = quoted("2024-01-31", "2024-02-29", "2023-02-28", "2024-12-31", "1999-12-31", "2024-01-01", "1000-01-01",
	"9999-12-31", "2016-01-03")

var typeChoices = []typeChoice{
	{typ: "INT", kind: Int, values: []string{"0", "1", "2", "3", "4", "5", "-1", "-2", "7", "2147483647", "-2147483648"}},
	{typ: "INT", kind: Int, values: []string{"0", "1", "2", "3", "4", "5", "6"}},
	{typ: "INT", kind: Int, values: []string{"0", "1", "2", "3", "-1"}},
	{typ: "BIGINT", kind: Int, values: []string{"0", "1", "-1", "3", "9007199254740993", "9007199254740992",
		"9223372036854775807", "-9223372036854775808"}},
	{typ: "TINYINT", kind: Int, values: []string{"0", "1", "-1", "127", "-128", "5"}},
	{typ: "SMALLINT UNSIGNED", kind: Int, values: []string{"0", "1", "2", "65535", "300"}},
	{typ: "INT UNSIGNED", kind: Int, values: []string{"0", "1", "2", "4294967295", "5"}},
	{typ: "BOOLEAN", kind: Int, values: []string{"0", "1"}},
	{typ: "DECIMAL(12,2)", kind: Decimal, values: []string{"0", "1.5", "2.25", "-3.1", "10", "1.50", "99999.99",
		"0.01", "-0.01", "9999999999.99"}},
	{typ: "DECIMAL(30,10)", kind: Decimal, values: []string{"0", "1.5", "12345678901234567890.0123456789",
		"-0.0000000001", "1", "0.3333333333"}},
	{typ: "DECIMAL(5,0)", kind: Decimal, values: []string{"0", "1", "2", "99999", "-99999", "3"}},
	{typ: "DOUBLE", kind: Double, values: []string{"0", "1.5", "-2.5", "1e10", "0.1", "3", "1e-5"}},
	{typ: "FLOAT", kind: Double, values: []string{"0", "1.5", "-2.5", "0.25", "3"}, single: true},
	{typ: "VARCHAR(20) COLLATE utf8mb4_general_ci", kind: Text, values: sharp, loose: true},
	{typ: "VARCHAR(20) COLLATE utf8mb4_general_ci", kind: Text, values: words[:9], loose: true},
	{typ: "VARCHAR(20) COLLATE utf8mb4_bin", kind: Text, values: sharp},
	{typ: "CHAR(10) COLLATE utf8mb4_unicode_ci", kind: Text, values: sharp, loose: true},
	{typ: "TEXT COLLATE utf8mb4_bin", kind: Text, values: words},
	{typ: "ENUM('x','one','two','abc') COLLATE utf8mb4_bin", kind: Text, values: quoted("x", "one", "two", "abc")},
	{typ: "SET('x','one','two') COLLATE utf8mb4_bin", kind: Text, values: quoted("x", "one", "x,two", "")},
	{typ: "DATE", kind: Date, values: dates},
	{typ: "DATETIME", kind: Datetime, values: quoted("2024-01-31 00:00:00", "2024-01-31 10:11:12",
		"2024-02-29 23:59:59", "1999-12-31 23:59:59", "2024-01-01 00:00:00")},
	{typ: "DATETIME(6)", kind: Datetime, values: quoted("2024-01-31 00:00:00", "2024-01-31 10:11:12.75",
		"2024-02-29 23:59:59.999999", "1999-12-31 23:59:59.000001")},
	{typ: "TIMESTAMP NULL", kind: Datetime, values: quoted("2024-01-31 00:00:00", "2024-01-31 10:11:12",
		"2024-02-29 23:59:59", "1999-12-31 23:59:59")},
	{typ: "TIME", kind: Time, values: quoted("10:00:00", "00:00:00", "-01:30:00", "838:59:59", "23:59:59")},
	{typ: "YEAR", kind: Int, values: []string{"2024", "1999", "1901", "2155"}},
}

// NewSchema makes tables t0, t1 and so on.
func NewSchema(r *rand.Rand) *Schema {
	s := &Schema{}
	for i := range 3 + r.IntN(3) {
		s.Tables = append(s.Tables, newTable(r, fmt.Sprintf("t%d", i)))
	}
	return s
}

func newTable(r *rand.Rand, name string) *Table {
	t := &Table{Name: name, Key: []int{0}}
	t.Cols = append(t.Cols, &Column{Name: "id", Kind: Int, Type: "INT"})
	for i := range 3 + r.IntN(5) {
		c := typeChoices[r.IntN(len(typeChoices))]
		if i < 2 {
			c = typeChoices[r.IntN(3)] // joins find partners
		}
		col := &Column{Name: fmt.Sprintf("c%d", i), Kind: c.kind, Type: c.typ, Loose: c.loose,
			Values: c.values, Single: c.single, Null: r.IntN(4) > 0}
		if c.kind == Datetime && strings.HasPrefix(c.typ, "TIMESTAMP") {
			col.Null = true // to MariaDB a NULL is the time, where there can be none
		}
		t.Cols = append(t.Cols, col)
	}
	for i, c := range t.Cols[1:] {
		if r.IntN(3) == 0 && !strings.HasPrefix(c.Type, "TEXT") {
			cols := c.Name
			if o := t.Cols[1+r.IntN(len(t.Cols)-1)]; o != c && !strings.HasPrefix(o.Type, "TEXT") && r.IntN(2) == 0 {
				cols += ", " + o.Name
			}
			t.Indexes = append(t.Indexes, fmt.Sprintf("KEY k%d (%s)", i, cols))
		}
	}
	if r.IntN(6) == 0 {
		t.Key = nil
	}
	t.views(r)
	n := []int{0, 1, 3, 5, 8, 8, 12, 16}[r.IntN(8)] // six tables joined without a condition can be read
	for id := range n {
		row := []string{fmt.Sprint(id)}
		for _, c := range t.Cols[1:] {
			v := c.Values[r.IntN(len(c.Values))]
			if c.Null && r.IntN(6) == 0 {
				v = "NULL"
			}
			row = append(row, v)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// views makes up to two views. MariaDB does not ask the view below one without CHECK OPTION, or
// with a local one, for its own, as MySQL does: the upper one has it, or the lower one has not.
func (t *Table) views(r *rand.Rand) {
	for i := range r.IntN(3) {
		v := View{Name: "v" + t.Name}
		if i > 0 {
			v.Name = "w" + t.Name
		}
		c := t.Cols[1+r.IntN(len(t.Cols)-1)]
		if r.IntN(3) > 0 {
			x := c.Values[r.IntN(len(c.Values))]
			v.Where = c.Name + []string{" < ", " >= ", " <> ", " = "}[r.IntN(4)] + x
			if r.IntN(3) == 0 {
				v.Where += " OR " + c.Name + " IS NULL"
			}
		}
		if r.IntN(2) == 0 || i > 0 && t.Views[0].Check != "" {
			v.Check = []string{" WITH CHECK OPTION", " WITH CASCADED CHECK OPTION", " WITH LOCAL CHECK OPTION"}[r.IntN(3)]
			if i > 0 && t.Views[0].Check != "" {
				v.Check = " WITH CHECK OPTION"
			}
		}
		t.Views = append(t.Views, v)
	}
}

// DDL are the statements that make the schema and its rows.
func (s *Schema) DDL() (out []string) {
	for _, t := range s.Tables {
		out = append(out, t.ddl()...)
	}
	return out
}

func (t *Table) ddl() []string {
	var parts []string
	for _, c := range t.Cols {
		null := " NOT NULL"
		if c.Null {
			null = " NULL"
		}
		parts = append(parts, c.Name+" "+strings.TrimSuffix(c.Type, " NULL")+null)
	}
	if t.Key != nil {
		parts = append(parts, "PRIMARY KEY (id)")
	}
	parts = append(parts, t.Indexes...)
	out := []string{fmt.Sprintf("CREATE TABLE %s (%s) COLLATE utf8mb4_general_ci", t.Name, strings.Join(parts, ", "))}
	out = append(out, t.inserts()...)
	below := t.Name
	for _, v := range t.Views {
		text := "CREATE VIEW " + v.Name + " AS SELECT * FROM " + below
		if v.Where != "" {
			text += " WHERE " + v.Where
		}
		out, below = append(out, text+v.Check), v.Name
	}
	return out
}

// inserts are the statements that make the rows of a table: one, or none.
func (t *Table) inserts() []string {
	var rows []string
	for _, r := range t.Rows {
		rows = append(rows, "("+strings.Join(r, ", ")+")")
	}
	if rows == nil {
		return nil
	}
	return []string{fmt.Sprintf("INSERT INTO %s VALUES %s", t.Name, strings.Join(rows, ", "))}
}

// Without is the schema with one row less, for the reducer.
func (s *Schema) Without(table, row int) *Schema {
	out := &Schema{Tables: append([]*Table(nil), s.Tables...)}
	t := *s.Tables[table]
	t.Rows = append(append([][]string(nil), t.Rows[:row]...), t.Rows[row+1:]...)
	out.Tables[table] = &t
	return out
}
