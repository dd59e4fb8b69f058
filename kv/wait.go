package kv

import (
	"context"

	"github.com/godwitdb/godwit/base"
)

// Wait says what a locking read does about locks that others hold.
type Wait uint8

const (
	// WaitDefault: wait for them, as [Options.Policy] says.
	WaitDefault Wait = iota
	// WaitNot: the read fails with [base.CodeLocked] and the transaction goes on. Locks that the
	// read has taken before stay.
	WaitNot
	// WaitSkip: a Get says which rows others hold (Row.Skipped) and locks the rest. A Scan that
	// locks cannot skip ([base.CodeInvalid]).
	WaitSkip
)

type waitKey struct{}

type waiting struct {
	wait Wait
	most int
}

// WithNoWait has locking reads fail where they would wait for a lock (WaitNot). It means nothing
// where nothing is locked: for shared reads of the meta shard, in transactions that cross regions
// without locks, where commits are ordered by timestamps, and for MULTI MASTER rows. A read still
// waits, for a second at most, for a transaction that is committing, since its client may have been
// answered already; and for one across regions whose slot is due.
func WithNoWait(ctx context.Context) context.Context {
	return context.WithValue(ctx, waitKey{}, waiting{WaitNot, 0})
}

// WithSkip has a locking Get leave out what it would wait for, as [WithNoWait] does (WaitSkip). Of
// its keys, in order, each owner locks most at most, if that is not 0: further ones count as
// skipped, too.
func WithSkip(ctx context.Context, most int) context.Context {
	return context.WithValue(ctx, waitKey{}, waiting{WaitSkip, most})
}

// WaitOf is what [WithNoWait] or [WithSkip] has said; WaitDefault if neither has.
func WaitOf(ctx context.Context) (w Wait, most int) {
	x, _ := ctx.Value(waitKey{}).(waiting)
	return x.wait, x.most
}

type glanceKey struct{}

// WithGlance gives LockNone reads a snapshot of their own, the newest as of the first of them, in
// place of the transaction's. What they show is no more than a hint of what to lock: nothing
// depends on it at commit. at belongs to the reads, and is zero at first.
func WithGlance(ctx context.Context, at *base.Timestamp) context.Context {
	return context.WithValue(ctx, glanceKey{}, at)
}

// GlanceOf is the snapshot of [WithGlance], nil if reads use the transaction's.
func GlanceOf(ctx context.Context) *base.Timestamp {
	at, _ := ctx.Value(glanceKey{}).(*base.Timestamp)
	return at
}
