// Package shards tells what each shard holds and serves: a node measures its own replicas and
// leads, and asks the others for theirs.
package shards

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/gauge"
	"github.com/godwitdb/godwit/sql/ddl/sharding"
)

// AskName is the question that nodes ask each other.
const AskName = "shards"

// Every is the time over which requests are counted for a rate.
const Every = 10 * time.Second

// Question asks a node what it has of some shards.
type Question struct {
	// Table is the one whose bytes are asked for; 0: all of them.
	Table base.TableID `json:"table,omitempty"`
}

// Answer is what a node has.
type Answer struct {
	Held []Held `json:"held"`
	Led  []Led  `json:"led"`
}

// Held is a shard of which the node has a copy.
type Held struct {
	Shard base.ShardID `json:"shard"`
	Bytes int64        `json:"bytes"`
}

// Led is a group that the node leads, with requests per second.
type Led struct {
	Group  base.GroupID `json:"group"`
	Node   base.NodeID  `json:"node"`
	Reads  float64      `json:"reads"`
	Writes float64      `json:"writes"`
}

// Local is what this needs of the node.
type Local interface {
	ID() base.NodeID
	// Held are the groups of which the node has replicas, and Leads reports which it serves.
	Held() []base.GroupID
	Leased(g base.GroupID) bool
	// Loads are the requests to a group since the process began.
	Loads(g base.GroupID) map[gauge.Asker]gauge.Load
	// SpanBytes estimates what the rows of a span take on disk.
	SpanBytes(start, end base.Key) (int64, error)
	// Ask asks another node, and Others are those that are alive.
	Ask(ctx context.Context, node base.NodeID, name string, body []byte) ([]byte, error)
	Others() []base.NodeID
}

// Meter measures what one node has.
type Meter struct {
	local Local

	mu    sync.Mutex
	at    time.Time
	total map[base.GroupID]gauge.Load
	rate  map[base.GroupID]Led
}

// New is a Meter of a node.
func New(l Local) *Meter { return &Meter{local: l} }

// Tick counts requests since the last call, which sets the rates that are told until the next one.
func (m *Meter) Tick(now time.Time) {
	total := map[base.GroupID]gauge.Load{}
	for _, g := range m.local.Held() {
		if g == base.MetaGroup || !m.local.Leased(g) {
			continue
		}
		var sum gauge.Load
		for _, l := range m.local.Loads(g) {
			sum.Requests, sum.Writes = sum.Requests+l.Requests, sum.Writes+l.Writes
		}
		total[g] = sum
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	rate := map[base.GroupID]Led{}
	if s := now.Sub(m.at).Seconds(); !m.at.IsZero() && s > 0 {
		for g, sum := range total {
			if old, ok := m.total[g]; ok && old.Requests <= sum.Requests && old.Writes <= sum.Writes {
				w := float64(sum.Writes-old.Writes) / s
				rate[g] = Led{Writes: w, Reads: max(0, float64(sum.Requests-old.Requests)/s-w)}
			}
		}
	}
	m.at, m.total, m.rate = now, total, rate
}

// Run ticks until the context ends.
func (m *Meter) Run(ctx context.Context) {
	t := time.NewTicker(Every)
	defer t.Stop()
	m.Tick(time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-t.C:
			m.Tick(now)
		}
	}
}

// Answer answers a Question about this node.
func (m *Meter) Answer(q Question) (a Answer) {
	seen := map[base.ShardID]bool{}
	for _, g := range m.local.Held() {
		s := g.Shard()
		if g == base.MetaGroup || s == base.EpochShard {
			continue
		}
		if m.local.Leased(g) {
			m.mu.Lock()
			l := m.rate[g]
			m.mu.Unlock()
			l.Group, l.Node = g, m.local.ID()
			a.Led = append(a.Led, l)
		}
		if seen[s] {
			continue
		}
		seen[s] = true
		start := base.IndexPrefix(s, q.Table, 0, 0)[:base.ShardPrefixLen+8]
		end := start.PrefixEnd()
		if q.Table == 0 {
			start, end = start[:base.ShardPrefixLen], start[:base.ShardPrefixLen].PrefixEnd()
		}
		if n, err := m.local.SpanBytes(start, end); err == nil && end != nil {
			a.Held = append(a.Held, Held{s, n})
		}
	}
	return a
}

// AnswerJSON answers a Question as it comes from another node.
func (m *Meter) AnswerJSON(body []byte) ([]byte, error) {
	var q Question
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, err
	}
	return json.Marshal(m.Answer(q))
}

// Uses is what some shards hold and serve, as this node and the others that answer say.
func (m *Meter) Uses(ctx context.Context, t *base.Topology, q Question, shards []base.ShardID) []sharding.Use {
	answers := m.ask(ctx, q)
	at := map[base.ShardID]int{}
	out := make([]sharding.Use, 0, len(shards))
	for _, s := range shards {
		at[s] = len(out)
		out = append(out, sharding.Use{Shard: s, Bytes: -1, Leaders: map[base.GroupID]base.NodeID{}})
	}
	for _, g := range t.Groups() {
		if i, ok := at[g.Shard()]; ok && g != base.MetaGroup {
			out[i].Leaders[g] = 0
		}
	}
	for _, a := range answers {
		for _, h := range a.Held {
			if i, ok := at[h.Shard]; ok {
				out[i].Bytes = max(out[i].Bytes, h.Bytes)
			}
		}
		for _, l := range a.Led {
			if i, ok := at[l.Group.Shard()]; ok {
				out[i].Leaders[l.Group] = l.Node
				out[i].Reads += l.Reads
				out[i].Writes += l.Writes
			}
		}
	}
	return out
}

// ask asks this node and the others.
func (m *Meter) ask(ctx context.Context, q Question) []Answer {
	body, _ := json.Marshal(q) // a number can always be encoded
	answers := []Answer{m.Answer(q)}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, n := range m.local.Others() {
		wg.Go(func() {
			var a Answer
			if b, err := m.local.Ask(ctx, n, AskName, body); err != nil || json.Unmarshal(b, &a) != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, a)
		})
	}
	wg.Wait()
	return answers
}
