package session

import (
	"log/slog"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
)

// Env is what all sessions of one gateway share.
type Env struct {
	// SystemFunction is a function of a database that is not stored; nil: there are none.
	SystemFunction func(db, name string) *schema.ObjectDesc
	DB             kv.DB
	Log            *slog.Logger
	Catalog        *schema.Catalog
	// Reads chooses snapshots for reads that may be old; nil: all read the present.
	Reads Reads
	// Relay says whether the transactions of sessions that have not chosen cross regions in a tier
	// of their own, and whether somebody has asked for it (kv.Options.Careful); nil: they do not.
	Relay func() (relays, asked bool)
	// Memory makes the budget of a session's temporary tables; nil: they have none.
	Memory func() Budget
	// Local is this node's store; nil: there is none.
	Local Local
	// Ended is called when a session has ended.
	Ended func(*Session)

	background background

	pastMu sync.Mutex
	past   map[base.Timestamp]*schema.Snapshot // a few catalogs of the past
}

// Local is what a gateway asks its node's store.
type Local interface {
	// SpanBytes estimates what keys take, in bytes, but for what is in memory only; Flush writes
	// that to disk.
	SpanBytes(start, end base.Key) (int64, error)
	Flush() error
	// GetLocal and SetLocal read and write records of this node, encrypted if the store is.
	GetLocal(name string) ([]byte, bool, error)
	SetLocal(name string, val []byte, sync bool) error
}

// Snapshot is the catalog as the statement of ctx sees it.
func (e *Env) Snapshot(ctx *sql.Context) (*schema.Snapshot, error) {
	if s := Of(ctx); s != nil {
		return s.Snapshot(ctx)
	}
	snap, err := e.Catalog.Current(ctx)
	return snap, schema.ClientError(err)
}

// stored is the catalog as the statement of ctx sees it, without temporary tables.
func (e *Env) stored(ctx *sql.Context) (*schema.Snapshot, error) {
	if s := Of(ctx); s != nil {
		return s.Stored(ctx)
	}
	return e.Snapshot(ctx)
}

// RowHome is where a row lives, and whether it has to stay there.
type RowHome struct {
	Region base.RegionID
	Pinned bool
}

// Speculation is the speculative execution that a session was made for (package prefetch).
type Speculation interface {
	// Session is the session whose statement is executed speculatively.
	Session() *Session
	// UserVariable is the value of a variable that the speculative execution has set.
	UserVariable(name string) (typ sql.Type, value any, ok bool)
	SetUserVariable(name string, typ sql.Type, value any)
	// NextReserved counts the values used of those that the statement has reserved: it returns how
	// many were used of a counter before this one.
	NextReserved(id schema.CounterID) int
}

// Editor gathers changes of one table within a transaction.
type Editor interface {
	// TableID is the table that it changes.
	TableID() base.TableID
	// Flush sends the gathered changes to the kv transaction.
	Flush(ctx *sql.Context) error
	// Drop forgets them.
	Drop()
}
