package opt

import (
	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
)

// Op is the kind of a physical operator.
type Op uint8

// The physical operators.
const (
	OpScan Op = iota
	OpValues
	OpFilter
	OpProject
	OpHashJoin
	OpLoopJoin
	OpLookupJoin
	OpApply
	OpGroup
	OpWindow
	OpSetOp
	OpSort
	OpTopN
	OpLimit
	OpDistinct
	OpMax1Row
	OpUnfold
	OpRecursive
	OpCTERef
	OpShared
)

// Plan is a physical operator with what is below it.
type Plan struct {
	Op   Op
	In   []*Plan
	Cols []expr.ColID
	// Rows estimates how many rows it yields, Lat the microseconds of waiting until the last one,
	// CPU the work.
	Rows, Lat, CPU float64

	Scan  *algebra.Scan // of OpScan, and the right side of OpLookupJoin
	Read  exec.Read
	Spans []span
	// Within are the values of the column by which the table's rows have placements; nil: all.
	Within []span
	Index  string // that is read; empty: the table as it lies
	// Covered: the entries of the index have all that is read of the table.
	Covered bool
	// Reads are the columns of Scan that are read, by position.
	Reads []int

	Conds []expr.Node // of OpFilter, and what else a join asks for
	Items []algebra.Item
	Kind  algebra.JoinKind
	Mark  expr.ColID
	// LeftKeys and RightKeys are equal in matching rows. Those of null-aware and mark joins are
	// what IN compares.
	LeftKeys, RightKeys []expr.Node
	BuildLeft           bool
	Outer               []expr.ColID

	Group  *algebra.GroupBy
	Window *algebra.Window
	Unfold *algebra.Unfold
	Set    *algebra.SetOp
	CTE    *algebra.RecursiveCTE
	Ref    *algebra.CTERef
	Shared *algebra.Shared
	// Kept is the plan whose rows OpShared reads. It is also the input of the first reader.
	Kept   *Plan
	Rowset *algebra.Values
	Types  []expr.Type // of the columns of a Rowset without rows, where they are known
	Keys   []algebra.Order
	// Count and Offset are those of LIMIT.
	Count, Offset expr.Node

	// scanConds are the conditions on the table of an OpScan that is a leaf of a join.
	scanConds []expr.Node
}

// Cost is what the plan takes, in microseconds.
func (p *Plan) Cost() float64 { return p.Lat + p.CPU }

// Costs of rows, in microseconds.
const (
	scanRow   = 0.4 // a row of a scan
	lookupRow = 4   // a row by its key
	rangeSeek = 7   // the first row of a range of an index
	buildRow  = 0.2 // a row of the side of a join that is kept
	probeRow  = 0.1
	outRow    = 0.05
	filterRow = 0.02
	groupRow  = 0.15
	sortRow   = 0.3
	loopPair  = 0.03
	unfoldRow = 20    // a document of JSON_TABLE
	byteCost  = 0.002 // a byte over the network
)

// unfolded is how many rows a document is taken to have.
const unfolded = 10

// fewRows is how many rows a table is taken to have at least: estimates of small tables are old,
// and a plan for keys stays good when the table grows.
const fewRows = 1000

func tableRows(t algebra.Table) float64 { return max(fewRows, t.Rows()) }

// lockedRow is what a row costs others, in microseconds, if the transaction locks what it reads. A
// lock of a row far away is held for round trips, and so a row that need not be locked is worth a
// part of one: a plan with another round trip is better than one that locks lockedTrip more rows.
const (
	lockedRow  = 10
	lockedTrip = 100
)

// lockCost is what others wait for each row of a scan that is read.
func (o *optimizer) lockCost(s *algebra.Scan) float64 {
	if o.opts.Locking || o.lock != algebra.NoLock {
		return lockedRow + rtt(s.Table)/lockedTrip
	}
	return 0
}

// rtt is the round trip to the furthest region that has rows of a table.
func rtt(t algebra.Table) float64 {
	var most float64
	for _, s := range t.Shares() {
		if s.Part > 0.001 {
			most = max(most, s.RTT)
		}
	}
	return most
}
