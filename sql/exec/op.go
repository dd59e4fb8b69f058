package exec

import (
	"context"

	"github.com/godwitdb/godwit/sql/admit"
	"github.com/godwitdb/godwit/sql/exec/bounds"
	"github.com/godwitdb/godwit/sql/exec/budget"
	"github.com/godwitdb/godwit/sql/exec/helper"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/work"
)

// Op is an operator of a running plan. Open may start reads and returns without waiting for them,
// so that both sides of a join are read at once. Next returns nil at the end; the batch is valid
// until the next call. Close may be called at any time after Open, also twice; an operator can be
// opened again after Close.
type Op interface {
	Open(*Ctx) error
	Next() (*expr.Batch, error)
	Close() error
	// Cols and Types describe the columns of the batches.
	Cols() []expr.ColID
	Types() []expr.Type
}

// Ctx is what the operators of a statement share.
type Ctx struct {
	context.Context
	Mem *Mem
	Env *expr.Env
	// TempDir is where operators spill to; empty: the system's. NoSpill makes a lack of memory an
	// error at once.
	TempDir string
	NoSpill bool
	// Turn is the statement's place among those that compute; nil: it waits for nobody.
	Turn *admit.Turn
	// Work is told what operators do; nil: nobody is.
	Work *work.Done
	// Workers is how many goroutines may work for the statement at once, its own among them; 0:
	// one.
	Workers int
}

// Mem is the memory that a statement keeps, NewMem a budget of it.
type Mem = budget.Mem

// NewMem is described with Mem.
var NewMem = budget.NewMem

// Err implements context.Context. Operators ask between batches, so a statement that computes for
// long waits here for its turn.
func (c *Ctx) Err() error {
	if err := c.Turn.Yield(c.Context); err != nil {
		return err
	}
	return c.Context.Err()
}

// lend takes a processor for a part of the statement's work, if one is free, and says what is to be
// asked there: a helper has no turn to wait for.
func (c *Ctx) lend() (ask func() error, h *helper.Helper) {
	if c.Workers <= 1 {
		return nil, nil
	}
	return c.Context.Err, helper.Take(c.Turn)
}

// pace asks after many small steps of an operator whether the statement may go on.
type pace struct {
	ctx  *Ctx
	done int
}

// mostSteps is how many steps are done without asking. One takes 5 to 100 ns.
const mostSteps = 1 << 14

func (p *pace) step(n int) error {
	if p.done += n; p.done < mostSteps {
		return nil
	}
	p.done = 0
	return p.ctx.Err()
}

// Lock says how rows that are read are locked.
type Lock uint8

// The locks of a read.
const (
	LockNone Lock = iota
	LockShare
	LockUpdate
)

// Wait says what a locking read does when somebody else holds a lock.
type Wait uint8

// What to do about locks of others.
const (
	WaitDefault Wait = iota
	WaitNot          // NOWAIT: error 3572
	WaitSkip         // SKIP LOCKED: the Rows implement Skipper
)

// Source is a table as an operator reads it.
type Source interface {
	// Start begins a read and does not wait for rows.
	Start(ctx *Ctx, r Read) (Rows, error)
}

// Read asks for rows of a table.
type Read struct {
	// Index is the position of the index in the table's list, -1 for the order of the primary
	// key.
	Index int
	// Spans limit the key columns of the index; nil reads everything. Keys, if not nil, are used
	// instead: the distinct values of the first len(Keys.Cols) key columns, none of them NULL.
	Spans []Span
	Keys  *expr.Batch
	// Within are, if not nil, the values that the column of PLACEMENT BY has in all rows that are
	// wanted: spans of this one column. The source may yield others.
	Within []Span
	// Cols are the columns that are wanted, by their position in the table; batches have them in
	// this order.
	Cols []int
	// Bounds are comparisons that are TRUE of all rows that are wanted. Their columns are positions
	// in Cols. The source may yield others.
	Bounds []bounds.Bound
	// Ordered asks for the order of the index, Reverse for the opposite one.
	Ordered, Reverse bool
	// Limit is how many rows are wanted at most; 0: all.
	Limit int64
	// Each is how many rows of each of the Keys are wanted; the source may yield more. 0: all.
	Each int
	// Whole: the rows are certainly read to the end, so that all may be locked at once.
	Whole bool
	Lock  Lock
	Wait  Wait
	// Want is, with WaitSkip, how many rows are wanted of those that pass the filter; 0: all. No
	// further rows are locked once that many are. (If rows have several owners, each may lock that
	// many.)
	Want int64
}

