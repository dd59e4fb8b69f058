// Package sanity looks at definitions that were read from a place of backups, which may say
// anything: whether they can be used at all.
package sanity

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
)

// Object reports whether an object has what its kind has.
func Object(kind base.IndexID, o *schema.ObjectDesc) bool {
	switch kind {
	case schema.IxView:
		return o.View != nil
	case schema.IxTrigger:
		return o.Trigger != nil
	case schema.IxProcedure:
		return o.Procedure != nil
	case schema.IxEvent:
		return o.Event != nil
	case schema.IxFunction:
		return o.Function != nil
	}
	return false
}

// Table says what in a definition does not fit together; "" if all does.
func Table(d *schema.TableDesc) string {
	switch {
	case d.Name == "" || d.DB == "":
		return "it has no name"
	case d.Next != nil:
		return "it has a successor"
	case d.Shards < 1 || d.Shards > 1<<15:
		return "it has no shards"
	case len(d.Cols) == 0:
		return "it has no columns"
	case d.Locality.Check() != nil || !slices.Contains([]schema.LocalityKind{schema.ByRow, schema.ByTable, schema.Global},
		d.Locality.Kind):
		return fmt.Sprintf("its locality is %q %s", d.Locality.Kind, d.Locality.Replication())
	}
	stored, why := columnsOf(d)
	if why != "" {
		return why
	}
	ids := map[base.IndexID]bool{}
	for i := range d.Indexes {
		x := &d.Indexes[i]
		if why := wrongIndex(d, x, stored); why != "" || ids[x.ID] {
			return fmt.Sprintf("index %q%s", x.Name, why)
		}
		ids[x.ID] = true
	}
	for i := range d.FKs {
		if wrongKey(d, &d.FKs[i]) {
			return fmt.Sprintf("foreign key %q", d.FKs[i].Name)
		}
	}
	return ""
}

// columnsOf are the columns of a definition by their ids, and whether each is stored.
func columnsOf(d *schema.TableDesc) (stored map[uint32]bool, why string) {
	stored = map[uint32]bool{}
	for _, c := range d.Cols {
		if _, twice := stored[c.ID]; c.ID == 0 || c.ID > d.NextCol || c.Name == "" || twice {
			return nil, fmt.Sprintf("column %q", c.Name)
		}
		stored[c.ID] = !c.Virtual
	}
	for _, id := range d.PK {
		if !stored[id] {
			return nil, fmt.Sprintf("its primary key has column %d", id)
		}
	}
	return stored, ""
}

// wrongIndex says what is wrong with an index; "" if nothing is.
func wrongIndex(d *schema.TableDesc, x *schema.IndexDesc, stored map[uint32]bool) string {
	switch {
	case x.ID == 0 || uint32(x.ID) >= d.NextIndex || x.ID&base.ByHome != 0:
		return fmt.Sprintf(" has the id %d", x.ID)
	case x.Name == "" || len(x.Cols) == 0:
		return " has no name or no columns"
	case x.State != schema.IndexPublic:
		return " is being built"
	}
	for _, c := range x.Cols {
		if _, known := stored[c.Col]; !known || c.Length < 0 {
			return fmt.Sprintf(" has column %d", c.Col)
		}
	}
	if x.Stored() && x.Class != d.ClassFor(x.Cols, x.Constraint) {
		return fmt.Sprintf(" is of class %d", x.Class)
	}
	return ""
}

// wrongKey reports whether a foreign key names columns that cannot be.
func wrongKey(d *schema.TableDesc, fk *sql.ForeignKeyConstraint) bool {
	return fk.Name == "" || fk.ParentTable == "" || len(fk.Columns) == 0 || len(fk.Columns) != len(fk.ParentColumns) ||
		slices.ContainsFunc(fk.Columns, func(c string) bool { return d.ColByName(c) < 0 })
}

// NamesDatabase reports whether the text of an object may name a database.
func NamesDatabase(o *schema.ObjectDesc, db string) bool {
	re := regexp.MustCompile("(?i)(?:^|[^\\w$])`?" + regexp.QuoteMeta(db) + "`?\\s*\\.")
	var texts []string
	switch {
	case o.View != nil:
		texts = []string{o.View.CreateViewStatement, o.View.TextDefinition}
	case o.Trigger != nil:
		texts = []string{o.Trigger.CreateStatement}
	case o.Procedure != nil:
		texts = []string{o.Procedure.CreateStatement}
	case o.Event != nil:
		texts = []string{o.Event.CreateEventStatement()}
	case o.Function != nil:
		texts = []string{o.Function.Text}
	}
	return slices.ContainsFunc(texts, re.MatchString)
}
