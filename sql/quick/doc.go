// Package quick is TCP connections of clients on which many small packets come and go. On Linux
// they are read and written past the scheduler, and tell whether the client is still there.
package quick

import "net"

// Wrapped is a connection that stands before another one, which may be one of ours.
type Wrapped interface{ Under() net.Conn }
