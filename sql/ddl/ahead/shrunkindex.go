package ahead

import (
	"slices"
	"strconv"
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/schema"
)

// shorterIndexes is how indexes lose columns, as in MySQL. The shorter index is built before the
// longer one goes: if it cannot be built, since rows are equal in what is left of a unique key, the
// column stays. Unique indexes are the first for that reason; of several of them those before stay
// short. Full-text indexes, and those of a type of their own, go as a whole, and so do those of
// MULTI MASTER tables.
func shorterIndexes(d *schema.TableDesc, alter *sqlparser.AlterTable, gone []string) []string {
	if d.Locality.Kind == schema.MultiMaster {
		return nil
	}
	var unique, others []string
	for i := range d.Indexes {
		switch x := &d.Indexes[i]; {
		case namesIndex(alter, x.Name):
		case x.Unique():
			unique = append(unique, shorter(d, x, gone)...)
		default:
			others = append(others, shorter(d, x, gone)...)
		}
	}
	return append(unique, others...)
}

// namesIndex reports whether a statement says itself what becomes of an index.
func namesIndex(alter *sqlparser.AlterTable, name string) bool {
	return slices.ContainsFunc(alter.Statements, func(d *sqlparser.DDL) bool {
		x := d.IndexSpec
		return x != nil && (x.ToName.EqualString(name) || x.FromName.EqualString(name))
	})
}

// shorter is how an index loses columns: nothing if it has none of them, or only them.
func shorter(d *schema.TableDesc, x *schema.IndexDesc, gone []string) []string {
	if !x.Stored() {
		return nil
	}
	var rest []string
	for _, c := range x.Cols {
		col := &d.Cols[d.Col(c.Col)]
		if col.HiddenSystem {
			return nil // an expression, which the statement cannot name
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
		return nil
	}
	kind, text := "INDEX ", ""
	if x.Unique() {
		kind = "UNIQUE INDEX "
	}
	if x.Comment != "" {
		text = " COMMENT '" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(x.Comment) + "'"
	}
	meanwhile := "shorter"
	for d.Index(meanwhile) != nil {
		meanwhile += "_"
	}
	name, other := quoted(x.Name), quoted(meanwhile)
	return []string{"ADD " + kind + other + " (" + strings.Join(rest, ", ") + ")" + text, "DROP INDEX " + name,
		"RENAME INDEX " + other + " TO " + name}
}
