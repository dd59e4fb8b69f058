package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/mechanism/ident"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/node/web"
)

// This file finds the certificate of a real node. It lies in the store's folder certs. If there is
// none yet, it comes from a token, or from the authority's key if this machine has it. The first
// node of a cluster makes the authority.

// CertsVar names the environment variable with the folder of the cluster's authority.
const CertsVar = "GODWIT_CERTS"

// DefaultCerts is the folder of the cluster's authority unless --certs names another one.
func DefaultCerts() string {
	if dir := os.Getenv(CertsVar); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ".godwit"
	}
	return filepath.Join(home, ".godwit")
}

// NodeCerts is the folder of a node's own certificate.
func NodeCerts(store string) string { return filepath.Join(store, "certs") }

// loopback reports whether an address is reached from this machine only.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// whoami is the UUID of the store, and the node's certificate; nil without TLS.
func (n *Node) whoami(ctx context.Context, cfg *Config, st *store.Store) (uuid string, files *ident.Files, err error) {
	known, err := loadJSON(st, recUUID, &uuid)
	if err != nil {
		return "", nil, err
	}
	if cfg.Insecure {
		n.log.Warn("this node runs with --insecure: whoever reaches its port " + cfg.Listen + " is an administrator")
		if !known {
			uuid = join.NewUUID()
			err = saveJSON(st, recUUID, uuid)
		}
		return uuid, nil, err
	}
	dir := NodeCerts(cfg.Store)
	if !ident.HasNode(dir) {
		if err := n.getCertificate(ctx, cfg, dir, uuid); err != nil {
			return "", nil, err
		}
	}
	if files, err = ident.Open(dir, ident.Node, n.log); err != nil {
		return "", nil, err
	}
	if files, err = n.renew(cfg, dir, files); err != nil {
		return "", nil, err
	}
	name := files.Name()
	switch {
	case name.Role != ident.RoleNode:
		return "", nil, base.Errorf(base.CodeInvalid, "%s has the certificate of a %s, not of a node", dir, name.Role)
	case known && name.ID != uuid:
		return "", nil, base.Errorf(base.CodeInvalid, "%s has the certificate of the store %s, and this is the store %s: "+
			"put the right one there, or take it away and start with a token (`godwit token create --uuid %s`)",
			dir, name.ID, uuid, uuid)
	case name.Region != cfg.Region:
		return "", nil, base.Errorf(base.CodeInvalid, "%s has a certificate for region %s, not %s: start the node with "+
			"--region %s, or name an empty store", dir, name.Region, cfg.Region, name.Region)
	case !known:
		return name.ID, files, saveJSON(st, recUUID, name.ID)
	}
	return uuid, files, nil
}

// sqlCertificate is what MySQL clients are shown, also with --insecure.
func (n *Node) sqlCertificate(store string) (*ident.Port, error) {
	return ident.OpenPort(NodeCerts(store), n.log)
}

// renewWithin is how long before its end a certificate is replaced at a start, where the
// authority's key is.
const renewWithin = 90 * 24 * time.Hour

// renew replaces a certificate that ends soon, if this machine has the authority that made it.
func (n *Node) renew(cfg *Config, dir string, old *ident.Files) (*ident.Files, error) {
	if time.Until(old.Until()) > renewWithin {
		return old, nil
	}
	ca, err := ident.OpenCA(cfg.Certs)
	if err != nil || !old.IssuedBy(ca) {
		return old, nil // not made here: the log warns
	}
	if err := ca.Create(dir, ident.Node, old.Name(), ident.NodeLife); err != nil {
		return nil, err
	}
	n.log.Info("the node's certificate was renewed", "dir", dir)
	return ident.Open(dir, ident.Node, n.log)
}

// getCertificate gets the node's first certificate.
func (n *Node) getCertificate(ctx context.Context, cfg *Config, dir, uuid string) error {
	if cfg.Token != "" {
		return n.enrol(ctx, cfg, dir, uuid)
	}
	hasCA, hasKey := ident.HasCA(cfg.Certs)
	others := slices.DeleteFunc(slices.Clone(cfg.Join), func(a string) bool {
		return loopback(a) || a == cfg.Listen || a == cfg.Advertise
	})
	switch {
	case hasKey:
	case hasCA:
		return base.Errorf(base.CodeInvalid, "this node has no certificate, and the key of the authority in %s is "+
			"elsewhere: run `godwit token create` there, and start this node with --token", cfg.Certs)
	case len(others) > 0:
		return base.Errorf(base.CodeInvalid, "this node has no certificate, and is to join other machines (%v): run "+
			"`godwit token create` where the cluster's first node runs, and start this one with --token. "+
			"If this is the first node, run `godwit cert create-ca` first", others)
	}
	ca, made, err := ident.EnsureCA(cfg.Certs)
	if err != nil {
		return fmt.Errorf("make the cluster's certificates in %s: %w (--certs names another folder)", cfg.Certs, err)
	}
	if made {
		n.log.Info("made the authority of a new cluster: keep its key safe", "dir", cfg.Certs)
	}
	if uuid == "" {
		uuid = join.NewUUID()
	}
	return ca.Create(dir, ident.Node, ident.Name{Role: ident.RoleNode, ID: uuid, Region: cfg.Region}, ident.NodeLife)
}

