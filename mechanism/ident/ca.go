package ident

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Files of a folder of certificates.
const (
	caCert = "ca.crt"
	caKey  = "ca.key"
	// Node and Client are what the files of a node's and a client's certificate are called, without
	// their ends .crt and .key.
	Node   = "node"
	Client = "client"
)

// Lifetimes of certificates.
const (
	caLife   = 10 * 365 * 24 * time.Hour
	NodeLife = 5 * 365 * 24 * time.Hour // of a node, unless said otherwise
	// ClientLife is that of a client. It is shorter, since a client's certificate cannot be revoked
	// alone.
	ClientLife = 365 * 24 * time.Hour
	// backdate allows for clocks that are behind the authority's.
	backdate = time.Hour
)

// NodeHost is a host name in every node's certificate. Tools that check host names ask for it.
const NodeHost = "node.godwit"

// adminName is who the first client's certificate is for.
const adminName = "admin"

// CA is a cluster's authority. Who can read its folder can become any node and any client.
type CA struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte // all of ca.crt: while authorities change it has several
}

// HasCA reports whether a folder has an authority's certificate, and whether its key.
func HasCA(dir string) (cert, key bool) {
	return exists(filepath.Join(dir, caCert)), exists(filepath.Join(dir, caKey))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// OpenCA opens the authority of a folder.
func OpenCA(dir string) (*CA, error) {
	all, err := os.ReadFile(filepath.Join(dir, caCert))
	if err != nil {
		return nil, err
	}
	certs, err := parseCerts(all)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, caCert), err)
	}
	key, err := readKey(filepath.Join(dir, caKey))
	if err != nil {
		return nil, err
	}
	for _, c := range certs {
		if samePublic(c.PublicKey, key.Public()) {
			return &CA{dir: dir, cert: c, key: key, pem: all}, nil
		}
	}
	return nil, base.Errorf(base.CodeInvalid, "%s: no certificate in %s belongs to the key in %s", dir, caCert, caKey)
}

func samePublic(a, b crypto.PublicKey) bool {
	k, ok := a.(interface{ Equal(x crypto.PublicKey) bool })
	return ok && k.Equal(b)
}

// CreateCA makes an authority in a folder that does not exist or is empty, with a certificate for
// an administrator. Of several processes that do so at once, one succeeds; the others get
// fs.ErrExist.
func CreateCA(dir string) (*CA, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".godwit-ca-") // mode 0700
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := template(caLife)
	t.Subject = pkix.Name{CommonName: "Godwit CA " + hex.EncodeToString(t.SerialNumber.Bytes()[:4])}
	t.IsCA, t.BasicConstraintsValid, t.MaxPathLenZero = true, true, true
	t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	ca := &CA{dir: tmp, key: key, pem: encodeCert(der)}
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	if err := errors.Join(writeKey(filepath.Join(tmp, caKey), key), writeFile(filepath.Join(tmp, caCert), ca.pem)); err != nil {
		return nil, err
	}
	if err := ca.Create(tmp, Client, Name{Role: RoleClient, ID: adminName}, ClientLife); err != nil {
		return nil, err
	}
	err = os.Rename(tmp, dir)
	if errors.Is(err, fs.ErrExist) && os.Remove(dir) == nil { // it was empty
		err = os.Rename(tmp, dir)
	}
	if err != nil {
		if left, rerr := os.ReadDir(dir); rerr == nil && len(left) > 0 {
			return nil, fmt.Errorf("%s is not empty: %w", dir, fs.ErrExist)
		}
		return nil, err
	}
	ca.dir = dir
	return ca, nil
}

// EnsureCA opens the authority of a folder, and makes one if there is none.
func EnsureCA(dir string) (ca *CA, made bool, err error) {
	if cert, _ := HasCA(dir); cert {
		ca, err = OpenCA(dir)
		return ca, false, err
	}
	ca, err = CreateCA(dir)
	if errors.Is(err, fs.ErrExist) {
		if cert, _ := HasCA(dir); cert { // another process was first
			ca, err = OpenCA(dir)
			return ca, false, err
		}
	}
	return ca, err == nil, err
}

// Fingerprint names the authority's certificate.
func (c *CA) Fingerprint() Fingerprint { return sha256.Sum256(c.cert.Raw) }

// PEM are the certificates of the authority.
func (c *CA) PEM() []byte { return c.pem }

// Issue signs a certificate.
func (c *CA) Issue(n Name, pub crypto.PublicKey, life time.Duration) ([]byte, error) {
	if err := n.validate(); err != nil {
		return nil, base.Errorf(base.CodeInvalid, "no certificate is made: %v", err)
	}
	uri, err := url.Parse(n.String())
	if err != nil {
		return nil, err
	}
	t := template(life)
	t.Subject = pkix.Name{CommonName: n.ID, Organization: []string{"Godwit " + string(n.Role)}}
	t.URIs = []*url.URL{uri}
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if n.Role == RoleNode {
		t.ExtKeyUsage = append(t.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		t.DNSNames = []string{NodeHost}
	}
	if t.NotAfter.After(c.cert.NotAfter) {
		t.NotAfter = c.cert.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, t, c.cert, pub, c.key)
	if err != nil {
		return nil, err
	}
	return encodeCert(der), nil
}

// Create makes a key and its certificate in a folder, and puts the authority's certificate there.
// The files are called base.crt and base.key. The certificate comes last: where it is, all is.
func (c *CA) Create(dir, base string, n Name, life time.Duration) error {
	key, err := NewKey(dir, base)
	if err != nil {
		return err
	}
	crt, err := c.Issue(n, key.Public(), life)
	if err != nil {
		return err
	}
	return Install(dir, base, crt, c.pem)
}

// NewKey makes a key in a folder, or opens the one that is there.
func NewKey(dir, base string) (crypto.Signer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, base+".key")
	if exists(path) {
		return readKey(path)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return key, writeKey(path, key)
}

// Install puts a certificate and those of its authority beside the key.
func Install(dir, base string, crt, ca []byte) error {
	if err := writeFile(filepath.Join(dir, caCert), ca); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, base+".crt"), crt)
}

func template(life time.Duration) *x509.Certificate {
	serial := make([]byte, 16)
	rand.Read(serial)
	serial[0] = serial[0]&0x7f | 0x40 // positive, and always as long
	now := time.Now()
	return &x509.Certificate{SerialNumber: new(big.Int).SetBytes(serial), NotBefore: now.Add(-backdate), NotAfter: now.Add(life)}
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func parseCerts(text []byte) (out []*x509.Certificate, err error) {
	for {
		var b *pem.Block
		if b, text = pem.Decode(text); b == nil {
			break
		}
		if b.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errors.New("there is no certificate in it")
	}
	return out, nil
}

func readKey(path string) (crypto.Signer, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	b, _ := pem.Decode(text)
	if b == nil {
		return nil, fmt.Errorf("%s: there is no key in it", path)
	}
	k, err := x509.ParsePKCS8PrivateKey(b.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s, ok := k.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s: its key cannot sign", path)
	}
	return s, nil
}

func writeKey(path string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writeFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// writeFile replaces a file at once, readable by its owner only.
func writeFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
