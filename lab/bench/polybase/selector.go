package polybase

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/wire"
)

// site is DynaMast's part in a region. Clients there ask the central selector through it; it
// releases masters, and runs the transactions that are routed there. One of the sites is the
// selector. Their messages cross the emulated network. Rows do not move by themselves in such a
// cluster: a row's home is its master.
type site struct {
	db    kv.DB
	trans wan.Transport
	all   []*site

	mu   sync.Mutex
	rows map[string]*mastered // the selector's
}

// mastered is what the selector knows of a row.
type mastered struct {
	moving sync.Mutex // held while the site of a transaction is chosen
	at     base.RegionID
	use    [base.MaxRegions + 1]float64 // recent transactions by region
}

// siteRequest asks a site for exactly one of three things.
type siteRequest struct {
	Choose  []base.Key    // the selector: where to run a transaction on these rows
	From    base.RegionID // for a client there
	Write   bool
	Release []base.Key // give up these rows
	To      base.RegionID
	Run     rig.Job
}

type siteAnswer struct {
	Site base.RegionID
	Hops int // WAN crossings that the site waited for
}

// note is an encoded message.
type note []byte

func (n *note) MarshalVT() ([]byte, error) { return *n, nil }
func (n *note) SizeVT() int                { return len(*n) }
func (n *note) MarshalToSizedBufferVT(b []byte) (int, error) {
	return copy(b[len(b)-len(*n):], *n), nil
}
func (n *note) UnmarshalVT(b []byte) error { *n = slices.Clone(b); return nil }

// siteID keeps sites apart from the nodes of the cluster.
const siteID = 1000

func (g *sited) addSites(selector int) error {
	for i, db := range g.DBs {
		s := &site{db: db, trans: g.Network().Join(siteID+base.NodeID(i), base.RegionID(i+1)), rows: map[string]*mastered{}}
		s.trans.Handle(wire.KindAsk, func(ctx context.Context, _ base.NodeID, body []byte) (wan.Msg, error) {
			var q siteRequest
			if err := json.Unmarshal(body, &q); err != nil {
				return nil, err
			}
			a, err := s.serve(ctx, &q)
			if err != nil {
				return nil, err
			}
			b, err := json.Marshal(a)
			return (*note)(&b), err
		})
		g.all = append(g.all, s)
		if err := s.trans.Start(); err != nil {
			return err
		}
	}
	for _, s := range g.all {
		s.all = g.all
	}
	central := g.all[selector-1]
	g.Route = func(ctx context.Context, region int, j rig.Job, tr *obs.Trace) error {
		return g.all[region].runSelected(ctx, central, j, tr)
	}
	return nil
}

// ask sends a request to another site and adds the crossings that it waited for to the trace.
func (s *site) ask(ctx context.Context, to *site, q *siteRequest, tr *obs.Trace) (a siteAnswer, err error) {
	b, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	var resp note
	if err := s.trans.Call(obs.WithTrace(ctx, tr), to.trans.Self(), wire.KindAsk, (*note)(&b), &resp); err != nil {
		return a, err
	}
	err = json.Unmarshal(resp, &a)
	tr.AddHops(a.Hops)
	return a, err
}

// runSelected runs a client's transaction in the region that the selector chooses.
func (s *site) runSelected(ctx context.Context, selector *site, j rig.Job, tr *obs.Trace) error {
	q := siteRequest{From: s.db.Region(), Write: j.Writes()}
	for _, o := range j {
		q.Choose = append(q.Choose, o.Keys...)
	}
	a, err := s.ask(ctx, selector, &q, tr)
	if err != nil {
		return err
	}
	if a.Site == s.db.Region() {
		return rig.RunJob(ctx, s.db, j, 0, tr)
	}
	_, err = s.ask(ctx, s.all[a.Site-1], &siteRequest{Run: j}, tr)
	return err
}

func (s *site) serve(ctx context.Context, q *siteRequest) (a siteAnswer, err error) {
	var tr obs.Trace
	switch {
	case q.Choose != nil:
		a.Site, err = s.choose(ctx, q, &tr)
	case q.Release != nil:
		_, err = kv.Run(ctx, s.db, kv.Options{Trace: &tr}, func(t kv.Txn) error {
			if _, err := t.Get(ctx, q.Release, kv.LockExclusive); err != nil {
				return err
			}
			for _, k := range q.Release {
				t.Move(k, q.To, kv.MoveOptions{})
			}
			return nil
		})
	case q.Run != nil:
		err = rig.RunJob(ctx, s.db, q.Run, 0, &tr)
	}
	a.Hops = tr.Hops()
	return a, err
}

func (s *site) know(ks []base.Key, at base.RegionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range ks {
		s.rows[string(k)] = &mastered{at: at}
	}
}

// Constants of the selector's cost model.
const (
	useDecay  = 0.9 // factor on the weight of earlier transactions, for each further one
	useMargin = 2   // how much more a region must use rows than the region where they are
)

// choose picks the site that is to run a transaction, and makes it the master of all rows that are
// written. As in DynaMast, rows go to the region that uses them together most, and transactions
// that only read run in the client's region.
func (s *site) choose(ctx context.Context, q *siteRequest, tr *obs.Trace) (base.RegionID, error) {
	slices.SortFunc(q.Choose, base.Key.Compare)
	q.Choose = slices.CompactFunc(q.Choose, func(a, b base.Key) bool { return a.Compare(b) == 0 })
	rows := make([]*mastered, len(q.Choose))
	s.mu.Lock()
	for i, k := range q.Choose {
		m := s.rows[string(k)]
		if m == nil && q.Write {
			m = &mastered{} // new
			s.rows[string(k)] = m
		}
		rows[i] = m
	}
	s.mu.Unlock()
	var use [base.MaxRegions + 1]float64
	var at [base.MaxRegions + 1]int
	for _, m := range rows {
		if m == nil {
			continue
		}
		m.moving.Lock()
		defer m.moving.Unlock()
		for r := range m.use {
			m.use[r] *= useDecay
		}
		m.use[q.From]++
		for r, n := range m.use {
			use[r] += n
		}
		at[m.at]++
	}
	if !q.Write {
		return q.From, nil
	}
	at[0] = 0
	to := base.RegionID(slices.Index(at[:], slices.Max(at[:]))) // where most rows are
	if to == 0 {
		to = q.From
	}
	for r := range s.all {
		if r := base.RegionID(r + 1); use[r] > useMargin*use[to] {
			to = r
		}
	}
	return to, s.remaster(ctx, q.Choose, rows, to, tr)
}

// remaster makes all masters of rows release them to a site at once.
func (s *site) remaster(ctx context.Context, ks []base.Key, rows []*mastered, to base.RegionID, tr *obs.Trace) error {
	release := map[base.RegionID][]base.Key{}
	for i, m := range rows {
		if m.at != 0 && m.at != to {
			release[m.at] = append(release[m.at], ks[i])
		}
	}
	traces := tr.Parallel(len(s.all))
	errs := make([]error, len(s.all))
	var wg sync.WaitGroup
	for from, ks := range release {
		wg.Go(func() {
			_, errs[from-1] = s.ask(ctx, s.all[from-1], &siteRequest{Release: ks, To: to}, traces[from-1])
		})
	}
	wg.Wait()
	tr.Join(traces)
	if err := cmp.Or(errs...); err != nil {
		return err
	}
	for _, m := range rows {
		m.at = to
	}
	return nil
}
