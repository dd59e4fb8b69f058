package owner

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/wire"
)

// The oracle of GTM mode is the owner of the meta group. What it issues lies below the end of its
// lease, above which its successor begins (OWN-1, OWN-2): the lease is the window that other
// designs log for their timestamp server.

// oracleAhead is how far beyond the oracle's own time it can be raised: further would be a broken
// clock.
const oracleAhead = 10 * time.Second

// Oracle issues a timestamp above every one issued before and above the one asked for.
func (r *Replica) Oracle(ctx context.Context, q *wire.OracleRequest) *wire.OracleResponse {
	ts, err := r.issue(ctx, base.Timestamp(q.Min))
	for t := r.transferOf(err); t != nil; t = r.transferOf(err) {
		var passed *wire.OracleResponse
		if passed, err = passOn[wire.OracleResponse](ctx, r, t, wire.KindOracle, q, true); passed != nil {
			return passed
		}
		if err == nil {
			ts, err = r.issue(ctx, base.Timestamp(q.Min))
		}
	}
	return &wire.OracleResponse{Status: statusOf(err), Ts: uint64(ts)}
}

func (r *Replica) issue(ctx context.Context, min base.Timestamp) (base.Timestamp, error) {
	if err := r.enter(ctx, true, 0); err != nil {
		return 0, err
	}
	now := r.clock.Latest()
	if known := max(r.clock.Horizon(), r.lead.Issued, r.lead.Floor); min > known.Add(oracleAhead) {
		r.mu.Unlock()
		return 0, base.Errorf(base.CodeInvalid, "the oracle cannot be raised to %s, which is %s ahead of it: "+
			"check the clocks of the cluster's nodes", min, min.Sub(known))
	}
	for {
		ts := max(now, r.lead.Issued, min).Next()
		if ts < r.lead.LeaseEnd {
			r.lead.Issued = ts
			r.mu.Unlock()
			r.clock.Learn(ts)
			return ts, nil
		}
		r.mu.Unlock()
		r.stretch(ts)
		if err := r.enter(ctx, true, ts); err != nil {
			return 0, err
		}
	}
}

// stretch proposes a lease that ends well above ts, if none such is on its way.
func (r *Replica) stretch(ts base.Timestamp) {
	r.mu.Lock()
	if l := &r.lead; l.Requested <= ts.Next() {
		l.Low = ts.Add(r.cfg.Lease / 3)
		l.ForgetRequest()
	}
	r.mu.Unlock()
	r.renew()
}

// Reached is a timestamp that the oracle has reached: it is moved on with time, so that the virtual
// clocks of all nodes follow. 0 if this replica is not the oracle now.
func (r *Replica) Reached() base.Timestamp {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ready(true, 0) {
		return 0
	}
	l := &r.lead
	l.Issued = max(l.Issued, 1, min(r.clock.Latest(), l.LeaseEnd.Prev()))
	return l.Issued
}

// Raise implements clock.Oracle.
func (s *Set) Raise(ctx context.Context, min base.Timestamp) (base.Timestamp, int, error) {
	q := &wire.OracleRequest{Group: uint32(base.MetaGroup), Min: uint64(min)}
	tr := &obs.Trace{}
	ctx = obs.WithTrace(ctx, tr)
	resp, err := s.router.Oracle(ctx, q)
	if err != nil {
		return 0, 0, err
	}
	if err := ErrorOf(resp.Status); err != nil {
		return 0, 0, err
	}
	return base.Timestamp(resp.Ts), tr.Hops(), nil
}
