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
	// Tables are those whose bytes are asked for, each for itself; none: all of them together.
	Tables []base.TableID `json:"tables,omitempty"`
}

// Answer is what a node has.
type Answer struct {
	Node base.NodeID `json:"node"`
	// Free is the room on its disk, in bytes; 0: it is not known.
	Free int64  `json:"free,omitempty"`
	Held []Held `json:"held"`
	Led  []Led  `json:"led"`
}

// Held is a shard of which the node has a copy, or a table in it.
type Held struct {
	Shard base.ShardID `json:"shard"`
	Table base.TableID `json:"table,omitempty"`
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
	// Room is what is free on the disk, in bytes; 0: it is not known.
	Room() int64
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
func (m *Meter) Answer(q Question) Answer {
	a := Answer{Node: m.local.ID(), Free: m.local.Room()}
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
		if !seen[s] {
			seen[s] = true
			a.Held = m.held(a.Held, s, q.Tables)
		}
	}
	return a
}

// held appends what the node has of a shard.
func (m *Meter) held(to []Held, s base.ShardID, tables []base.TableID) []Held {
	add := func(t base.TableID, start base.Key) {
		if n, err := m.local.SpanBytes(start, start.PrefixEnd()); err == nil {
			to = append(to, Held{s, t, n})
		}
	}
	for _, t := range tables {
		add(t, base.IndexPrefix(s, t, 0, 0)[:base.ShardPrefixLen+8])
	}
	if len(tables) == 0 {
		add(0, base.IndexPrefix(s, 0, 0, 0)[:base.ShardPrefixLen])
	}
	return to
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
	body, _ := json.Marshal(q) // numbers can always be encoded
	answers := []Answer{m.Answer(q)}
	for _, b := range m.askOthers(ctx, AskName, body) {
		var a Answer
		if json.Unmarshal(b, &a) == nil {
			answers = append(answers, a)
		}
	}
	return answers
}

// askOthers asks the other nodes that are alive. Those that do not answer are left out.
func (m *Meter) askOthers(ctx context.Context, name string, body []byte) (answers [][]byte) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, n := range m.local.Others() {
		wg.Go(func() {
			b, err := m.local.Ask(ctx, n, name, body)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, b)
		})
	}
	wg.Wait()
	return answers
}
