package cluster

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/cluster/upgrade"
)

// older is a cluster of three regions whose nodes know the first version, but for some.
func older(t *testing.T, newer ...base.NodeID) *world {
	first := topo(1, 1, 1, 1)
	first.ClusterVersion = 0
	w := newWorld(t, first)
	for _, n := range w.sorted() {
		n.knows = base.VersionFirst
		if only(newer...)(n.id) {
			n.knows = 0
		}
		n.stop()
		n.start()
	}
	return w
}

// is restarts a node with a build.
func (n *testNode) is(knows base.ClusterVersion) {
	if n.up {
		n.stop()
	}
	n.knows = knows
	n.start()
}

// acts are the versions by which the nodes act, and the formats of their stores.
func (w *world) acts() (versions, formats []base.ClusterVersion) {
	for _, n := range w.sorted() {
		versions, formats = append(versions, n.cluster.Topology().Acts()), append(formats, max(n.format, base.VersionFirst))
	}
	return versions, formats
}

func (w *world) expectActs(t *testing.T, want base.ClusterVersion) {
	t.Helper()
	versions, formats := w.acts()
	for i := range versions {
		if versions[i] != want || formats[i] != want {
			t.Errorf("the nodes act by %v, with stores of %v, want %d", versions, formats, want)
			return
		}
	}
}

// The version of a cluster is raised by itself, once all nodes have had the new build for as long
// as was asked for, and not before; until then a node goes back.
func TestUpgradeIsFinalized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := older(t, 1)
		defer w.close()
		for _, n := range w.sorted() {
			if err := n.cluster.SetUpgradeParams(upgrade.Params{Finalize: "auto", After: "1m"}); err != nil {
				t.Fatal(err)
			}
		}
		waits := func(what string) {
			t.Helper()
			time.Sleep(upgrade.Every + time.Second)
			got := ""
			for _, n := range w.sorted() {
				if n.up {
					got += n.cluster.UpgradeWaits()
				}
			}
			if !strings.Contains(got, what) {
				t.Errorf("waits for %q, want %q", got, what)
			}
			if s := w.nodes[1].cluster.Status(t.Context()); !strings.Contains(strings.Join(s.Problems, "\n"), what) {
				t.Errorf("problems %q, want %q", s.Problems, what)
			}
		}
		n1, n2, n3 := w.nodes[1], w.nodes[2], w.nodes[3]
		time.Sleep(5 * time.Minute)
		waits("builds that know no more than version 6")
		n2.is(0)
		n3.is(0)
		n3.stop()
		time.Sleep(5 * time.Minute)
		waits("node 3: it does not answer")
		if _, err := n1.cluster.FinalizeUpgrade(t.Context()); err == nil || !strings.Contains(err.Error(), "node 3: it does not answer") {
			t.Errorf("with a node that is down: %v", err)
		}
		n3.is(base.VersionFirst) // back
		if _, err := n1.cluster.FinalizeUpgrade(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing to finalize") {
			t.Errorf("with a node that does not know it: %v", err)
		}
		w.expectActs(t, base.VersionFirst)
		if _, err := n2.cluster.Admit(t.Context(), join.Joiner{UUID: "new", Region: "mars", Addr: "h9:1", Knows: base.VersionNewest}); err == nil ||
			!strings.Contains(err.Error(), "needs cluster version 7") {
			t.Errorf("a region is added before: %v", err)
		}
		n3.is(0)
		waits("is finalized in")
		w.expectActs(t, base.VersionFirst)
		time.Sleep(time.Minute)
		w.expectActs(t, base.VersionNewest)
		if _, err := n1.cluster.Admit(t.Context(), join.Joiner{UUID: "old", Region: "region-1", Addr: "h9:1"}); err == nil ||
			!strings.Contains(err.Error(), "this build knows versions up to 6") {
			t.Errorf("an older build joins: %v", err)
		}
		if _, err := n2.cluster.Admit(t.Context(), join.Joiner{UUID: "new", Region: "mars", Addr: "h9:1", Knows: base.VersionNewest}); err != nil {
			t.Errorf("a region is added afterwards: %v", err)
		}
	})
}

