package ident

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Fingerprint is the SHA256 of an authority's certificate.
type Fingerprint [sha256.Size]byte

func (fp Fingerprint) of(c *x509.Certificate) bool { return sha256.Sum256(c.Raw) == fp }

// Token lets one node get its certificate, once.
type Token struct {
	ID     [8]byte
	Secret [16]byte
	CA     Fingerprint
}

// tokenPrefix begins the text of a token; the number is the version of what follows.
const tokenPrefix = "gwt1-"

// String is what an operator carries to the new node.
func (t Token) String() string {
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(slices.Concat(t.ID[:], t.Secret[:], t.CA[:]))
}

// ParseToken reads the text of a token.
func ParseToken(s string) (t Token, err error) {
	text, ok := strings.CutPrefix(strings.TrimSpace(s), tokenPrefix)
	if !ok {
		return t, base.Errorf(base.CodeInvalid, "this is no token: one begins with %q", tokenPrefix)
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != len(t.ID)+len(t.Secret)+len(t.CA) {
		return t, base.Errorf(base.CodeInvalid, "the token is damaged: copy all of it")
	}
	copy(t.ID[:], b)
	copy(t.Secret[:], b[len(t.ID):])
	copy(t.CA[:], b[len(t.ID)+len(t.Secret):])
	return t, nil
}

// Grant is what a token allows, as the authority keeps it. The secret itself is not kept.
type Grant struct {
	ID     string    `json:"id"`
	Hash   string    `json:"hash"` // SHA256 of the secret
	Until  time.Time `json:"until"`
	Region string    `json:"region,omitempty"` // "": any
	UUID   string    `json:"uuid,omitempty"`   // of a store that exists; "": a new one
	Used   *Use      `json:"-"`
}

// Use is who a token was used by.
type Use struct {
	When   time.Time `json:"when"`
	UUID   string    `json:"uuid"`
	Region string    `json:"region"`
	Key    string    `json:"key"` // SHA256 of the public key
}

// State is what has become of a token.
func (g Grant) State(now time.Time) string {
	switch {
	case g.Used != nil:
		return "used by " + g.Used.UUID
	case now.After(g.Until):
		return "expired"
	}
	return "good"
}

// MaxTokenLife bounds how long a token may be good.
const MaxTokenLife = 30 * 24 * time.Hour

// maxTokens bounds those that an authority keeps.
const maxTokens = 10000

func (c *CA) tokens() string { return filepath.Join(c.dir, "tokens") }

func (c *CA) grantPath(id string) string { return filepath.Join(c.tokens(), id+".json") }
func (c *CA) usePath(id string) string   { return filepath.Join(c.tokens(), id+".used") }

// CreateToken makes a token that is good for a while: for a node of a region, or of any if it is
// ""; for a new store, or the one with a UUID.
func (c *CA) CreateToken(life time.Duration, region, uuid string) (Token, Grant, error) {
	if life <= 0 || life > MaxTokenLife {
		return Token{}, Grant{}, base.Errorf(base.CodeInvalid, "a token is good for more than 0 and at most %s, not %s",
			MaxTokenLife, life)
	}
	if err := os.MkdirAll(c.tokens(), 0o700); err != nil {
		return Token{}, Grant{}, err
	}
	if had, err := os.ReadDir(c.tokens()); err != nil || len(had) >= 2*maxTokens {
		return Token{}, Grant{}, errors.Join(err, base.Errorf(base.CodeInvalid, "%s is full: revoke old tokens", c.tokens()))
	}
	t := Token{CA: c.Fingerprint()}
	rand.Read(t.ID[:])
	rand.Read(t.Secret[:])
	g := Grant{ID: hex.EncodeToString(t.ID[:]), Hash: hash(t.Secret[:]), Until: time.Now().Add(life).UTC(), Region: region,
		UUID: uuid}
	text, err := json.Marshal(g)
	if err != nil {
		return t, g, err
	}
	return t, g, writeFile(c.grantPath(g.ID), text)
}

func hash(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// Tokens lists all that were made and not revoked.
func (c *CA) Tokens() (out []Grant, err error) {
	entries, err := os.ReadDir(c.tokens())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || strings.HasPrefix(id, ".") {
			continue
		}
		g, err := c.grant(id)
		if err != nil {
			return nil, err
		}
		out = append(out, g)
	}
	return out, nil
}

// Revoke takes a token back. What was issued by it stays good.
func (c *CA) Revoke(id string) error {
	b, err := hex.DecodeString(id)
	if err != nil || len(b) != len(Token{}.ID) {
		return base.Errorf(base.CodeInvalid, "%q is no id of a token; 'godwit token list' shows them", id)
	}
	err = os.Remove(c.grantPath(hex.EncodeToString(b)))
	if errors.Is(err, fs.ErrNotExist) {
		return base.Errorf(base.CodeInvalid, "there is no token %s; 'godwit token list' shows them", id)
	}
	return err
}

func (c *CA) grant(id string) (g Grant, err error) {
	text, err := os.ReadFile(c.grantPath(id))
	if err != nil {
		return g, err
	}
	if err := json.Unmarshal(text, &g); err != nil {
		return g, fmt.Errorf("%s: %w", c.grantPath(id), err)
	}
	text, err = os.ReadFile(c.usePath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return g, nil
	}
	if err == nil {
		g.Used = new(Use)
		err = json.Unmarshal(text, g.Used)
	}
	return g, err
}

// Enrol is the request of a node that has a token and wants a certificate.
type Enrol struct {
	Token   string `json:"token"`
	Region  string `json:"region"`
	UUID    string `json:"uuid,omitempty"` // of a store that exists
	Request []byte `json:"request"`        // PEM of a PKCS #10 request: it proves that the node has the key
}

// Enrolled is the answer.
type Enrolled struct {
	UUID  string `json:"uuid,omitempty"`
	Cert  []byte `json:"cert,omitempty"`
	CA    []byte `json:"ca,omitempty"`
	Error string `json:"error,omitempty"`
	// Final: asking again, here or elsewhere, will not help.
	Final bool `json:"final,omitempty"`
}

// errToken does not say what is wrong with a token: who guesses should not learn.
var errToken = base.Errorf(base.CodeInvalid, "the token is unknown, used, expired or revoked: make a new one by "+
	"`godwit token create`")

// Enrol makes the certificate that a token allows. The same key may ask again, since the answer may
// have been lost.
func (c *CA) Enrol(q Enrol, newUUID func() string) (Enrolled, error) {
	t, err := ParseToken(q.Token)
	if err != nil {
		return Enrolled{}, err
	}
	csr, err := parseRequest(q.Request)
	if err != nil {
		return Enrolled{}, err
	}
	g, err := c.grant(hex.EncodeToString(t.ID[:]))
	if err != nil || subtle.ConstantTimeCompare([]byte(g.Hash), []byte(hash(t.Secret[:]))) != 1 || time.Now().After(g.Until) {
		return Enrolled{}, errToken
	}
	if g.Region != "" && g.Region != q.Region {
		return Enrolled{}, base.Errorf(base.CodeInvalid, "the token is for a node of region %s, not %s", g.Region, q.Region)
	}
	if q.UUID != "" && q.UUID != g.UUID {
		return Enrolled{}, base.Errorf(base.CodeInvalid, "the store of this node exists already: make its token by "+
			"`godwit token create --uuid %s`", q.UUID)
	}
	key, err := x509.MarshalPKIXPublicKey(csr.PublicKey)
	if err != nil {
		return Enrolled{}, err
	}
	use := Use{When: time.Now().UTC(), UUID: g.UUID, Region: q.Region, Key: hash(key)}
	if use.UUID == "" {
		use.UUID = newUUID()
	}
	if use, err = c.use(g, use); err != nil {
		return Enrolled{}, err
	}
	crt, err := c.Issue(Name{Role: RoleNode, ID: use.UUID, Region: use.Region}, csr.PublicKey, NodeLife)
	return Enrolled{UUID: use.UUID, Cert: crt, CA: c.pem}, err
}

// use marks a token as used, by one of all that try, or finds that it was used by the same key.
func (c *CA) use(g Grant, use Use) (Use, error) {
	text, err := json.Marshal(use)
	if err != nil {
		return use, err
	}
	tmp := c.usePath(g.ID) + "-" + use.Key
	if err := writeFile(tmp, text); err != nil {
		return use, err
	}
	defer os.Remove(tmp)
	// A link fails if its name is taken, and the file is complete from the first moment.
	if err = os.Link(tmp, c.usePath(g.ID)); err == nil {
		return use, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return use, err
	}
	if g, err = c.grant(g.ID); err != nil || g.Used == nil || g.Used.Key != use.Key || g.Used.Region != use.Region {
		return use, errToken
	}
	return *g.Used, nil
}

// maxRequest bounds a certificate request.
const maxRequest = 8 << 10

func parseRequest(text []byte) (*x509.CertificateRequest, error) {
	bad := base.Errorf(base.CodeInvalid, "the certificate request is malformed")
	if len(text) > maxRequest {
		return nil, bad
	}
	b, rest := pem.Decode(text)
	if b == nil || b.Type != "CERTIFICATE REQUEST" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, bad
	}
	csr, err := x509.ParseCertificateRequest(b.Bytes)
	if err != nil || csr.CheckSignature() != nil {
		return nil, bad
	}
	return csr, nil
}

// Request makes the certificate request of a node, whose key lies in a folder.
func Request(dir string) ([]byte, error) {
	key, err := NewKey(dir, Node)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, new(x509.CertificateRequest), key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}

// Check reads an answer as the node that asked, and reports whether it is what the node wanted: a
// certificate for its key and region, of the authority that the token names.
func (e Enrolled) Check(dir, region string, t Token) error {
	cas, err := parseCerts(e.CA)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(cas, t.CA.of) {
		return errors.New("the answer is of another authority than the token")
	}
	crts, err := parseCerts(e.Cert)
	if err != nil {
		return err
	}
	key, err := NewKey(dir, Node)
	if err != nil {
		return err
	}
	own := samePublic(key.Public(), crts[0].PublicKey)
	n, nameErr := Of(crts[0])
	switch {
	case nameErr != nil:
		return nameErr
	case !own:
		return errors.New("the answer is a certificate for another key")
	case n != Name{Role: RoleNode, ID: e.UUID, Region: region}:
		return fmt.Errorf("the answer is a certificate for %s", n)
	}
	return nil
}
