package algebra

import "github.com/godwitdb/godwit/sql/expr"

// Rel is a relational operator.
type Rel interface {
	// Cols are the columns that the operator yields.
	Cols() []expr.ColID
	// Inputs are the operators below, left first.
	Inputs() []Rel
	// WithInputs is the same operator over other inputs.
	WithInputs(in []Rel) Rel
	// Nodes are all expressions of the operator.
	Nodes() []expr.Node
	// MapNodes is the same operator with each expression replaced.
	MapNodes(f func(expr.Node) expr.Node) Rel
}

// Item is a column made by an expression.
type Item struct {
	ID   expr.ColID
	Name string
	Node expr.Node
}

// Pass reports whether the item hands a column of the input on under the same number.
func (i Item) Pass() bool {
	c, ok := i.Node.(*expr.Col)
	return ok && c.ID == i.ID
}

// LockKind is the lock that a SELECT asks for.
type LockKind uint8

// The locks of SELECT.
const (
	NoLock LockKind = iota
	ForShare
	ForUpdate
)

// WaitKind says what a locking read does about rows that others have locked.
type WaitKind uint8

// What to do about locked rows.
const (
	Wait       WaitKind = iota
	NoWait              // error 3572
	SkipLocked          // leave them out
)

// Scan reads a table. IDs are by position of the table's columns.
type Scan struct {
	Table Table
	// Alias is the name under which the statement knows the table.
	Alias string
	IDs   []expr.ColID
	Lock  LockKind
	Wait  WaitKind // with Lock
	// Use and Ignore are the names of indexes that hints speak of; Force makes Use binding.
	Use, Ignore []string
	Force       bool
}

// Values yields rows of expressions: nothing without rows, empty rows without columns.
type Values struct {
	IDs  []expr.ColID
	Rows [][]expr.Node
}

// Filter keeps the rows for which all conditions are TRUE.
type Filter struct {
	In    Rel
	Conds []expr.Node
}

// Project yields exactly its items.
type Project struct {
	In    Rel
	Items []Item
}

// AllDigits makes a column of a projection that is a quotient have all the digits that MySQL
// computes, in place of those that it shows: for what rounds it itself.
func AllDigits(in Rel, c *expr.Col) *expr.Col {
	p, ok := in.(*Project)
	if !ok {
		return c
	}
	for i, it := range p.Items {
		if n := expr.Exact(it.Node); it.ID == c.ID && n != it.Node {
			p.Items[i].Node = n
			return &expr.Col{ID: c.ID, Name: c.Name, T: n.Type()}
		}
	}
	return c
}

// JoinKind is the kind of a join.
type JoinKind uint8

// The kinds of joins. A semi join yields the left rows that have a match, an anti join those that
// have none, a null-aware anti join (NOT IN) those of which it is certain. A mark join yields all
// left rows and a column with TRUE, FALSE or NULL: whether there is a match. A single join is a
// left join that fails (1242) on a second match.
const (
	Inner JoinKind = iota
	Left
	Semi
	Anti
	NullAnti
	Mark
	Single
)

var joinNames = [...]string{"inner", "left", "semi", "anti", "null-aware-anti", "mark", "single"}

// String is the name of the kind.
func (k JoinKind) String() string { return joinNames[k] }

// Both reports whether the join yields the columns of both sides.
func (k JoinKind) Both() bool { return k == Inner || k == Left || k == Single }

// Join joins two relations. On of a null-aware anti join and of a mark join are calls of "=" that
// compare the left side with the right side, as IN does: a NULL among them makes the result
// unknown. Also, which only these kinds have, are further conditions: rows of the right side for
// which they are not TRUE do not count.
type Join struct {
	Kind     JoinKind
	L, R     Rel
	On, Also []expr.Node
	// MarkID is the column that a mark join adds.
	MarkID expr.ColID
	// Straight: STRAIGHT_JOIN, the order of the sides stays.
	Straight bool
}

// Apply evaluates the right side once for each row of the left, where it uses columns of the left
// (Outer). Its kinds are those of Join. A mark without On says whether there is a row.
type Apply struct {
	Kind     JoinKind
	L, R     Rel
	Outer    []expr.ColID
	On, Also []expr.Node
	MarkID   expr.ColID
}

