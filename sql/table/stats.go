package table

import (
	"context"
	"math"
	"math/rand/v2"
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
// asks, from a sample of bounded size, and again when much has changed; what this gateway inserts
// meanwhile is added to the number of rows. What others change shows in what the table takes on
// this node's disk, if it has a copy.
type Stats struct {
	env *session.Env
	db  kv.DB
	// Wait makes the planner wait for a new count each time; tests use it to have exact plans.
	Wait bool
	most int // rows are read of a table that nobody has ANALYZEd
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
	taken   int          // how often the estimates were replaced
	at      time.Time    // when they were
	looked  time.Time    // when they were, or the table was found unchanged
	disk    int64        // what the table took here then, in bytes; 0: not known
	added   uint64       // since then, through this gateway
	sample  *stats.Table // nil: not known
	keys    map[base.RegionID]base.Key
}

const (
	defaultRows = 1000 // before anything is known
	guessBytes  = 200  // a row takes on disk, before anything is known
	// countLimit is how many rows are read at most of a table that nobody has ANALYZEd: pieces from
	// everywhere in it, if it is large.
	countLimit = 100_000
	// Of a table that takes more than mostWhole on disk so many pieces are read, each of which
	// takes about pieceBytes.
	mostWhole  = 8 << 20
	pieces     = 32
	pieceBytes = 128 << 10
	countAge   = 5 * time.Minute
	// unchangedAge is when estimates are taken again of a table that takes as much on disk as
	// before.
	unchangedAge = time.Hour
	sampleAge    = 10 * time.Second
	sampleWait   = 5 * time.Second // for replicas nearby to show so young a moment
	changedBy    = 0.2             // of the rows: the estimates are taken again
	// samplers is how many samples are taken at once, and mostDue how many more may wait:
	// information_schema asks for all tables that there are. Others are taken when they are asked
	// for again.
	samplers = 2
	mostDue  = 64
)

func newTableStats(env *session.Env) *Stats {
	return &Stats{env: env, db: env.DB, most: countLimit, m: map[base.TableID]*tableStats{}}
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
	e, unlock := s.fresh(t)
	defer unlock()
	return e.rows
}

// Sample are the estimates of a table's columns, nil before they are known; keys are of one row at
// each home. Nothing of it may be changed.
func (s *Stats) Sample(t *schema.Table) (sample *stats.Table, keys map[base.RegionID]base.Key) {
	if t.Desc.Temporary() {
		return nil, nil
	}
	e, unlock := s.fresh(t)
	defer unlock()
	return e.sample, e.keys
}

// fresh is what is known of a table, and has it refreshed if that is old. It returns with mu held.
func (s *Stats) fresh(t *schema.Table) (e *tableStats, unlock func()) {
	s.mu.Lock()
	if e = s.m[t.Desc.ID]; e == nil {
		s.mu.Unlock()
		disk := s.disk(t)
		s.mu.Lock()
		if e = s.m[t.Desc.ID]; e == nil {
			e = &tableStats{rows: max(defaultRows, uint64(disk/guessBytes))}
			s.m[t.Desc.ID] = e
		}
	}
	stale := !e.known || time.Since(e.looked) > countAge || float64(e.added) > changedBy*float64(e.rows)+defaultRows
	if !e.running && stale {
		age := sampleAge
		if e.added > 0 {
			age = 0 // what was inserted is to be seen
		}
		e.running = s.want(wanted{t, e, age})
	}
	return e, s.mu.Unlock
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
	disk := s.disk(t)
	s.mu.Lock()
	then := e.taken
	if e.unchanged(disk) {
		e.running, e.looked = false, time.Now()
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	sample, keys, err := s.collect(ctx, t, s.snapshot(ctx, age), s.most)
	s.mu.Lock()
	defer s.mu.Unlock()
	e.running = false
	if e.taken != then {
		return // ANALYZE has read all rows meanwhile
	}
	e.looked, e.added = time.Now(), 0
	if err == nil { // else it stays as it was, and is tried again when it is old
		e.set(sample, keys, disk)
	}
}

// unchanged reports whether estimates are as good as when they were taken, as far as can be seen.
func (e *tableStats) unchanged(disk int64) bool {
	if !e.known || e.added > 0 || e.disk == 0 || time.Since(e.at) > unchangedAge {
		return false
	}
	return math.Abs(float64(disk-e.disk)) <= changedBy*float64(e.disk)
}

func (e *tableStats) set(sample *stats.Table, keys map[base.RegionID]base.Key, disk int64) {
	e.rows, e.known, e.sample, e.keys, e.disk = uint64(sample.Rows), true, sample, keys, disk
	e.at, e.looked, e.added = time.Now(), time.Now(), 0
	e.taken++
}

// disk is what a table takes in the store of this node, in bytes, but for what is in memory only.
func (s *Stats) disk(t *schema.Table) (sum int64) {
	if s.env.SpanBytes == nil {
		return 0
	}
	for _, span := range spansOf(t) {
		n, err := s.env.SpanBytes(span.Start, span.End)
		if err != nil {
			return 0 // the store says so itself
		}
		sum += n
	}
	return sum
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
	e, unlock := s.fresh(t)
	unlock()
	disk := s.disk(t)
	sample, keys, err := s.collect(ctx, t, 0, math.MaxInt)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.set(sample, keys, disk)
	return nil
}

// collect draws a sample of the rows as they were at a moment. It reads so many rows at most: all,
// if there are no more, else pieces of a table of which this node has a copy, else shard by shard
// until there were enough.
func (s *Stats) collect(ctx context.Context, t *schema.Table, at base.Timestamp, most int) (
	*stats.Table, map[base.RegionID]base.Key, error) {
	k := s.db.Begin(kv.Options{ReadOnly: true, ReadTS: at})
	defer k.Rollback(context.Background())
	g := newGathering(t, k)
	if most < math.MaxInt && s.disk(t) > mostWhole {
		if done, err := s.collectPieces(ctx, g, most); err != nil || done != nil {
			return done, g.keys, err
		}
		g = newGathering(t, k)
	}
	end, err := g.read(ctx, spansOf(t), most)
	if err != nil {
		return nil, nil, err
	}
	if end == nil {
		return g.c.Table(1), g.keys, nil
	}
	p := newGathering(t, k)
	if done, err := s.collectPieces(ctx, p, most); err != nil || done != nil {
		return done, p.keys, err
	}
	// Of the shard that was begun, nobody knows how much was seen.
	shards := t.Shards()
	return g.c.Table(float64(len(shards)) / float64(max(slices.Index(shards, end.Shard()), 1))), g.keys, nil
}

// collectPieces reads pieces of a table, at about the same distance from each other, and takes the
// rest to be like them. It has no result if nothing is known of what the table takes here.
func (s *Stats) collectPieces(ctx context.Context, g *gathering, most int) (*stats.Table, error) {
	if s.env.SpanBytes == nil {
		return nil, nil
	}
	var all []stats.Piece
	var total, seen int64
	coarse := max(pieceBytes, s.disk(g.t)/(4*pieces))
	for _, span := range spansOf(g.t) {
		part, err := stats.Pieces(span, coarse, s.env.SpanBytes)
		if err != nil {
			return nil, nil // the store says so itself
		}
		all = append(all, part...)
	}
	for _, p := range all {
		total += p.Bytes
	}
	r := rand.New(rand.NewPCG(g.seed, 2))
	n := min(pieces, len(all))
	for i := range n {
		lo, hi := i*len(all)/n, (i+1)*len(all)/n
		p, err := all[lo+r.IntN(hi-lo)].Narrow(pieceBytes, s.env.SpanBytes, r)
		if err != nil {
			return nil, nil
		}
		end, err := g.read(ctx, []base.Span{p.Span}, most/n)
		if err != nil {
			return nil, err
		}
		if end != nil {
			if p.Bytes, err = s.env.SpanBytes(p.Start, end); err != nil {
				return nil, nil
			}
		}
		seen += p.Bytes
	}
	if seen == 0 || g.c.Seen() == 0 {
		return nil, nil
	}
	return g.c.Table(float64(total) / float64(seen)), nil
}

// gathering is a sample that is being drawn.
type gathering struct {
	t    *schema.Table
	k    kv.Txn
	c    *stats.Collector
	seed uint64
	keys map[base.RegionID]base.Key // of one row at each home
}

func newGathering(t *schema.Table, k kv.Txn) *gathering {
	seed := stats.Seed(t.Desc.DB + "." + t.Desc.Name)
	return &gathering{t, k, stats.NewCollector(len(t.Cols), seed), seed, map[base.RegionID]base.Key{}}
}

// read takes the rows of spans, at most so many, and returns where it stopped; nil: at the end.
func (g *gathering) read(ctx context.Context, spans []base.Span, most int) (end base.Key, err error) {
	req := &kv.ScanRequest{Spans: spans, MaxBytes: BatchBytes}
	for req != nil {
		res, err := g.k.Scan(kv.WithQuiet(ctx), *req)
		if err != nil {
			return nil, err
		}
		for _, row := range res.Rows {
			if most--; most < 0 {
				return row.Key, nil
			}
			if g.keys[row.Home] == nil {
				g.keys[row.Home] = row.Key
			}
			if slot := g.c.Next(row.Home, len(row.Key)+len(row.Value)); slot >= 0 {
				vals, err := keysOf(ctx, g.t, row.Value)
				if err != nil {
					return nil, err
				}
				g.c.Put(slot, vals)
			}
		}
		req = res.Next
	}
	return nil, nil
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
