package kv

import (
	"context"

	"github.com/godwitdb/godwit/base"
)

// Wait says what a locking read does about locks that others hold.
type Wait uint8

const (
	// WaitDefault: do what [Options.Policy] says.
	WaitDefault Wait = iota
	// WaitNot: the read fails with [base.CodeLocked], and the transaction goes on. It keeps the
	// locks that the read took before it failed.
	WaitNot
	// WaitSkip: a Get marks the rows that others have locked (Row.Skipped), and locks the rest. A
	// Scan that locks cannot skip ([base.CodeInvalid]).
	WaitSkip
)

type waitKey struct{}

type waiting struct {
	wait Wait
	most int
}

// WithNoWait makes locking reads fail where they would wait for a lock (WaitNot). It has no effect
// on reads that take no locks: shared reads of the meta shard, reads of a transaction that crosses
// regions without locks, reads in a cluster that orders transactions by timestamps, and reads of
// MULTI MASTER rows.
//
// A read still waits in two cases. It waits up to a second for each lock whose holder is
// committing, since the holder's client may have been answered already. And it waits for the
// outcome of a cross-region transaction whose slot is due.
func WithNoWait(ctx context.Context) context.Context {
	return context.WithValue(ctx, waitKey{}, waiting{WaitNot, 0})
}

// WithSkip makes a locking Get skip the rows that others have locked (WaitSkip). It has no effect
// where [WithNoWait] has none. An owner waits for committing transactions only if it could lock
// none of the keys that it was asked for.
//
// Each owner locks at most the first most keys that it can lock (0: all). The rest count as
// skipped.
func WithSkip(ctx context.Context, most int) context.Context {
	return context.WithValue(ctx, waitKey{}, waiting{WaitSkip, most})
}

// WithoutWait takes back what [WithNoWait] or [WithSkip] has set.
func WithoutWait(ctx context.Context) context.Context {
	return context.WithValue(ctx, waitKey{}, waiting{})
}

// WaitOf is what [WithNoWait] or [WithSkip] has set; WaitDefault if neither was called.
func WaitOf(ctx context.Context) (w Wait, most int) {
	x, _ := ctx.Value(waitKey{}).(waiting)
	return x.wait, x.most
}

type glanceKey struct{}

// WithGlance makes LockNone reads use a snapshot of their own in place of the transaction's: the
// newest one at the time of the first read, which stores its timestamp in at. The caller sets at to
// zero before that. The rows are only a hint of what to lock: the commit does not validate them. In
// a cluster that orders transactions by timestamps it has no effect.
func WithGlance(ctx context.Context, at *base.Timestamp) context.Context {
	return context.WithValue(ctx, glanceKey{}, at)
}

// GlanceOf is where [WithGlance] keeps the timestamp of its snapshot; nil if reads use the
// transaction's.
func GlanceOf(ctx context.Context) *base.Timestamp {
	at, _ := ctx.Value(glanceKey{}).(*base.Timestamp)
	return at
}
