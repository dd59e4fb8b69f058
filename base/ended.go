package base

import "context"

// Ended is the error of a request that has ended (CodeCanceled); nil: it goes on.
func Ended(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return Errorf(CodeCanceled, "request ended: %v", context.Cause(ctx))
}

// GoesOn reports whether a loop may take its step i: it asks after each 1,024 of them whether the
// request has ended.
func GoesOn(ctx context.Context, i int) bool { return i%1024 != 0 || ctx.Err() == nil }
