package algebra

import "github.com/godwitdb/godwit/sql/expr"

// Parted is a table whose rows lie in placements by the value of a column.
type Parted interface {
	// PartColumn is the position of the column; -1: the table has none.
	PartColumn() int
	// PartNames are the placements, by name, of the rows whose column lies between the bounds of
	// one of some spans; nil spans are all rows.
	PartNames(spans [][2][]expr.Value) []string
}
