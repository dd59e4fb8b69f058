package ddl

import (
	"context"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// Prepare makes a statement one that the engine runs as MySQL does: in the database that it names
// (Elsewhere), and with a key that has what is left of it where it drops a column of the key. needs
// is the error for who lacks one of some privileges for a table.
func Prepare(ctx context.Context, stmt sqlparser.Statement, needs func(ctx *sql.Context, db, name string,
	ps ...sql.PrivilegeType) error) error {
	if err := Elsewhere(ctx, stmt); err != nil {
		return err
	}
	switch n := stmt.(type) {
	case *sqlparser.AlterTable:
		return shrink(ctx, n)
	case *sqlparser.Analyze:
		sc, ok := ctx.(*sql.Context)
		for _, t := range n.Tables {
			db := t.DbQualifier.String()
			if db == "" && ok {
				db = sc.GetCurrentDatabase()
			}
			if !ok || db == "" {
				return nil // the engine says what is wrong
			}
			if err := needs(sc, db, t.Name.String(), sql.PrivilegeType_Select, sql.PrivilegeType_Insert); err != nil {
				return err
			}
		}
	}
	return nil
}

// shrink has the keys of a table keep their other columns where a statement drops some of them, by
// changes that are done before anything else of the statement.
func shrink(ctx context.Context, alter *sqlparser.AlterTable) error {
	gone, dropped, added := keyChanges(alter)
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
	if t == nil {
		return nil
	}
	changes := shorterIndexes(t.Desc, alter, gone)
	if text := withoutKey(t.Desc, gone, added); text != "" && !dropped {
		changes = append(changes, text)
	}
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

func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// keyChanges are the columns that a statement drops, and what it says of the primary key.
func keyChanges(alter *sqlparser.AlterTable) (gone []string, dropped, added bool) {
	for _, d := range alter.Statements {
		switch x := d.IndexSpec; {
		case d.ColumnAction == sqlparser.DropStr:
			gone = append(gone, d.Column.Lowered())
		case x != nil && x.Type == sqlparser.PrimaryStr:
			dropped = dropped || x.Action == sqlparser.DropStr
			added = added || x.Action == sqlparser.CreateStr
		}
	}
	return gone, dropped, added
}

// withoutKey is how the primary key of a table loses columns, before they are dropped: DROP PRIMARY
// KEY, and ADD PRIMARY KEY of the other columns if there are any. It is "" if the key has none of
// them. A column that counts by itself stops first: it may be in no table without a key that begins
// with it.
func withoutKey(d *schema.TableDesc, gone []string, added bool) string {
	var changes, rest []string
	hit := false
	for _, id := range d.PK {
		c := &d.Cols[slices.IndexFunc(d.Cols, func(c schema.ColumnDesc) bool { return c.ID == id })]
		if !slices.Contains(gone, strings.ToLower(c.Name)) {
			if c.AutoInc {
				return "" // it may not be without its key meanwhile
			}
			rest = append(rest, quoted(c.Name))
			continue
		}
		hit = true
		if c.AutoInc {
			changes = append(changes, "MODIFY "+quoted(c.Name)+" "+c.Type+" NOT NULL")
		}
	}
	if !hit {
		return ""
	}
	changes = append(changes, "DROP PRIMARY KEY")
	if len(rest) > 0 && !added {
		changes = append(changes, "ADD PRIMARY KEY ("+strings.Join(rest, ", ")+")")
	}
	return strings.Join(changes, ", ")
}