const (
	enrolEvery = 500 * time.Millisecond
	// enrolTimeout bounds one attempt.
	enrolTimeout = 5 * time.Second
)

// enrol gets the node's certificate by its token, from one of the nodes to join.
func (n *Node) enrol(ctx context.Context, cfg *Config, dir, uuid string) error {
	tok, err := ident.ParseToken(cfg.Token)
	if err != nil {
		return err
	}
	csr, err := ident.Request(dir)
	if err != nil {
		return err
	}
	q := ident.Enrol{Token: cfg.Token, Region: cfg.Region, UUID: uuid, Request: csr}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: ident.ByFingerprint(tok.CA), DisableKeepAlives: true},
		Timeout: enrolTimeout}
	for attempt := 0; ; attempt++ {
		var failed error
		for _, addr := range cfg.Join {
			if addr == cfg.Advertise {
				continue
			}
			a, err := askEnrol(ctx, c, addr, q)
			switch {
			case err != nil:
				failed = err
			case a.Error != "" && a.Final:
				return base.Errorf(base.CodeInvalid, "the node at %s gives no certificate: %s", addr, a.Error)
			case a.Error != "":
				failed = fmt.Errorf("%s: %s", addr, a.Error)
			default:
				if err := a.Check(dir, cfg.Region, tok); err != nil {
					return fmt.Errorf("the answer of %s: %w", addr, err)
				}
				return ident.Install(dir, ident.Node, a.Cert, a.CA)
			}
		}
		if attempt%30 == 0 {
			n.log.Warn("this node has no certificate yet: none of --join gives one", "join", cfg.Join, "err", failed)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(enrolEvery):
		}
	}
}

func askEnrol(ctx context.Context, c *http.Client, addr string, q ident.Enrol) (a ident.Enrolled, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return a, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+addr+web.PathEnrol, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := c.Do(req)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&a); err != nil {
		return a, fmt.Errorf("%s answered %s with what is not JSON: %w", addr, res.Status, err)
	}
	return a, nil
}

// serveEnrol gives certificates to nodes with tokens, if this machine has the authority's key.
func (n *Node) serveEnrol(certs string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q ident.Enrol
		if err := join.Decode(r, &q); err != nil {
			join.Reply(w, http.StatusBadRequest, ident.Enrolled{Error: err.Error(), Final: true})
			return
		}
		ca, err := ident.OpenCA(certs)
		if err != nil {
			n.log.Warn("a node asks for a certificate, but the key of the authority is not here", "dir", certs, "err", err)
			join.Reply(w, http.StatusConflict, ident.Enrolled{Error: "this node has no key of the authority: " +
				"name a node that has it in --join"})
			return
		}
		a, err := ca.Enrol(q, join.NewUUID)
		if err != nil {
			n.log.Warn("no certificate for a node that asks", "from", r.RemoteAddr, "region", q.Region, "err", err)
			n.audit.Write(web.Event(r, err))
			a = ident.Enrolled{Error: err.Error(), Final: true}
			join.Reply(w, http.StatusForbidden, a)
			return
		}
		n.log.Info("a node got its certificate by a token", "from", r.RemoteAddr, "region", q.Region, "uuid", a.UUID)
		e := web.Event(r, nil)
		e.Detail = "certificate by a token for the store " + a.UUID + " in region " + q.Region
		n.audit.Write(e)
		join.Reply(w, http.StatusOK, a)
	}
}

// isPeer says whether a certificate is of the node with an id, by the newest topology known here.
// first counts until the cluster is there.
func (n *Node) isPeer(cs *tls.ConnectionState, id base.NodeID, region base.RegionID, first *base.Topology) error {
	name, err := ident.Peer(cs)
	if err != nil {
		return err
	}
	n.mu.Lock()
	c := n.cluster
	n.mu.Unlock()
	t := first
	if c != nil {
		t = c.Topology()
	}
	x := t.Node(id)
	switch {
	case x == nil:
		return base.Errorf(base.CodeUnavailable, "node %d is not in the topology known here", id)
	case name.Role != ident.RoleNode || name.ID != x.UUID:
		return base.Errorf(base.CodeInvalid, "this is the certificate of %s, not of node %d", name, id)
	case name.Region != t.RegionName(x.Region) || region != 0 && region != x.Region:
		return base.Errorf(base.CodeInvalid, "node %d is in region %s: the certificate says %s, and the connection region %d",
			id, t.RegionName(x.Region), name.Region, region)
	}
	return nil
}

// httpClient is the HTTP client with which a node asks others which node it is; without TLS if
// files is nil.
func httpClient(files *ident.Files) *http.Client {
	t := &http.Transport{DisableKeepAlives: true}
	if files != nil {
		t.TLSClientConfig = files.Client(ident.ProtoHTTP)
	}
	return &http.Client{Transport: t}
}

// isJoiner says whether who asks for its cluster is the node that it says it is.
func isJoiner(r *http.Request, j join.Joiner) error {
	name, err := ident.Peer(r.TLS)
	if err != nil {
		return err
	}
	if name.Role != ident.RoleNode || name.ID != j.UUID || name.Region != j.Region {
		return base.Errorf(base.CodeInvalid, "the certificate is of %s, not of the store %s in region %s", name, j.UUID, j.Region)
	}
	return nil
}
