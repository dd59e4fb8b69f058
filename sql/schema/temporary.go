package schema

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Over is the catalog as a session with temporary tables sees it. They hide tables and views of the
// same names, and what belongs to those: their triggers, and the foreign keys that refer to them.
// Tables of databases that do not exist are not shown.
func (s *Snapshot) Over(tables []*Table) *Snapshot {
	c := &Snapshot{Changed: s.Changed, At: s.At, Databases: maps.Clone(s.Databases), ByID: maps.Clone(s.ByID)}
	cloned := map[string]bool{}
	for _, t := range tables {
		db, name := strings.ToLower(t.Desc.DB), strings.ToLower(t.Desc.Name)
		d := c.Databases[db]
		if d == nil {
			continue
		}
		if !cloned[db] {
			d, cloned[db] = d.clone(), true
			c.Databases[db] = d
		}
		d.Tables[name] = t
		delete(d.Objects[IxView], name)
		delete(d.ReferencedBy, name)
		maps.DeleteFunc(d.Objects[IxTrigger], func(_ string, o *ObjectDesc) bool {
			return SameName(TriggerTable(o.Trigger.CreateStatement), name)
		})
		c.index(t)
	}
	return c
}

// triggerOn takes double quotes for those of a name, as they are under ANSI_QUOTES: no text can
// stand there.
var triggerOn = regexp.MustCompile("(?is)\\b(?:insert|update|delete)\\s+on\\s+(?:(?:[`\"][^`\"]+[`\"]|[\\w$\\x{80}-\\x{10ffff}]+)\\s*\\.\\s*)?" +
	"(?:[`\"]([^`\"]+)[`\"]|([\\w$\\x{80}-\\x{10ffff}]+))")

// TriggerTable is the table named in CREATE TRIGGER ... {BEFORE|AFTER} event ON table.
func TriggerTable(stmt string) string {
	if at := TriggerTableAt(stmt); at != nil {
		return strings.Trim(stmt[at[0]:at[1]], "`\"")
	}
	return ""
}

// TriggerTableAt is where that name begins and ends, with its quotes; nil if there is none.
func TriggerTableAt(stmt string) []int {
	at := triggerOn.FindStringSubmatchIndex(stmt)
	switch {
	case at == nil:
		return nil
	case at[2] >= 0:
		return []int{at[2] - 1, at[3] + 1}
	}
	return at[4:6]
}

// Mentions reports whether a text has one of the names of tables as a word, in whatever case. A
// text that names a table mentions it; the reverse need not be so.
func Mentions(text string, tables []*Table) bool {
	return slices.ContainsFunc(tables, func(t *Table) bool {
		return regexp.MustCompile(`(?i)(?:^|[^\w$])` + regexp.QuoteMeta(t.Desc.Name) + `(?:[^\w$]|$)`).MatchString(text)
	})
}
