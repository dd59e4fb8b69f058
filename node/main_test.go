package node

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/godwitdb/godwit/mechanism/ident"
)

// TestMain has the real nodes of all tests use one authority, and not that of the user.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "godwit-node-")
	if err == nil {
		_, err = ident.CreateCA(filepath.Join(dir, "certs"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv(CertsVar, filepath.Join(dir, "certs"))
	code := m.Run()
	_ = os.RemoveAll(dir) // it is temporary
	os.Exit(code)
}

// admin is an administrator's HTTP client.
func admin(t testing.TB) *http.Client {
	t.Helper()
	f, err := ident.Open(DefaultCerts(), ident.Client, nil)
	if err != nil {
		t.Fatal(err)
	}
	return httpClient(f)
}
