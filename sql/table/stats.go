package table

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
)

// Stats are row counts for the planner. A count is taken in the background when the planner
// first asks, up to a bound, and again when it is old; what this gateway inserts meanwhile is
// added.
type Stats struct {
	db kv.DB
	// Wait makes the planner wait for a new count each time; tests use it to have exact plans.
	Wait bool
	mu   sync.Mutex
	m    map[base.TableID]*tableCount
}

type tableCount struct {
	rows    uint64
	known   bool
	running bool
	at      time.Time
}

const (
	defaultRows = 1000    // before anything is known
	countLimit  = 100_000 // rows counted at most: above, plans do not change any more
	countAge    = 5 * time.Minute
)

func newTableStats(db kv.DB) *Stats {
	return &Stats{db: db, m: map[base.TableID]*tableCount{}}
}

// Rows estimates the rows of a table and never blocks on the network.
func (s *Stats) Rows(t *schema.Table) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.m[t.Desc.ID]
	if c == nil {
		c = &tableCount{rows: defaultRows}
		s.m[t.Desc.ID] = c
	}
	if s.Wait {
		s.mu.Unlock()
		n, err := s.count(t)
		s.mu.Lock()
		if err == nil {
			return n
		}
	}
	if !c.running && (!c.known || time.Since(c.at) > countAge) {
		c.running = true
		go s.refresh(t, c)
	}
	return c.rows
}

func (s *Stats) refresh(t *schema.Table, c *tableCount) {
	n, err := s.count(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	c.running, c.at = false, time.Now()
	if err == nil {
		c.rows, c.known = n, true
	}
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
	var spans []base.Span
	for _, sh := range t.Shards() {
		p := base.IndexPrefix(sh, t.Desc.ID, 0, 0)
		spans = append(spans, base.Span{Start: p, End: p.PrefixEnd()})
	}
	req := &kv.ScanRequest{Spans: spans}
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
	if c := s.m[id]; c != nil {
		c.rows += uint64(n)
	}
}
