package table

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/stats"
)

// Stats are estimates for the planner. They are taken in the background when the planner first
// asks, from a sample of bounded size, and again when they are old or much has changed; what this
// gateway inserts meanwhile is added to the number of rows.
type Stats struct {
	env *session.Env
	db  kv.DB
	// Wait makes the planner wait for a new count each time; tests use it to have exact plans.
	Wait bool
	mu   sync.Mutex
	m    map[base.TableID]*tableStats
	busy int      // samples that are being taken
	due  []wanted // are taken next, the newest first
}

// wanted is a sample that is to be taken.
type wanted struct {
	t   *schema.Table
	e   *tableStats
	age time.Duration
}

type tableStats struct {
	rows    uint64
	known   bool
	running bool
	at      time.Time
	added   uint64       // since then, through this gateway
	sample  *stats.Table // nil: not known
	keys    map[base.RegionID]base.Key
}

const (
	defaultRows = 1000 // before anything is known
	// countLimit is how many rows are read at most of a table that nobody has ANALYZEd: whole
	// shards, if one of them is not too large. Rows lie in the shards by a hash.
	countLimit = 100_000
	countAge   = 5 * time.Minute
	sampleAge  = 10 * time.Second
	sampleWait = 5 * time.Second // for replicas nearby to show so young a moment
	changedBy  = 0.2             // of the rows: the estimates are taken again
	// samplers is how many samples are taken at once, and mostDue how many more may wait:
	// information_schema asks for all tables that there are. Others are taken when they are asked
	// for again.
	samplers = 2
	mostDue  = 64
)

func newTableStats(env *session.Env) *Stats {
	return &Stats{env: env, db: env.DB, m: map[base.TableID]*tableStats{}}
}

