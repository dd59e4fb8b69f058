package sim

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/node/residency"
	"github.com/godwitdb/godwit/policy/placement"
	"github.com/godwitdb/godwit/wire"
)

// canaries are in every value of a placement, or copy set, by its number, and in nothing else.
var canaries = map[base.PlacementID]string{1: "@canary", 2: "@grackle", 3: "@bulbul", 4: "@dunnock", 5: "@siskin"}

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
	if w.cfg.RowPlaced {
		p := base.Placement{ID: 2, Name: "elsewhere"}
		for r := w.cfg.Placed + 1; r <= w.cfg.Regions; r++ {
			p.Regions = append(p.Regions, base.RegionID(r))
		}
		w.ident.First.Placements = append(w.ident.First.Placements, p)
	}
	if w.cfg.Sets != nil {
		w.ident.First.Placements = w.cfg.Sets
	}
	w.ident.First = placement.Place(w.ident.First)
}

// placedShard is the shard of a number in the placement of a run.
func placedShard(cfg *Config, n int) base.ShardID {
	return base.ShardID(base.PlacementID(1).ShardBefore(cfg.Shards) + n)
}

// relocates moves a row of such a table to another placement, in one transaction.
func (m *mixed) relocates() {
	n, from, to := m.rng.IntN(m.keys), m.rows[m.rng.IntN(len(m.rows))], m.rows[m.rng.IntN(len(m.rows))]
	m.run("relocate", m.opts(), func(t *tx) error {
		if from != to {
			t.del(from.key(n))
		}
		t.put(to.key(n), t.value(), m.homed())
		return nil
	})
}

// inside is the placement of a key; nil if it has none.
func (t *tx) inside(name string) *base.Placement {
	if sec, _, _ := strings.Cut(name, "."); t.c.ks.belongs[sec] != 0 {
		return t.c.w.ident.First.Placement(t.c.ks.belongs[sec])
	}
	return t.c.w.ident.First.PlacementOf(t.c.ks.keys[name].Shard())
}

// marked is a value as it is written to a key.
func (t *tx) marked(name, value string) string {
	if p := t.inside(name); p != nil {
		return value + canaries[p.ID]
	}
	return value
}

// placed is the home that a client asks for, if the key may have it; else that of its placement.
func (t *tx) placed(name string, home base.RegionID) base.RegionID {
	if p := t.inside(name); p != nil && home != 0 && !t.c.w.cfg.Break.AnyHome {
		return p.Placed().HomeOf(home)
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
	for i := range t.Placements {
		p := &t.Placements[i]
		if all := p.All(); slices.Contains(all, t.RegionOf(from)) && !slices.Contains(all, t.RegionOf(to)) && bytes.Contains(body, []byte(canaries[p.ID])) {
			w.fail("node %d sends node %d, which is outside of the placement, a value of it in a %v message", from, to, kind)
		}
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
		t := apart(w.topology())
		for _, p := range t.Placements {
			r, err := residency.Audit(context.Background(), l.store, t, h.id, residency.Request{Find: canaries[p.ID], Placement: p.Name})
			if err != nil {
				w.fail("node %d cannot be audited: %w", h.id, err)
				continue
			}
			for _, f := range r.Findings {
				w.fail("node %d, which is outside of the placement, has %v", h.id, f)
			}
		}
	}
}

// apart is a topology in which each copy set of a placement is one of its own: what is not in the
// set is looked for in the stores of all other regions, also in those of the placement.
func apart(t *base.Topology) *base.Topology {
	out := *t
	out.Placements = slices.Clone(t.Placements)
	for i := range out.Placements {
		if p := &out.Placements[i]; p.Set != nil {
			p.Name, p.Set = fmt.Sprint(p.Name, "-", p.ID), nil
		}
	}
	return &out
}
