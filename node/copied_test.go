package node

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/base"
)

// copyOf copies the store of a node that does not run.
func copyOf(t *testing.T, p *proc) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(p.cfg.Store)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(NodeCerts(dir)+"/node.key", 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// onCopy is the configuration of a process that runs with a copy of a node's store.
func (w *world) onCopy(original *proc, dir string) Config {
	cfg := original.cfg
	cfg.Store, cfg.Listen, cfg.Advertise, cfg.SQLListen, cfg.SQLAdvertise = dir, "127.0.0.1:0", "", "127.0.0.1:0", ""
	for _, p := range w.procs {
		if p.up() {
			cfg.Join = append(cfg.Join, p.n.Addr())
		}
	}
	return cfg
}

// ends starts a process that is to end by itself, and checks why it does.
func ends(t *testing.T, cfg Config, why ...string) {
	t.Helper()
	n, err := Start(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-n.Ready():
		t.Error("the process serves")
	case err := <-n.Failed():
		for _, w := range why {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("the process ended with %v, not %q", err, w)
			}
		}
	}
	if err := n.Kill(); err != nil {
		t.Error(err)
	}
}

// TestCopiedStore: a copy of a store that starts beside the original, or after it, ends, and says
// why. The original keeps its address and goes on.
func TestCopiedStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cfgs{}, "eu", "us", "ap")
	original := w.procs[2]
	original.stop(t)
	dir := copyOf(t, original)
	original.start(t)
	original.ready(t)
	id, addr := original.n.ID(), original.n.Addr()

	ends(t, w.onCopy(original, dir), "old copy", "godwit node decommission")
	for _, p := range w.procs {
		if got := p.n.cluster.Topology().Node(id).Addr; got != addr {
			t.Errorf("node %d believes node %d at %s, not %s", p.n.ID(), id, got, addr)
		}
	}
	if _, err := original.sql(t).Exec("CREATE DATABASE later"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-original.n.Failed():
		t.Fatalf("the original ended with %v", err)
	default:
	}
	original.stop(t)
	ends(t, w.onCopy(original, dir), "old copy", "godwit node decommission")
	original.start(t)
	original.ready(t)
}

// TestCopyInPlaceOfOriginal: a copy that starts while the original is down is the node from then
// on, and the original is the old copy. When all nodes start at once, each is the node that it was.
func TestCopyInPlaceOfOriginal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cfgs{}, "eu", "us", "ap")
	original := w.procs[2]
	original.stop(t)
	cfg := original.cfg
	original.cfg = w.onCopy(original, copyOf(t, original))
	original.start(t)
	original.ready(t)
	cfg.Listen, cfg.Advertise, cfg.SQLListen, cfg.SQLAdvertise = "127.0.0.1:0", "", "127.0.0.1:0", ""
	for _, p := range w.procs {
		cfg.Join = append(cfg.Join, p.n.Addr())
	}
	ends(t, cfg, "old copy")

	for _, p := range w.procs {
		p.stop(t)
	}
	for _, p := range w.procs {
		p.start(t)
	}
	for _, p := range w.procs {
		p.ready(t)
	}
	ends(t, cfg, "old copy")
}

// TestStartAlone: a node that is the whole cluster asks nobody. One of three waits until a majority
// is there, unless it is told not to.
func TestStartAlone(t *testing.T) {
	t.Parallel()
	one := newWorld(t, cfgs{}, "eu").procs[0]
	one.stop(t)
	one.start(t)
	one.ready(t)

	w := newWorld(t, cfgs{}, "eu", "us", "ap")
	for _, p := range w.procs {
		p.stop(t)
	}
	topology := &base.Topology{MetaVoters: []base.NodeID{1, 2, 3},
		Nodes: []base.Node{{ID: 1, UUID: "a"}, {ID: 2, UUID: "b"}, {ID: 3, UUID: "c"}, {ID: 4, UUID: "d"}}}
	for _, c := range []struct {
		self base.NodeID
		ok   []string
		want bool
	}{{1, nil, false}, {1, []string{"b"}, true}, {1, []string{"d"}, false}, {4, []string{"a"}, false},
		{4, []string{"a", "c"}, true}} {
		ok := map[string]bool{}
		for _, id := range c.ok {
			ok[id] = true
		}
		if got := enoughToConfirm(topology, c.self, ok); got != c.want {
			t.Errorf("node %d with %v: %v", c.self, c.ok, got)
		}
	}
	forced := w.procs[0].cfg
	forced.AcceptOldStore = true
	w.procs[0].cfg = forced
	for _, p := range w.procs {
		p.start(t)
	}
	for _, p := range w.procs {
		p.ready(t)
	}
}

// TestStoreIsPrivate: other users of the machine cannot read a store, also one that they could read
// before.
func TestStoreIsPrivate(t *testing.T) {
	t.Parallel()
	p := &proc{cfg: Config{Region: "eu", Store: t.TempDir(), Listen: "127.0.0.1:0", SQLListen: "127.0.0.1:0"}}
	if err := os.Chmod(p.cfg.Store, 0o755); err != nil {
		t.Fatal(err)
	}
	p.start(t)
	defer p.stop(t)
	if s, err := os.Stat(p.cfg.Store); err != nil || s.Mode().Perm() != 0o700 {
		t.Fatalf("%v, %v", s.Mode(), err)
	}
	// The folder belongs to one process at a time.
	cfg := p.cfg
	cfg.Listen, cfg.Advertise, cfg.SQLListen, cfg.SQLAdvertise = "127.0.0.1:0", "", "127.0.0.1:0", ""
	if n, err := Start(t.Context(), cfg, slog.New(slog.DiscardHandler)); err == nil {
		n.Kill()
		t.Fatal("two processes have one store")
	} else if !strings.Contains(err.Error(), "lock") {
		t.Fatal(err)
	}
}
