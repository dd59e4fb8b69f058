package shards

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/split"
	"github.com/godwitdb/godwit/sql/ddl/sharding"
	"github.com/godwitdb/godwit/sql/schema"
)

const (
	// AskSplits is the question for the decisions of a node.
	AskSplits = "splits"
	// lookEvery is the time between two looks of the splitter.
	lookEvery = time.Minute
	// mostTables bounds the tables whose bytes are asked for in one look, and eventsKept the
	// decisions that are remembered.
	mostTables = 64
	eventsKept = 100
)

// Cluster is what a splitter does by the node.
type Cluster interface {
	Topology() *base.Topology
	// LeadsMeta reports whether this node leads the meta group: it decides for the cluster.
	LeadsMeta() bool
	// Snapshot is the catalog.
	Snapshot(ctx context.Context) (*schema.Snapshot, error)
	// Split gives a table so many shards of its own.
	Split(ctx context.Context, t base.TableID, shards int) error
}

// Event is a decision, and what came of it.
type Event struct {
	split.Decision
	Dry   bool          `json:"dry"`
	Took  time.Duration `json:"took"`
	Error string        `json:"error,omitempty"`
}

// Splitter gives tables more shards by itself, one at a time.
type Splitter struct {
	meter   *Meter
	cluster Cluster
	log     *slog.Logger

	mu     sync.Mutex
	params split.Params
	events []Event

	decider *split.Decider // of look alone, as what follows
	led     bool           // at the last look
}

// NewSplitter is a splitter of a node.
func NewSplitter(m *Meter, c Cluster, log *slog.Logger) *Splitter {
	return &Splitter{meter: m, cluster: c, log: log, params: split.Defaults(), decider: split.NewDecider()}
}

// SetParams changes when tables are split.
func (s *Splitter) SetParams(p split.Params) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.params = p
	return nil
}

// Events are the newest decisions of this node, the oldest first.
func (s *Splitter) Events() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// All are the newest decisions of all nodes that can be reached, the oldest first.
func (s *Splitter) All(ctx context.Context) []Event {
	out := s.Events()
	for _, b := range s.meter.askOthers(ctx, AskSplits, nil) {
		var more []Event
		if json.Unmarshal(b, &more) == nil {
			out = append(out, more...)
		}
	}
	slices.SortFunc(out, func(a, b Event) int { return a.At.Compare(b.At) })
	return out
}

// Run looks now and then until the context ends.
func (s *Splitter) Run(ctx context.Context) {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.Look(ctx)
		}
	}
}

