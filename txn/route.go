package txn

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wan"
	"github.com/godwitdb/godwit/wire"
)

// read sends a read to the owner of a group: in Go if that is this node.
func (d *DB) read(ctx context.Context, q *wire.ReadRequest) (*wire.ReadResponse, error) {
	if rep := d.cfg.Owners.Replica(base.GroupID(q.Group)); rep != nil {
		if res := rep.Read(ctx, q); !elsewhere(res.Status) {
			obs.TraceOf(ctx).AddHops(int(res.Hops))
			return res, owner.ErrorOf(res.Status)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.RequestTimeout+d.cfg.LockTimeout)
	defer cancel()
	res, err := d.cfg.Owners.Router().Read(ctx, q)
	if err != nil {
		return nil, way(ctx, err)
	}
	return res, owner.ErrorOf(res.Status)
}

// commit sends a one-round commit or a Prepare. The error is CodeAmbiguous if
// it is not known whether it was carried out.
func (d *DB) commit(ctx context.Context, q *wire.CommitRequest) (*wire.CommitResponse, error) {
	if rep := d.cfg.Owners.Replica(base.GroupID(q.Group)); rep != nil {
		if res := rep.Commit(ctx, q); !elsewhere(res.Status) {
			obs.TraceOf(ctx).AddHops(int(res.Hops))
			return res, owner.ErrorOf(res.Status)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.RequestTimeout+d.cfg.LockTimeout)
	defer cancel()
	res, err := d.cfg.Owners.Router().Commit(ctx, q)
	if err != nil {
		if !wan.NeverRan(err) {
			return nil, base.Errorf(base.CodeAmbiguous, "no answer to a commit: %v", err)
		}
		return nil, way(ctx, err)
	}
	return res, owner.ErrorOf(res.Status)
}

// elsewhere reports whether a replica that was asked in Go is not the owner now.
func elsewhere(s *wire.Status) bool {
	return s != nil && (base.Code(s.Code) == base.CodeNotLeader || base.Code(s.Code) == base.CodeUnavailable)
}

// way is the error of a request that found no owner in time.
func way(ctx context.Context, err error) error {
	if c := base.CodeOf(err); c == base.CodeCanceled || c == base.CodeOther {
		if ctx.Err() == context.DeadlineExceeded {
			return base.Errorf(base.CodeUnavailable, "no owner answered in time: is a majority of the group's replicas reachable? (%v)", err)
		}
		return base.Errorf(base.CodeCanceled, "request ended: %v", err)
	}
	return err
}

// parallel runs fn for 0..n-1 at once; the trace of ctx counts the longest.
func parallel(ctx context.Context, n int, fn func(ctx context.Context, i int)) {
	if n == 1 {
		fn(ctx, 0)
		return
	}
	tr := obs.TraceOf(ctx)
	branches := tr.Parallel(n)
	done := make(chan struct{}, n)
	for i := range n {
		go func() {
			fn(obs.WithTrace(ctx, branches[i]), i)
			done <- struct{}{}
		}()
	}
	for range n {
		<-done
	}
	tr.Join(branches)
}
