// Package layers holds no code: its test keeps the import table of
// docs/design.md, so that a policy cannot grow a socket and a state machine
// cannot grow a disk without somebody deciding it here.
package layers

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/godwitdb/godwit"

// layer 0 types may be imported by everybody above.
var types = []string{"base", "env", "obs", "wire", "kv"}

// mechanisms are layers 1 and 2.
var mechanisms = []string{"clock", "clock/timeserver", "home", "leader", "lock", "matrix", "replica", "patch", "tier", "store", "wan", "group"}

// allowed says which packages of Godwit each package may import, besides those of "types".
// A package that is not listed may not exist.
var allowed = map[string][]string{
	// layer 0
	"base": nil, "env": nil, "obs": nil, "wire": nil, "kv": nil,
	// layer 1: pure cores
	"clock": nil, "home": nil, "leader": nil, "lock": nil, "matrix": nil, "replica": nil, "patch": nil, "tier": nil, "plan": nil, "filter": nil, "coord": nil,
	// layer 2: mechanisms
	"store": nil, "clock/timeserver": {"clock"},
	"wan":   {"clock"},
	"group": {"store", "wan"},
	// collective executes plans over the transport, and knows no database: it is a library of its own.
	"collective": {"plan", "wan"},
	// overlay is a transport over the transport.
	"overlay": {"plan", "wan"},
	// epoch is a pure core over another one: what filters leave out must not matter to it.
	"epoch": {"filter"},
	// layer 3: drivers
	"multi":   {"epoch", "filter", "collective", "plan", "store", "wan"},
	"owner":   mechanisms,
	"txn":     append([]string{"owner"}, mechanisms...),
	"cluster": append([]string{"owner", "txn", "coord"}, mechanisms...),
	// layer 4: edge
	"sqlfront": {"patch"},
	"node":     append([]string{"owner", "txn", "cluster", "sqlfront", "multi", "epoch", "plan", "overlay"}, mechanisms...),
	// the embedded API, tools and tests
	"":                     append([]string{"node", "cluster", "owner", "txn"}, mechanisms...),
	"kv/memkv":             {"lock"},
	"examples/collective":  {"collective", "plan", "matrix", "wan"},
	"examples/consistency": {"", "matrix"},
	"etcdleader":           {"leader", "wan"},
	"wanemu":               nil,
	"workload":             nil,
	"history":              nil,
	"sim":                  {"*"},
	"bench":                {"*"},
	"demo":                 {"*"},
	"cli":                  {"*"},
	"cmd/godwit":           {"cli"},
	"e2e":                  {"*"},
	"layers":               nil,
}

// onlyIn names third-party and standard packages with one home each, and why.
var onlyIn = map[string]struct {
	homes []string
	why   string
}{
	"github.com/cockroachdb/pebble":      {[]string{"store", "sim"}, "one package knows how bytes lie on disk; sim brings the file system that crashes"},
	"go.etcd.io/raft":                    {[]string{"group", "store"}, "consensus is one mechanism; store implements its log"},
	"github.com/dolthub/go-mysql-server": {[]string{"sqlfront"}, "its API moves; one package follows it"},
	"net/http":                           {[]string{"cluster", "node", "cli", "e2e", "workload", "obs", "wan", "bench", "sim", "etcdleader"}, "policies and state machines do no I/O"},
}

// pure packages own no goroutine, socket or clock; they may not even import these.
var pure = []string{"base", "home", "leader", "lock", "matrix", "replica", "patch", "tier", "plan", "filter", "epoch", "coord", "history", "kv/memkv"}
var impure = []string{"net", "os", "syscall"}

type pkg struct {
	ImportPath string
	Imports    []string
}

func load(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-pgo", "off", "-tags", "gms_pure_go", "-json=ImportPath,Imports", module+"/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

func local(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
}

func TestImportTable(t *testing.T) {
	for _, p := range load(t) {
		name := local(p.ImportPath)
		may, known := allowed[name]
		if !known {
			t.Errorf("package %q is not in the import table: give it a layer in layers_test.go and docs/design.md", name)
			continue
		}
		for _, imp := range p.Imports {
			if !strings.HasPrefix(imp, module) {
				checkThirdParty(t, name, imp)
				continue
			}
			dep := local(imp)
			if !slices.Contains(may, "*") && !slices.Contains(may, dep) && !slices.Contains(types, dep) {
				t.Errorf("%s may not import %s: it lies in the same or a higher layer", name, dep)
			}
			if name == "base" {
				t.Errorf("base imports %s: it is the bottom", dep)
			}
		}
	}
}

func checkThirdParty(t *testing.T, name, imp string) {
	t.Helper()
	for path, rule := range onlyIn {
		if (imp == path || strings.HasPrefix(imp, path+"/")) && !slices.Contains(rule.homes, name) {
			t.Errorf("%s may not import %s: %s", name, imp, rule.why)
		}
	}
	if slices.Contains(pure, name) && slices.Contains(impure, imp) {
		t.Errorf("%s is a pure core and may not import %s", name, imp)
	}
}
