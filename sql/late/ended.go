package late

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"time"

	"github.com/dolthub/vitess/go/mysql"
)

// Ending is a connection that remembers whether it has come to its end.
type Ending interface {
	net.Conn
	// Over reports whether a Read has failed, but for a deadline: nothing more comes.
	Over() bool
}

// HasEnded reports whether nothing more comes from a client that has sent all that it was asked
// for. It must not be called while somebody reads from the client. The protocol library tells the
// end of a connection and that of a client's file by the same io.EOF.
func HasEnded(c *mysql.Conn) bool {
	raw, ok := Raw(c.Conn).(Ending)
	if !ok || raw.Over() {
		return ok
	}
	t, ok := Under(c.Conn).(*tls.Conn)
	if !ok {
		return false
	}
	// TLS may have been told of the end before the connection below it. It remembers that, and
	// says so before it looks at the deadline.
	_ = raw.SetReadDeadline(time.Unix(1, 0))
	_, err := t.Read(make([]byte, 1))
	_ = raw.SetReadDeadline(time.Time{})
	return !errors.Is(err, os.ErrDeadlineExceeded)
}
