package sqltest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/wire"
)

// journal collects what all servers of a story ask of the store.
type journal struct {
	mu     sync.Mutex
	lines  []string
	trips  int
	fast   bool // a request came from the fast path
	faults []*fault
	// written are all keys of data shards that were ever written.
	written map[string]bool
	// behind is up to when the catalog's changes have reached gateways that are cut off from them.
	behind map[base.RegionID]*metaVersion
}

type metaVersion struct{ changed, complete base.Timestamp }

// MetaVersion implements kv.DB.
func (r *recorder) MetaVersion(span base.Span) (changed, complete base.Timestamp) {
	r.j.mu.Lock()
	defer r.j.mu.Unlock()
	if v := r.j.behind[r.Region()]; v != nil {
		return v.changed, v.complete
	}
	return r.DB.MetaVersion(span)
}

// fault makes a request fail that is going to be made.
type fault struct {
	region base.RegionID
	op     string
	left   int // requests until then, this one included
	code   base.Code
}

func (j *journal) reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines, j.trips, j.fast = nil, 0, false
}

func (j *journal) note(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// strike is the error of a request, if one was planned for it.
func (j *journal) strike(region base.RegionID, op string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, f := range j.faults {
		if f.region != region || f.op != op {
			continue
		}
		if f.left--; f.left > 0 {
			continue
		}
		j.faults = slices.Delete(j.faults, i, i+1)
		return base.Errorf(f.code, "a fault of the story")
	}
	return nil
}

// recorder is the store as a server sees it. Rows of other regions cost round trips there.
type recorder struct {
	*memkv.DB
	j     *journal
	names *names
}

// Begin implements kv.DB.
func (r *recorder) Begin(opts kv.Options) kv.Txn {
	x := r.DB.Begin(opts)
	return &recordedTxn{inner: x, Mover: x, Pinner: x, Savepoints: x, Snapshots: x, r: r, written: map[string]bool{}}
}

// Program implements kv.Programs: a program is one request.
func (r *recorder) Program(ctx context.Context, opts kv.Options, p kv.Program) (kv.ProgramResult, error) {
	if err := r.j.strike(r.Region(), "program"); err != nil {
		return kv.ProgramResult{}, err
	}
	res, err := r.DB.Program(ctx, opts, p)
	if why, refused := kv.ProgramRefused(err); refused {
		r.j.note("no program: " + string(why))
		return res, err
	}
	var spans []base.Span
	written, _ := p.Written()
	for _, k := range append(written, p.Reads...) {
		spans = append(spans, base.PointSpan(k))
	}
	what, _ := r.names.describe(spans)
	r.j.note(fmt.Sprintf("%s: program %s", r.Topology().RegionName(r.Region()), what))
	r.j.mu.Lock()
	r.j.trips++
	r.j.mu.Unlock()
	opts.Trace.AddHops(2)
	if hit := r.j.strike(r.Region(), "programmed"); hit != nil {
		return kv.ProgramResult{}, hit
	}
	return res, err
}

// recordedTxn writes down the requests that a real transaction would send. Interfaces of which no
// method sends any are embedded.
type recordedTxn struct {
	inner kv.Txn
	kv.Mover
	kv.Pinner
	kv.Savepoints
	kv.Snapshots
	r       *recorder
	written map[string]bool
	err     error
}

var lockWords = map[kv.LockMode]string{kv.LockNone: "snapshot", kv.LockShared: "shared", kv.LockExclusive: "exclusive"}

// Get implements kv.Txn.
func (t *recordedTxn) Get(ctx context.Context, keys []base.Key, lock kv.LockMode) ([]kv.Row, error) {
	var spans []base.Span
	for _, k := range keys {
		spans = append(spans, base.PointSpan(k))
	}
	if err := t.request(ctx, "get", spans, lock); err != nil {
		return nil, err
	}
	return t.inner.Get(ctx, keys, lock)
}

// Scan implements kv.Txn.
func (t *recordedTxn) Scan(ctx context.Context, req kv.ScanRequest) (kv.ScanResult, error) {
	if err := t.request(ctx, "scan", req.Spans, req.Lock); err != nil {
		return kv.ScanResult{}, err
	}
	return t.inner.Scan(ctx, req)
}

// Ahead implements kv.Txn.
func (t *recordedTxn) Ahead(ctx context.Context, keys []base.Key, spans []base.Span, lock kv.LockMode) (bool, error) {
	all := slices.Clone(spans)
	for _, k := range keys {
		all = append(all, base.PointSpan(k))
	}
	if err := t.request(ctx, "ahead", all, lock); err != nil {
		return false, err
	}
	return t.inner.Ahead(ctx, keys, spans, lock)
}

// ID implements kv.Txn.
func (t *recordedTxn) ID() base.TxnID { return t.inner.ID() }

// Kept implements kv.Txn.
func (t *recordedTxn) Kept(span base.Span, lock kv.LockMode) bool { return t.inner.Kept(span, lock) }

// Forget implements kv.Txn.
func (t *recordedTxn) Forget() { t.inner.Forget() }

// Draft implements kv.Txn.
func (t *recordedTxn) Draft(ctx context.Context, key base.Key) (kv.Row, bool, error) {
	return t.inner.Draft(ctx, key)
}

// Wrote implements kv.Txn.
func (t *recordedTxn) Wrote() bool { return t.inner.Wrote() }

// Rollback implements kv.Txn.
func (t *recordedTxn) Rollback(ctx context.Context) { t.inner.Rollback(ctx) }

// request records a read, unless all of it is at hand.
func (t *recordedTxn) request(ctx context.Context, op string, spans []base.Span, lock kv.LockMode) error {
	if t.err != nil {
		return t.err
	}
	asked := slices.DeleteFunc(slices.Clone(spans), func(s base.Span) bool {
		return s.Start.Shard() == base.MetaShard || lock != kv.LockNone && t.Kept(s, lock)
	})
	if len(asked) == 0 {
		return nil
	}
	return t.record(ctx, op, asked, lockWords[lock])
}

// Put implements kv.Txn.
func (t *recordedTxn) Put(key base.Key, value []byte, home base.RegionID) {
	t.written[string(key)] = true
	t.inner.Put(key, value, home)
}

// Update implements kv.Txn.
func (t *recordedTxn) Update(key base.Key, value []byte, p *wire.Patch) {
	t.written[string(key)] = true
	t.inner.Update(key, value, p)
}

// Insert implements kv.Txn.
func (t *recordedTxn) Insert(key base.Key, value []byte, home base.RegionID) error {
	t.written[string(key)] = true
	return t.inner.Insert(key, value, home)
}

// Delete implements kv.Txn.
func (t *recordedTxn) Delete(key base.Key) {
	t.written[string(key)] = true
	t.inner.Delete(key)
}

// Commit implements kv.Txn.
func (t *recordedTxn) Commit(ctx context.Context) (base.Timestamp, error) {
	if t.err != nil {
		return 0, t.err
	}
	var spans []base.Span
	t.r.j.mu.Lock()
	for k := range t.written {
		if s := base.PointSpan(base.Key(k)); s.Start.Shard() != base.MetaShard {
			spans = append(spans, s)
			t.r.j.written[k] = true
		}
	}
	t.r.j.mu.Unlock()
	if len(spans) > 0 && t.Wrote() {
		if err := t.record(ctx, "commit", spans, ""); err != nil {
			return 0, err
		}
	}
	return t.inner.Commit(ctx)
}

// record notes a request of a session and charges what it would cost.
func (t *recordedTxn) record(ctx context.Context, op string, spans []base.Span, lock string) error {
	own := t.r.Region()
	if obs.TraceOf(ctx) == nil {
		return t.struck(ctx, op) // work in the background: statistics, garbage
	}
	what, regions := t.r.names.describe(spans)
	far := slices.ContainsFunc(regions, func(r base.RegionID) bool { return r != own })
	line := fmt.Sprintf("%s: %s %s", t.r.Topology().RegionName(own), op, what)
	if lock != "" {
		line += " " + lock
	}
	var at []string
	for _, r := range regions {
		at = append(at, t.r.Topology().RegionName(r))
	}
	if len(at) > 0 {
		line += " @" + strings.Join(at, ",")
	}
	t.r.j.mu.Lock()
	t.r.j.lines = append(t.r.j.lines, line)
	if far {
		t.r.j.trips++
	}
	t.r.j.fast = t.r.j.fast || onFastPath()
	t.r.j.mu.Unlock()
	if far {
		obs.TraceOf(ctx).AddHops(2)
	}
	return t.struck(ctx, op)
}

// struck fails the request if a fault was planned for it. As package kv has it, some errors end the
// transaction, and each one of a commit does.
func (t *recordedTxn) struck(ctx context.Context, op string) error {
	err := t.r.j.strike(t.r.Region(), op)
	if base.Retryable(err) || err != nil && op == "commit" {
		t.err = err
		t.inner.Rollback(ctx)
	}
	return err
}

// onFastPath reports whether the fast path is among the callers.
func onFastPath() bool {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	for {
		f, more := frames.Next()
		if strings.Contains(f.Function, "/sql/fast.") || strings.Contains(f.File, "/sql/server/fast") {
			return true
		}
		if !more {
			return false
		}
	}
}
