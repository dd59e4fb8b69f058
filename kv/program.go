package kv

import (
	"context"
	"errors"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Program is a transaction that is known as a whole before it begins: rows to read, updates of rows
// whose results follow from nothing but the row, rows that come and rows that go. It commits at one
// timestamp: it reads what all rows were just below, and what it writes takes effect there. No row
// is locked or validated for its reads, so they hold up nobody and nothing makes them stale
// (docs/protocol.md, REL-12). It writes each key once.
type Program struct {
	Reads   []base.Key
	Updates []ProgramUpdate
	Writes  []ProgramWrite
	Deletes []ProgramDelete
	// Pins are definitions that must not have changed, as of [Pinner].
	Pins []ProgramPin
}

// Written are the keys that the program names and writes. once is false if it names one of them
// twice.
func (p *Program) Written() (keys []base.Key, once bool) {
	for _, u := range p.Updates {
		keys = append(keys, u.Key)
	}
	for _, w := range p.Writes {
		keys = append(keys, w.Key)
	}
	for _, d := range p.Deletes {
		keys = append(keys, d.Key)
	}
	seen := make(map[string]bool, len(keys))
	for _, k := range keys {
		seen[string(k)] = true
	}
	return keys, len(seen) == len(keys)
}

// ProgramUpdate is an update of one row, which must be there, by its key.
type ProgramUpdate struct {
	Key   base.Key
	Patch *wire.Patch
}

// ProgramWrite writes a key. With Absent nothing may be there (docs/protocol.md, REL-14).
type ProgramWrite struct {
	Key    base.Key
	Value  []byte
	Home   base.RegionID // as of [Writer.Put]
	Absent bool
}

// ProgramDelete deletes a row, which must be there and as the copy here shows it (REL-14).
type ProgramDelete struct {
	Key base.Key
	// Entries are other keys that go with the row, which is the one given; nil: there are none. It
	// is called in each attempt.
	Entries func(row Row) ([]base.Key, error)
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
	ProgramTwice     NoProgram = "it changes a row, or an entry of an index, twice"
	ProgramLocal     NoProgram = "all its rows are at home in this region"
	ProgramUndefined NoProgram = "by the copy here an update or a delete finds no row, an update changes nothing, or would fail"
	ProgramUnseen    NoProgram = "there is no copy here of a row that it deletes"
	ProgramUnheld    NoProgram = "no slot is found in time: votes take too long, or a definition was changed just now"
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
	// statement by statement. CodeExists: a key that had to be absent is there; nothing was done.
	// CodeAmbiguous: it may have committed, or has, and its rows could not be read.
	Program(ctx context.Context, opts Options, p Program) (ProgramResult, error)
}
