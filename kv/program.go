package kv

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Program is a transaction that is known as a whole before it begins: rows to read, and updates of
// rows whose results follow from nothing but the row. It commits at one timestamp: it reads what
// all rows were just below, and its updates take effect there. No row is locked or validated for
// its reads, so they hold up nobody and nothing makes them stale (docs/protocol.md, REL-12).
type Program struct {
	Reads   []base.Key
	Updates []ProgramUpdate
}

// ProgramUpdate is an update of one row, which must be there, by its key.
type ProgramUpdate struct {
	Key   base.Key
	Patch *wire.Patch
}

// ProgramResult is what a program has read, in the order of its keys, before its own updates.
type ProgramResult struct {
	TS   base.Timestamp // of the commit
	Rows []Row
}

// ErrNoProgram is the error of a transaction that does not qualify as a program here: nothing was
// done, and it is to run statement by statement. It touches the rows of one region only, or those
// of a shard that is not held here, or updates nothing; or the node has just been started.
var ErrNoProgram = base.Errorf(base.CodeInvalid, "the transaction cannot run as a program")

// Programs is implemented by a [DB] that runs programs.
type Programs interface {
	// Program runs a program once, with the policy, age, source and trace of opts. Codes:
	// CodeAborted: it can be tried again, but an update that is not defined over its row will not
	// be next time either; so try a bounded number of times, and then statement by statement.
	// CodeAmbiguous: it may have committed, or has, and its rows could not be read.
	Program(ctx context.Context, opts Options, p Program) (ProgramResult, error)
}
