package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
)

// filesOf lists the files of a store whose names match, the largest first.
func filesOf(t *testing.T, dir string, match func(name string) bool) []string {
	t.Helper()
	type file struct {
		path string
		size int64
	}
	var found []file
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !match(d.Name()) {
			return err
		}
		info, err := d.Info()
		if err == nil {
			found = append(found, file{path, info.Size()})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(found, func(a, b file) int { return int(b.size - a.size) })
	var paths []string
	for _, f := range found {
		paths = append(paths, f.path)
	}
	if len(paths) == 0 {
		t.Fatalf("no such file in %s", dir)
	}
	return paths
}

func suffix(s string) func(string) bool {
	return func(n string) bool { return strings.HasSuffix(n, s) }
}
func prefix(s string) func(string) bool {
	return func(n string) bool { return strings.HasPrefix(n, s) }
}

// newestLog is the write-ahead log that was in use when the node ended.
func newestLog(t *testing.T, dir string) string {
	t.Helper()
	logs := filesOf(t, dir, func(n string) bool { // audit.log is none of them
		number, ok := strings.CutSuffix(n, ".log")
		return ok && strings.Trim(number, "0123456789") == ""
	})
	slices.Sort(logs) // their names are numbers of equal length
	return logs[len(logs)-1]
}

// newestManifest is the manifest in use; an older one may lie beside it.
func newestManifest(t *testing.T, dir string) string {
	t.Helper()
	files := filesOf(t, dir, prefix("MANIFEST"))
	slices.Sort(files)
	return files[len(files)-1]
}

// caughtUp waits until a node's disk holds all that its groups have logged.
func caughtUp(t *testing.T, c *processes, id base.NodeID) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		_, out, _ := godwit(t, "status", "--addr", c.nodes[0].addr, "--json")
		var s cluster.Status
		behind, groups := uint64(0), 0
		if json.Unmarshal([]byte(out), &s) == nil {
			for _, g := range s.Groups {
				groups++
				for _, l := range g.Lag {
					if l.Node == id {
						behind += l.Entries
					}
				}
			}
		}
		if groups > 0 && groups == len(s.Topology.Groups()) && behind == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("node %d is still %d entries behind:\n%s", id, behind, out)
		}
	}
}

func change(t *testing.T, path string, f func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, f(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "store")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestDamagedStores: a node whose files were damaged while it was down says
// which file and what to do, and ends with status 1. It never serves what it
// cannot trust, and never shows a stack trace.
func TestDamagedStores(t *testing.T) {
	needTime(t)
	c := startCluster(t, t.TempDir(), 3, 1)
	t.Cleanup(c.kill)
	c.logOnFailure(t)
	db := c.nodes[0].open(t, "")
	exec1(t, db, "CREATE DATABASE d")
	db = c.nodes[0].open(t, "d")
	exec1(t, db, "CREATE TABLE t (id INT PRIMARY KEY, filler VARCHAR(2000))")
	fill := func(from, to int) {
		for i := from; i < to; i++ {
			var values []string
			for j := range 50 {
				values = append(values, fmt.Sprintf("(%d, REPEAT('%c', 1000))", i*50+j, 'a'+i))
			}
			exec1(t, db, "INSERT INTO t VALUES "+strings.Join(values, ", "))
		}
	}
	victim := c.nodes[2]
	fill(0, 10)
	victim.kill()
	// A start replays the log into tables, so that there are tables, and later writes are in a new
	// log.
	victim.start(t)
	victim.awaitSQL(t)
	fill(10, 20)
	victim.kill()

	t.Run("the end of the log is torn", func(t *testing.T) {
		// A power failure may leave bytes behind the last synced record: they are no damage.
		change(t, newestLog(t, victim.dir), func(b []byte) []byte {
			return append(b, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5)
		})
		victim.start(t)
		victim.awaitSQL(t)
		var rows int
		scan1(t, victim.open(t, "d"), &rows, "SELECT COUNT(*) FROM t")
		if rows != 1000 {
			t.Errorf("%d rows, want 1000", rows)
		}
		fill(20, 24)
		caughtUp(t, c, 3) // the others acknowledge without it
		victim.kill()
	})

	// start runs the victim on a damaged copy of its store.
	start := func(t *testing.T, damage func(t *testing.T, dir string)) *node {
		n := *victim
		n.dir, n.args = copyDir(t, victim.dir), []string{"--accept-old-store"} // a copy before it may have run
		damage(t, n.dir)
		n.start(t)
		t.Cleanup(n.kill)
		return &n
	}
	for _, d := range []struct {
		name   string
		damage func(t *testing.T, dir string)
		file   string // what the message names
	}{
		{"a table is cut", func(t *testing.T, dir string) {
			change(t, filesOf(t, dir, suffix(".sst"))[0], func(b []byte) []byte { return b[:len(b)/2] })
		}, ".sst"},
		{"a table is removed", func(t *testing.T, dir string) {
			if err := os.Remove(filesOf(t, dir, suffix(".sst"))[0]); err != nil {
				t.Fatal(err)
			}
		}, "sstable"},
		{"bits of a table flipped", func(t *testing.T, dir string) {
			for _, f := range filesOf(t, dir, suffix(".sst")) {
				change(t, f, func(b []byte) []byte {
					for i := 100; i < len(b); i += 1000 {
						b[i] ^= 0x40
					}
					return b
				})
			}
		}, ".sst"},
		{"the manifest is empty", func(t *testing.T, dir string) {
			change(t, newestManifest(t, dir), func([]byte) []byte { return nil })
		}, "MANIFEST"},
		{"the log is blank in its middle", func(t *testing.T, dir string) {
			change(t, newestLog(t, dir), func(b []byte) []byte {
				// of more than 200,000 bytes written; the file may be longer
				clear(b[40_000:80_000])
				return b
			})
		}, ".log"},
	} {
		t.Run(d.name, func(t *testing.T) {
			n := start(t, d.damage)
			select {
			case <-n.gone:
			case <-time.After(patience):
				t.Fatalf("the node still runs:\n%s", n.log())
			}
			if code := n.cmd.ProcessState.ExitCode(); code != 1 {
				t.Errorf("status %d, want 1", code)
			}
			said := n.errs.String()
			t.Logf("%s", strings.TrimSpace(said))
			if !strings.Contains(said, d.file) || !strings.Contains(said, "corrupt") {
				t.Errorf("the message names neither %s nor corruption:\n%s", d.file, n.log())
			}
			if strings.Contains(said, "goroutine ") || strings.Contains(said, "stack trace") {
				t.Errorf("a stack trace:\n%s", n.log())
			}
		})
	}

	t.Run("the store is another node's", func(t *testing.T) {
		n := *victim
		n.dir = c.nodes[0].dir // in use
		n.start(t)
		select {
		case <-n.gone:
		case <-time.After(patience):
			n.kill()
			t.Fatalf("two nodes share a store:\n%s", n.log())
		}
		if code := n.cmd.ProcessState.ExitCode(); code != 1 {
			t.Errorf("status %d, want 1:\n%s", code, n.log())
		}
		t.Logf("%s", strings.TrimSpace(n.errs.String()))
	})
}
