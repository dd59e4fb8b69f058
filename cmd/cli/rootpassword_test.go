package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/cluster/join"
)

// isHashOf reports whether a hash is that of a password.
func isHashOf(t *testing.T, hash, password string) bool {
	t.Helper()
	_, rounds, salt, _, err := mysql.DeserializeCachingSha2PasswordAuthString([]byte(hash))
	if err != nil {
		t.Fatalf("%q: %v", hash, err)
	}
	b, err := mysql.SerializeCachingSha2PasswordAuthString(password, salt, rounds)
	return err == nil && string(b) == hash
}

// TestRootPassword: where root's password comes from, that a node gets its hash only, and that it
// is shown only if nobody else knows it.
func TestRootPassword(t *testing.T) {
	var got join.InitRequest
	addr := fakeNode(t, map[string]http.HandlerFunc{"POST " + join.PathInit: func(w http.ResponseWriter, r *http.Request) {
		got = join.InitRequest{}
		_ = json.NewDecoder(r.Body).Decode(&got)
		answer(200, join.InitReply{ClusterID: "c1", Topology: sampleStatus().Topology})(w, r)
	}})
	shown := regexp.MustCompile(`root's password for MySQL clients: (\S+)\n`)
	made := map[string]bool{}
	for range 2 {
		status, out, errs := godwit(t, "init", "--addr", addr)
		m := shown.FindStringSubmatch(out)
		if status != 0 || m == nil || len(m[1]) < 20 || made[m[1]] || !isHashOf(t, got.Root, m[1]) {
			t.Fatalf("status %d, asked %+v:\n%s%s", status, got, out, errs)
		}
		made[m[1]] = true
	}

	file := filepath.Join(t.TempDir(), "root.txt")
	empty := filepath.Join(t.TempDir(), "empty.txt")
	for name, text := range map[string]string{file: "from the file\nnot this\n", empty: "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	status, out, _ := godwit(t, "init", "--addr", addr, "--root-password-file", file)
	if status != 0 || !isHashOf(t, got.Root, "from the file") || strings.Contains(out, "from the file") {
		t.Errorf("a file: status %d, asked %+v:\n%s", status, got, out)
	}
	status, out, _ = godwit(t, "init", "--addr", addr, "--no-root-password")
	if status != 0 || got.Root != "" || !strings.Contains(out, "NO PASSWORD") {
		t.Errorf("none: status %d, asked %+v:\n%s", status, got, out)
	}
	for args, want := range map[string]string{
		"--root-password-file " + empty:                   "the password is empty",
		"--root-password-file " + file + "x":              "no such file",
		"--no-root-password --root-password-file " + file: "contradict",
	} {
		got = join.InitRequest{Root: "nobody asked"}
		status, _, errs := godwit(t, append([]string{"init", "--addr", addr}, strings.Fields(args)...)...)
		if status == 0 || !strings.Contains(errs, want) || got.Root != "nobody asked" {
			t.Errorf("%s: status %d, asked %+v: %s", args, status, got, errs)
		}
	}

	t.Setenv(rootPasswordVar, "from the environment")
	status, out, _ = godwit(t, "init", "--addr", addr)
	if status != 0 || !isHashOf(t, got.Root, "from the environment") || strings.Contains(out, "from the environment") {
		t.Errorf("the environment: status %d, asked %+v:\n%s", status, got, out)
	}
}

// TestRootPasswordOfUnknownInit: who is not told whether there is a cluster gets the password all
// the same, who was refused does not.
func TestRootPasswordOfUnknownInit(t *testing.T) {
	var reply http.HandlerFunc
	addr := fakeNode(t, map[string]http.HandlerFunc{"POST " + join.PathInit: func(w http.ResponseWriter, r *http.Request) { reply(w, r) }})
	reply = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	if status, _, errs := godwit(t, "init", "--addr", addr); status != 1 || !strings.Contains(errs, "in spite of this, root's password is ") {
		t.Errorf("status %d: %s", status, errs)
	}
	reply = answer(409, join.InitReply{Error: "this node already belongs to cluster c1"})
	if status, _, errs := godwit(t, "init", "--addr", addr); status != 1 || strings.Contains(errs, "password") {
		t.Errorf("status %d: %s", status, errs)
	}
}

// TestResetRoot: the node gets the hash of the password that is shown, or given.
func TestResetRoot(t *testing.T) {
	var got cluster.ResetRootRequest
	addr := fakeNode(t, map[string]http.HandlerFunc{"POST " + cluster.PathResetRoot: func(w http.ResponseWriter, r *http.Request) {
		got = cluster.ResetRootRequest{}
		_ = json.NewDecoder(r.Body).Decode(&got)
		answer(200, struct{}{})(w, r)
	}})
	status, out, errs := godwit(t, "reset-root", "--addr", addr)
	m := regexp.MustCompile(`root's password for MySQL clients: (\S+)\n`).FindStringSubmatch(out)
	if status != 0 || m == nil || len(m[1]) < 20 || !isHashOf(t, got.Root, m[1]) {
		t.Errorf("status %d, asked %+v:\n%s%s", status, got, out, errs)
	}
	t.Setenv(rootPasswordVar, "from the environment")
	status, out, _ = godwit(t, "reset-root", "--addr", addr)
	if status != 0 || !isHashOf(t, got.Root, "from the environment") || strings.Contains(out, "from the environment") {
		t.Errorf("the environment: status %d, asked %+v:\n%s", status, got, out)
	}
}