// By hand, a version is raised at once, and never if that is to be done by hand alone.
func TestUpgradeByHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := older(t, 1, 2, 3)
		defer w.close()
		for _, n := range w.sorted() {
			if err := n.cluster.SetUpgradeParams(upgrade.Params{Finalize: "manual", After: "0s"}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Minute)
		w.expectActs(t, base.VersionFirst)
		if _, err := w.nodes[3].cluster.FinalizeUpgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		w.expectActs(t, base.VersionNewest)
		if _, err := w.nodes[3].cluster.FinalizeUpgrade(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing to finalize") {
			t.Errorf("again: %v", err)
		}
		for _, p := range []upgrade.Params{{Finalize: "never", After: "1h"}, {Finalize: "auto", After: "soon"}, {Finalize: "auto", After: "-1h"}} {
			if err := p.Validate(); err == nil {
				t.Errorf("%+v is accepted", p)
			}
		}
	})
}

// TestPromise plays the history of VERSION-2: a node says that it knows a version, and is started
// with the old build before the version is raised. It has promised on disk that no such build
// starts; a promise that comes to nothing is void, and the old build starts again.
func TestPromise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := older(t, 1, 2, 3)
		defer w.close()
		n1, n2 := w.nodes[1], w.nodes[2]
		top := n1.cluster.Topology()
		q := upgrade.Query{Promise: base.VersionNewest, Topology: top.Version}
		if knows, _, lacks := n1.cluster.upgrades.Finalizer.Ask(t.Context(), top, q); lacks != "" || knows != base.VersionNewest {
			t.Fatalf("no promise: %q, %d", lacks, knows)
		}
		if n2.format != base.VersionNewest || !n2.promise.Holds(top) {
			t.Fatalf("node 2 has promised, and the old build opens its store: format %d", n2.format)
		}
		// Another change comes between: the version is not raised, and nothing binds any more.
		if _, err := n2.cluster.Change(t.Context(), func(*base.Topology) error { return nil }); err != nil {
			t.Fatal(err)
		}
		_, err := n1.cluster.Change(t.Context(), func(now *base.Topology) error {
			if now.Version != top.Version {
				return upgrade.ErrOtherTopology
			}
			now.ClusterVersion = base.VersionNewest
			return nil
		})
		if err == nil {
			t.Error("the version is raised by void promises")
		}
		time.Sleep(time.Second)
		w.expectActs(t, base.VersionFirst)
		if _, _, lacks := n1.cluster.upgrades.Finalizer.Ask(t.Context(), top, q); !strings.Contains(lacks, "it has topology") {
			t.Errorf("a promise by an old topology: %q", lacks)
		}
		// A node that cannot promise makes the others' promises void.
		n2.is(base.VersionFirst)
		now := n1.cluster.Topology()
		if _, err := n1.cluster.Raise(t.Context(), now, base.VersionNewest); err == nil || !strings.Contains(err.Error(), "node 2") {
			t.Errorf("raised without node 2: %v", err)
		}
		time.Sleep(time.Second)
		w.expectActs(t, base.VersionFirst)
		n2.is(0)
		if _, err := n1.cluster.FinalizeUpgrade(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		w.expectActs(t, base.VersionNewest)
		n2.stop()
		n2.knows = base.VersionFirst
		next := *n1.cluster.Topology()
		next.Version++
		old := newMembership(&Options{Self: 2, Knows: base.VersionFirst, Identity: n2.identity, Transport: n2.tr})
		if err := old.SetTopology(&next); err == nil || !strings.Contains(err.Error(), "start this node with a newer build") {
			t.Errorf("the old build takes the topology: %v", err)
		}
	})
}

// A build that says nothing of versions knows the first one.
func TestOldBuildIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := older(t, 1, 2, 3)
		defer w.close()
		delete(w.nodes[3].cluster.answered, askVersion)
		c := w.nodes[1].cluster
		if knows, _, lacks := c.upgrades.Finalizer.Ask(t.Context(), c.Topology(), upgrade.Query{}); knows != base.VersionFirst || lacks != "" {
			t.Errorf("knows %d, lacks %q", knows, lacks)
		}
		q := upgrade.Query{Promise: base.VersionNewest, Topology: c.Topology().Version}
		if _, _, lacks := c.upgrades.Finalizer.Ask(t.Context(), c.Topology(), q); !strings.Contains(lacks, "node 3: its build says nothing of versions") {
			t.Errorf("it promises: %q", lacks)
		}
	})
}
