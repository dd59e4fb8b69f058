package web

import (
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/ident"
	"github.com/godwitdb/godwit/mechanism/wan"
)

// Port says whose requests a port answers. Health and readiness are answered at all of them.
type Port uint8

const (
	// Shared is the one port of a node without an admin port.
	Shared Port = iota
	// NodesOnly is the port of the nodes, beside an admin port.
	NodesOnly
	// AdminsOnly is the admin port.
	AdminsOnly
)

// NodesPort is whom the port of the nodes answers.
func (c *Options) NodesPort() Port {
	if c.Admins == "" {
		return Shared
	}
	return NodesOnly
}

// wrongPort is why a port does not answer a request: its kind has a port of its own. It comes
// before the question what the asker may do, and says nothing of that.
func (c *Options) wrongPort(at Port, need right, r *http.Request) error {
	var fits bool
	switch at {
	case Shared:
		return nil
	case NodesOnly:
		switch {
		case r.URL.Path == "/metrics":
		case need == members: // other nodes ask for it too
			fits = !clientOf(r)
		default:
			fits = need != administrators
		}
	case AdminsOnly:
		fits = need != nodes && need != bearers
	}
	switch {
	case fits:
		return nil
	case at == NodesOnly:
		return c.elsewhere()
	}
	return base.Errorf(base.CodeInvalid, "this is the port of administrators: nodes ask at %s (--join names it)", c.Nodes)
}

func (c *Options) elsewhere() error {
	return base.Errorf(base.CodeInvalid, "this is the port of the nodes: administrators ask this one at %s (--addr)", c.Admins)
}

// clientOf reports whether the request comes with the certificate of an administrator.
func clientOf(r *http.Request) bool {
	if r.TLS == nil {
		return false
	}
	n, err := ident.Peer(r.TLS)
	return err == nil && n.Role == ident.RoleClient
}

// AdminPort is the admin port of a node; nil if it has none.
type AdminPort struct{ ln net.Listener }

// OpenAdmin listens at HOST:PORT; there is no admin port if it is empty.
func OpenAdmin(addr string) (*AdminPort, error) {
	if addr == "" {
		return nil, nil
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for administrators: %w (choose another --admin-listen if another process has that "+
			"address)", err)
	}
	return &AdminPort{ln}, nil
}

// Addr is where it listens; empty without an admin port.
func (p *AdminPort) Addr() string {
	if p == nil {
		return ""
	}
	return p.ln.Addr().String()
}

// Close stops listening, before Serve.
func (p *AdminPort) Close() error {
	if p == nil {
		return nil
	}
	return p.ln.Close()
}

// Serve answers administrators until the returned function is called. What is no HTTP is closed.
func (p *AdminPort) Serve(c *Options, mux http.Handler, opt wan.SplitOptions) (stop func() error) {
	if p == nil {
		return func() error { return nil }
	}
	frames, web := wan.SplitHTTP(p.ln, opt)
	srv := c.Server(mux, AdminsOnly)
	go srv.Serve(web)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := frames.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	return func() error {
		err := errors.Join(srv.Close(), frames.Close())
		<-done
		return err
	}
}
