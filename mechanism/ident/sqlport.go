package ident

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// The names of certificates that MySQL clients may be shown, the best one first.
const (
	SQL  = "sql"  // from outside, put there by an administrator
	Self = "self" // made by the node itself, signed by nobody
)

// ProtoSQL is what a TLS client of the SQL port may name (ALPN); MySQL's clients name nothing. A
// node that another one dials has the same certificate at two ports: by this name who is led to the
// wrong one is refused.
const ProtoSQL = "mysql"

// selfLife is how long a self-made certificate is good: nobody checks it.
const selfLife = 20 * 365 * 24 * time.Hour

// Port is the certificate that MySQL clients are shown. It lies in a folder as sql.crt and sql.key;
// if they are missing it is the node's, and without that one that the node made itself. The files
// are read again when they change.
type Port struct {
	dir string
	log *slog.Logger

	mu     sync.Mutex
	cfg    *tls.Config
	base   string
	looked time.Time
	seen   [3]stamp
}

// OpenPort reads the certificate of a folder, and makes one if there is none. log may be nil.
func OpenPort(dir string, log *slog.Logger) (*Port, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	p := &Port{dir: dir, log: log}
	if p.best() == Self {
		if err := makeSelf(dir); err != nil {
			return nil, fmt.Errorf("make a certificate for MySQL clients in %s: %w", dir, err)
		}
	}
	if err := p.load(p.best()); err != nil {
		return nil, err
	}
	return p, nil
}

// best is the certificate that is there and comes first.
func (p *Port) best() string {
	for _, b := range []string{SQL, Node} {
		if exists(filepath.Join(p.dir, b+".crt")) {
			return b
		}
	}
	return Self
}

func (p *Port) paths(base string) [3]string {
	return [3]string{filepath.Join(p.dir, base+".crt"), filepath.Join(p.dir, base+".key"), filepath.Join(p.dir, caCert)}
}

func (p *Port) load(base string) error {
	paths := p.paths(base)
	p.seen = stampsOf(paths)
	if err := onlyOwner(paths[1]); err != nil {
		return err
	}
	c, err := tls.LoadX509KeyPair(paths[0], paths[1])
	if err != nil {
		return fmt.Errorf("the certificate %s cannot be used: %w", paths[0], err)
	}
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12, // MySQL's clients before 8.0.16 have no newer one
		NextProtos: []string{ProtoSQL},
		// A resumed session would rest on a certificate that was checked before.
		SessionTicketsDisabled: true,
		Certificates:           []tls.Certificate{c},
	}
	if text, err := os.ReadFile(paths[2]); err == nil { // for accounts that REQUIRE X509
		cas, err := parseCerts(text)
		if err != nil {
			return fmt.Errorf("%s: %w", paths[2], err)
		}
		cfg.ClientAuth, cfg.ClientCAs = tls.VerifyClientCertIfGiven, x509.NewCertPool()
		for _, ca := range cas {
			cfg.ClientCAs.AddCert(ca)
		}
	}
	p.cfg, p.base = cfg, base
	return nil
}

// Until is the end of the certificate.
func (p *Port) Until() time.Time {
	if c := p.current().Certificates[0]; c.Leaf != nil {
		return c.Leaf.NotAfter
	}
	return time.Time{}
}

// current is what the files say now. If they cannot be read, it is what they said before.
func (p *Port) current() *tls.Config {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.looked) < lookEvery {
		return p.cfg
	}
	p.looked = time.Now()
	b := p.best()
	if b == p.base && stampsOf(p.paths(b)) == p.seen {
		return p.cfg
	}
	if err := p.load(b); err != nil {
		p.log.Error("the changed certificate for MySQL clients cannot be used, the old one stays", "dir", p.dir, "err", err)
		return p.cfg
	}
	p.log.Info("the certificate for MySQL clients was read again", "file", p.paths(b)[0])
	return p.cfg
}

// Server is the configuration of the SQL port.
func (p *Port) Server() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return p.current(), nil },
	}
}

// makeSelf makes a certificate that nobody else has signed.
func makeSelf(dir string) error {
	if exists(filepath.Join(dir, Self+".crt")) {
		return nil
	}
	key, err := NewKey(dir, Self)
	if err != nil {
		return err
	}
	t := template(selfLife)
	t.Subject = pkix.Name{CommonName: "Godwit, self-made"}
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, Self+".crt"), encodeCert(der))
}
