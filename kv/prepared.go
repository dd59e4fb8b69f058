package kv

import (
	"context"

	"github.com/godwitdb/godwit/base"
)

// Preparer is a [DB] whose transactions can be prepared: one that was outlasts its gateway, and all
// others, with its locks and writes, until it is committed or rolled back, from any gateway
// (docs/protocol.md, XA).
type Preparer interface {
	// Prepared are the transactions that stand prepared, by name.
	Prepared(ctx context.Context) ([]Prepared, error)
	// EndPrepared commits or rolls back one of them. It is false if none has the name.
	EndPrepared(ctx context.Context, name []byte, commit bool) (bool, error)
}

// Prepared is a transaction that stands prepared.
type Prepared struct {
	Name    []byte
	At      base.Timestamp // when it was prepared
	User    string
	Gateway base.NodeID
}

// Preparation has a transaction be prepared: if it has a name as Commit is called, then Commit
// prepares the transaction instead (Options.Prepare). That fails with [base.CodeExists] if another
// one of that name stands.
type Preparation struct {
	Name []byte // at most [MaxPreparedName] bytes; nil: Commit commits
	User string
}

// MaxPreparedName is the longest name of a prepared transaction, in bytes.
const MaxPreparedName = 256
