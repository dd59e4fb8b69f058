// Package standin has what stands for a client of the protocol that is not connected to this node:
// one whose gateway is another node, or work that the node does for itself.
package standin

import (
	"context"
	"net"
	"sync"
)

// Conn stands for the connection of a client. Nothing is read from it or written to it; closing it,
// as KILL does, ends the statement.
type Conn struct {
	net.Conn
	// Host is where the client is.
	Host string

	mu  sync.Mutex
	end context.CancelFunc
}

type address string

func (a address) Network() string { return "forwarded" }
func (a address) String() string  { return string(a) }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return address(c.Host) }

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return address(c.Host) }

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end != nil {
		c.end()
	}
	return nil
}

// Running says how the statement is ended that begins; nil: none is running.
func (c *Conn) Running(end context.CancelFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = end
}