// Rows estimates the rows of a table and never blocks on the network.
func (s *Stats) Rows(t *schema.Table) uint64 {
	if t.Desc.Temporary() {
		return defaultRows // Table.RowCount knows better
	}
	if s.Wait {
		if n, err := s.count(t); err == nil {
			return n
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fresh(t).rows
}

// Sample are the estimates of a table's columns, nil before they are known; keys are of one row at
// each home. Nothing of it may be changed.
func (s *Stats) Sample(t *schema.Table) (sample *stats.Table, keys map[base.RegionID]base.Key) {
	if t.Desc.Temporary() {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.fresh(t)
	return e.sample, e.keys
}

// fresh is what is known of a table, and has it refreshed if that is old.
func (s *Stats) fresh(t *schema.Table) *tableStats {
	e := s.m[t.Desc.ID]
	if e == nil {
		e = &tableStats{rows: defaultRows}
		s.m[t.Desc.ID] = e
	}
	stale := !e.known || time.Since(e.at) > countAge || float64(e.added) > changedBy*float64(e.rows)+defaultRows
	if !e.running && stale {
		age := sampleAge
		if e.added > 0 {
			age = 0 // what was inserted is to be seen
		}
		e.running = s.want(wanted{t, e, age})
	}
	return e
}

// want has a sample taken, soon; false if the gateway ends. mu is held.
func (s *Stats) want(w wanted) bool {
	if s.busy < samplers {
		if !s.env.Go(func(ctx context.Context) { s.sampler(ctx, w) }) {
			return false
		}
		s.busy++
		return true
	}
	if len(s.due) == mostDue {
		s.due[0].e.running = false
		s.due = slices.Delete(s.due, 0, 1)
	}
	s.due = append(s.due, w)
	return true
}

// sampler takes samples until none is due.
func (s *Stats) sampler(ctx context.Context, w wanted) {
	for {
		s.refresh(ctx, w.t, w.e, w.age)
		s.mu.Lock()
		last := len(s.due) - 1
		if last < 0 || ctx.Err() != nil {
			s.busy--
			s.mu.Unlock()
			return
		}
		w = s.due[last]
		s.due = slices.Delete(s.due, last, last+1)
		s.mu.Unlock()
	}
}

func (s *Stats) refresh(ctx context.Context, t *schema.Table, e *tableStats, age time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_ = s.take(ctx, t, e, s.snapshot(ctx, age), countLimit) // it stays as it was, and is tried again when it is old
}

// snapshot is a moment that replicas nearby can show, at most so long ago, so that a sample crosses
// no ocean; 0 is the present.
func (s *Stats) snapshot(ctx context.Context, age time.Duration) base.Timestamp {
	if s.env.Reads == nil {
		return 0
	}
	at, _ := s.env.Reads.ReadPoint(ctx, s.db.Time().Add(-age), sampleWait)
	return at
}

// Analyze takes the estimates of a table anew, from all of its rows as they are now.
func (s *Stats) Analyze(ctx context.Context, t *schema.Table) error {
	if t.Desc.Temporary() {
		return nil // there are none
	}
	s.mu.Lock()
	e := s.fresh(t)
	s.mu.Unlock()
	return s.take(ctx, t, e, 0, math.MaxInt)
}

// take reads rows as they were at a moment, most of them at most, and replaces the estimates.
func (s *Stats) take(ctx context.Context, t *schema.Table, e *tableStats, at base.Timestamp, most int) error {
	sample, keys, err := s.collect(ctx, t, at, most)
	s.mu.Lock()
	defer s.mu.Unlock()
	e.running, e.at, e.added = false, time.Now(), 0
	if err == nil {
		e.rows, e.known, e.sample, e.keys = uint64(sample.Rows), true, sample, keys
	}
	return err
}

// collect draws a sample, shard by shard, until there were enough rows.
func (s *Stats) collect(ctx context.Context, t *schema.Table, at base.Timestamp, most int) (
	*stats.Table, map[base.RegionID]base.Key, error) {
	k := s.db.Begin(kv.Options{ReadOnly: true, ReadTS: at})
	defer k.Rollback(context.Background())
	c := stats.NewCollector(len(t.Cols), stats.Seed(t.Desc.DB+"."+t.Desc.Name))
	keys := map[base.RegionID]base.Key{}
	shards := t.Shards()
	req := &kv.ScanRequest{Spans: spansOf(t), MaxBytes: BatchBytes}
	for req != nil {
		res, err := k.Scan(kv.WithQuiet(ctx), *req)
		if err != nil {
			return nil, nil, err
		}
		for _, row := range res.Rows {
			if c.Seen() >= most {
				// Of the shard that was begun, nobody knows how much was seen.
				i := max(slices.Index(shards, row.Key.Shard()), 1)
				return c.Table(float64(len(shards)) / float64(i)), keys, nil
			}
			if keys[row.Home] == nil {
				keys[row.Home] = row.Key
			}
			if slot := c.Next(row.Home, len(row.Key)+len(row.Value)); slot >= 0 {
				vals, err := keysOf(ctx, t, row.Value)
				if err != nil {
					return nil, nil, err
				}
				c.Put(slot, vals)
			}
		}
		req = res.Next
	}
	return c.Table(1), keys, nil
}

// spansOf are the rows of a table, shard by shard.
func spansOf(t *schema.Table) []base.Span { return t.RowSpans(nil) }

// keysOf are the values of a row as keys; of what has no order there are none.
func keysOf(ctx context.Context, t *schema.Table, value []byte) ([][]byte, error) {
	row := make(sql.Row, len(t.Cols))
	if err := t.DecodeRow(ctx, value, row); err != nil {
		return nil, err
	}
	out := make([][]byte, len(row))
	for i, v := range row {
		if c := t.Cols[i]; v != nil && c.Kind != schema.KindJSON && !c.Desc.Virtual {
			k, err := c.AppendKey(ctx, nil, v, 0)
			if err != nil {
				return nil, err
			}
			out[i] = k
		}
	}
	return out, nil
}

func (s *Stats) count(t *schema.Table) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return s.upTo(ctx, t, countLimit)
}

// Exact counts all rows, however many.
func (s *Stats) Exact(ctx context.Context, t *schema.Table) (uint64, error) {
	return s.upTo(ctx, t, math.MaxUint64)
}

func (s *Stats) upTo(ctx context.Context, t *schema.Table, limit uint64) (uint64, error) {
	k := s.db.Begin(kv.Options{ReadOnly: true})
	defer k.Rollback(context.Background())
	req := &kv.ScanRequest{Spans: spansOf(t)}
	n := uint64(0)
	for req != nil && n < limit {
		res, err := k.Scan(ctx, *req)
		if err != nil {
			return 0, err
		}
		n += uint64(len(res.Rows))
		req = res.Next
	}
	return n, nil
}

// add notes rows inserted through this gateway.
func (s *Stats) add(id base.TableID, n int) {
	if n <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.m[id]; e != nil {
		e.rows += uint64(n)
		e.added += uint64(n)
	}
}
