package ident

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"

	"github.com/godwitdb/godwit/base"
)

// Role is what the bearer of a certificate may do.
type Role string

// The roles.
const (
	RoleNode   Role = "node"
	RoleClient Role = "client"
)

// scheme begins the URI of every name.
const scheme = "godwit"

// maxName bounds each part of a name in bytes.
const maxName = 200

// Name is who the bearer of a certificate is.
type Name struct {
	Role   Role
	ID     string // the UUID of a node's store, or what a client is called
	Region string // of a node
}

// String is the URI in a certificate.
func (n Name) String() string {
	s := scheme + "://" + string(n.Role) + "/" + url.PathEscape(n.ID)
	if n.Role == RoleNode {
		s += "/" + url.PathEscape(n.Region)
	}
	return s
}

func (n Name) validate() error {
	switch {
	case n.Role != RoleNode && n.Role != RoleClient:
		return fmt.Errorf("%q is no role", n.Role)
	case n.ID == "" || len(n.ID) > maxName:
		return fmt.Errorf("a %s's name has 1 to %d bytes", n.Role, maxName)
	case n.Role == RoleNode && (n.Region == "" || len(n.Region) > maxName):
		return fmt.Errorf("a region's name has 1 to %d bytes", maxName)
	case n.Role == RoleClient && n.Region != "":
		return fmt.Errorf("a client has no region")
	}
	return nil
}

// ParseName reads the URI of a certificate.
func ParseName(uri string) (Name, error) {
	rest, ok := strings.CutPrefix(uri, scheme+"://")
	if !ok {
		return Name{}, fmt.Errorf("%q does not name a node or a client", uri)
	}
	parts := strings.Split(rest, "/")
	for i := range parts {
		var err error
		if parts[i], err = url.PathUnescape(parts[i]); err != nil {
			return Name{}, fmt.Errorf("%q: %w", uri, err)
		}
	}
	n := Name{Role: Role(parts[0])}
	switch {
	case n.Role == RoleNode && len(parts) == 3:
		n.ID, n.Region = parts[1], parts[2]
	case n.Role == RoleClient && len(parts) == 2:
		n.ID = parts[1]
	default:
		return Name{}, fmt.Errorf("%q names neither a node nor a client", uri)
	}
	return n, n.validate()
}

// Of is the name in a certificate. It has exactly one.
func Of(c *x509.Certificate) (Name, error) {
	if len(c.URIs) != 1 {
		return Name{}, fmt.Errorf("the certificate of %q has %d names of nodes or clients, not one", c.Subject, len(c.URIs))
	}
	return ParseName(c.URIs[0].String())
}

// Peer is who is at the other end of a connection whose handshake the configurations of [Files]
// have verified.
func Peer(cs *tls.ConnectionState) (Name, error) {
	if cs == nil || len(cs.PeerCertificates) == 0 {
		return Name{}, base.Errorf(base.CodeInvalid, "a certificate of this cluster is needed")
	}
	return Of(cs.PeerCertificates[0])
}
