package binlog

import "context"

// Little makes streams write small events, until the test ends.
func Little(t interface{ Cleanup(func()) }) {
	a, b := eventBytes, gatheredBytes
	t.Cleanup(func() { eventBytes, gatheredBytes = a, b })
	eventBytes, gatheredBytes = 500, 2000
}

// Restless gives clients a new position after each look at which nothing was new, until the test
// ends.
func Restless(t interface{ Cleanup(func()) }) {
	a := quiet
	t.Cleanup(func() { quiet = a })
	quiet = 1
}

func (v *Env) Committed(ctx context.Context, at Position) (bool, error) { return v.committed(ctx, at) }
