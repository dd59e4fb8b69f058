package cli

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/mechanism/ident"
)

// TestCertificatesByHand: the commands make what a node and an administrator need, and refuse what
// would replace somebody.
func TestCertificatesByHand(t *testing.T) {
	dir := t.TempDir()
	certs, out, alice := filepath.Join(dir, "ca"), filepath.Join(dir, "n1"), filepath.Join(dir, "alice")
	must := func(says string, args ...string) string {
		t.Helper()
		status, stdout, errs := godwit(t, append(args, "--certs", certs)...)
		if status != 0 || !strings.Contains(stdout, says) {
			t.Fatalf("%v: status %d, %s%s", args, status, stdout, errs)
		}
		return stdout
	}
	refused := func(says string, args ...string) {
		t.Helper()
		if status, stdout, errs := godwit(t, append(args, "--certs", certs)...); status == 0 || !strings.Contains(errs, says) {
			t.Fatalf("%v: status %d, %s%s", args, status, stdout, errs)
		}
	}
	refused("create-ca", "token", "create")
	must("fingerprint", "cert", "create-ca")
	refused("has files already", "cert", "create-ca")
	refused("--region", "cert", "create-node", "--out", out)
	must("region eu", "cert", "create-node", "--out", out, "--region", "eu")
	first, err := ident.Open(out, ident.Node, nil)
	if err != nil {
		t.Fatal(err)
	}
	refused("leave out", "cert", "create-node", "--out", out, "--region", "us")
	must("10 days", "cert", "create-node", "--out", out, "--days", "10")
	again, err := ident.Open(out, ident.Node, nil)
	if err != nil || again.Name() != first.Name() || !again.Until().Before(first.Until()) {
		t.Fatalf("renewed: %v, %v", again, err)
	}
	must("alice", "cert", "create-client", "--out", alice, "--name", "alice")
	if f, err := ident.Open(alice, ident.Client, nil); err != nil || f.Name().ID != "alice" {
		t.Fatal(err)
	}

	tok := must("gwt1-", "token", "create", "--region", "eu")
	if _, err := ident.ParseToken(tok); err != nil {
		t.Fatal(err)
	}
	list := must("good", "token", "list")
	if strings.Contains(list, strings.TrimSpace(tok)) {
		t.Error("the list shows the token itself")
	}
	id := strings.Fields(strings.Split(list, "\n")[1])[0]
	must("revoked", "token", "revoke", id)
	refused("no token", "token", "revoke", id)
	refused("no id", "token", "revoke", "../ca")
	refused("outside", "token", "create", "--expires", "1000h")
}

// TestWhoseCertificate: a command says what is wrong with its certificates.
func TestWhoseCertificate(t *testing.T) {
	addr := fakeNode(t, map[string]http.HandlerFunc{"GET " + cluster.PathStatus: answer(200, sampleStatus())})
	other := filepath.Join(t.TempDir(), "other")
	if _, err := ident.CreateCA(other); err != nil {
		t.Fatal(err)
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for _, c := range []struct{ addr, certs, want string }{
		{addr, other, "not of the cluster whose certificates are in"},
		{addr, t.TempDir(), "no client's certificate"},
		{strings.TrimPrefix(plain.URL, "http://"), "", "--insecure"},
	} {
		args := []string{"status", "--addr", c.addr}
		if c.certs != "" {
			args = append(args, "--certs", c.certs)
		}
		if status, _, errs := godwit(t, args...); status != 1 || !strings.Contains(errs, c.want) {
			t.Errorf("status %d, want %q: %s", status, c.want, errs)
		}
	}
	if status, _, errs := godwit(t, "status", "--addr", strings.TrimPrefix(plain.URL, "http://"), "--insecure"); status != 1 ||
		!strings.Contains(errs, "belongs to no cluster yet") {
		t.Errorf("status %d: %s", status, errs)
	}
}
