package node

import (
	"log/slog"
	"os"
	"strings"
	"testing"
)

// TestCopiedStore: a copy of a store that starts beside the original ends, and says why. The
// original keeps its address and goes on.
func TestCopiedStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cfgs{}, "eu", "us", "ap")
	original := w.procs[2]
	original.stop(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(original.cfg.Store)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(NodeCerts(dir)+"/node.key", 0o600); err != nil {
		t.Fatal(err)
	}
	original.start(t)
	original.ready(t)
	id, addr := original.n.ID(), original.n.Addr()

	cfg := original.cfg
	cfg.Store, cfg.Listen, cfg.Advertise, cfg.SQLListen, cfg.SQLAdvertise = dir, "127.0.0.1:0", "", "127.0.0.1:0", ""
	for _, p := range w.procs {
		cfg.Join = append(cfg.Join, p.n.Addr())
	}
	copied, err := Start(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := copied.Wait(); err == nil || !strings.Contains(err.Error(), "another process runs with this store") {
		t.Errorf("the copy ended with %v", err)
	}
	if err := copied.Kill(); err != nil {
		t.Error(err)
	}
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
