package sanity

import (
	"slices"

	"github.com/godwitdb/godwit/sql/schema"
)

// Stored is a descriptor without what is under way.
func Stored(d *schema.TableDesc) *schema.TableDesc {
	d = d.Clone()
	d.Version--
	d.Next = nil
	d.Indexes = slices.DeleteFunc(d.Indexes, func(x schema.IndexDesc) bool { return x.State != schema.IndexPublic })
	d.V = d.Format()
	return d
}

// FulltextTables are the tables with which the engine keeps the full-text indexes of a table.
func FulltextTables(d *schema.TableDesc) (names []string) {
	for _, x := range d.Indexes {
		if f := x.Fulltext; f != nil {
			names = append(names, f.Config, f.Position, f.DocCount, f.GlobalCount, f.RowCount)
		}
	}
	return names
}
