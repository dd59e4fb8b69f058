package workload

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Workload is one benchmark. Its methods must not be called concurrently.
type Workload interface {
	// Name is the name that New was called with.
	Name() string
	// Kinds lists the transaction types in report order.
	Kinds() []string
	// Init creates the tables through the first target and loads every region's part through that
	// region's own connections. It fails if the tables exist already, unless Options.Drop is set.
	Init(ctx context.Context, targets []Target) error
	// Run drives loaded tables. The report is valid (and not nil) also when an error is returned
	// after the start.
	Run(ctx context.Context, targets []Target, opts RunOptions) (*Report, error)
	// Check evaluates the invariants through one target. An error means that a check could not be
	// evaluated; a violated invariant is a result with OK false.
	Check(ctx context.Context, target Target) ([]CheckResult, error)
}

// CheckResult is the verdict on one invariant.
type CheckResult struct {
	// Name identifies the invariant, for TPC-C by the clause of the specification ("3.3.2.1").
	Name string `json:"name"`
	// Description says what must hold.
	Description string `json:"description"`
	// OK tells whether it holds.
	OK bool `json:"ok"`
	// Detail says what was compared or, for a violation, gives its first examples.
	Detail string `json:"detail,omitempty"`
}

// scenario is what one workload implements; runner does everything that they share.
type scenario interface {
	kinds() []string
	// tables lists the tables in an order in which they can be dropped.
	tables() []string
	// create makes the tables. The database exists already and holds none of them.
	create(ctx context.Context, s *session) error
	// load hands out the work of loading every region's part.
	load(l *loader)
	// open reads from the loaded tables what the clients need.
	open(ctx context.Context, s *session, regions int) error
	// client makes the i-th of n clients of a region.
	client(region, i, n int) client
	check(ctx context.Context, s *session) ([]CheckResult, error)
}

// finisher is a scenario that has something to do, or to report, when a run has ended.
type finisher interface {
	finish(ctx context.Context, s *session, seed uint64) error
}

// client generates the transactions of one connection.
type client interface {
	// next draws the kind and all inputs of a transaction, so that a retry repeats it exactly.
	next() txn
}

// names lists the workloads for messages and help.
var names = []string{"tpcc", "ycsb", "ycsb-t", "bank", "travel"}

// Names returns the names that New knows.
func Names() []string { return slices.Clone(names) }

// New makes the workload called name. Start from DefaultOptions: in most options zero is a value.
// All bad options are reported together.
func New(name string, opts Options) (Workload, error) {
	if err := opts.validate(name); err != nil {
		return nil, err
	}
	w := &runner{name: name, opts: opts, dial: openTargets}
	switch name {
	case "tpcc":
		w.scenario = &tpcc{opts: opts.TPCC, seed: opts.Seed}
	case "ycsb":
		w.scenario = &ycsb{opts: opts.YCSB, seed: opts.Seed}
	case "ycsb-t":
		w.scenario = &ycsbT{opts: opts.YCSBT, seed: opts.Seed}
	case "bank":
		w.scenario = &bank{opts: opts.Bank, seed: opts.Seed}
	case "travel":
		w.scenario = &travel{opts: opts.Travel, seed: opts.Seed}
	default:
		return nil, fmt.Errorf("unknown workload %q: use one of %s", name, strings.Join(names, ", "))
	}
	return w, nil
}
