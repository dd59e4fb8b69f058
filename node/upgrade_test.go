package node

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
)

// as restarts a node as a build that knows versions up to one; 0: this build.
func (p *proc) as(t *testing.T, v base.ClusterVersion) {
	t.Helper()
	if p.up() {
		p.stop(t)
	}
	p.cfg.AsVersion = uint32(v)
	p.start(t)
}

// TestRollingUpgrade has nodes that act as the build of before together with nodes of this one,
// under load: upgraded one by one with kills, back again, forth, and final. What the new version
// brings appears only then, and the old build is refused from then on.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel() // it waits, most of the time
	w := &world{}
	var join []string
	for _, r := range []string{"eu", "us", "asia"} {
		p := &proc{cfg: Config{Region: r, Store: t.TempDir(), Listen: "127.0.0.1:0", SQLListen: "127.0.0.1:0",
			Join: join, AsVersion: uint32(base.VersionFirst)}}
		p.start(t)
		w.procs, join = append(w.procs, p), append(join, p.n.Addr())
	}
	initCluster(t, w.procs[0].n.Addr(), 3)
	for _, p := range w.procs {
		p.ready(t)
	}
	t.Cleanup(func() {
		for _, p := range w.procs {
			if p.up() {
				p.stop(t)
			}
		}
	})
	old := w.procs[2]
	versions := func(p *proc, want ...string) {
		t.Helper()
		got := rowsOf(t, p.sql(t), "SELECT node, knows, acts_by FROM godwit.versions ORDER BY node")
		if !slices.Equal(got, want) {
			t.Errorf("versions %q, want %q", got, want)
		}
	}
	id := func(p *proc) base.NodeID { return p.n.ID() }
	line := func(p *proc, knows, acts int) string { return fmt.Sprintf("%d|%d|%d", id(p), knows, acts) }
	lines := func(acts int, knows ...int) []string {
		var out []string
		for i, p := range w.procs {
			out = append(out, line(p, knows[i], acts))
		}
		slices.Sort(out)
		return out
	}
	versions(old, lines(6, 6, 6, 6)...)
	tier := func(p *proc, want string) {
		t.Helper()
		c := p.sql(t)
		until(t, "transaction.tier = auto", func() string {
			if got := rowsOf(t, c, "SELECT setting, mode FROM godwit.consistency WHERE in_force")[0]; got != want {
				return got + ", not " + want
			}
			return ""
		})
	}
	old.exec(t, "SET CLUSTER SETTING transaction.tier = 'auto'")
	old.exec(t, "CREATE DATABASE d", "CREATE TABLE d.before (s VARCHAR(10) COLLATE utf8mb4_general_ci PRIMARY KEY, n INT)",
		"INSERT INTO d.before VALUES ('a', 1), ('b ', 2)")
	l := startLoad(t, w, 1)

	// Two of three have this build, one of them after a kill.
	w.procs[0].as(t, 0)
	w.procs[0].ready(t)
	l.progress(t)
	w.procs[1].kill(t)
	w.procs[1].as(t, 0)
	w.procs[1].ready(t)
	l.progress(t)
	versions(w.procs[0], lines(6, 11, 11, 6)...)
	p := w.procs[0]
	tier(p, "auto|strict") // two slots of a build before version 7 may be equal
	for _, q := range []string{"ALTER TABLE d.before SPLIT INTO 2 SHARDS", "CREATE TABLE d.x (id INT PRIMARY KEY) SPLIT INTO 2 SHARDS"} {
		if _, err := p.sql(t).Exec(q); err == nil || !strings.Contains(err.Error(), "needs cluster version 9") {
			t.Errorf("%s while a build is old: %v", q, err)
		}
	}
	prepare := func(p *proc) error {
		c, err := p.sql(t).Conn(context.Background())
		if err != nil {
			return err
		}
		defer c.Close()
		for _, q := range []string{"XA START 'u'", "UPDATE d.before SET n = n WHERE s = 'a'", "XA END 'u'", "XA PREPARE 'u'"} {
			if _, err := c.ExecContext(context.Background(), q); err != nil {
				return err
			}
		}
		return nil
	}
	if err := prepare(p); err == nil || !strings.Contains(err.Error(), "needs cluster version 10") {
		t.Errorf("XA PREPARE while a build is old: %v", err)
	}
	p.exec(t, "CREATE TABLE d.during (s VARCHAR(10) COLLATE utf8mb4_general_ci PRIMARY KEY, n INT)",
		"INSERT INTO d.during VALUES ('x', 1), ('y ', 2)",
		"INSERT INTO d.during VALUES ('z', 3), ('z ', 4)", // one key by the new version, two by the old one
		"ALTER TABLE d.before ADD COLUMN e VARCHAR(5) COLLATE utf8mb4_general_ci, ADD UNIQUE (e)",
		"UPDATE d.before SET e = 'e ' WHERE s = 'a'")
	// The old build finds by key what this one has written, and the other way round.
	for _, q := range []string{"SELECT n FROM d.during WHERE s = 'x'|1", "SELECT n FROM d.during WHERE s = 'y '|2",
		"SELECT n FROM d.before WHERE e = 'e '|1", "SELECT n FROM d.before WHERE s = 'b '|2"} {
		query, want, _ := strings.Cut(q, "|")
		for _, p := range w.procs {
			if got := rowsOf(t, p.sql(t), query); !slices.Equal(got, []string{want}) {
				t.Errorf("node %d: %s: %q, want %q", id(p), query, got, want)
			}
		}
	}
	upgrade := func(want string) {
		t.Helper()
		err := p.post(t, cluster.PathUpgrade, "{}")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("finalize: %v, want %q", err, want)
		}
	}
	upgrade("there is nothing to finalize")
	if s := p.status(t); !strings.Contains(strings.Join(s.Problems, "\n"), "nodes run different builds") {
		t.Errorf("nobody is told: %q", s.Problems)
	}
	late := &proc{cfg: Config{Region: "africa", Store: t.TempDir(), Listen: "127.0.0.1:0", SQLListen: "127.0.0.1:0",
		Join: []string{p.n.Addr()}}}
	late.start(t)
	late.ends(t, "needs cluster version 7")

	// Back, and forth.
	w.procs[0].as(t, base.VersionFirst)
	w.procs[0].ready(t)
	l.progress(t)
	versions(w.procs[1], lines(6, 6, 11, 6)...)
	for _, p := range []*proc{w.procs[0], old} {
		p.as(t, 0)
		p.ready(t)
		l.progress(t)
	}
	upgrade("")
	until(t, "the version does not come", func() string {
		for _, p := range w.procs {
			if top := p.n.Cluster().Topology(); top.Acts() != base.VersionNewest {
				return fmt.Sprintf("node %d acts by %d", id(p), top.Acts())
			}
		}
		return ""
	})
	l.progress(t)
	versions(old, lines(11, 11, 11, 11)...)
	tier(old, "auto|relay")
	if err := prepare(p); err != nil {
		t.Errorf("XA PREPARE in the new version: %v", err)
	}
	old.exec(t, "XA COMMIT 'u'")
	p.exec(t, "ALTER TABLE d.before SPLIT INTO 2 SHARDS",
		"CREATE TABLE d.after (s VARCHAR(10) COLLATE utf8mb4_general_ci PRIMARY KEY, n INT)", "INSERT INTO d.after VALUES ('a ', 1)",
		"ALTER TABLE d.before MODIFY s VARCHAR(10) COLLATE utf8mb4_general_ci")
	for _, q := range []string{"SELECT n FROM d.after WHERE s = 'a'", "SELECT n FROM d.before WHERE s = 'a  '"} {
		if got := rowsOf(t, old.sql(t), q); !slices.Equal(got, []string{"1"}) {
			t.Errorf("%s: %q", q, got)
		}
	}

	// The old build does not open its store any more, and does not join.
	old.stop(t)
	again := old.cfg
	again.AsVersion = uint32(base.VersionFirst)
	if _, err := Start(t.Context(), again, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "knows formats up to 6") {
		t.Errorf("the old build opens the store: %v", err)
	}
	stranger := &proc{cfg: Config{Region: "eu", Store: t.TempDir(), Listen: "127.0.0.1:0", SQLListen: "127.0.0.1:0",
		Join: []string{p.n.Addr()}, AsVersion: uint32(base.VersionFirst)}}
	stranger.start(t)
	stranger.ends(t, "this build knows versions up to 6")
	old.start(t)
	old.ready(t)
	w.add(t, "africa")
	l.progress(t)
	l.finish(t)
}
