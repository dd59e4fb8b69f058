package moments

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/server"
)

const (
	// Every is the time between two moments, first how long after a start the first one is kept.
	Every = 30 * time.Second
	first = 5 * time.Second
	// Kept is how long a moment is kept, mostBytes how much all may take. If they take more,
	// those are dropped that are closest to others: the hour stays whole, and gets coarser.
	Kept      = time.Hour
	mostBytes = 256 << 10
)

// Moment is the cluster as a node has seen it at a time.
type Moment struct {
	At    time.Time       `json:"at"`
	State json.RawMessage `json:"state"` // of type state
}

// state has the rows of some tables as they were.
type state struct {
	Nodes      [][]any `json:"nodes"`
	RoundTrips [][]any `json:"round_trips"`
	Links      [][]any `json:"region_links"`
	Answers    [][]any `json:"answers"`
}

// nodeColumns are those of nodes.
var nodeColumns = []string{"node", "region", "state", "leads", "statements"}

// Ring are the moments that a node keeps, the oldest first. It is safe for concurrent use.
type Ring struct {
	mu    sync.Mutex
	all   []Moment
	bytes int
}

// Add keeps a moment, if it is later than all others.
func (r *Ring) Add(m Moment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.all); n > 0 && !m.At.After(r.all[n-1].At) {
		return
	}
	r.all = append(r.all, m)
	r.bytes += len(m.State)
	r.bound(m.At)
}

// Fill adds what another node has kept from before this one began.
func (r *Ring) Fill(older []Moment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(older, func(a, b Moment) int { return a.At.Compare(b.At) })
	if len(r.all) > 0 {
		begin := r.all[0].At
		older = slices.DeleteFunc(older, func(m Moment) bool { return !m.At.Before(begin) })
	}
	r.all = append(older, r.all...)
	r.bytes = 0
	for _, m := range r.all {
		r.bytes += len(m.State)
	}
	if n := len(r.all); n > 0 {
		r.bound(r.all[n-1].At)
	}
}

func (r *Ring) bound(now time.Time) {
	old := 0
	for old < len(r.all) && now.Sub(r.all[old].At) > Kept {
		old++
	}
	r.drop(func(i int) bool { return i < old })
	for r.bytes > mostBytes && len(r.all) > 1 {
		least := r.dispensable()
		r.drop(func(i int) bool { return i == least })
	}
}

// dispensable is the moment without which the longest gap around it is the shortest; never the
// last, nor the first of several.
func (r *Ring) dispensable() (best int) {
	least := time.Duration(-1)
	for i := 1; i+1 < len(r.all); i++ {
		if gap := r.all[i+1].At.Sub(r.all[i-1].At); least < 0 || gap < least {
			best, least = i, gap
		}
	}
	return best
}

func (r *Ring) drop(which func(i int) bool) {
	kept := r.all[:0]
	for i, m := range r.all {
		if which(i) {
			r.bytes -= len(m.State)
		} else {
			kept = append(kept, m)
		}
	}
	clear(r.all[len(kept):])
	r.all = kept
}

// All are the moments.
func (r *Ring) All() []Moment {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// Newest is the newest moment; none: it is of no time.
func (r *Ring) Newest() (m Moment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.all); n > 0 {
		m = r.all[n-1]
	}
	return m
}

// What nodes ask each other: for all moments, and for the newest.
const (
	AskAll    = "moments"
	AskNewest = "moment"
)

// Source is what a ring is told of the cluster.
type Source struct {
	Self     base.NodeID
	Topology func() *base.Topology
	Live     func(base.NodeID) bool
	Leader   func(base.GroupID) base.NodeID
	// Between are the rows of round_trips.
	Between func(context.Context) [][]any
	// Shares are those of all nodes that answer. Ask asks a node one question, and does not wait
	// for long.
	Shares func(context.Context) []Share
	Ask    func(ctx context.Context, of base.NodeID, name string, body []byte) ([]byte, error)
}

// mostAsked is how many nodes are asked for what was before, each for up to mostBytes.
const mostAsked = 3