// Look decides, and does what was decided before it returns, so two splits of this kind are never
// under way at once.
func (s *Splitter) Look(ctx context.Context) {
	s.mu.Lock()
	p := s.params
	s.mu.Unlock()
	if !s.cluster.LeadsMeta() || p.Mode == "off" || !s.cluster.Topology().Allows(base.VersionOwnShards) {
		s.led = false
		return
	}
	if !s.led { // what was seen as leader before is old
		s.led, s.decider = true, split.NewDecider()
	}
	f, err := s.facts(ctx, p)
	if err != nil {
		s.log.Debug("whether tables outgrow their shards cannot be told now", "err", err)
		return
	}
	d := s.decider.Look(p, f)
	if d == nil {
		return
	}
	e := Event{Decision: *d, Dry: p.Mode == "dry_run"}
	s.log.Info("a table outgrows its shards", "table", d.Name, "shards", d.From, "wants", d.To, "reason", d.Reason, "dry_run", e.Dry)
	if !e.Dry {
		began := time.Now()
		if err := s.cluster.Split(ctx, d.Table, d.To); err != nil {
			e.Error = err.Error()
			s.decider.Failed(p, time.Now())
			s.log.Warn("a table could not be split", "table", d.Name, "err", err)
		}
		e.Took = time.Since(began)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
	s.events = s.events[max(0, len(s.events)-eventsKept):]
}

// facts are what is known of tables and nodes.
func (s *Splitter) facts(ctx context.Context, p split.Params) (split.Facts, error) {
	snap, err := s.cluster.Snapshot(ctx)
	if err != nil {
		return split.Facts{}, err
	}
	t := s.cluster.Topology()
	f := split.Facts{At: time.Now()}
	owners := sharding.Owners(snap, func(*schema.Table) bool { return true })
	for _, x := range snap.ByID {
		f.Busy = f.Busy || x.Prev != nil
		if x.Prev != nil || !x.Desc.Locality.Splits() {
			continue
		}
		if of := tableOf(t, x, owners); spreads(t, &of) {
			f.Tables = append(f.Tables, of)
		}
	}
	if len(f.Tables) == 0 || f.Busy { // nobody needs to be asked
		return f, nil
	}
	slices.SortFunc(f.Tables, func(a, b split.Table) int { return cmp.Compare(a.ID, b.ID) })
	answers := s.meter.ask(ctx, Question{})
	f.Nodes = nodesOf(t, answers)
	s.weigh(ctx, &f, bytesOf(answers), p.ShardMB<<20)
	return f, nil
}

// spreads reports whether a region has more nodes than the table has shards.
func spreads(t *base.Topology, x *split.Table) bool {
	return slices.ContainsFunc(x.Regions, func(r base.RegionID) bool { return len(t.NodesIn(r)) > x.Each })
}

// tableOf is what the catalog says of a table.
func tableOf(t *base.Topology, x *schema.Table, owners map[base.ShardID]string) split.Table {
	out := split.Table{ID: x.Desc.ID, Name: x.Desc.DB + "." + x.Desc.Name, Shards: x.Shards(), Each: x.Desc.Shards,
		Own: x.Desc.Locality.Split != 0}
	for _, n := range out.Shards {
		// Two tables may have got the same shards (SPLIT-4).
		out.Own = out.Own && owners[n] == out.Name
	}
	for _, r := range t.Present() {
		if slices.ContainsFunc(x.Desc.Locality.Families(), func(p base.Placed) bool { return p.Allows(r.ID) }) {
			out.Regions = append(out.Regions, r.ID)
		}
	}
	return out
}

// nodesOf is what the nodes say of themselves.
func nodesOf(t *base.Topology, answers []Answer) (out []split.Node) {
	for _, a := range answers {
		n := split.Node{ID: a.Node, Region: t.RegionOf(a.Node), Load: map[base.ShardID]float64{}, Free: a.Free}
		for _, l := range a.Led {
			n.Load[l.Group.Shard()] += l.Reads + l.Writes
		}
		if x := t.Node(a.Node); x != nil && !x.Gone && !x.Away {
			out = append(out, n)
		}
	}
	return out
}

// place is a table in a shard, or all tables if it is 0.
type place struct {
	shard base.ShardID
	table base.TableID
}

// bytesOf are the bytes of the largest copies.
func bytesOf(answers []Answer) map[place]int64 {
	out := map[place]int64{}
	for _, a := range answers {
		for _, h := range a.Held {
			at := place{h.Shard, h.Table}
			out[at] = max(out[at], h.Bytes)
		}
	}
	return out
}

// weigh asks for the bytes of the tables in shards that are large. The others cannot be too large
// themselves.
func (s *Splitter) weigh(ctx context.Context, f *split.Facts, whole map[place]int64, large int64) {
	var q Question
	for i := range f.Tables {
		t := &f.Tables[i]
		sum := int64(0)
		for _, n := range t.Shards {
			sum += whole[place{n, 0}]
		}
		switch {
		case t.Own:
			t.Bytes = sum
		case sum > large*int64(len(t.Shards)) && len(q.Tables) < mostTables:
			q.Tables = append(q.Tables, t.ID)
		}
	}
	if len(q.Tables) == 0 {
		return
	}
	of := bytesOf(s.meter.ask(ctx, q))
	for i := range f.Tables {
		t := &f.Tables[i]
		for _, n := range t.Shards {
			t.Bytes += of[place{n, t.ID}]
		}
	}
}
