package schema

import "strings"

// HasTextKey reports whether a column of the primary key may hold what UUID() answers.
func (t *Table) HasTextKey() bool {
	for _, at := range t.PK {
		if typ := t.Cols[at].Desc.Type; strings.Contains(typ, "char") || strings.Contains(typ, "binary") {
			return true
		}
	}
	return false
}

// HasOneKey reports whether the table has one key that allows no duplicates.
func (t *Table) HasOneKey() bool {
	n := 0
	if len(t.PK) > 0 {
		n++
	}
	for _, x := range t.Desc.Indexes {
		if x.Unique() {
			n++
		}
	}
	return n == 1
}