// Run keeps moments until the context ends. The node that leads the meta group asks all others for
// their shares, and the others ask it: so the messages grow with the nodes, and not with their
// square. Who gets no answer asks all others itself. What was before this node began it gets from
// another one once, as soon as one answers.
func (r *Ring) Run(ctx context.Context, s Source) {
	filled := false
	for pause := first; ; pause = Every {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if m, ok := s.told(ctx); !ok {
			r.Add(s.now(ctx))
		} else if !m.At.IsZero() {
			r.Add(m)
		}
		if !filled {
			var older []Moment
			older, filled = s.older(ctx)
			r.Fill(older)
		}
	}
}

// told is the newest moment of the node that asks all others; false: it is this one, or it does not
// answer.
func (s *Source) told(ctx context.Context) (m Moment, ok bool) {
	leader := s.Leader(base.MetaGroup)
	return m, leader != 0 && leader != s.Self && s.ask(ctx, leader, AskNewest, &m)
}

// older are the moments of the node, of a few that are asked, which remembers the most. Those of
// the same region come first. ok is false if none answers.
func (s *Source) older(ctx context.Context) (most []Moment, ok bool) {
	t := s.Topology()
	nodes := slices.DeleteFunc(slices.Clone(t.Nodes), func(n base.Node) bool { return n.Gone || n.ID == s.Self || !s.Live(n.ID) })
	slices.SortStableFunc(nodes, func(a, b base.Node) int { return s.far(t, a) - s.far(t, b) })
	for _, n := range nodes[:min(mostAsked, len(nodes))] {
		var all []Moment
		if !s.ask(ctx, n.ID, AskAll, &all) {
			continue
		}
		ok = true
		if len(all) > 0 && (most == nil || all[0].At.Before(most[0].At)) {
			most = all
		}
		if len(most) > 0 && time.Since(most[0].At) >= Kept*3/4 {
			break
		}
	}
	return most, ok
}

// far is 1 of a node of another region.
func (s *Source) far(t *base.Topology, n base.Node) int {
	if n.Region == t.RegionOf(s.Self) {
		return 0
	}
	return 1
}

func (s *Source) ask(ctx context.Context, of base.NodeID, name string, into any) bool {
	b, err := s.Ask(ctx, of, name, nil)
	return err == nil && json.Unmarshal(b, into) == nil
}

func (s *Source) now(ctx context.Context) Moment {
	shares, t := s.Shares(ctx), s.Topology()
	x := state{RoundTrips: s.Between(ctx), Links: LinkRows(t, shares), Answers: AnswerRows(t, shares)}
	leads, statements := map[base.NodeID]int{}, map[base.NodeID]any{}
	for _, g := range t.Groups() {
		leads[s.Leader(g)]++
	}
	for _, a := range shares {
		n := int64(0)
		for _, x := range a.Answers {
			n += x.Statements
		}
		statements[a.Node] = n
	}
	for _, n := range t.Nodes {
		if n.Gone {
			continue
		}
		is := "live"
		if !s.Live(n.ID) {
			is = "dead"
		}
		x.Nodes = append(x.Nodes, []any{n.ID, t.RegionName(n.Region), is, leads[n.ID], statements[n.ID]})
	}
	b, err := json.Marshal(x)
	if err != nil {
		b = []byte("{}") // numbers and names can always be encoded
	}
	return Moment{At: time.Now().UTC(), State: b}
}

// momentTopic is what the database godwit shows of a ring.
var momentTopic = server.Topic{Name: "moments", Comment: "the cluster as it was at moments of the last hour", Columns: slices.Concat(
	columns(server.TopicTime, "at"), columns(server.TopicJSON, "state"))}

// shownTable is a table in a moment, as moments shows it.
type shownTable struct {
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
}

// MomentRows are the rows of moments.
func MomentRows(all []Moment) (rows [][]any) {
	names := func(topic string) (out []string) {
		for _, t := range Topics {
			for _, c := range t.Columns {
				if t.Name == topic {
					out = append(out, c.Name)
				}
			}
		}
		return out
	}
	links, answers := names("region_links"), names("answers")
	for _, m := range all {
		var s state
		if json.Unmarshal(m.State, &s) != nil {
			continue // of a version that keeps something else
		}
		b, err := json.Marshal(map[string]shownTable{"nodes": {nodeColumns, s.Nodes}, "region_links": {links, s.Links},
			"round_trips": {[]string{"from_region", "to_region", "rtt_ms"}, s.RoundTrips}, "answers": {answers, s.Answers}})
		if err == nil {
			rows = append(rows, []any{m.At.UTC(), string(b)})
		}
	}
	return rows
}
