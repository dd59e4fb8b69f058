package sink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/godwitdb/godwit/sql/backup/place"
)

// Message is one that has a key. Those of one topic and key arrive in order.
type Message struct {
	Topic string
	Key   []byte
	// Value is nil where a log that is compacted may forget the key.
	Value []byte
	// Head is what a file of such messages begins with: the schema of Avro, or a line of CSV.
	// Messages of different heads are in different files.
	Head string
}

func (m *Message) size() int { return len(m.Topic) + len(m.Key) + len(m.Value) }

// Mark says that all messages of a moment and before have arrived.
type Mark struct {
	At    uint64
	Value []byte
	// Of are the values by topics, if these have values of their own.
	Of map[string][]byte
}

// value is that of a topic.
func (m *Mark) value(topic string) []byte {
	if v, ok := m.Of[topic]; ok {
		return v
	}
	return m.Value
}

// Sink takes messages. Emit and Mark are called by one goroutine.
type Sink interface {
	// Emit sends messages and returns when all are acknowledged.
	Emit(ctx context.Context, batch []Message) error
	// Mark sends a mark to everybody who reads these topics.
	Mark(ctx context.Context, topics []string, m Mark) error
	// Reached says that all messages up to a moment have been acknowledged, and no later message is
	// at or below it.
	Reached(at uint64)
	// Linger is for how long messages should be gathered before they are sent; 0: not at all.
	Linger() time.Duration
	Close() error
}

// PermanentError is one that trying again does not mend.
type PermanentError struct{ Why string }

func (e *PermanentError) Error() string { return e.Why }

// Permanent reports whether trying again is of no use.
func Permanent(err error) bool {
	var p *PermanentError
	return errors.As(err, &p)
}

// Settings are what a statement says about its sink beside the address.
type Settings struct {
	// AuthHeader is the header Authorization of a webhook. It is a secret.
	AuthHeader string        `json:"auth_header,omitempty"`
	Timeout    time.Duration `json:"timeout,omitempty"` // of a request; 0: the default
	// Compression is gzip, zstd or empty.
	Compression string `json:"compression,omitempty"`
	// Encoding is that of the messages of files: avro, csv, or empty, which is JSON.
	Encoding string `json:"-"`
	// Name makes the names of files, and the client's, those of one writer: a job and its lease.
	Name string `json:"-"`
}

// Kind of a sink.
type Kind string

// The kinds of sinks.
const (
	Kafka   Kind = "kafka"
	Webhook Kind = "webhook"
	Files   Kind = "files"
)

// Address is a place that a statement names, read.
type Address struct {
	Kind Kind
	// Hosts are those of Kafka's brokers with their ports, or the one of a webhook.
	Hosts []string
	url   *url.URL // of a webhook, or of files
	user  *url.Userinfo
	q     url.Values // parameters of ours
}

// Parameters of addresses.
const (
	pTopicPrefix = "topic_prefix"
	pTopicName   = "topic_name"
	pTLS         = "tls_enabled"
	pSASL        = "sasl_enabled"
	pMechanism   = "sasl_mechanism"
	pUser        = "sasl_user"
	pPassword    = "sasl_password"
	pCA          = "ca_cert"
	pCert        = "client_cert"
	pKey         = "client_key"
	pNoVerify    = "insecure_tls_skip_verify"
)

var (
	tlsParameters   = []string{pCA, pCert, pKey}
	topicParameters = []string{pTopicPrefix, pTopicName}
	kafkaParameters = slices.Concat(tlsParameters, topicParameters, []string{pTLS, pSASL, pMechanism, pUser, pPassword})
	// shown are parameters whose values are no secrets.
	shown = slices.Concat(topicParameters, []string{pTLS, pSASL, pMechanism, pUser})
)

const forms = "name kafka://HOST:PORT[,...], https://HOST/PATH, file:///DIRECTORY, s3://BUCKET/PATH, gs://BUCKET/PATH or " +
	"azblob://CONTAINER/PATH"

// Parse reads the place of a statement. Errors do not repeat it.
func Parse(text string) (*Address, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	scheme = strings.ToLower(scheme)
	switch {
	case !ok:
		return nil, errors.New("the sink is no address: " + forms)
	case scheme == "kafka":
		return parseKafka(rest)
	case scheme == "webhook-https" || scheme == "https":
		return parseWebhook(rest)
	case scheme == "http" || scheme == "webhook-http":
		return nil, errors.New("a webhook takes TLS: name https://HOST/PATH")
	case slices.Contains([]string{"file", "s3", "gs", "azblob"}, scheme):
		u, err := url.Parse(text)
		if err != nil {
			return nil, errors.New("the sink is no address: " + forms)
		}
		a := &Address{Kind: Files, q: url.Values{}}
		q := u.Query()
		for _, p := range topicParameters {
			if v, ok := q[p]; ok {
				a.q[p] = v
				q.Del(p)
			}
		}
		if u.User != nil || len(q) > 0 || u.Fragment != "" {
			return nil, errors.New("the address of files has a path, and no more than " + strings.Join(topicParameters, " or ") +
				": parameters and credentials of a bucket belong to the node, which is started with --backup-bucket")
		}
		u.RawQuery = ""
		a.url = u
		return a, nil
	}
	return nil, errors.New("there is no sink of that scheme: " + forms)
}

