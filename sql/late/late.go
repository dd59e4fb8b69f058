package late

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// Server is what a [Handler] stands before.
type Server interface {
	mysql.Handler
	mysql.BinlogReplicaHandler
}

// Handler hands on the commands of clients. Where one fails after it has sent rows, the protocol
// library is told that it has ended well, and the packet for that end becomes one for the error.
type Handler struct{ Server }

// conn is the connection of a client, above TLS.
type conn struct {
	net.Conn
	// err is sent in place of the next packet, which ends a result.
	err    atomic.Pointer[mysql.SQLError]
	answer answer
}

// Under is the connection that the protocol library has made: one of TLS, or below it.
func Under(c net.Conn) net.Conn {
	if l, ok := c.(*conn); ok {
		return l.Conn
	}
	return c
}

// Raw is the connection below TLS.
func Raw(c net.Conn) net.Conn {
	if t, ok := Under(c).(*tls.Conn); ok {
		return t.NetConn()
	}
	return Under(c)
}

// Under implements quick.Wrapped.
func (c *conn) Under() net.Conn { return c.Conn }

// ConnectionAuthenticated implements mysql.Handler. Nothing else knows the connection yet.
func (h *Handler) ConnectionAuthenticated(c *mysql.Conn) error {
	c.Conn = &conn{Conn: c.Conn, answer: answer{of: c}}
	return h.Server.ConnectionAuthenticated(c)
}

// ComQuery implements mysql.Handler.
func (h *Handler) ComQuery(ctx context.Context, c *mysql.Conn, query string, cb mysql.ResultSpoolFn) error {
	s := begin(c)
	return s.end(c, h.Server.ComQuery(ctx, c, query, func(r *sqltypes.Result, more bool) error {
		return s.send(r, func() error { return cb(r, more) })
	}))
}

// ComMultiQuery implements mysql.Handler.
func (h *Handler) ComMultiQuery(ctx context.Context, c *mysql.Conn, query string, cb mysql.ResultSpoolFn) (string, error) {
	s := begin(c)
	rest, err := h.Server.ComMultiQuery(ctx, c, query, func(r *sqltypes.Result, more bool) error {
		return s.send(r, func() error { return cb(r, more) })
	})
	told := s.told()
	if err != nil || told {
		rest = "" // an error ends the packet
	}
	return rest, s.end(c, err)
}

// ComStmtExecute implements mysql.Handler.
func (h *Handler) ComStmtExecute(ctx context.Context, c *mysql.Conn, p *mysql.PrepareData,
	cb func(*sqltypes.Result) error) error {
	s := begin(c)
	err := h.Server.ComStmtExecute(ctx, c, p, func(r *sqltypes.Result) error { return s.send(r, func() error { return cb(r) }) })
	if err != nil && byCursor() {
		return err // rows lie where the client fetches them, and the library writes them meanwhile
	}
	return s.end(c, err)
}

// ParserOptionsForConnection implements mysql.Handler. The protocol library asks before it parses a
// statement that is to be prepared.
func (h *Handler) ParserOptionsForConnection(c *mysql.Conn) (sqlparser.ParserOptions, error) {
	begin(c)
	return h.Server.ParserOptionsForConnection(c)
}

// ComPrepare implements mysql.Handler.
func (h *Handler) ComPrepare(ctx context.Context, c *mysql.Conn, query string, p *mysql.PrepareData) ([]*querypb.Field, error) {
	f, err := h.Server.ComPrepare(ctx, c, query, p)
	if l, ok := c.Conn.(*conn); ok && !l.answer.take() {
		delete(c.PrepareData, p.StatementID)
		return nil, errTold
	}
	return f, err
}

// byCursor reports whether the client fetches the rows of this statement by a cursor: the protocol
// library runs it in a goroutine of its own then.
func byCursor() bool {
	var pcs [256]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, ".(*Conn).handleNextCommand") {
			return false
		}
		if !more {
			return true
		}
	}
}

// sent is what was sent of a result.
type sent struct {
	to      *answer // nil: nobody else answers
	columns bool
	broken  bool // a packet may have been sent in part
}

func begin(c *mysql.Conn) sent {
	l, ok := c.Conn.(*conn)
	if !ok {
		return sent{}
	}
	l.answer.begin()
	return sent{to: &l.answer}
}

// told reports whether the client has been told already. If not, only the statement answers it from
// now on.
func (s *sent) told() bool { return s.to != nil && !s.to.take() }

// send sends a part of a result.
func (s *sent) send(r *sqltypes.Result, part func() error) error {
	if s.told() {
		return errTold
	}
	err := part()
	s.columns = s.columns || len(r.Fields) > 0
	s.broken = s.broken || err != nil
	return err
}

// end has an error sent that came behind a result's columns, and then returns nil.
func (s *sent) end(c *mysql.Conn, err error) error {
	if s.told() {
		return errTold
	}
	l, ok := c.Conn.(*conn)
	if err == nil || !ok || !s.columns || s.broken {
		return err
	}
	var e *mysql.SQLError
	if !errors.As(err, &e) {
		e = mysql.NewSQLError(mysql.ERUnknownError, mysql.SSUnknownSQLState, "%s", err.Error())
	}
	if c.FlushBuffer() != nil {
		return err // the client has gone
	}
	l.err.Store(e)
	return nil
}

const (
	headerLen = 4
	errPacket = 0xff
	eofPacket = 0xfe
	// filePacket asks the client for a file.
	filePacket = 0xfb
	// endLen is less than what a row with such a first byte has.
	endLen = 9
	// messageLen is what is sent of an error's text at most.
	messageLen = 1 << 15
)

// errUnexpected ends the connection. The library's buffer was empty, so that it writes the end of a
// result at once, and alone.
var errUnexpected = errors.New("something else than the end of a result follows its error")

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if !c.answer.writes(b) {
		return c.answer.drop(b)
	}
	if c.err.Load() == nil {
		return c.Conn.Write(b)
	}
	e := c.err.Swap(nil)
	if n := len(b) - headerLen; n < 1 || n >= endLen || b[headerLen] != eofPacket || int(b[0]) != n {
		return 0, errUnexpected
	}
	if _, err := c.Conn.Write(Packet(e, b[3])); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Packet is an ERR packet, with its header and its number.
func Packet(e *mysql.SQLError, seq byte) []byte {
	state, message := e.State, e.Message
	if len(state) != 5 {
		state = mysql.SSUnknownSQLState
	}
	if len(message) > messageLen {
		message = message[:messageLen]
	}
	b := make([]byte, headerLen, headerLen+9+len(message))
	b = append(b, errPacket)
	b = binary.LittleEndian.AppendUint16(b, uint16(e.Num))
	b = append(append(append(b, '#'), state...), message...)
	n := len(b) - headerLen
	b[0], b[1], b[2], b[3] = byte(n), byte(n>>8), 0, seq
	return b
}
