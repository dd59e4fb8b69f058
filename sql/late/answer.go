package late

import (
	"errors"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/kill"
)

// answer is what a client waits for: one for each command. Either the command gives it, or somebody
// else does before, as when the command was killed and takes long to end (kill.Teller).
type answer struct {
	of *mysql.Conn
	// state is the number of the answer, and in the last two bits who gives it.
	state atomic.Uint64
	mu    sync.Mutex // held by somebody else who gives it
	// flushing: Tell has the library's buffer written. The library writes nothing meanwhile: it has
	// no buffer while it parses, and else the command is under way.
	flushing atomic.Bool
	left     int  // of the packet that is dropped
	begun    bool // some of it was
}

const (
	open    uint64 = iota // nobody has begun to
	taken                 // the command does
	telling               // somebody else does
	told                  // somebody else has, and what the command answers is dropped
	states
)

func (a *answer) begin() { a.state.Store((a.state.Load()/states + 1) * states) }

// take lets the command answer, unless somebody else has.
func (a *answer) take() bool {
	for {
		switch s := a.state.Load(); s % states {
		case taken:
			return true
		case told:
			return false
		case telling:
			a.mu.Lock() // until it is told
			a.mu.Unlock()
		default:
			if a.state.CompareAndSwap(s, s+taken) {
				return true
			}
		}
	}
}

// errTold is for the protocol library, which makes it a packet that is dropped.
var errTold = mysql.NewSQLError(1317, "70100", "the client has been told")

// errNotDropped ends the connection.
var errNotDropped = errors.New("a command has answered whose client was told")

// writes reports whether what is written now is sent. What the library writes by itself is an
// answer, too, as that of a statement to be prepared which it cannot parse; but not that it asks
// for the file of LOAD DATA.
func (a *answer) writes(b []byte) bool {
	return a.flushing.Load() || len(b) > headerLen && b[headerLen] == filePacket && a.state.Load()%states == open || a.take()
}

// drop drops the packet that the library makes of errTold: at once, or its header and the rest of
// it, as after LOAD DATA. What comes after it belongs to the next command.
func (a *answer) drop(b []byte) (int, error) {
	rest := b
	if a.left == 0 {
		if len(b) < headerLen {
			return 0, errNotDropped
		}
		a.left, a.begun = int(b[0])|int(b[1])<<8|int(b[2])<<16, false
		rest = b[headerLen:]
	}
	if len(rest) > a.left || len(rest) > 0 && !a.begun && rest[0] != errPacket {
		return 0, errNotDropped
	}
	a.begun = a.begun || len(rest) > 0
	if a.left -= len(rest); a.left == 0 {
		a.state.Store(a.state.Load()/states*states + taken)
	}
	return len(b), nil
}

// Answer implements kill.Teller.
func (c *conn) Answer() uint64 { return c.answer.state.Load() / states }

// Tell implements kill.Teller.
func (c *conn) Tell(number uint64, why func() *mysql.SQLError) {
	a := &c.answer
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.state.CompareAndSwap(number*states+open, number*states+telling) {
		return
	}
	e := why()
	// Results of the same packet, of statements before, may still lie in the library's buffer,
	// which nobody else touches before the command takes its answer.
	a.flushing.Store(true)
	err := a.of.FlushBuffer()
	a.flushing.Store(false)
	if err == nil {
		_, err = c.Conn.Write(Packet(e, sequence(a.of)))
	}
	a.state.Store(number*states + told)
	if err != nil {
		_ = c.Conn.Close() // who reads from it notices
	}
}

// sequence is the number of the next packet to the client.
func sequence(c *mysql.Conn) byte {
	return byte(reflect.ValueOf(c).Elem().FieldByName("sequence").Uint())
}

// TellerOf is the client's connection; nil: it is none of a client.
func TellerOf(c *mysql.Conn) kill.Teller {
	if l, ok := c.Conn.(*conn); ok {
		return l
	}
	return nil
}
