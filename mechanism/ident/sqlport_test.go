package ident

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// shown is the certificate that a port shows to a client, which may have one of its own.
func shown(t *testing.T, p *Port, client *tls.Config) (*x509.Certificate, error) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	go func() {
		defer b.Close()
		s := tls.Server(b, p.Server())
		if s.Handshake() == nil {
			_, _ = s.Write([]byte{1})
		}
	}()
	client = client.Clone()
	client.InsecureSkipVerify = true // the test compares
	c := tls.Client(a, client)
	if _, err := c.Read(make([]byte, 1)); err != nil {
		return nil, err
	}
	return c.ConnectionState().PeerCertificates[0], nil
}

// TestSQLPortCertificate: a self-made certificate, until there is a node's, until there is one of
// an administrator; without a restart, and never none.
func TestSQLPortCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		p, err := OpenPort(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		look := func(what, want string) {
			t.Helper()
			time.Sleep(2 * lookEvery)
			c, err := shown(t, p, &tls.Config{})
			if err != nil || c.Subject.CommonName != want {
				t.Errorf("%s: %v shown (%v), want %s", what, c, err, want)
			}
		}
		self := "Godwit, self-made"
		look("at first", self)
		if again, err := OpenPort(dir, nil); err != nil {
			t.Error(err)
		} else {
			a, _ := shown(t, p, &tls.Config{})
			b, _ := shown(t, again, &tls.Config{})
			if !a.Equal(b) {
				t.Error("a restart makes another certificate: clients that keep it would refuse")
			}
		}
		ca, err := CreateCA(filepath.Join(t.TempDir(), "ca"))
		if err != nil {
			t.Fatal(err)
		}
		uuid := "11111111-2222-3333-4444-555555555555"
		if err := ca.Create(dir, Node, Name{Role: RoleNode, ID: uuid, Region: "eu"}, time.Hour); err != nil {
			t.Fatal(err)
		}
		look("with a node's", uuid)
		if err := os.WriteFile(filepath.Join(dir, SQL+".crt"), []byte("no certificate"), 0o600); err != nil {
			t.Fatal(err)
		}
		look("with rubbish", uuid)
		if err := os.Remove(filepath.Join(dir, SQL+".crt")); err != nil {
			t.Fatal(err)
		}
		if err := ca.Create(dir, SQL, Name{Role: RoleClient, ID: "bought"}, time.Hour); err != nil {
			t.Fatal(err)
		}
		look("with an administrator's", "bought")
		if err := os.Chmod(filepath.Join(dir, SQL+".key"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenPort(dir, nil); err == nil {
			t.Error("a key that others can read is taken")
		}
	})
}

// TestSQLPortClients: a client may have no certificate or one of the cluster's authority, but none
// of another; and who means the node port is refused.
func TestSQLPortClients(t *testing.T) {
	dir := t.TempDir()
	var certs []tls.Certificate
	for _, at := range []string{dir, t.TempDir()} {
		ca, err := CreateCA(filepath.Join(t.TempDir(), "ca"))
		if err != nil {
			t.Fatal(err)
		}
		if err := ca.Create(at, Client, Name{Role: RoleClient, ID: "app"}, time.Hour); err != nil {
			t.Fatal(err)
		}
		c, err := tls.LoadX509KeyPair(filepath.Join(at, Client+".crt"), filepath.Join(at, Client+".key"))
		if err != nil {
			t.Fatal(err)
		}
		certs = append(certs, c)
	}
	p, err := OpenPort(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	for what, x := range map[string]struct {
		cfg  *tls.Config
		good bool
	}{
		"no certificate":      {&tls.Config{}, true},
		"the authority's":     {&tls.Config{Certificates: certs[:1]}, true},
		"another authority's": {&tls.Config{GetClientCertificate: of(&certs[1])}, false},
		"TLS 1.2":             {&tls.Config{MaxVersion: tls.VersionTLS12}, true},
		"TLS 1.1":             {&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, false},
		"a node":              {&tls.Config{NextProtos: []string{ProtoNode}}, false},
	} {
		if _, err := shown(t, p, x.cfg); (err == nil) != x.good {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func of(c *tls.Certificate) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c, nil }
}
