package weigh

import (
	"context"

	"github.com/dolthub/go-mysql-server/sql"
)

// Listed is what is to be asked while a text is weighed. One that takes long is among the processes
// meanwhile, with the context that begin makes, so that it can be killed. end must be called.
func Listed(ctx context.Context, text string, begin func() (*sql.Context, error), list sql.ProcessList) (ask func() error,
	end func(), err error) {
	if len(text) < Least {
		return ctx.Err, func() {}, nil
	}
	sctx, err := begin()
	if err == nil {
		sctx, err = list.BeginQuery(sctx, text)
	}
	if err != nil {
		return nil, nil, err
	}
	return func() error { return context.Cause(sctx) }, func() { list.EndQuery(sctx) }, nil
}