// Span is a range of an index: values for the first key columns. Lo and Hi may be of different
// lengths; an empty one is open. A NULL is a value that sorts first.
type Span struct {
	Lo, Hi         []expr.Value
	LoOpen, HiOpen bool // the bound itself is left out
	Begins         bool // the last value of Lo, which Hi equals, is what texts of LIKE begin with
}

// Rows are the rows of a read.
type Rows interface {
	// Next fills b (its vectors are made if Cols is empty) with at most expr.BatchSize rows;
	// false at the end.
	Next(b *expr.Batch) (bool, error)
	Close() error
}

// Skipper is the Rows of a read with WaitSkip. Its Next yields rows that it has not locked.
type Skipper interface {
	Rows
	// Lock locks selected rows of the last batch, in their order, until it has as many as are
	// wanted (0: all), and returns these. It leaves out rows that others have locked, and rows that
	// have changed since Next read them.
	Lock(sel []int32, want int) ([]int32, error)
}

// JoinKind says what becomes of the left rows of a join.
type JoinKind uint8

// The kinds of joins. The left side is the one that is kept or tested.
const (
	Inner JoinKind = iota
	Left           // every left row at least once, NULLs for the right columns
	Semi           // left rows with a match
	Anti           // left rows without a match; a condition that is NULL is no match
	// NullAnti is x NOT IN (SELECT y ...): a row is kept if no match is TRUE and none is NULL.
	NullAnti
	// Mark keeps all left rows and adds a column that is TRUE, FALSE or NULL: the value of
	// x IN (SELECT y ...).
	Mark
)

// JoinSpec is what joins by hash and by nested loop have in common.
type JoinSpec struct {
	Kind        JoinKind
	Left, Right Op
	// LeftKeys and RightKeys are equal in matching rows, pairwise of comparable types; none
	// means a nested loop. NullSafe[i] says that the i-th pair is compared by <=>.
	LeftKeys, RightKeys []expr.Node
	NullSafe            []bool
	// Exact[i] says for NullAnti and Mark that the i-th pair says which right rows belong to the
	// list, as a correlation does: a NULL is no match. The other pairs are what IN compares.
	Exact []bool
	// On are further conditions over the columns of both sides. For NullAnti and Mark they, too,
	// say which right rows belong to the list.
	On []expr.Node
	// Mark names the column that a Mark join adds.
	Mark expr.ColID
	// BuildLeft keeps the left side in memory and streams the right one (Inner only).
	BuildLeft bool
}

// SortKey is a key of ORDER BY.
type SortKey = expr.SortKey

// Column is a computed column.
type Column struct {
	ID   expr.ColID
	Expr expr.Node
}

// AggColumn is an aggregate of a group.
type AggColumn struct {
	ID  expr.ColID
	Agg *expr.Agg
}

// LookupSpec joins by reading an index of the right table for batches of left rows.
type LookupSpec struct {
	Kind   JoinKind
	Left   Op
	Source Source
	// Read names the index and, in Cols, the table's columns; Keys is filled by the operator.
	Read Read
	// Cols and Types name the right columns, in the order of Read.Cols.
	Cols  []expr.ColID
	Types []expr.Type
	// LeftKeys are the values for the first key columns of the index. RightKeys are those columns
	// as expressions over Cols, and must be among them. Both have the types of the key columns.
	LeftKeys, RightKeys []expr.Node
	// On are further conditions over both sides.
	On   []expr.Node
	Mark expr.ColID
	// First and Most are how many left rows the first and the later batches have (16 and 512 if
	// 0), Flight how many batches are read at once (4 if 0).
	First, Most, Flight int
	// Ordered keeps the order of the left rows.
	Ordered bool
}
