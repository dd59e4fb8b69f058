package kv

import "context"

type quietKey struct{}

// WithQuiet marks reads that the home policy does not count as a use of the rows.
func WithQuiet(ctx context.Context) context.Context { return context.WithValue(ctx, quietKey{}, true) }

// Quiet reports whether reads are marked so.
func Quiet(ctx context.Context) bool { return ctx.Value(quietKey{}) != nil }
