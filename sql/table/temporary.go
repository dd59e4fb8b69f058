package table

import (
	"strings"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// LinksHidden refuses to change a table if a temporary table hides the other side of one of its
// foreign keys: both engines look that up by its name, and would check, or change, rows of the
// temporary table in its place.
func (t *Table) LinksHidden(s *session.Session, snap *schema.Snapshot) error {
	if s == nil || !s.HasTemporary() || t.IsTemporary() {
		return nil
	}
	for _, fk := range t.Def.Desc.FKs {
		if s.Temporary(fk.ParentDatabase, fk.ParentTable) != nil {
			return errHidden(fk.Name, fk.ParentTable)
		}
	}
	d := snap.Database(t.Def.Desc.DB)
	if d == nil {
		return nil
	}
	for _, fk := range d.ReferencedBy[strings.ToLower(t.Name())] {
		if s.Temporary(fk.Database, fk.Table) != nil {
			return errHidden(fk.Name, fk.Table)
		}
	}
	return nil
}

func errHidden(fk, table string) error {
	return mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support 'changes that foreign key %s checks "+
		"while a temporary table hides table %s': drop or rename the temporary table", fk, table)
}
