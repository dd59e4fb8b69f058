package algebra

import "github.com/godwitdb/godwit/sql/expr"

// Catalog finds tables by name, as the statement sees them.
type Catalog interface {
	// Resolve finds a table or view. It returns nil, nil, nil if there is neither, and an error
	// if the name cannot be answered for by this catalog (a system table, say).
	Resolve(db, name string) (Table, *View, error)
}

// Historic is a catalog that knows tables as they were.
type Historic interface {
	// ResolveAt finds a table as it was, with its definition of then. at is an expression without
	// columns, the operand of AS OF. Views are as they are now.
	ResolveAt(at expr.Node, db, name string) (Table, *View, error)
}

// View is the definition of a view.
type View struct {
	DB, Name string
	// Text is the SELECT of the view.
	Text string
	// Columns are the names that CREATE VIEW gave; nil: those of the SELECT.
	Columns []string
	// TempTable: ALGORITHM = TEMPTABLE, so that no rows are changed through it. Check is what is
	// checked of rows that are.
	TempTable bool
	Check     ViewCheck
	// SQLMode is the mode under which the text was written.
	SQLMode string
	// Definer is the account, name and host, with whose rights the view is read; zero: with those
	// of who reads.
	Definer [2]string
}

// ViewCheck is the CHECK OPTION of a view.
type ViewCheck uint8

// The kinds of CHECK OPTION.
const (
	NoCheck ViewCheck = iota
	CheckLocal
	CheckCascaded
)

// Definers is a catalog that hides tables from users without rights to them.
type Definers interface {
	// As has the next tables looked up for an account, name and host; zero: for the user.
	As(account [2]string)
}

// Routines is a catalog with stored functions.
type Routines interface {
	// Function finds a stored function; nil: there is none. If the call names no database (db), it
	// is one of the database current, and not found if there is a native one of the name.
	Function(db, current, name string) (*expr.Func, error)
}

// Table is what the binder and the optimiser know of a table. Package access implements it over
// the store, tests in memory. One value stands for one table in one statement; two scans of the
// same table may share it.
type Table interface {
	DB() string
	Name() string
	// Columns are those of the definition, in its order. Positions of columns in this
	// interface and in exec.Read are positions in this slice.
	Columns() []Column
	// Indexes are those that can be read in order of their columns, the primary key first if
	// there is one.
	Indexes() []Index
	// Rows estimates the rows.
	Rows() float64
	// Distinct estimates the number of distinct values of a column; 0: not known.
	Distinct(col int) float64
	// Fraction estimates which share of the rows has a value between two constants of the
	// column's type (nil: no bound); ok is false if nothing is known.
	Fraction(col int, lo, hi any) (share float64, ok bool)
	// RowBytes estimates the encoded size of a row.
	RowBytes() float64
	// Shares are the parts of the rows by the region of their home; they sum to 1.
	Shares() []Share
}

// Column is a column of a table.
type Column struct {
	Name string
	Type expr.Type
	// Invisible columns are not part of *.
	Invisible bool
}

// Index is an index of a table, or its primary key.
type Index struct {
	Name string
	// Number tells the indexes of a table apart; that of the primary key is 0.
	Number  int
	Primary bool
	// Unique: at most one row has the same values of all columns, when none is NULL.
	Unique bool
	Cols   []IndexCol
	// Covers are the columns that a read of the index yields without the row; nil: all, as the
	// primary key does.
	Covers []int
	// Partial: the index can only be asked for whole keys (a hash of them), not for ranges.
	Partial bool
}

// IndexCol is a column of an index.
type IndexCol struct {
	Col int
	// Prefix is the number of characters that are indexed; 0: all. A prefix finds more rows
	// than the condition asks for.
	Prefix int
	Desc   bool
}

// Share is the part of something that lives in one region.
type Share struct {
	Region string
	Part   float64
	// RTT is the round trip from here to that region, in microseconds.
	RTT float64
}

// Target is a table whose rows a statement can change.
type Target interface {
	Table
	// RowColumn is the position, behind the columns of the definition, of a column that has the
	// row as it is stored, with its key.
	RowColumn() int
	// Rule says how a column gets a value that a statement does not give.
	Rule(col int) Rule
	// Checks are the conditions that all rows fulfil.
	Checks() []Check
}

// Searched is a table with full-text indexes.
type Searched interface {
	Fulltext() []Fulltext
}

// Fulltext is a full-text index over the columns Cols. Words is a table of the words of each row: a
// word, then the columns Keys of the row. Keys is empty if rows cannot be found by it. Parser is
// the name of what takes texts apart into words, as package fulltext knows it.
type Fulltext struct {
	Cols, Keys []int
	Parser     string
	Words      Table
}

// Rule has the texts of the expressions of a column; empty: there is none.
type Rule struct {
	Default, Generated, OnUpdate string
	AutoInc                      bool
}

// Check is a condition of a table.
type Check struct{ Name, Text string }
