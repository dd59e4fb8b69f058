package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// topology is the newest one that a node knows that is up.
func (w *world) topology() *base.Topology {
	t := &w.ident.First
	for _, h := range w.hosts {
		if l := h.up(); l != nil && l.node.Cluster().Topology().Version > t.Version {
			t = l.node.Cluster().Topology()
		}
	}
	return t
}

// latePatience is how long a node that joins may ask in vain, and how long its region may take
// after the last fault.
const latePatience = time.Minute

// joinLate has the nodes of the regions that come later join, one after the other, as processes do
// that are started with the address of another one.
func (w *world) joinLate() {
	for i, h := range w.hosts {
		if h.ident.Load() != nil {
			continue
		}
		id, err := w.admit(h, i)
		if err != nil {
			w.fail("node %d cannot join: %w", h.id, err)
			return
		}
		if id.Node != h.id {
			w.fail("node %d got the id %d", h.id, id.Node)
			return
		}
		h.ident.Store(id)
		w.log.printf("node %d joins", h.id)
		h.boot()
	}
}

// admit asks other nodes, in turn, to admit a node, until one does.
func (w *world) admit(h *host, seed int) (id *join.Identity, err error) {
	j := join.Joiner{UUID: fmt.Sprint(h.id), Region: fmt.Sprintf("r%d", h.region), Addr: fmt.Sprintf("local:%d", h.id),
		Knows: base.VersionNewest}
	deadline := time.Now().Add(latePatience)
	for n := seed; time.Now().Before(deadline); n++ {
		if l := w.hosts[n%len(w.hosts)].up(); l != nil {
			ctx, cancel := context.WithTimeout(l.ctx, 5*time.Second)
			id, err = l.node.Cluster().Admit(ctx, j)
			cancel()
			if err == nil {
				return id, nil
			}
		}
		time.Sleep(300 * time.Millisecond)
	}
	return nil, fmt.Errorf("nobody admits it: %w", err)
}

// awaitRegions waits until all regions are part of the cluster. There are no faults any more, so
// they must become so.
func (w *world) awaitRegions() {
	deadline := time.Now().Add(latePatience)
	for {
		t := w.topology()
		if len(t.Regions) == w.cfg.Regions && !slices.ContainsFunc(t.Regions, func(r base.Region) bool {
			return r.State != base.RegionActive && (r.ID != w.cfg.Leave || r.State != base.RegionGone)
		}) && !slices.ContainsFunc(w.hosts, func(h *host) bool { return h.region == w.cfg.Leave && h.up() != nil }) {
			w.log.printf("all regions are part of the cluster")
			return
		}
		for _, h := range w.hosts {
			// A node that hears of nobody asks the others what has become of it
			// (Bootstrap.Announce).
			if l := h.up(); l != nil && l.node.Cluster().Lost() {
				_ = l.node.Cluster().SetTopology(t)
			}
		}
		if time.Now().After(deadline) {
			var why []string
			for _, h := range w.hosts {
				if l := h.up(); l != nil {
					why = append(why, l.node.Cluster().Status(l.ctx).Problems...)
				}
			}
			w.fail("the regions are %v and %v: %v", t.Regions, t.Opening, why)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// living is a region if all gateways of the client know that rows may be at home there, else 0. One
// that does not know refuses its name.
func (c *client) living(r base.RegionID) base.RegionID {
	for _, h := range c.hosts {
		if l := h.up(); l != nil {
			if t := l.node.Cluster().Topology(); t.HomeByName(t.RegionName(r)) != r {
				return 0
			}
		}
	}
	return r
}

// Call has the questions answered by others that a region waits for, with Break.HastyRegions, and
// those that an upgrade waits for, with Break.HastyUpgrade.
func (s slowed) Call(ctx context.Context, to base.NodeID, kind wire.Kind, req, resp wan.Msg) error {
	q, ok := req.(*wire.AskRequest)
	if ok && s.brk.HastyRegions && q.Name == "region" {
		resp.(*wire.AskResponse).Body = []byte("{}")
		return nil
	}
	if ok && s.brk.HastyUpgrade && q.Name == "version" {
		resp.(*wire.AskResponse).Body = fmt.Appendf(nil, `{"knows":%d}`, base.VersionNewest)
		return nil
	}
	return s.Transport.Call(ctx, to, kind, req, resp)
}

// leave drops the region that is to leave, once all have come.
func (w *world) leave() {
	if w.cfg.Leave == 0 {
		return
	}
	w.awaitActive()
	deadline := time.Now().Add(latePatience)
	for n := 0; ; n++ {
		if l := w.hosts[n%len(w.hosts)].up(); l != nil {
			ctx, cancel := context.WithTimeout(l.ctx, 5*time.Second)
			_, err := l.node.Cluster().DropRegion(ctx, fmt.Sprintf("r%d", w.cfg.Leave), "")
			cancel()
			if r := w.topology().Region(w.cfg.Leave); err == nil || r != nil && r.State != base.RegionActive {
				w.log.printf("region %d leaves", w.cfg.Leave)
				return
			}
			if time.Now().After(deadline) {
				w.fail("region %d cannot leave: %w", w.cfg.Leave, err)
				return
			}
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// awaitActive waits until all regions have come, however long faults last.
func (w *world) awaitActive() {
	for end := time.Now().Add(w.cfg.Duration + 2*latePatience); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		t := w.topology()
		if len(t.Regions) == w.cfg.Regions && !slices.ContainsFunc(t.Regions,
			func(r base.Region) bool { return r.State != base.RegionActive }) {
			return
		}
	}
}

// checkLeft finds rows that are at home in the region that has left.
func (w *world) checkLeft() {
	if w.cfg.Leave == 0 {
		return
	}
	for _, h := range w.hosts {
		l := h.up()
		if l == nil {
			continue
		}
		for _, g := range w.topology().RegionGroups(w.cfg.Leave) {
			n, err := view.Living(l.store, g, func(base.Key) bool { return true })
			if err != nil || n > 0 {
				w.fail("node %d has %d rows of group %v, whose region is gone: %v", h.id, n, g, err)
				return
			}
		}
	}
}
