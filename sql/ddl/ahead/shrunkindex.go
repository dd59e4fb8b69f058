package ahead

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// shorterIndexes is how indexes lose columns, as in MySQL. The shorter index is built before the
// longer one goes, all of them before anything else: if one cannot be built, since rows are equal
// in what is left of a unique key, the statement does nothing. Full-text indexes, and those of a
// type of their own, go as a whole, and so do those of MULTI MASTER tables.
func shorterIndexes(d *schema.TableDesc, alter *sqlparser.AlterTable, gone []string, s *session.Session) []string {
	if d.Locality.Kind == schema.MultiMaster {
		return nil
	}
	var add, swap []string
	for i := range d.Indexes {
		x := &d.Indexes[i]
		if namesIndex(alter, x.Name) {
			continue
		}
		meanwhile := meanwhileName(d, len(add)+1)
		if made := shorter(d, x, gone, meanwhile); made != "" {
			if s.Stmt.IndexNames == nil {
				s.Stmt.IndexNames = map[string]string{}
			}
			s.Stmt.IndexNames[meanwhile] = x.Name
			s.Stmt.Shortened = append(s.Stmt.Shortened, x.Name)
			add = append(add, made)
			swap = append(swap, "DROP INDEX "+quoted(x.Name), "RENAME INDEX "+quoted(meanwhile)+" TO "+quoted(x.Name))
		}
	}
	return append(add, swap...)
}

// meanwhileName is a name for an index that takes that of another one later; i tells several apart.
func meanwhileName(d *schema.TableDesc, i int) string {
	name := "meanwhile" + strconv.Itoa(i)
	for d.Index(name) != nil {
		name += "_"
	}
	return name
}

// namesIndex reports whether a statement says itself what becomes of an index.
func namesIndex(alter *sqlparser.AlterTable, name string) bool {
	return slices.ContainsFunc(alter.Statements, func(d *sqlparser.DDL) bool {
		x := d.IndexSpec
		return x != nil && (x.ToName.EqualString(name) || x.FromName.EqualString(name))
	})
}

// shorter is the clause that makes an index without columns, by another name: none if it has none
// of them, or only them.
func shorter(d *schema.TableDesc, x *schema.IndexDesc, gone []string, meanwhile string) string {
	if !x.Stored() {
		return ""
	}
	var rest []string
	for _, c := range x.Cols {
		col := &d.Cols[d.Col(c.Col)]
		if col.HiddenSystem {
			return "" // an expression, which the statement cannot name
		}
		if slices.Contains(gone, strings.ToLower(col.Name)) {
			continue
		}
		part := quoted(col.Name)
		if c.Length > 0 {
			part += "(" + strconv.FormatInt(c.Length, 10) + ")"
		}
		rest = append(rest, part)
	}
	if len(rest) == 0 || len(rest) == len(x.Cols) {
		return ""
	}
	kind, text := "INDEX ", ""
	if x.Unique() {
		kind = "UNIQUE INDEX "
	}
	if x.Comment != "" {
		text = " COMMENT '" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(x.Comment) + "'"
	}
	return "ADD " + kind + quoted(meanwhile) + " (" + strings.Join(rest, ", ") + ")" + text
}
