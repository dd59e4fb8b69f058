package e2e

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// oldCommitVar names a commit of this repository to upgrade from. It is to be one before cluster
// versions and regions that come and go, as 1c7a5020 is.
const oldCommitVar = "GODWIT_E2E_OLD_COMMIT"

// buildCommit builds the command of a commit.
func buildCommit(t *testing.T, commit string) string {
	t.Helper()
	dir := t.TempDir()
	archive := exec.Command("git", "archive", commit)
	archive.Dir = filepath.Join("..", "..")
	out, err := archive.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := archive.Start(); err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(out); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("git archive %s: %v", commit, err)
		}
		path := filepath.Join(dir, filepath.Clean("/"+h.Name))
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(path, 0o700)
		case tar.TypeReg:
			var b []byte
			if b, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, b, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Wait(); err != nil {
		t.Fatalf("git archive %s: %v", commit, err)
	}
	program := filepath.Join(dir, "godwit")
	build := exec.Command("go", "build", "-tags", "gms_pure_go", "-o", program, "./cmd/godwit")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", commit, err, out)
	}
	return program
}

// refuses waits until a node ends by itself, and says why.
func (n *node) refuses(t *testing.T, what, want string) {
	t.Helper()
	n.start(t)
	select {
	case <-n.gone:
	case <-time.After(patience):
		n.kill()
		t.Fatalf("%s: the old build runs on:\n%s", what, n.log())
	}
	if !strings.Contains(n.log(), want) {
		t.Errorf("%s: the old build does not say %q:\n%s", what, want, n.log())
	}
}

// TestUpgradeFromCommit upgrades a cluster of real processes of an older commit node by node with
// kill -9 under load, takes one node back, finalizes, and has the old build refused.
func TestUpgradeFromCommit(t *testing.T) {
	commit := os.Getenv(oldCommitVar)
	if commit == "" {
		t.Skipf("set %s to a commit to upgrade from", oldCommitVar)
	}
	old := buildCommit(t, commit)
	c := startBuild(t, old, t.TempDir(), 3, 1)
	t.Cleanup(c.kill)
	c.logOnFailure(t)
	l := openLedger(t, c, "ledger")
	l.advances(t, 20, c.regions...)
	as := func(n *node, program string) {
		t.Helper()
		n.kill()
		n.program = program
		n.start(t)
		n.awaitSQL(t)
		l.advances(t, 20, c.regions...)
	}
	finalize := func(want string) {
		t.Helper()
		code, out, errs := godwit(t, "upgrade", "finalize", "--addr", c.nodes[0].addr)
		if !strings.Contains(out+errs, want) {
			t.Errorf("finalize: %d, %q, want %q", code, out+errs, want)
		}
	}
	as(c.nodes[0], "")
	finalize("there is nothing to finalize")
	if _, out, errs := godwit(t, "upgrade", "status", "--addr", c.nodes[0].addr); !strings.Contains(out, "The cluster acts by version 6. Version 8") {
		t.Errorf("status: %s %s", out, errs)
	}
	pool := c.nodes[0].open(t, "ledger")
	exec1(t, pool, "CREATE TABLE names (s VARCHAR(10) COLLATE utf8mb4_general_ci PRIMARY KEY, n INT)")
	exec1(t, pool, "INSERT INTO names VALUES ('a', 1), ('b ', 2)")
	var n int
	if err := c.nodes[2].open(t, "ledger").QueryRow("SELECT n FROM names WHERE s = 'b '").Scan(&n); err != nil || n != 2 {
		t.Errorf("the old build does not find by key what the new one has written: %d, %v", n, err)
	}
	as(c.nodes[1], "")
	as(c.nodes[0], old) // back
	as(c.nodes[0], "")
	late := &node{region: "region-x", dir: filepath.Join(t.TempDir(), "x"), addr: port(t), sql: port(t), join: c.nodes[1].addr}
	late.refuses(t, "a region that is added", "needs cluster version 7")
	as(c.nodes[2], "")
	finalize("the cluster acts by version 10")
	l.advances(t, 20, c.regions...)

	// Its own store the old build does not open; with an empty one the others refuse it.
	c.nodes[2].kill()
	c.nodes[2].program = old
	c.nodes[2].refuses(t, "on its store", "knows formats up to 6")
	as(c.nodes[2], "")
	stranger := &node{region: c.regions[0], dir: filepath.Join(t.TempDir(), "y"), addr: port(t), sql: port(t), join: c.nodes[1].addr, program: old}
	stranger.refuses(t, "on an empty store", "this build knows versions up to 6")
	l.compare(t, "ledger")
}
