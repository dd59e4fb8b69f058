package ident

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Files are a certificate, its key and its authority on disk. They are read again when they change,
// so that a certificate is replaced without a restart.
type Files struct {
	dir, base string
	log       *slog.Logger

	mu     sync.Mutex
	read   state
	looked time.Time
	seen   [3]stamp
	warned time.Time // of an end that is near
}

// state is what one reading of the files gave.
type state struct {
	cert  *tls.Certificate
	leaf  *x509.Certificate
	roots *x509.CertPool
	ends  time.Time // of the authority that ends first
	name  Name
}

// stamp tells a changed file from an unchanged one.
type stamp struct {
	mod  time.Time
	size int64
}

const (
	// lookEvery is the least time between two looks whether files have changed.
	lookEvery = time.Second
	// renewBefore is how long before its end a certificate should be replaced.
	renewBefore = 30 * 24 * time.Hour
	warnEvery   = 24 * time.Hour
)

// Open reads base.crt, base.key and ca.crt of a folder. log may be nil.
func Open(dir, base string, log *slog.Logger) (*Files, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	f := &Files{dir: dir, base: base, log: log}
	s, err := f.load()
	if err != nil {
		return nil, err
	}
	f.read, f.seen, f.looked = s, f.stamps(), time.Now()
	f.warn()
	return f, nil
}

// HasNode reports whether a folder has a node's certificate.
func HasNode(dir string) bool { return exists(filepath.Join(dir, Node+".crt")) }

// HasClient reports whether a folder has a client's certificate.
func HasClient(dir string) bool { return exists(filepath.Join(dir, Client+".crt")) }

func (f *Files) paths() [3]string {
	return [3]string{filepath.Join(f.dir, f.base+".crt"), filepath.Join(f.dir, f.base+".key"), filepath.Join(f.dir, caCert)}
}

func (f *Files) stamps() [3]stamp { return stampsOf(f.paths()) }

func stampsOf(paths [3]string) (out [3]stamp) {
	for i, p := range paths {
		if s, err := os.Stat(p); err == nil {
			out[i] = stamp{s.ModTime(), s.Size()}
		}
	}
	return out
}

func (f *Files) load() (s state, err error) {
	paths := f.paths()
	if err := onlyOwner(paths[1]); err != nil {
		return s, err
	}
	c, err := tls.LoadX509KeyPair(paths[0], paths[1])
	if err != nil {
		return s, fmt.Errorf("the certificate in %s cannot be used: %w", f.dir, err)
	}
	text, err := os.ReadFile(paths[2])
	if err != nil {
		return s, err
	}
	cas, err := parseCerts(text)
	if err != nil {
		return s, fmt.Errorf("%s: %w", paths[2], err)
	}
	s.cert, s.leaf, s.roots = &c, c.Leaf, x509.NewCertPool()
	for _, ca := range cas {
		s.roots.AddCert(ca)
		if s.ends.IsZero() || ca.NotAfter.Before(s.ends) {
			s.ends = ca.NotAfter
		}
		// The authority goes along: who joins by a token finds it by its fingerprint.
		if !slices.ContainsFunc(c.Certificate, func(der []byte) bool { return bytes.Equal(der, ca.Raw) }) {
			c.Certificate = append(c.Certificate, ca.Raw)
		}
	}
	s.name, err = Of(s.leaf)
	return s, err
}

// onlyOwner refuses a key that others can read.
func onlyOwner(path string) error {
	s, err := os.Stat(path)
	if err != nil {
		return err
	}
	if s.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		return base.Errorf(base.CodeInvalid, "others can read the key %s: chmod 600 it", path)
	}
	return nil
}

// current is what the files say now. If they cannot be read, it is what they said before.
func (f *Files) current() state {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.looked) < lookEvery {
		return f.read
	}
	f.looked = time.Now()
	if now := f.stamps(); now != f.seen {
		f.seen = now
		s, err := f.load()
		switch {
		case err != nil:
			f.log.Error("the changed certificate cannot be used, the old one stays", "dir", f.dir, "err", err)
		case s.name != f.read.name:
			f.log.Error("the changed certificate is of somebody else, the old one stays", "dir", f.dir, "name", s.name.String(),
				"instead of", f.read.name.String())
		default:
			f.read = s
			f.log.Info("certificate was read again", "dir", f.dir, "until", s.leaf.NotAfter)
		}
	}
	f.warn()
	return f.read
}

