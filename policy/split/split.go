// Package split decides when a table should get more shards of its own. It takes facts and returns
// a decision: one table at a time, after the reason has held for a while, and not again soon. A
// split writes the whole table anew, so nothing is split that would not spread over more nodes.
package split

import (
	"encoding/json"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Params say when tables are split.
type Params struct {
	// Mode is auto, off, or dry_run: decide and report only.
	Mode string `json:"mode"`
	// ShardMB is from how many MiB on disk, in each of its shards, a table is too large for them.
	ShardMB int64 `json:"shard_mb"`
	// Rate is from how many requests per second, to its leads, a node counts as loaded.
	Rate float64 `json:"node_requests_per_s"`
	// After is for how long a reason must hold, and Pause how long a table is left alone after a
	// split, and all tables of a cluster after one that failed; as of [time.ParseDuration].
	After string `json:"after"`
	Pause string `json:"pause"`

	after, pause time.Duration
}

// Defaults are cautious: a split of a shard of 4 GiB reads and writes as much, in all copies.
func Defaults() Params {
	return Params{Mode: "auto", ShardMB: 4096, Rate: 2000, After: "10m0s", Pause: "24h0m0s"}
}

// Read reads the parameters as JSON.
func Read(data []byte) (p Params, err error) {
	if err = json.Unmarshal(data, &p); err == nil {
		err = p.validate()
	}
	return p, err
}

func (p *Params) validate() (err error) {
	if !slices.Contains([]string{"auto", "off", "dry_run"}, p.Mode) {
		return base.Errorf(base.CodeInvalid, "split.mode is %q; it must be auto, off or dry_run", p.Mode)
	}
	if p.ShardMB < 1 {
		return base.Errorf(base.CodeInvalid, "split.shard_mb is %d; it must be 1 or more", p.ShardMB)
	}
	if p.Rate <= 0 {
		return base.Errorf(base.CodeInvalid, "split.node_requests_per_s is %g; it must be more than 0", p.Rate)
	}
	if p.after, err = time.ParseDuration(p.After); err != nil || p.after <= 0 {
		return base.Errorf(base.CodeInvalid, "split.after is %q; it must be a duration like 10m", p.After)
	}
	if p.pause, err = time.ParseDuration(p.Pause); err != nil || p.pause <= 0 {
		return base.Errorf(base.CodeInvalid, "split.pause is %q; it must be a duration like 24h", p.Pause)
	}
	return nil
}

// Table is what is known of a table that may be split.
type Table struct {
	ID      base.TableID
	Name    string
	Shards  []base.ShardID
	Regions []base.RegionID // in which its shards have copies
	// Each is how many shards it has in each of its placements or copy sets.
	Each int
	// Own says that no other table has these shards, so their load is the table's.
	Own bool
	// Bytes are those of one copy on disk, in all shards; 0 if nobody has asked.
	Bytes int64
}

// Node is what is known of a node that is alive.
type Node struct {
	ID     base.NodeID
	Region base.RegionID
	// Load is the requests per second to its leads, by shard.
	Load map[base.ShardID]float64
	// Free is the room on its disk, in bytes; 0: it is not known.
	Free int64
}

func (n *Node) total() (sum float64) {
	for _, l := range n.Load {
		sum += l
	}
	return sum
}

// Facts are what a decision rests on.
type Facts struct {
	At     time.Time
	Tables []Table
	Nodes  []Node
	// Busy says that a table is being moved to other shards, by whomever: two at a time would each
	// take the other's time.
	Busy bool
}

// Decision is to split a table.
type Decision struct {
	At       time.Time    `json:"at"`
	Table    base.TableID `json:"table"`
	Name     string       `json:"name"`
	From, To int          // shards in each placement or copy set
	Reason   string       `json:"reason"` // size or load
	Why      Why          `json:"why"`
}

// Why are the numbers of a decision.
type Why struct {
	Region     base.RegionID `json:"region,omitempty"` // of the nodes counted
	Nodes      int           `json:"nodes"`            // alive, in that region
	Bytes      int64         `json:"bytes,omitempty"`  // of a copy
	ShardBytes int64         `json:"shard_bytes,omitempty"`
	Busiest    base.NodeID   `json:"busiest,omitempty"`
	Load       float64       `json:"busiest_requests_per_s,omitempty"`
	Share      float64       `json:"table_share,omitempty"` // of that load
	Idlest     base.NodeID   `json:"idlest,omitempty"`
	Least      float64       `json:"idlest_requests_per_s,omitempty"`
	HeldS      float64       `json:"held_s"` // for how long
}

// Decider remembers for how long reasons have held.
type Decider struct {
	since map[base.TableID]time.Time
	next  map[base.TableID]time.Time // when a table may be split again
	rest  time.Time                  // when any table may be
}

// NewDecider is a Decider that knows nothing yet.
func NewDecider() *Decider {
	return &Decider{since: map[base.TableID]time.Time{}, next: map[base.TableID]time.Time{}}
}

// Look decides by what is known now; nil: nothing is to be split.
func (d *Decider) Look(p Params, f Facts) *Decision {
	if p.validate() != nil || p.Mode == "off" || f.Busy {
		clear(d.since)
		return nil
	}
	var best *Decision
	held := map[base.TableID]time.Time{}
	for i := range f.Tables {
		t := &f.Tables[i]
		x := reason(&p, &f, t)
		if x == nil {
			continue
		}
		at, ok := d.since[t.ID]
		if !ok {
			at = f.At
		}
		held[t.ID] = at
		x.Why.HeldS = f.At.Sub(at).Seconds()
		if f.At.Sub(at) < p.after || f.At.Before(d.next[t.ID]) || f.At.Before(d.rest) {
			continue
		}
		if best == nil || x.Why.Bytes > best.Why.Bytes || x.Why.Bytes == best.Why.Bytes && x.Why.Load > best.Why.Load {
			best = x
		}
	}
	d.since = held
	maps.DeleteFunc(d.next, func(_ base.TableID, at time.Time) bool { return !f.At.Before(at) })
	if best != nil {
		delete(d.since, best.Table)
		d.next[best.Table] = f.At.Add(p.pause)
	}
	return best
}

// Failed notes that a split has failed: no table is split for a while.
func (d *Decider) Failed(p Params, at time.Time) {
	if p.validate() == nil {
		d.rest = at.Add(p.pause)
	}
}

// reason is why a table should be split, if it should.
func reason(p *Params, f *Facts, t *Table) *Decision {
	region, nodes := widest(f, t)
	if nodes <= t.Each { // more shards would lie on the same nodes
		return nil
	}
	x := &Decision{At: f.At, Table: t.ID, Name: t.Name, From: t.Each, To: min(roundUp(nodes), base.MaxOwnShards),
		Why: Why{Region: region, Nodes: nodes, Bytes: t.Bytes}}
	if x.Why.ShardBytes = t.Bytes / int64(max(1, len(t.Shards))); x.Why.ShardBytes > p.ShardMB<<20 {
		x.Reason = "size"
	} else if t.Own && loaded(p, f, t, x) {
		x.Reason = "load"
	} else {
		return nil
	}
	if !room(f, t) {
		return nil
	}
	return x
}

// roundUp is the least power of two that is not below n: sets of so many shards are used again.
func roundUp(n int) int { return 1 << bits.Len(uint(n-1)) }

// widest is the region of the table that has the most nodes, and how many.
func widest(f *Facts, t *Table) (region base.RegionID, most int) {
	for _, r := range t.Regions {
		n := 0
		for i := range f.Nodes {
			if f.Nodes[i].Region == r {
				n++
			}
		}
		if n > most {
			region, most = r, n
		}
	}
	return region, most
}

const (
	// most is the share of a node's load that a table must have, and idle that of the busiest
	// node's that another one of the region may have at most.
	most = 0.5
	idle = 0.25
)

// loaded reports whether the table has most of the load of a node, while another one of the region
// is idle, and more nodes than the table has shards are there.
func loaded(p *Params, f *Facts, t *Table, x *Decision) bool {
	for _, r := range t.Regions {
		var busy, idlest *Node
		nodes := 0
		for i := range f.Nodes {
			n := &f.Nodes[i]
			if n.Region != r {
				continue
			}
			nodes++
			if busy == nil || n.total() > busy.total() {
				busy = n
			}
			if idlest == nil || n.total() < idlest.total() {
				idlest = n
			}
		}
		if nodes <= t.Each || busy.total() < p.Rate || idlest.total() > idle*busy.total() {
			continue
		}
		mine := 0.0
		for _, s := range t.Shards {
			mine += busy.Load[s]
		}
		if mine < most*busy.total() {
			continue
		}
		x.Why.Region, x.Why.Nodes = r, nodes
		x.Why.Busiest, x.Why.Load, x.Why.Share = busy.ID, busy.total(), mine/busy.total()
		x.Why.Idlest, x.Why.Least = idlest.ID, idlest.total()
		x.To = min(roundUp(nodes), base.MaxOwnShards)
		return true
	}
	return false
}

// room reports whether the disks of each region have room for the table a second time, and as much
// again, as far as is known.
func room(f *Facts, t *Table) bool {
	for _, r := range t.Regions {
		free, known := int64(0), false
		for i := range f.Nodes {
			if n := &f.Nodes[i]; n.Region == r && n.Free > 0 {
				free, known = free+n.Free, true
			}
		}
		if known && free < 2*t.Bytes {
			return false
		}
	}
	return true
}
