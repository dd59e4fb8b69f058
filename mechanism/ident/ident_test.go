package ident

import (
	"crypto/tls"
	"encoding/hex"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

func makeCA(t testing.TB) *CA {
	t.Helper()
	ca, err := CreateCA(filepath.Join(t.TempDir(), "certs"))
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// files makes a certificate and opens it.
func files(t testing.TB, ca *CA, n Name, life time.Duration) *Files {
	t.Helper()
	dir := t.TempDir()
	if err := ca.Create(dir, Node, n, life); err != nil {
		t.Fatal(err)
	}
	f, err := Open(dir, Node, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func node(id, region string) Name { return Name{RoleNode, id, region} }

// shake runs a handshake, and a byte in each direction: with TLS 1.3 a client learns only then that
// its certificate was refused.
func shake(t testing.TB, server, client *tls.Config) (s, c tls.ConnectionState, err error) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	done := make(chan error, 1)
	ts, tc := tls.Server(a, server), tls.Client(b, client)
	go func() {
		err := ts.Handshake()
		if err == nil {
			_, err = ts.Write([]byte{1})
		}
		s = ts.ConnectionState()
		a.Close()
		done <- err
	}()
	if err = tc.Handshake(); err == nil {
		_, err = tc.Read(make([]byte, 1))
	}
	c = tc.ConnectionState()
	b.Close()
	return s, c, errors.Join(<-done, err)
}

func TestHandshakes(t *testing.T) {
	ca, other := makeCA(t), makeCA(t)
	server := files(t, ca, node("u1", "eu"), NodeLife)
	good := files(t, ca, node("u2", "us"), NodeLife)
	expired := files(t, ca, node("u2", "us"), -time.Minute)
	stranger := files(t, other, node("u2", "us"), NodeLife)
	admin := files(t, ca, Name{Role: RoleClient, ID: "alice"}, ClientLife)
	anonymous := func(proto string) *tls.Config {
		return &tls.Config{InsecureSkipVerify: true, NextProtos: []string{proto}}
	}
	fp := ca.Fingerprint()
	for _, c := range []struct {
		name           string
		server, client *tls.Config
		want           string // of the error; "" is none
	}{
		{"node to node", server.Server(), good.Client(ProtoNode), ""},
		{"administrator over HTTP", server.Server(), admin.Client(ProtoHTTP), ""},
		{"administrator as a node", server.Server(), admin.Client(ProtoNode), "certificate of a client"},
		{"nobody as a node", server.Server(), anonymous(ProtoNode), "no certificate"},
		{"nobody over HTTP", server.Server(), anonymous(ProtoHTTP), ""},
		{"another authority", server.Server(), stranger.Client(ProtoNode), "another authority"},
		{"another authority over HTTP", server.Server(), stranger.Client(ProtoHTTP), "another authority"},
		{"expired", server.Server(), expired.Client(ProtoNode), "expired"},
		{"server of another authority", stranger.Server(), good.Client(ProtoNode), "another authority"},
		{"expired server", expired.Server(), good.Client(ProtoNode), "expired"},
		{"a client as a server", admin.Server(), good.Client(ProtoHTTP), "certificate"},
		{"TLS 1.2", server.Server(), &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}, "protocol version"},
		{"by fingerprint", server.Server(), ByFingerprint(fp), ""},
		{"by fingerprint, of another authority", stranger.Server(), ByFingerprint(fp), "another cluster"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _, err := shake(t, c.server, c.client)
			switch {
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Fatalf("error %v, want %q", err, c.want)
			}
			if c.name == "node to node" {
				if n, err := Peer(&s); err != nil || n != node("u2", "us") {
					t.Fatalf("peer %v, %v", n, err)
				}
			}
		})
	}
}

// TestForgedAuthority: an authority of the same name in the peer's chain changes nothing.
func TestForgedAuthority(t *testing.T) {
	ca, other := makeCA(t), makeCA(t)
	fp := ca.Fingerprint()
	bad := files(t, other, node("u1", "eu"), NodeLife)
	// The certificate of the right authority is public: an impostor sends it along with its own.
	bad.read.cert.Certificate = append(bad.read.cert.Certificate, ca.cert.Raw)
	if _, _, err := shake(t, bad.Server(), ByFingerprint(fp)); err == nil {
		t.Fatal("an impostor that sends the right authority's certificate was believed")
	}
	// So does one whose own certificate is the authority that the fingerprint must name.
	if _, _, err := shake(t, bad.Server(), ByFingerprint(other.Fingerprint())); err != nil {
		t.Fatal(err)
	}
}

// TestReload: files that are replaced count for the next handshake; files of somebody else and
// broken ones do not.
func TestReload(t *testing.T) {
	ca := makeCA(t)
	f := files(t, ca, node("u1", "eu"), NodeLife)
	first := f.Until()
	look := func() { // as if some time had passed
		f.mu.Lock()
		f.looked, f.seen = time.Time{}, [3]stamp{}
		f.mu.Unlock()
	}
	if err := ca.Create(f.dir, Node, node("u1", "eu"), NodeLife/2); err != nil {
		t.Fatal(err)
	}
	look()
	second := f.Until()
	if !second.Before(first) {
		t.Fatalf("still good until %s", second)
	}
	if err := ca.Create(f.dir, Node, node("u9", "eu"), NodeLife); err != nil {
		t.Fatal(err)
	}
	look()
	if n := f.Name(); n.ID != "u1" || f.Until() != second {
		t.Fatalf("became %s", n)
	}
	if err := os.WriteFile(filepath.Join(f.dir, "node.crt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	look()
	if f.Until() != second {
		t.Fatal("a broken file was taken")
	}
}

func TestKeysAreSecret(t *testing.T) {
	ca := makeCA(t)
	dir := ca.dir
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if i, _ := d.Info(); i.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %s", path, i.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "client.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Client, nil); err == nil || !strings.Contains(err.Error(), "chmod") {
		t.Fatalf("a key that all can read: %v", err)
	}
}

func TestOneAuthorityOfMany(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	var wg sync.WaitGroup
	all := make([]*CA, 8)
	makers := make([]bool, len(all))
	for i := range all {
		wg.Go(func() {
			ca, made, err := EnsureCA(dir)
			if err != nil {
				t.Error(err)
				return
			}
			all[i], makers[i] = ca, made
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for _, ca := range all {
		if ca.Fingerprint() != all[0].Fingerprint() {
			t.Fatal("two authorities")
		}
	}
	if n := len(slices.DeleteFunc(makers, func(m bool) bool { return !m })); n != 1 {
		t.Fatalf("%d made it", n)
	}
	if _, err := CreateCA(t.TempDir()); err != nil {
		t.Fatalf("a folder that is there and empty: %v", err)
	}
	if _, err := CreateCA(dir); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("a second one: %v", err)
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), ".godwit-ca-*"))
	if len(left) > 0 {
		t.Fatalf("left behind: %v", left)
	}
}

// enrol asks as a node with a key of its own.
func enrol(t testing.TB, ca *CA, dir, token, region, uuid string) (Enrolled, error) {
	t.Helper()
	csr, err := Request(dir)
	if err != nil {
		t.Fatal(err)
	}
	return ca.Enrol(Enrol{Token: token, Region: region, UUID: uuid, Request: csr}, func() string { return "new" })
}

func TestTokens(t *testing.T) {
	ca := makeCA(t)
	create := func(life time.Duration, region, uuid string) Token {
		tok, _, err := ca.CreateToken(life, region, uuid)
		if err != nil {
			t.Fatal(err)
		}
		return tok
	}
	tok := create(time.Hour, "", "")
	a, b := t.TempDir(), t.TempDir()
	got, err := enrol(t, ca, a, tok.String(), "eu", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Check(a, "eu", tok); err != nil || got.UUID != "new" {
		t.Fatalf("%q, %v", got.UUID, err)
	}
	for name, bad := range map[string]error{
		"another key": got.Check(b, "eu", tok), "another region": got.Check(a, "us", tok),
		"another authority": got.Check(a, "eu", Token{CA: makeCA(t).Fingerprint()}),
	} {
		if bad == nil {
			t.Errorf("an answer for %s was taken", name)
		}
	}
	if err := Install(a, Node, got.Cert, got.CA); err != nil {
		t.Fatal(err)
	}
	if f, err := Open(a, Node, nil); err != nil || f.Name() != node("new", "eu") {
		t.Fatal(err)
	}
	// the answer was lost
	if again, err := enrol(t, ca, a, tok.String(), "eu", ""); err != nil || again.UUID != "new" {
		t.Fatalf("the same key again: %v", err)
	}
	expired := create(time.Nanosecond, "", "")
	revoked := create(time.Hour, "", "")
	ids, err := ca.Tokens()
	if err != nil || len(ids) != 3 {
		t.Fatalf("%d tokens, %v", len(ids), err)
	}
	for _, g := range ids {
		if revoked.String() == "" || strings.Contains(g.Hash, revoked.String()) {
			t.Fatal("the secret is kept")
		}
	}
	if err := ca.Revoke(idOf(revoked)); err != nil {
		t.Fatal(err)
	}
	forged := create(time.Hour, "", "")
	forged.Secret[0] ^= 1
	for _, c := range []struct {
		name, token, region, uuid, want string
	}{
		{"used", tok.String(), "eu", "", "used, expired or revoked"},
		{"expired", expired.String(), "eu", "", "used, expired or revoked"},
		{"revoked", revoked.String(), "eu", "", "used, expired or revoked"},
		{"guessed", forged.String(), "eu", "", "used, expired or revoked"},
		{"of another region", create(time.Hour, "us", "").String(), "eu", "", "region us"},
		{"another node's UUID", create(time.Hour, "", "").String(), "eu", "u1", "--uuid"},
		{"a UUID the token is not for", create(time.Hour, "", "u1").String(), "eu", "u2", "--uuid"},
		{"garbage", "gwt1-AAAA", "eu", "", "damaged"},
		{"no region", create(time.Hour, "", "").String(), "", "", "region"},
	} {
		if _, err := enrol(t, ca, b, c.token, c.region, c.uuid); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if got, err := enrol(t, ca, b, create(time.Hour, "", "u1").String(), "eu", "u1"); err != nil || got.UUID != "u1" {
		t.Fatalf("a store that exists: %v", err)
	}
	if _, _, err := ca.CreateToken(MaxTokenLife+1, "", ""); base.CodeOf(err) != base.CodeInvalid {
		t.Fatalf("a token for ever: %v", err)
	}
}

func idOf(tok Token) string { return hex.EncodeToString(tok.ID[:]) }

// TestTokenOnce: of many nodes with one token, one gets a certificate.
func TestTokenOnce(t *testing.T) {
	ca := makeCA(t)
	tok, _, err := ca.CreateToken(time.Hour, "", "")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	got := make([]bool, 16)
	for i := range got {
		dir := t.TempDir()
		wg.Go(func() {
			_, err := enrol(t, ca, dir, tok.String(), "eu", "")
			got[i] = err == nil
		})
	}
	wg.Wait()
	if n := len(slices.DeleteFunc(got, func(ok bool) bool { return !ok })); n != 1 {
		t.Fatalf("%d nodes got a certificate", n)
	}
}

func TestNames(t *testing.T) {
	for _, n := range []Name{node("u1", "eu"), node("u/1", "eu/west 3"), node("ü", "öst"), {Role: RoleClient, ID: "a b"}} {
		if got, err := ParseName(n.String()); err != nil || got != n {
			t.Errorf("%v became %v, %v", n, got, err)
		}
	}
	for _, s := range []string{"", "godwit://", "godwit://node/u", "godwit://node//eu", "godwit://node/u/", "godwit://client/",
		"godwit://client/a/b", "godwit://root/a", "http://node/u/eu", "godwit://node/u/%zz", "godwit://node/u/eu/x"} {
		if n, err := ParseName(s); err == nil {
			t.Errorf("%q is %v", s, n)
		}
	}
	ca := makeCA(t)
	for _, n := range []Name{{}, node("", "eu"), node("u", ""), {RoleClient, "a", "eu"}, node(strings.Repeat("x", 201), "eu")} {
		key, err := NewKey(t.TempDir(), Node)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ca.Issue(n, key.Public(), time.Hour); err == nil {
			t.Errorf("%v got a certificate", n)
		}
	}
}

// FuzzToken: text of any kind is an error or the token that it spells.
func FuzzToken(f *testing.F) {
	f.Add(Token{}.String())
	f.Add("gwt1-")
	f.Add("gwt1-\x00")
	f.Fuzz(func(t *testing.T, s string) {
		tok, err := ParseToken(s)
		if err == nil && tok.String() != strings.TrimSpace(s) {
			t.Fatalf("%q is read as %q", s, tok.String())
		}
	})
}

// FuzzName: what is read spells itself.
func FuzzName(f *testing.F) {
	f.Add(node("u1", "eu").String())
	f.Add("godwit://client/%41")
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseName(s)
		if err != nil {
			return
		}
		if again, err := ParseName(n.String()); err != nil || again != n {
			t.Fatalf("%q is %v, and then %v, %v", s, n, again, err)
		}
	})
}

// FuzzEnrol: requests of any kind are refused.
func FuzzEnrol(f *testing.F) {
	ca := makeCA(f)
	tok, _, err := ca.CreateToken(time.Hour, "", "")
	if err != nil {
		f.Fatal(err)
	}
	csr, err := Request(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	tok.Secret[0] ^= 1
	f.Add(tok.String(), csr)
	f.Add("", []byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"))
	f.Fuzz(func(t *testing.T, token string, csr []byte) {
		if _, err := ca.Enrol(Enrol{Token: token, Region: "eu", Request: csr}, func() string { return "x" }); err == nil {
			t.Fatal("a certificate for nothing")
		}
	})
}
