package cost

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAttribution: the deepest known function decides, and what is not known belongs to its caller.
func TestAttribution(t *testing.T) {
	const (
		g      = "github.com/godwitdb/godwit/"
		pebble = "github.com/cockroachdb/pebble/v2"
		vitess = "github.com/dolthub/vitess/go/mysql."
		sys    = "syscall.RawSyscall6"
	)
	conn := []string{g + "sql/server.(*handler).ComStmtExecute", vitess + "(*Conn).handleNextCommand", vitess + "(*Listener).handle"}
	under := func(stack ...string) []string { return append(stack, conn...) }
	a := newAttribution()
	for _, c := range []struct {
		stack []string
		want  stage
	}{
		{under(sys, "internal/poll.(*FD).RawWrite", g+"sql/quick.(*quickConn).Write", vitess+"(*Conn).flush"), reply},
		{under(sys, "internal/poll.(*FD).RawRead", g+"sql/quick.(*quickConn).Read", vitess+"(*Conn).readOnePacket"), receive},
		{conn[1:], receive},
		{conn, session},
		{under("runtime.mallocgc", g+"sql/fast.(*normalizer).next", g+"sql/fast.Normalize"), recognise},
		{under(g+"sql/fast.(*Call).values", g+"sql/fast.(*Call).change"), plan},
		{under(g+"sql/fast.(*Call).change", g+"sql/fast.(*Call).run"), evaluate},
		{under("runtime.mapassign", g+"mechanism/lock.(*Table).Acquire", g+"owner.(*Replica).readLocking", g+"txn.(*Txn).read"), lock},
		{under(g+"txn.(*Txn).Commit", g+"sql/session.(*Txn).Commit"), coordinate},
		{[]string{pebble + ".(*Iterator).SeekGE", g + "mechanism/store.(*Reader).Newest", g + "owner/view.Locate"}, evaluate},
		{[]string{pebble + ".(*Iterator).Next", pebble + "/internal/compact.(*Iter).Next", pebble + ".(*DB).runCompaction"}, tables},
		{[]string{pebble + "/internal/arenaskl.(*Skiplist).findSplice", pebble + ".(*memTable).apply", pebble + ".(*DB).Apply",
			g + "mechanism/store.(*Batch).Commit", g + "mechanism/group.(*Group).startAppend"}, write},
		{[]string{"go.etcd.io/raft/v3.(*raft).Step", g + "mechanism/group.(*Group).turn"}, raftAppend},
		{[]string{sys, g + "mechanism/store.(*order).carryOut", g + "mechanism/store.(*order).thread"}, syncing},
		{[]string{g + "owner/state.Decode", g + "owner.(*Replica).Apply", g + "mechanism/group.(*Group).applyBatch"}, apply},
		{[]string{"runtime.futex", "runtime.notewakeup", "runtime.wakep", "runtime.ready", "runtime.chansend",
			g + "mechanism/group.(*Group).Push"}, scheduler},
		{[]string{"internal/runtime/syscall/linux.EpollWait", "runtime.netpoll", "runtime.findRunnable", "runtime.mcall"}, scheduler},
		{[]string{"runtime.scanobject", "runtime.gcDrain", "runtime.gcBgMarkWorker"}, collection},
		{under("runtime.gcAssistAlloc", "runtime.mallocgc", g+"sql/fast.(*Call).run"), collection},
		{[]string{"runtime/pprof.(*profileBuilder).addCPUData", "runtime/pprof.profileWriter"}, measuring},
		{[]string{g + "cluster.(*Cluster).heartbeat", "runtime/pprof.Do"}, upkeep},
		{[]string{"example.com/unknown.F", "runtime.goexit"}, other},
		{nil, other},
	} {
		if got := a.of(c.stack); got != c.want {
			t.Errorf("%v belongs to %s, not to %s", c.stack, got, c.want)
		}
	}
}

// TestDivide: no time is lost, allocation is a part of the stages, and what is unknown is named.
func TestDivide(t *testing.T) {
	const g = "github.com/godwitdb/godwit/"
	b := divide([]sample{
		{[]string{"runtime.mallocgc", "runtime.newobject", g + "txn.(*Txn).Commit"}, 30 * time.Millisecond},
		{[]string{"runtime.gcAssistAlloc", "runtime.mallocgc", g + "txn.(*Txn).Commit"}, 20 * time.Millisecond},
		{[]string{g + "txn.(*Txn).Commit"}, 10 * time.Millisecond},
		{[]string{"example.com/x.F", "example.com/x.G"}, 10 * time.Millisecond},
	})
	if b.total() != 70*time.Millisecond || b.by[coordinate] != 40*time.Millisecond || b.by[collection] != 20*time.Millisecond ||
		b.by[other] != 10*time.Millisecond || b.allocated != 30*time.Millisecond {
		t.Errorf("got %v, in allocation %v", b.by, b.allocated)
	}
	if got := b.unknown["example.com/x.F < example.com/x.G"]; len(b.unknown) != 1 || got != 10*time.Millisecond {
		t.Errorf("unknown: %v", b.unknown)
	}
}

// TestStagesAreComplete: each stage is described, and has functions but for the one of the others;
// no function is in two.
func TestStagesAreComplete(t *testing.T) {
	seen := map[string]stage{}
	for s := range stages {
		if described[s].name == "" || described[s].what == "" {
			t.Errorf("stage %d is not described", s)
		}
		if (len(prefixes[s]) == 0) != (s == other) {
			t.Errorf("stage %s has %d functions", s, len(prefixes[s]))
		}
		for _, p := range prefixes[s] {
			if before, ok := seen[p]; ok {
				t.Errorf("%s is of %s and of %s", p, before, s)
			}
			seen[p] = s
		}
	}
}

// TestTableNamesOurFunctions: what the table says of this module's code is true of the code that is
// there: a function that is renamed would silently go to its caller's stage.
func TestTableNamesOurFunctions(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	for s, names := range prefixes {
		for _, n := range names {
			if elsewhere(n) {
				continue
			}
			dir, function, one := strings.Cut(n, ".")
			if one && !declares(t, filepath.Join(root, dir), function) {
				t.Errorf("%s: there is no %s", stage(s), n)
			}
			if one {
				continue
			}
			// All packages whose names begin like this.
			if found, _ := filepath.Glob(filepath.Join(root, dir) + "*"); len(found) == 0 {
				t.Errorf("%s: there is no %s", stage(s), n)
			}
		}
	}
}

// elsewhere reports whether a function is Go's or a library's.
func elsewhere(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	first, _, _ = strings.Cut(first, ".")
	switch first {
	case "runtime", "sync", "time", "internal", "net", "github", "go":
		return true
	}
	return strings.Contains(name, ":")
}

// declares reports whether a folder has a function whose name begins so, in the words of profiles.
func declares(t *testing.T, dir, prefix string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(profileName(fn), prefix) {
				return true
			}
		}
	}
	return false
}

// profileName is what a profile calls a function, without its package.
func profileName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	typ, name := fn.Recv.List[0].Type, "%s."
	if star, ok := typ.(*ast.StarExpr); ok {
		typ, name = star.X, "(*%s)."
	}
	if generic, ok := typ.(*ast.IndexExpr); ok {
		typ = generic.X
	}
	if id, ok := typ.(*ast.Ident); ok {
		return strings.Replace(name, "%s", id.Name, 1) + fn.Name.Name
	}
	return fn.Name.Name
}