func (f *Files) warn() {
	if left := time.Until(f.read.leaf.NotAfter); left < renewBefore && time.Since(f.warned) > warnEvery {
		f.warned = time.Now()
		f.log.Warn("the certificate ends soon: replace it, see docs/security.md", "dir", f.dir, "until", f.read.leaf.NotAfter)
	}
}

// Name is who the certificate is for.
func (f *Files) Name() Name { return f.current().name }

// Until is the end of the certificate.
func (f *Files) Until() time.Time { return f.current().leaf.NotAfter }

// AuthorityUntil is the end of the authority's certificate, of several that of the first.
func (f *Files) AuthorityUntil() time.Time { return f.current().ends }

// IssuedBy reports whether an authority made the certificate.
func (f *Files) IssuedBy(ca *CA) bool { return f.current().leaf.CheckSignatureFrom(ca.cert) == nil }

// verify checks the chain of a peer and its role.
func (s state) verify(cs *tls.ConnectionState, use x509.ExtKeyUsage, roles ...Role) error {
	if len(cs.PeerCertificates) == 0 {
		return errors.New("no certificate was sent")
	}
	leaf := cs.PeerCertificates[0]
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: s.roots, KeyUsages: []x509.ExtKeyUsage{use}}); err != nil {
		return explain(err)
	}
	n, err := Of(leaf)
	if err != nil {
		return err
	}
	if !slices.Contains(roles, n.Role) {
		return fmt.Errorf("this is the certificate of a %s (%s)", n.Role, n.ID)
	}
	return nil
}

// explain says what to do about a certificate that was not accepted.
func explain(err error) error {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("the peer's certificate is of another authority: do both ends belong to one cluster? (%w)", err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("the peer's certificate has expired or is not valid yet: replace it, or set the clock (%w)", err)
	}
	return err
}

// Protocols that connections of TLS name (ALPN).
const (
	ProtoNode = "godwit/1" // frames between nodes
	ProtoHTTP = "http/1.1"
)

// Server is the configuration of a listener. A peer may come without a certificate: what it may do
// then is for the caller to say. One that is sent must be good.
func (f *Files) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequestClientCert,
		NextProtos: []string{ProtoNode, ProtoHTTP},
		// A resumed session would rest on a certificate that was checked before.
		SessionTicketsDisabled: true,
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return f.current().cert, nil },
		VerifyConnection: func(cs tls.ConnectionState) error {
			if cs.NegotiatedProtocol == ProtoNode {
				return f.current().verify(&cs, x509.ExtKeyUsageClientAuth, RoleNode)
			}
			if len(cs.PeerCertificates) == 0 {
				return nil
			}
			return f.current().verify(&cs, x509.ExtKeyUsageClientAuth, RoleNode, RoleClient)
		},
	}
}

// Client is the configuration of who dials a node. proto is what it will speak.
func (f *Files) Client(proto string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{proto},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return f.current().cert, nil
		},
		// Nodes are known by what their certificates name, not by host names: VerifyConnection
		// checks the chain and the role.
		InsecureSkipVerify: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			return f.current().verify(&cs, x509.ExtKeyUsageServerAuth, RoleNode)
		},
	}
}

// ByFingerprint is the configuration of who knows only the fingerprint of the authority: it is how
// a node joins by a token. The peer proves that it is a node of that authority.
func ByFingerprint(fp Fingerprint) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{ProtoHTTP},
		// VerifyConnection checks the chain up to the authority that the fingerprint names.
		InsecureSkipVerify: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			for _, c := range cs.PeerCertificates {
				if fp.of(c) && c.IsCA {
					s := state{roots: x509.NewCertPool()}
					s.roots.AddCert(c)
					return s.verify(&cs, x509.ExtKeyUsageServerAuth, RoleNode)
				}
			}
			return errors.New("the token is of another cluster: its authority is not the one of this node")
		},
	}
}
