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
// this node's disk, if it has a copy. Those of tables that are not small are kept over a restart.
type Stats struct {
	env  *session.Env
	db   kv.DB
	kept *stats.Keeper
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
	// rowBytes is what a row took on disk when all rows were read last; 0: they were not.
	rowBytes float64
	keys     map[base.RegionID]base.Key
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
	// before, wholeAge if all of its rows were read, and it is large.
	unchangedAge = time.Hour
	wholeAge     = 24 * time.Hour
	// keptRows is how many rows a table has of which the estimates are kept over a restart. Fewer
	// are soon read again.
	keptRows   = 10_000
	sampleAge  = 10 * time.Second
	sampleWait = 5 * time.Second // for replicas nearby to show so young a moment
	changedBy  = 0.2             // of the rows: the estimates are taken again
	// wholeChanged is changedBy where all rows of a large table were read: the store moves what it
	// has together meanwhile, and pieces say less.
	wholeChanged = 0.5
	// samplers is how many samples are taken at once, and mostDue how many more may wait:
	// information_schema asks for all tables that there are. Others are taken when they are asked
	// for again.
	samplers = 2
	mostDue  = 64
)

func newTableStats(env *session.Env) *Stats {
	var records stats.Records
	if env.Local != nil {
		records = env.Local
	}
	return &Stats{env: env, db: env.DB, kept: stats.NewKeeper(records), most: countLimit, m: map[base.TableID]*tableStats{}}
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
		before := s.begin(t)
		s.mu.Lock()
		if e = s.m[t.Desc.ID]; e == nil {
			e = before
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
	if e.unchanged(disk, s.most) {
		e.running, e.looked = false, time.Now()
		s.mu.Unlock()
		return
	}
	rowBytes := e.rowBytes
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	sample, keys, err := s.collect(ctx, t, s.snapshot(ctx, age), s.most, rowBytes)
	s.mu.Lock()
	e.running = false
	if e.taken != then {
		s.mu.Unlock()
		return // ANALYZE has read all rows meanwhile
	}
	e.looked, e.added = time.Now(), 0
	if err != nil { // it stays as it was, and is tried again when it is old
		s.mu.Unlock()
		return
	}
	x := e.set(t, sample, keys, disk)
	s.mu.Unlock()
	s.keep(x)
}

// begin is what is known of a table at first: what was kept, or what it takes on disk.
func (s *Stats) begin(t *schema.Table) *tableStats {
	if x := s.kept.Load(t.Desc.ID, shapeOf(t)); x != nil && len(x.Table.Columns) == len(t.Cols) {
		return &tableStats{rows: uint64(x.Table.Rows), known: true, at: x.At, disk: x.Disk, sample: x.Table, rowBytes: x.RowBytes,
			keys: x.Keys}
	}
	return &tableStats{rows: max(defaultRows, uint64(s.disk(t)/guessBytes))}
}

// shapeOf is a hash of the columns of a table, which differs where values have other keys.
func shapeOf(t *schema.Table) uint64 { return stats.Seed(string(schema.Marshal(t.Desc.Cols))) }

// keep keeps estimates over a restart of this node.
func (s *Stats) keep(x stats.Known) {
	if x.Table.Rows < keptRows {
		return
	}
	if err := s.kept.Save(x); err != nil {
		s.env.Log.Warn("estimates of a table are not kept: after a restart they are taken again", "table", x.ID, "err", err)
	}
}

// unchanged reports whether estimates are as good as when they were taken, as far as can be seen.
// Of more rows than most only ANALYZE has read all.
func (e *tableStats) unchanged(disk int64, most int) bool {
	age, by := unchangedAge, changedBy
	if e.sample != nil && e.sample.Whole && e.rows > uint64(most) {
		age, by = wholeAge, wholeChanged
	}
	if !e.known || e.added > 0 || e.disk == 0 || time.Since(e.at) > age {
		return false
	}
	return math.Abs(float64(disk-e.disk)) <= by*float64(e.disk)
}

// set replaces the estimates, and says what is to be kept of them.
func (e *tableStats) set(t *schema.Table, sample *stats.Table, keys map[base.RegionID]base.Key, disk int64) stats.Known {
	e.rows, e.known, e.sample, e.keys, e.disk = uint64(sample.Rows), true, sample, keys, disk
	e.at, e.looked, e.added = time.Now(), time.Now(), 0
	e.taken++
	if sample.Whole {
		e.rowBytes = float64(disk) / max(sample.Rows, 1)
	}
	return stats.Known{ID: t.Desc.ID, Shape: shapeOf(t), Table: sample, At: e.at, Disk: disk, RowBytes: e.rowBytes, Keys: keys}
}

// disk is what a table takes in the store of this node, in bytes, but for what is in memory only.
func (s *Stats) disk(t *schema.Table) (sum int64) {
	if s.env.Local == nil {
		return 0
	}
	for _, span := range spansOf(t) {
		n, err := s.env.Local.SpanBytes(span.Start, span.End)
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
	sample, keys, err := s.collect(ctx, t, 0, math.MaxInt, 0)
	if err != nil {
		return err
	}
	if s.env.Local != nil {
		if err := s.env.Local.Flush(); err != nil { // else it is not known what the rows take
			return err
		}
	}
	disk := s.disk(t)
	s.mu.Lock()
	x := e.set(t, sample, keys, disk)
	s.mu.Unlock()
	s.keep(x)
	return nil
}

// collect draws a sample of the rows as they were at a moment. It reads so many rows at most: all,
// if there are no more, else pieces of a table of which this node has a copy, else shard by shard
// until there were enough. rowBytes is what a row takes on disk, 0 if that is not known.
func (s *Stats) collect(ctx context.Context, t *schema.Table, at base.Timestamp, most int, rowBytes float64) (
	*stats.Table, map[base.RegionID]base.Key, error) {
	k := s.db.Begin(kv.Options{ReadOnly: true, ReadTS: at})
	defer k.Rollback(context.Background())
	g := newGathering(t, k)
	if most < math.MaxInt && s.disk(t) > mostWhole {
		if done, err := s.collectPieces(ctx, g, most, rowBytes); err != nil || done != nil {
			return done, g.keys, err
		}
		g = newGathering(t, k)
	}
	end, err := g.read(ctx, spansOf(t), most)
	if err != nil {
		return nil, nil, err
	}
	if end == nil {
		whole := g.c.Table(1)
		whole.Whole = true
		return whole, g.keys, nil
	}
	p := newGathering(t, k)
	if done, err := s.collectPieces(ctx, p, most, rowBytes); err != nil || done != nil {
		return done, p.keys, err
	}
	// Of the shard that was begun, nobody knows how much was seen.
	shards := t.Shards()
	return g.c.Table(float64(len(shards)) / float64(max(slices.Index(shards, end.Shard()), 1))), g.keys, nil
}

// collectPieces reads pieces of a table, at about the same distance from each other, and takes the
// rest to be like them. It has no result if nothing is known of what the table takes here.
func (s *Stats) collectPieces(ctx context.Context, g *gathering, most int, rowBytes float64) (*stats.Table, error) {
	if s.env.Local == nil {
		return nil, nil
	}
	var all []stats.Piece
	var total, seen int64
	coarse := max(pieceBytes, s.disk(g.t)/(4*pieces))
	for _, span := range spansOf(g.t) {
		part, err := stats.Pieces(span, coarse, s.env.Local.SpanBytes)
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
		p, err := all[lo+r.IntN(hi-lo)].Narrow(pieceBytes, s.env.Local.SpanBytes, r)
		if err != nil {
			return nil, nil
		}
		end, err := g.read(ctx, []base.Span{p.Span}, most/n)
		if err != nil {
			return nil, err
		}
		if end != nil {
			if p.Bytes, err = s.env.Local.SpanBytes(p.Start, end); err != nil {
				return nil, nil
			}
		}
		seen += p.Bytes
	}
	if seen == 0 || g.c.Seen() == 0 {
		return nil, nil
	}
	scale := float64(total) / float64(seen)
	if rowBytes > 0 {
		// What a piece takes is known by blocks of the store. What all rows have taken says more,
		// unless they have changed much.
		if by := float64(s.disk(g.t)) / rowBytes / float64(g.c.Seen()); by > scale/2 && by < 2*scale {
			scale = by
		}
	}
	return g.c.Table(scale), nil
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
