package etcdleader

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// Access says how to reach etcd, with etcdctl's names.
type Access struct {
	Endpoints          []string // client URLs, or host:port
	CACert, Cert, Key  string   // files
	InsecureSkipVerify bool
	User, Password     string
	Timeout            time.Duration // of one request; default 5 s
	// Dial connects; nil uses the machine's network.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

func (a *Access) secure() bool { return a.CACert != "" || a.Cert != "" || a.InsecureSkipVerify }

// client talks to etcd's JSON gateway, which translates to its gRPC API.
type client struct {
	http           *http.Client
	user, password string
	timeout        time.Duration

	mu    sync.Mutex
	token string
}

// endpoint completes host:port to a URL.
func (a *Access) endpoint(s string) (string, error) {
	if !strings.Contains(s, "://") {
		scheme := "http://"
		if a.secure() {
			scheme = "https://"
		}
		s = scheme + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("endpoint %q: give a client URL of etcd, http(s)://host:port, or host:port", s)
	}
	return u.Scheme + "://" + u.Host, nil
}

func (a *Access) open() (*client, error) {
	var errs []error
	tr := &http.Transport{DialContext: a.Dial, MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: false}
	conf := &tls.Config{InsecureSkipVerify: a.InsecureSkipVerify, MinVersion: tls.VersionTLS12}
	if a.CACert != "" {
		pem, err := os.ReadFile(a.CACert)
		if err != nil {
			errs = append(errs, fmt.Errorf("--cacert: %w", err))
		} else if conf.RootCAs = x509.NewCertPool(); !conf.RootCAs.AppendCertsFromPEM(pem) {
			errs = append(errs, fmt.Errorf("--cacert: %s holds no certificate in PEM", a.CACert))
		}
	}
	if (a.Cert == "") != (a.Key == "") {
		errs = append(errs, errors.New("--cert and --key go together"))
	} else if a.Cert != "" {
		pair, err := tls.LoadX509KeyPair(a.Cert, a.Key)
		if err != nil {
			errs = append(errs, fmt.Errorf("--cert, --key: %w", err))
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	tr.TLSClientConfig = conf
	c := &client{http: &http.Client{Transport: tr}, user: a.User, password: a.Password, timeout: cmp.Or(a.Timeout, 5*time.Second)}
	if a.User != "" && a.Password == "" {
		name, password, ok := strings.Cut(a.User, ":")
		if !ok {
			errs = append(errs, errors.New("--user: give name:password, or the password with --password"))
		}
		c.user, c.password = name, password
	}
	return c, errors.Join(errs...)
}

// refused is an error that etcd has answered.
type refused struct {
	Status int
	Code   int    `json:"code"`
	Msg    string `json:"message"`
}

func (e *refused) Error() string {
	switch {
	case e.Status == http.StatusNotFound && e.Code == 0:
		return "there is no /v3 gateway at this address: it must be a client URL of etcd 3.4 or later, " +
			"without --enable-grpc-gateway=false"
	case e.Msg != "":
		return e.Msg
	}
	return http.StatusText(e.Status)
}

const codeUnauthenticated = 16 // of gRPC

// unauthorized reports whether a (new) token might help.
func (e *refused) unauthorized() bool {
	return e.Code == codeUnauthenticated || strings.Contains(e.Msg, "user name is empty") ||
		strings.Contains(e.Msg, "invalid auth token")
}

// call asks one member.
func (c *client) call(ctx context.Context, endpoint, path string, ask, answer any) error {
	err := c.post(ctx, endpoint, path, ask, answer)
	var r *refused
	if !errors.As(err, &r) || !r.unauthorized() {
		return err
	}
	if c.user == "" {
		return fmt.Errorf("%w: this etcd wants a user: give --user (role root)", err)
	}
	var got struct {
		Token string `json:"token"`
	}
	if err := c.post(ctx, endpoint, "auth/authenticate", map[string]string{"name": c.user, "password": c.password},
		&got); err != nil {
		return fmt.Errorf("log in as %s: %w", c.user, err)
	}
	c.mu.Lock()
	c.token = got.Token
	c.mu.Unlock()
	return c.post(ctx, endpoint, path, ask, answer)
}

func (c *client) post(ctx context.Context, endpoint, path string, ask, answer any) error {
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	text, err := c.do(ctx, http.MethodPost, endpoint+"/v3/"+path, body)
	if err != nil || answer == nil {
		return err
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%s/v3/%s did not answer as etcd does: %w", endpoint, path, err)
	}
	return nil
}

// maxAnswer bounds an answer; metrics of etcd are some 200 kB.
const maxAnswer = 32 << 20

func (c *client) do(ctx context.Context, method, url string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	if c.token != "" {
		req.Header.Set("Authorization", c.token)
	}
	c.mu.Unlock()
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		r := &refused{Status: res.StatusCode}
		_ = json.Unmarshal(text, r) // an answer that is not JSON has no message
		return nil, fmt.Errorf("%s: %w", url, r)
	}
	return text, nil
}

// id is a member's id. In JSON it is decimal text.
type id uint64

func (m *id) UnmarshalJSON(b []byte) error {
	_, err := fmt.Sscanf(strings.Trim(string(b), `"`), "%d", (*uint64)(m))
	return err
}

func (m id) String() string { return fmt.Sprintf("%x", uint64(m)) }

type memberList struct {
	Members []struct {
		ID         id       `json:"ID"`
		Name       string   `json:"name"`
		PeerURLs   []string `json:"peerURLs"`
		ClientURLs []string `json:"clientURLs"`
		IsLearner  bool     `json:"isLearner"`
	} `json:"members"`
}

type status struct {
	Header struct {
		Member id `json:"member_id"`
	} `json:"header"`
	Leader  id       `json:"leader"`
	Index   id       `json:"raftIndex"`
	Applied id       `json:"raftAppliedIndex"`
	Term    id       `json:"raftTerm"`
	Errors  []string `json:"errors"`
}

func (c *client) members(ctx context.Context, endpoint string) (*memberList, error) {
	var m memberList
	return &m, c.call(ctx, endpoint, "cluster/member/list", struct{}{}, &m)
}

func (c *client) status(ctx context.Context, endpoint string) (*status, error) {
	var s status
	return &s, c.call(ctx, endpoint, "maintenance/status", struct{}{}, &s)
}

func (c *client) move(ctx context.Context, leader string, to id) error {
	return c.call(ctx, leader, "maintenance/transfer-leadership", map[string]string{"targetID": fmt.Sprint(uint64(to))}, nil)
}
