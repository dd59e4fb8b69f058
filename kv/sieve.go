package kv

import "context"

// Sieve tells that a row of a scan is not wanted: ScanRequest.Drops.
type Sieve func(value []byte) bool

type sieveKey struct{}

// WithSieve has reads of a snapshot at this node leave out the rows that are not wanted. What
// travels to other nodes does not carry it: rows that are not wanted come back from there.
func WithSieve(ctx context.Context, drops Sieve) context.Context {
	if drops == nil {
		return ctx
	}
	return context.WithValue(ctx, sieveKey{}, drops)
}

// SieveOf is the Sieve of reads; nil: all rows are wanted.
func SieveOf(ctx context.Context) Sieve {
	s, _ := ctx.Value(sieveKey{}).(Sieve)
	return s
}
