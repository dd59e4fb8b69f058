package sim

import (
	"bytes"
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/node/residency"
	"github.com/godwitdb/godwit/policy/placement"
	"github.com/godwitdb/godwit/wire"
)

// canary is in every value of a placement, and in nothing else.
const canary = "@canary"

// place adds the placement of a run to its first topology.
func (w *world) place() {
	if w.cfg.Placed == 0 {
		return
	}
	p := base.Placement{ID: 1, Name: "inside"}
	for r := 1; r <= w.cfg.Placed; r++ {
		p.Regions = append(p.Regions, base.RegionID(r))
	}
	w.ident.First.Placements = []base.Placement{p}
	w.ident.First = placement.Place(w.ident.First)
}

// placedShard is the shard of a number in the placement of a run.
func placedShard(cfg *Config, n int) base.ShardID {
	return base.ShardID(base.PlacementID(1).ShardBefore(cfg.Shards) + n)
}

// inside is the placement of a key; nil if it has none.
func (t *tx) inside(name string) *base.Placement {
	return t.c.w.ident.First.PlacementOf(t.c.ks.keys[name].Shard())
}

// marked is a value as it is written to a key.
func (t *tx) marked(name, value string) string {
	if t.inside(name) != nil {
		return value + canary
	}
	return value
}

// placed is the home that a client asks for, if the key may have it; else that of its placement.
func (t *tx) placed(name string, home base.RegionID) base.RegionID {
	if p := t.inside(name); p != nil && home != 0 && !p.Has(home) {
		return p.Regions[0]
	}
	return home
}

// contained fails the run if a node outside of the placement gets a value of it from one inside, in
// whatever message. Only what it asks for as a gateway may come: that are answers.
func (w *world) contained(from, to base.NodeID, kind wire.Kind, body []byte) {
	if w.cfg.Placed == 0 {
		return
	}
	t := &w.ident.First
	if p := &t.Placements[0]; p.Has(t.RegionOf(from)) && !p.Has(t.RegionOf(to)) && bytes.Contains(body, []byte(canary)) {
		w.fail("node %d sends node %d, which is outside of the placement, a value of it in a %v message", from, to, kind)
	}
}

// checkResidency reads the stores of all nodes.
func (w *world) checkResidency() {
	if w.cfg.Placed == 0 {
		return
	}
	for _, h := range w.hosts {
		l := h.up()
		if l == nil {
			continue
		}
		r, err := residency.Audit(context.Background(), l.store, w.topology(), h.id,
			residency.Request{Find: canary, Placement: "inside"})
		if err != nil {
			w.fail("node %d cannot be audited: %w", h.id, err)
			continue
		}
		for _, f := range r.Findings {
			w.fail("node %d, which is outside of the placement, has %v", h.id, f)
		}
	}
}
