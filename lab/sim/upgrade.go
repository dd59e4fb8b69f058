package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
)

// With Config.Upgrade a run is an upgrade. Each life of a node is of the build of before or of this
// one, as the seed has it, until faults are over; then all are of this one. Meanwhile somebody
// tries to raise the version of the cluster, again and again. It may be raised as soon as all nodes
// happen to know it: from then on no node of the build of before runs.

// open opens the store of a host with the build of a life. One that is too old is refused.
func (h *host) open(o store.Options, life int) (*store.Store, error) {
	w := h.w
	rng := rand.New(rand.NewPCG(w.cfg.Seed, uint64(h.id)<<32|uint64(life)))
	if w.cfg.Upgrade && !w.newer.Load() && rng.IntN(2) == 0 {
		o.Knows = base.VersionFirst
		st, err := store.Open(o)
		if err == nil {
			return st, nil
		}
		w.log.printf("node %d: the build of before is refused: %v", h.id, err)
		w.refused.Add(1)
		o.Knows = 0
	}
	return store.Open(o)
}

// tryUpgrade tries to raise the version until stop is closed.
func (w *world) tryUpgrade(stop chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(700 * time.Millisecond):
			w.finalize(n)
		}
	}
}

// finalize asks a node to raise the version, and reports whether it is raised.
func (w *world) finalize(n int) error {
	l := w.hosts[n%len(w.hosts)].up()
	if l == nil {
		return base.Errorf(base.CodeUnavailable, "node is down")
	}
	ctx, cancel := context.WithTimeout(l.ctx, 5*time.Second)
	defer cancel()
	t, err := l.node.Cluster().FinalizeUpgrade(ctx)
	if err == nil {
		w.log.printf("the cluster acts by version %d", t.Acts())
	}
	return err
}

// checkBuilds looks, all the time, for a node of the build of before in a cluster that acts by the
// version of this one (VERSION-2).
func (w *world) checkBuilds(stop chan struct{}) {
	for {
		acts := w.topology().Acts()
		for _, h := range w.hosts {
			if l := h.up(); l != nil && !l.dead.Load() && l.store.Knows() < acts {
				w.fail("node %d knows versions up to %d, and the cluster acts by %d", h.id, l.store.Knows(), acts)
			}
		}
		select {
		case <-stop:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// finishUpgrade starts all nodes as this build, and has the version raised. There are no faults any
// more, so that must come about.
func (w *world) finishUpgrade() {
	w.newer.Store(true)
	for _, h := range w.hosts {
		if l := h.up(); l == nil || l.store.Knows() < base.VersionNewest {
			h.crash()
			h.boot()
		}
	}
	deadline := time.Now().Add(latePatience)
	for n := 0; w.topology().Acts() < base.VersionNewest; n++ {
		if err := w.finalize(n); err != nil && time.Now().After(deadline) {
			w.fail("the upgrade cannot be finalized: %w", err)
			return
		}
		time.Sleep(300 * time.Millisecond)
	}
	h := w.hosts[int(w.cfg.Seed)%len(w.hosts)]
	for time.Now().Before(deadline) && h.up().node.Cluster().Topology().Acts() < base.VersionNewest {
		time.Sleep(300 * time.Millisecond)
	}
	h.crash()
	if st, err := store.Open(store.Options{Dir: "db", FS: h.fs, Simulation: true, Knows: base.VersionFirst}); err == nil {
		w.fail("node %d: the build of before opens the store of a cluster that does not act by its version", h.id)
		_ = st.Close()
	}
	h.boot()
}