func parseKafka(rest string) (*Address, error) {
	rest, query, _ := strings.Cut(rest, "?")
	hosts := strings.TrimSuffix(rest, "/")
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("the parameters of the address cannot be read: encode what is no letter or number as %XX")
	}
	if strings.Contains(hosts, "@") {
		return nil, errors.New("a user of Kafka is given as ?sasl_enabled=true&sasl_user=USER&sasl_password=PASSWORD")
	}
	a := &Address{Kind: Kafka, q: q}
	for h := range strings.SplitSeq(hosts, ",") {
		h, err := hostPort(h, "9092")
		if err != nil {
			return nil, err
		}
		a.Hosts = append(a.Hosts, h)
	}
	for p := range q {
		if p == pNoVerify {
			return nil, errNoVerify
		}
		if !slices.Contains(kafkaParameters, p) {
			return nil, fmt.Errorf("kafka:// has no parameter %q; it has %s", p, strings.Join(kafkaParameters, ", "))
		}
	}
	return a, a.checkKafka()
}

var errNoVerify = errors.New("certificates are always verified: give that of their authority as ca_cert, PEM in base64")

func parseWebhook(rest string) (*Address, error) {
	u, err := url.Parse("https://" + rest)
	if err != nil || u.Host == "" || u.Opaque != "" {
		return nil, errors.New("the webhook is no address: name https://HOST[:PORT]/PATH, with what is no letter or number as %XX")
	}
	host, err := hostPort(u.Host, "443")
	if err != nil {
		return nil, err
	}
	a := &Address{Kind: Webhook, Hosts: []string{host}, q: url.Values{}, user: u.User}
	q := u.Query()
	if q.Has(pNoVerify) {
		return nil, errNoVerify
	}
	for _, p := range slices.Concat(tlsParameters, topicParameters) {
		if v, ok := q[p]; ok {
			a.q[p] = v
			q.Del(p)
		}
	}
	u.RawQuery, u.User, u.Fragment = q.Encode(), nil, ""
	a.url = u
	_, err = a.tls()
	return a, err
}

// hostPort is a host and its port, in lower case.
func hostPort(s, port string) (string, error) {
	if s == "" || strings.ContainsAny(s, " /\\@") {
		return "", errors.New("the sink names no host: " + forms)
	}
	if h, p, err := net.SplitHostPort(s); err == nil {
		s, port = h, p
	}
	s = strings.Trim(s, "[]")
	if n, err := net.LookupPort("tcp", port); err != nil || n == 0 || s == "" {
		return "", errors.New("the sink names no host and port: " + forms)
	}
	return net.JoinHostPort(strings.ToLower(strings.TrimSuffix(s, ".")), port), nil
}

func (a *Address) on(p string) (bool, error) {
	switch strings.ToLower(a.q.Get(p)) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, fmt.Errorf("%s is true or false", p)
}

// String is the address without secrets, as SHOW shows it: of a webhook the host only, since paths
// of webhooks are passwords often.
func (a *Address) String() string {
	var q []string
	for _, p := range shown {
		for _, v := range a.q[p] {
			q = append(q, p+"="+url.QueryEscape(v))
		}
	}
	for _, p := range slices.Concat(tlsParameters, []string{pPassword}) {
		if a.q.Has(p) {
			q = append(q, p+"=***")
		}
	}
	s := ""
	switch a.Kind {
	case Kafka:
		s = "kafka://" + strings.Join(a.Hosts, ",")
	case Webhook:
		s = "https://" + a.url.Host + "/***"
	default:
		s = a.url.String()
	}
	if len(q) > 0 {
		s += "?" + strings.Join(q, "&")
	}
	return s
}

// Topic is what a topic is called there.
func (a *Address) Topic(name string) string {
	if n := a.q.Get(pTopicName); n != "" {
		name = n
	}
	return a.q.Get(pTopicPrefix) + name
}

