package kv

import "context"

type quietKey struct{}

// WithQuiet marks reads as no use of the rows: the policy of homes does not count them.
func WithQuiet(ctx context.Context) context.Context { return context.WithValue(ctx, quietKey{}, true) }

// Quiet reports whether reads are marked so.
func Quiet(ctx context.Context) bool { return ctx.Value(quietKey{}) != nil }
