package ahead

import (
	"slices"
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// shrink has the keys of a table keep their other columns where a statement drops some of them, by
// changes that are done before anything else of the statement.
func shrink(d *schema.TableDesc, alter *sqlparser.AlterTable, s *session.Session) error {
	gone, dropped, added := keyChanges(alter)
	if len(gone) == 0 {
		return nil
	}
	changes := shorterIndexes(d, alter, gone, s)
	if text := withoutKey(d, gone, added); text != "" && !dropped {
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
	for _, c := range made {
		c.Table, c.Auth = alter.Table, alter.Statements[0].Auth
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
