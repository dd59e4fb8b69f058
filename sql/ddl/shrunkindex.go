package ddl

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// shrinkIndexes has an index keep its other columns where a statement drops some of them, as in
// MySQL. The shorter index is built before the longer one goes, and before anything else of the
// statement is done: if it cannot be built, since rows are equal in what is left of a unique key,
// the column stays. Unique indexes are the first for that reason; of several of them those before
// stay short. Full-text indexes, and those of a type of their own, go as a whole, and so do those
// of MULTI MASTER tables.
func shrinkIndexes(ctx context.Context, alter *sqlparser.AlterTable) error {
	gone, _, _ := keyChanges(alter)
	sc, ok := ctx.(*sql.Context)
	if !ok || len(gone) == 0 {
		return nil
	}
	s := session.Of(sc)
	if s == nil {
		return nil
	}
	snap, err := s.Snapshot(sc)
	if err != nil {
		return nil // the engine says what is wrong
	}
	db := alter.Table.DbQualifier.String()
	if db == "" {
		db = s.GetCurrentDatabase()
	}
	t := snap.Table(db, alter.Table.Name.String())
	if t == nil || t.Desc.Locality.Kind == schema.MultiMaster {
		return nil
	}
	var unique, changes []string
	for i := range t.Desc.Indexes {
		switch x := &t.Desc.Indexes[i]; {
		case namesIndex(alter, x.Name):
		case x.Unique():
			unique = append(unique, shorter(t.Desc, x, gone)...)
		default:
			changes = append(changes, shorter(t.Desc, x, gone)...)
		}
	}
	changes = append(unique, changes...)
	if len(changes) == 0 {
		return nil
	}
	before, err := sqlparser.Parse("ALTER TABLE `t` " + strings.Join(changes, ", "))
	if err != nil {
		return err
	}
	made := before.(*sqlparser.AlterTable).Statements
	for _, d := range made {
		d.Table, d.Auth = alter.Table, alter.Statements[0].Auth
	}
	alter.Statements = append(made, alter.Statements...)
	return nil
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
