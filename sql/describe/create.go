package describe

import (
	"fmt"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/sql/schema"
)

// Create is the text of SHOW CREATE TABLE. auto is the next AUTO_INCREMENT value; it is not shown
// if it is the first. fks are the foreign keys that the table declares.
func Create(ctx *sql.Context, t *schema.Table, fks []sql.ForeignKeyConstraint, auto uint64) string {
	d := t.Desc
	var lines []string
	for _, c := range t.Cols {
		if !c.Desc.HiddenSystem {
			lines = append(lines, definition(ctx, d, c))
		}
	}
	for _, x := range Indexes(t) {
		lines = append(lines, x.definition())
	}
	for _, fk := range fks {
		lines = append(lines, foreignKey(d, fk))
	}
	for _, c := range d.Checks {
		line := "CONSTRAINT " + name(c.Name) + " CHECK (" + c.CheckExpression + ")"
		if !c.Enforced {
			line += " /*!80016 NOT ENFORCED */"
		}
		lines = append(lines, line)
	}
	kind := "CREATE TABLE "
	if d.Temporary() {
		kind = "CREATE TEMPORARY TABLE "
	}
	return kind + name(d.Name) + " (\n  " + strings.Join(lines, ",\n  ") + "\n)" + options(d, auto)
}

// options are those of the table. Of utf8mb4 MySQL always shows the collation, of others if it is
// not the usual one.
func options(d *schema.TableDesc, auto uint64) string {
	out := " ENGINE=InnoDB"
	if auto > 1 {
		out += fmt.Sprintf(" AUTO_INCREMENT=%d", auto)
	}
	set := d.Collation.CharacterSet()
	out += " DEFAULT CHARSET=" + set.Name()
	if set == sql.CharacterSet_utf8mb4 || set.DefaultCollation() != d.Collation {
		out += " COLLATE=" + d.Collation.Name()
	}
	if d.Comment != "" {
		out += " COMMENT=" + quote(d.Comment)
	}
	return out
}

// definition is that of a column.
func definition(ctx *sql.Context, t *schema.TableDesc, c *schema.Column) string {
	d := c.Desc
	out := []string{name(d.Name), TypeText(d)}
	if hasText(c) {
		out = append(out, collation(t, d)...)
	}
	if d.Generated != nil {
		kind := "STORED"
		if d.Virtual {
			kind = "VIRTUAL"
		}
		out = append(out, "GENERATED ALWAYS AS ("+expression(d.Generated.Text)+") "+kind)
	}
	switch {
	case !d.Nullable:
		out = append(out, "NOT NULL")
	case c.Type.Type() == sqltypes.Timestamp:
		out = append(out, "NULL")
	}
	if d.SRID != nil {
		out = append(out, fmt.Sprintf("/*!80003 SRID %d */", *d.SRID))
	}
	if d.Generated == nil {
		out = append(out, defaultClause(ctx, c)...)
	}
	if d.OnUpdate != nil {
		if text, ok := now(d.OnUpdate); ok {
			out = append(out, "ON UPDATE "+text)
		}
	}
	if d.AutoInc {
		out = append(out, "AUTO_INCREMENT")
	}
	if d.Comment != "" {
		out = append(out, "COMMENT "+quote(d.Comment))
	}
	return strings.Join(out, " ")
}

// collation names the character set of a column that is not the table's, and the collation.
func collation(t *schema.TableDesc, d *schema.ColumnDesc) (out []string) {
	own := d.Collation != t.Collation
	set := d.Collation.CharacterSet()
	if own {
		out = append(out, "CHARACTER SET "+set.Name())
	}
	if own || set.DefaultCollation() != d.Collation {
		out = append(out, "COLLATE "+d.Collation.Name())
	}
	return out
}

// defaultClause is DEFAULT of a column that is not generated. MySQL says DEFAULT NULL of all types
// but those of long texts.
func defaultClause(ctx *sql.Context, c *schema.Column) []string {
	text, kind := defaultOf(ctx, c)
	switch kind {
	case literalDefault:
		if c.Type.Type() == sqltypes.Bit {
			return []string{"DEFAULT " + text}
		}
		return []string{"DEFAULT " + quote(text)}
	case nowDefault:
		return []string{"DEFAULT " + text}
	case exprDefault:
		return []string{"DEFAULT (" + text + ")"}
	}
	if !c.Desc.Nullable || c.Type.Type() == sqltypes.Text || c.Type.Type() == sqltypes.Blob {
		return nil
	}
	return []string{"DEFAULT NULL"}
}

func (x Index) definition() string {
	parts := make([]string, len(x.Parts))
	for i, p := range x.Parts {
		switch {
		case p.Column == "":
			parts[i] = "(" + p.Expr + ")"
		case p.Prefix > 0:
			parts[i] = fmt.Sprintf("%s(%d)", name(p.Column), p.Prefix)
		default:
			parts[i] = name(p.Column)
		}
	}
	out := "KEY " + name(x.Name)
	switch {
	case x.Name == PrimaryName:
		out = "PRIMARY KEY"
	case x.Unique:
		out = "UNIQUE " + out
	case x.Kind != BTree:
		out = string(x.Kind) + " " + out
	}
	out += " (" + strings.Join(parts, ",") + ")"
	if x.Comment != "" {
		out += " COMMENT " + quote(x.Comment)
	}
	if x.Parser != "" {
		out += " /*!50100 WITH PARSER " + name(x.Parser) + " */ "
	}
	return out
}

func foreignKey(t *schema.TableDesc, fk sql.ForeignKeyConstraint) string {
	parent := name(fk.ParentTable)
	if fk.ParentDatabase != "" && !schema.SameName(fk.ParentDatabase, t.DB) {
		parent = name(fk.ParentDatabase) + "." + parent
	}
	out := "CONSTRAINT " + name(fk.Name) + " FOREIGN KEY (" + names(fk.Columns) + ") REFERENCES " + parent + " (" +
		names(fk.ParentColumns) + ")"
	return out + action(" ON DELETE ", fk.OnDelete) + action(" ON UPDATE ", fk.OnUpdate)
}

// action is what a foreign key does; MySQL does not show NO ACTION.
func action(clause string, a sql.ForeignKeyReferentialAction) string {
	switch a {
	case "", sql.ForeignKeyReferentialAction_DefaultAction, sql.ForeignKeyReferentialAction_NoAction:
		return ""
	}
	return clause + string(a)
}

func names(of []string) string {
	quoted := make([]string, len(of))
	for i, n := range of {
		quoted[i] = name(n)
	}
	return strings.Join(quoted, ", ")
}
