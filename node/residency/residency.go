// Package residency reads the store of a node and lists what lies there and may not: rows, gaps,
// logs and records of shards whose placement, or copy set of one, the node's region is not in
// (docs/protocol.md, PLACE-2, PLACE-7). It does not trust what the node believes to hold: it reads
// all records, also of groups that the node does not know.
package residency

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/wire"
)

// A Finding is what lies at a node and may not.
type Finding struct {
	Placement string       `json:"placement,omitempty"` // whose it is; empty: only a text was found
	Shard     base.ShardID `json:"shard"`
	Table     base.TableID `json:"table,omitempty"` // of rows
	// What is the kind of the records (store.Record), or says that the columns of rows name another
	// placement than the shard in which they lie.
	What    string `json:"what"`
	Records int64  `json:"records"`
	Bytes   int64  `json:"bytes"` // of keys and values, not compressed
}

// Report is what was read at a node, and what was found.
type Report struct {
	Node     base.NodeID `json:"node"`
	Region   string      `json:"region"`
	Topology uint64      `json:"topology"` // version by which it was judged
	Records  int64       `json:"records"`
	Bytes    int64       `json:"bytes"`
	Findings []Finding   `json:"findings"`
}

// Request is what a node is asked.
type Request struct {
	// Find is a text to look for in keys and values, besides, for nodes that are not in a
	// placement; empty: none. Values as SQL stores them contain the bytes of texts as they are.
	Find string `json:"find,omitempty"`
	// Placement is the one whose regions may have the text; it goes with Find.
	Placement string `json:"placement,omitempty"`
	// Belongs is the shard in which a row has to lie by its own columns (PLACE-5); 0: they do not
	// say. Nil: no row is looked into.
	Belongs func(key base.Key, row []byte) base.ShardID `json:"-"`
}

// Audit reads the store of a node in the topology.
func Audit(ctx context.Context, s *store.Store, t *base.Topology, self base.NodeID, q Request) (*Report, error) {
	find := []byte(q.Find)
	if q.Find != "" {
		p := t.PlacementByName(q.Placement)
		if p == nil {
			return nil, base.Errorf(base.CodeInvalid, "there is no placement %q, whose regions may have the text", q.Placement)
		}
		if r := t.RegionOf(self); p.Holds(r) || slices.Contains(p.All(), r) {
			find = nil
		}
	}
	out := &Report{Node: self, Region: t.RegionName(t.RegionOf(self)), Topology: t.Version}
	type place struct {
		shard base.ShardID
		table base.TableID
		what  string
	}
	found := map[place]*Finding{}
	note := func(p place, placement string, size int64) {
		if found[p] == nil {
			found[p] = &Finding{Placement: placement, Shard: p.shard, Table: p.table, What: p.what}
		}
		found[p].Records++
		found[p].Bytes += size
	}
	err := s.Walk(func(r store.Record) error {
		size := int64(len(r.Key) + len(r.Value))
		if out.Records++; out.Records%4096 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		out.Bytes += size
		for _, at := range placesOf(r) {
			if t.MayHold(at.Shard(), self) {
				continue
			}
			note(place{at.Shard(), at.Table(), r.Area}, t.PlacementOf(at.Shard()).Name, size)
			return nil
		}
		if r.Row != nil && q.Belongs != nil {
			if s := q.Belongs(r.Key, r.Row); s != 0 && !t.MayHold(s, self) {
				note(place{r.Shard, base.Key(r.Key).Table(), "misplaced row"}, t.PlacementOf(s).Name, size)
				return nil
			}
		}
		if len(find) > 0 && (bytes.Contains(r.Key, find) || bytes.Contains(r.Value, find)) {
			p := place{r.Shard, base.Key(r.Key).Table(), r.Area + " with the text"}
			if r.Area != "version" && r.Area != "mark" {
				p.table = 0
			}
			note(p, "", size)
		}
		return nil
	})
	for _, f := range found {
		out.Findings = append(out.Findings, *f)
	}
	slices.SortFunc(out.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Table, b.Table), cmp.Compare(a.What, b.What))
	})
	return out, err
}

// placesOf are keys in all shards to which a record belongs: its own, and those of the keys that an
// entry of a log writes.
func placesOf(r store.Record) []base.Key {
	if r.Area == "version" || r.Area == "mark" {
		return []base.Key{r.Key}
	}
	out := []base.Key{base.IndexPrefix(r.Shard, 0, 0, 0)}
	var c wire.Command
	if r.Command == nil || c.UnmarshalVT(r.Command) != nil {
		return out
	}
	for _, ws := range [][]*wire.Write{c.GetCommit().GetWrites(), c.GetPrepare().GetWrites(), c.GetStage().GetWrites()} {
		for _, w := range ws {
			out = append(out, w.Key)
		}
	}
	for _, k := range c.GetCollect().GetKeys() {
		out = append(out, k)
	}
	for _, x := range c.GetPrepare().GetSpans() {
		out = append(out, x.Start)
	}
	return out
}

// String is the finding on a line.
func (f Finding) String() string {
	of := "shard " + fmt.Sprint(f.Shard)
	if f.Placement != "" {
		of += " of placement " + f.Placement
	}
	if f.Table != 0 {
		of += fmt.Sprintf(", table %d", f.Table)
	}
	return fmt.Sprintf("%s: %d %s records, %d bytes", of, f.Records, f.What, f.Bytes)
}