// tls is the configuration for TLS that the parameters ask for.
func (a *Address) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	pem := func(p string) ([]byte, error) {
		b, err := base64.StdEncoding.DecodeString(a.q.Get(p))
		if err != nil {
			return nil, fmt.Errorf("%s is no base64: it is a PEM file in base64, with + as %%2B", p)
		}
		return b, nil
	}
	if a.q.Has(pCA) {
		b, err := pem(pCA)
		if err != nil {
			return nil, err
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(b) {
			return nil, errors.New("ca_cert has no certificate: it is a PEM file in base64")
		}
	}
	if a.q.Has(pCert) != a.q.Has(pKey) {
		return nil, errors.New("client_cert and client_key belong together")
	}
	if a.q.Has(pCert) {
		cert, err := pem(pCert)
		if err != nil {
			return nil, err
		}
		key, err := pem(pKey)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, errors.New("client_cert and client_key are no pair: each is a PEM file in base64")
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// Policy says which sinks statements may name.
type Policy struct {
	// Places are the directory and the buckets of file://, s3://, gs:// and azblob://.
	Places place.Policy
	// Allowed are brokers, kafka://HOST:PORT, and webhooks, https://HOST[:PORT][/PATH] with what
	// lies below the path.
	Allowed []string
}

// Check reports what is wrong with the policy.
func (p *Policy) Check() error {
	for _, text := range p.Allowed {
		a, err := Parse(text)
		if err != nil {
			return fmt.Errorf("changefeed-sink: %w", err)
		}
		if a.Kind == Files || len(a.q) > 0 || a.user != nil || a.url != nil && a.url.RawQuery != "" {
			return errors.New("changefeed-sink: name kafka://HOST:PORT or https://HOST[:PORT][/PATH], without parameters; " +
				"directories and buckets are those of --backup-dir and --backup-bucket")
		}
	}
	return nil
}

// permits reports why statements may not name an address.
func (p *Policy) permits(a *Address) error {
	if a.Kind == Files {
		return nil // place.Policy asks itself
	}
	for _, h := range a.Hosts {
		if !slices.ContainsFunc(p.Allowed, func(text string) bool {
			may, err := Parse(text)
			return err == nil && may.Kind == a.Kind && slices.Contains(may.Hosts, h) && (a.Kind == Kafka || below(a.url, may.url))
		}) {
			form := "kafka://" + h
			if a.Kind == Webhook {
				form = "https://" + a.url.Host
			}
			return fmt.Errorf("this node sends no changes to %s: start it, and all nodes that may go on with its jobs, with "+
				"--changefeed-sink %s", h, form)
		}
	}
	return nil
}

// below reports whether a webhook's path lies below another one. A path that may mean another one
// to the server does not.
func below(u, top *url.URL) bool {
	if u.Path == "" {
		u = &url.URL{Path: "/"}
	}
	if u.RawPath != "" || path.Clean(u.Path) != u.Path && path.Clean(u.Path)+"/" != u.Path || strings.Contains(u.Path, "\\") {
		return strings.Trim(top.Path, "/") == ""
	}
	want := strings.TrimSuffix(top.Path, "/")
	return u.Path == want || strings.HasPrefix(u.Path, want+"/")
}

// Open opens the sink that a statement names, if statements may. It does not wait for the other
// side.
func (p *Policy) Open(ctx context.Context, a *Address, s Settings) (Sink, error) {
	if err := p.permits(a); err != nil {
		return nil, &PermanentError{err.Error()}
	}
	switch a.Kind {
	case Kafka:
		return openKafka(a, s)
	case Webhook:
		return openWebhook(a, s)
	}
	pl, err := p.Places.Open(ctx, a.url.String(), true)
	if err != nil {
		return nil, err
	}
	return newFiles(pl, s), nil
}

// signFile is in a folder of its own, by which a node knows that it sees the files of a job: a
// directory of another machine may have the same name.
const signFile = "/job"

// Sign leaves a sign where files go; other sinks need none.
func (p *Policy) Sign(ctx context.Context, a *Address, name string) error {
	return p.sign(ctx, a, true, func(pl place.Place) error { return pl.Write(ctx, name+signFile, []byte("{}")) })
}

// Signed reports why a node cannot go on with the job that has left a sign.
func (p *Policy) Signed(ctx context.Context, a *Address, name string) error {
	return p.sign(ctx, a, false, func(pl place.Place) error { _, err := pl.Read(ctx, name+signFile, 1<<10); return err })
}

// Unsign takes the sign away.
func (p *Policy) Unsign(ctx context.Context, a *Address, name string) error {
	return p.sign(ctx, a, false, func(pl place.Place) error { return pl.Remove(ctx, name+signFile) })
}

func (p *Policy) sign(ctx context.Context, a *Address, make bool, fn func(place.Place) error) error {
	if err := p.permits(a); err != nil || a.Kind != Files {
		return err
	}
	pl, err := p.Places.Open(ctx, a.url.String(), make)
	if err != nil {
		return err
	}
	defer pl.Close()
	return fn(pl)
}
