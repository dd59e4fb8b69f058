package sim

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/node/residency"
	"github.com/godwitdb/godwit/policy/placement"
	"github.com/godwitdb/godwit/wire"
)

// canaries are in every value of a placement, by its number, and in nothing else.
var canaries = map[base.PlacementID]string{1: "@canary", 2: "@grackle"}

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
	w.ident.First = placement.Place(w.ident.First)
}

// placedShard is the shard of a number in the placement of a run.
func placedShard(cfg *Config, n int) base.ShardID {
	return base.ShardID(base.PlacementID(1).ShardBefore(cfg.Shards) + n)
}

// rowPlaced makes the sections of a table whose rows lie in one of two placements or everywhere,
// in a shard of each. The table id names the last region, which is not in the first placement.
func (ks *keyspace) rowPlaced(cfg *Config, n int) (out []*section) {
	last := base.RegionID(cfg.Regions)
	for i, place := range []base.Placed{{}, {ID: 1, First: 1}, {ID: 2, First: base.RegionID(cfg.Placed + 1)}} {
		shard, home, ix := base.ShardID(1), last, base.IndexID(0)
		if place.ID != 0 {
			home = place.First
			if !cfg.Break.NoBegun {
				ix = ix.BegunIn(home)
			}
			shard += base.ShardID(place.ID.ShardBefore(cfg.Shards))
		}
		name := fmt.Sprint("r", i)
		ks.belongs[name] = place.ID
		if cfg.Break.Astray && place.ID != 0 {
			shard = base.ShardID(cfg.Shards)
		}
		s := &section{name: name, prefix: base.IndexPrefix(shard, base.MakeTableID(tableRows, last), ix, 0), home: home}
		ks.fill(s, n)
		out = append(out, s)
	}
	return out
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
	for i := range t.Placements {
		p := &t.Placements[i]
		if p.Has(t.RegionOf(from)) && !p.Has(t.RegionOf(to)) && bytes.Contains(body, []byte(canaries[p.ID])) {
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
		for _, p := range w.topology().Placements {
			r, err := residency.Audit(context.Background(), l.store, w.topology(), h.id,
				residency.Request{Find: canaries[p.ID], Placement: p.Name})
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