// Agg is an aggregate of a GroupBy.
type Agg struct {
	ID   expr.ColID
	Name string
	Call *expr.Agg
}

// GroupBy makes one row of each group. Without Keys it makes one row, also of no rows, unless
// Keyed says that there were keys, which were constant.
type GroupBy struct {
	In    Rel
	Keys  []Item
	Aggs  []Agg
	Keyed bool
	// Rollup adds rows of super-aggregates, in which the last keys are NULL; Level is then a
	// column that says how many keys a row has lost.
	Rollup bool
	Level  expr.ColID
}

// Order is a key of an order. NULL comes first in ascending order.
type Order = expr.SortKey

// Bound is an end of a window's frame.
type Bound struct {
	Kind BoundKind
	N    expr.Node // of Preceding and Following
	Unit string    // of a temporal interval, in lower case; empty: a number
}

// BoundKind is the kind of an end of a frame.
type BoundKind uint8

// The ends of frames.
const (
	UnboundedPreceding BoundKind = iota
	Preceding
	CurrentRow
	Following
	UnboundedFollowing
)

// Frame is the frame of a window. The numbers of its ends are constants.
type Frame struct {
	Rows   bool // ROWS; otherwise RANGE
	Lo, Hi Bound
}

// WinFunc is a function over a window.
type WinFunc struct {
	ID   expr.ColID
	Name string
	Func string // in lower case
	// Agg is the call of an aggregate; nil for the other functions, which have Args. The numbers
	// among these are constants.
	Agg   *expr.Agg
	Args  []expr.Node
	Frame Frame
	Type  expr.Type
}

// Window adds the columns of functions that share partitions and order.
type Window struct {
	In        Rel
	Partition []expr.Node
	Order     []Order
	Funcs     []WinFunc
}

// Sorted is the order in which the functions want the rows: partition by partition.
func (r *Window) Sorted() []Order {
	var out []Order
	for _, n := range r.Partition {
		out = append(out, Order{Expr: n})
	}
	return append(out, r.Order...)
}

// SetKind is the kind of a set operation.
type SetKind uint8

// The set operations.
const (
	Union SetKind = iota
	Intersect
	Except
)

var setNames = [...]string{"union", "intersect", "except"}

// String is the name of the kind.
func (k SetKind) String() string { return setNames[k] }

// SetOp combines relations by position: LeftCols and RightCols are the columns of the sides that
// make each of IDs. The sides have the types of the result already.
type SetOp struct {
	Kind                SetKind
	All                 bool
	L, R                Rel
	IDs                 []expr.ColID
	Names               []string
	Types               []expr.Type
	LeftCols, RightCols []expr.ColID
}

// Sort orders the rows.
type Sort struct {
	In   Rel
	Keys []Order
}

// Limit yields Count rows (nil: all) after the first Offset (nil: none).
type Limit struct {
	In            Rel
	Count, Offset expr.Node
}

// Distinct yields each row once, by the collations of its columns.
type Distinct struct {
	In Rel
	On []expr.ColID // the columns compared; they are all that In yields
}

// Max1Row fails (1242) if there are two rows, and yields one of NULLs if there is none.
type Max1Row struct{ In Rel }

// RecursiveCTE yields the rows of Seed, then those of Step over the rows of the round before
// (CTERef with the same Number), until there are none.
type RecursiveCTE struct {
	Number             int
	Name               string
	Seed, Step         Rel
	Distinct           bool
	IDs                []expr.ColID
	Names              []string
	Types              []expr.Type
	SeedCols, StepCols []expr.ColID
}

// Shared yields the rows of In, which runs once for all relations with the same Number: a common
// table expression whose rows would differ if it ran again. IDs name the columns From of In.
type Shared struct {
	Number    int
	Name      string
	In        Rel
	IDs, From []expr.ColID
	Types     []expr.Type
}

// CTERef reads the rows of the round before of a recursive CTE.
type CTERef struct {
	Number int
	Name   string
	IDs    []expr.ColID
	Names  []string
	Types  []expr.Type
}
