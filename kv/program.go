package kv

import (
	"context"
	"errors"

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
	// Pins are definitions that must not have changed, as of [Pinner].
	Pins []ProgramPin
}

// ProgramUpdate is an update of one row, which must be there, by its key.
type ProgramUpdate struct {
	Key   base.Key
	Patch *wire.Patch
}

// ProgramPin says that a key of the meta shard must not have changed after TS when the program
// commits.
type ProgramPin struct {
	Key base.Key
	TS  base.Timestamp
}

// ProgramResult is what a program has read, in the order of its keys, before its own updates.
type ProgramResult struct {
	TS   base.Timestamp // of the commit
	Rows []Row
}

// NoProgram is the error of a transaction that does not qualify as a program here. Its text is the
// reason. Nothing was done, and it is to run statement by statement.
type NoProgram string

// The reasons.
const (
	ProgramOrdered   NoProgram = "the cluster orders transactions by timestamps"
	ProgramUpdates   NoProgram = "it changes no row"
	ProgramFresh     NoProgram = "the node was started a few seconds ago"
	ProgramElsewhere NoProgram = "the owner of a row is not known here, or the row is MULTI MASTER"
	ProgramTwice     NoProgram = "it updates a row twice"
	ProgramLocal     NoProgram = "all its rows are at home in this region"
	ProgramUndefined NoProgram = "by the copy here an update finds no row, changes nothing, or would fail"
)

// Error implements error.
func (n NoProgram) Error() string { return "the transaction cannot run as a program: " + string(n) }

// ProgramRefused reports whether an error says that a transaction does not qualify as a program,
// and why.
func ProgramRefused(err error) (why NoProgram, ok bool) {
	ok = errors.As(err, &why)
	return why, ok
}

// Programs is implemented by a [DB] that runs programs.
type Programs interface {
	// Program runs a program once, with the policy, age, source and trace of opts. Errors are
	// [NoProgram], or have a code. CodeAborted: it can be tried again, but an update that is not
	// defined over its row will not be next time either; so try a bounded number of times, and then
	// statement by statement. CodeAmbiguous: it may have committed, or has, and its rows could not
	// be read.
	Program(ctx context.Context, opts Options, p Program) (ProgramResult, error)
}
