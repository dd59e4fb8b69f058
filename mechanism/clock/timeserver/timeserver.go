// Package timeserver tells machines of a region what time it is, over UDP, and asks for it: the
// paper's time source of a regional cluster, polled every millisecond.
//
// A question is magic, a number that only its asker knows, and zeros up to the length of an answer,
// which repeats both and adds the server's clock and its bound. The number makes answers to earlier
// questions, and those that somebody made up, worthless.
package timeserver

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
)

const (
	magic       = 0x676f647769747431 // "godwitt1"
	nonceLen    = 16
	questionLen = 8 + nonceLen
	answerLen   = questionLen + 16
)

// Server answers questions on a socket.
type Server struct {
	conn net.PacketConn
	src  clock.Source
	done chan struct{}

	// Answered and Ignored count datagrams; the latter are no questions.
	Answered, Ignored atomic.Uint64
}

// Serve answers questions that come to conn with what src says, until Close.
func Serve(conn net.PacketConn, src clock.Source) *Server {
	s := &Server{conn: conn, src: src, done: make(chan struct{})}
	go s.run()
	return s
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.conn.LocalAddr() }

// Close ends it.
func (s *Server) Close() error {
	err := s.conn.Close()
	<-s.done
	return err
}

func (s *Server) run() {
	defer close(s.done)
	buf := make([]byte, 256)
	for {
		n, from, err := s.conn.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		// A datagram longer than a question would make the answer an amplifier the other way round;
		// it is none.
		if n != answerLen || binary.BigEndian.Uint64(buf) != magic {
			s.Ignored.Add(1)
			continue
		}
		now, bound := s.src.Read()
		binary.BigEndian.PutUint64(buf[questionLen:], uint64(now))
		binary.BigEndian.PutUint64(buf[questionLen+8:], uint64(bound))
		if _, err := s.conn.WriteTo(buf[:answerLen], from); err == nil {
			s.Answered.Add(1)
		}
	}
}

// Client is a clock.Source fed by a time server. It goes on by the process's monotonic clock while
// no answers come, with a bound that grows.
type Client struct {
	addr   string
	every  time.Duration
	conn   net.Conn
	heard  atomic.Pointer[time.Time] // when it answered last
	newest atomic.Pointer[clock.Sample]
	first  chan struct{}
	once   sync.Once
	stop   chan struct{}
	wg     sync.WaitGroup

	mu   sync.Mutex
	sent map[[nonceLen]byte]time.Time // questions without answer

	answers, bad, late atomic.Uint64
}

const (
	// questionLife is how long an answer is waited for.
	questionLife = time.Second
	// maxBound of a server that is believed.
	maxBound = time.Minute
)

// Dial starts to ask a server. ready bounds the wait for the first answer, without which there is
// no time to tell.
func Dial(addr string, every, ready time.Duration) (*Client, error) {
	conn, err := net.Dial("udp", addr)
	if err != nil {
		return nil, fmt.Errorf("time server %s: %w", addr, err)
	}
	c := &Client{addr: addr, every: every, conn: conn, first: make(chan struct{}), stop: make(chan struct{}),
		sent: map[[nonceLen]byte]time.Time{}}
	c.wg.Go(c.ask)
	c.wg.Go(c.listen)
	select {
	case <-c.first:
		return c, nil
	case <-time.After(ready):
		return nil, errors.Join(fmt.Errorf("the time server at %s gave no answer within %s: "+
			"is `godwit timeserver` running there, and UDP let through?", addr, ready), c.Close())
	}
}

// Close ends it.
func (c *Client) Close() error {
	close(c.stop)
	err := c.conn.Close()
	c.wg.Wait()
	return err
}

func (c *Client) ask() {
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	// As long as an answer: nobody can use the server to flood others with more than was sent to
	// it.
	var q [answerLen]byte
	binary.BigEndian.PutUint64(q[:], magic)
	clean := time.Now()
	for {
		nonce := [nonceLen]byte{}
		_, _ = rand.Read(nonce[:]) // never fails
		copy(q[8:], nonce[:])
		now := time.Now()
		c.mu.Lock()
		c.sent[nonce] = now
		if now.Sub(clean) > questionLife {
			clean = now
			for k, at := range c.sent {
				if now.Sub(at) > questionLife {
					delete(c.sent, k)
				}
			}
		}
		c.mu.Unlock()
		_, _ = c.conn.Write(q[:]) // a lost question is like a lost answer
		select {
		case <-tick.C:
		case <-c.stop:
			return
		}
	}
}

func (c *Client) listen() {
	buf := make([]byte, 256)
	for {
		n, err := c.conn.Read(buf)
		arrived := time.Now()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // nobody listens there; ask again
			select {
			case <-time.After(c.every):
			case <-c.stop:
				return
			}
			continue
		}
		c.take(buf[:n], arrived)
	}
}

// take files one datagram.
func (c *Client) take(b []byte, arrived time.Time) {
	if len(b) != answerLen || binary.BigEndian.Uint64(b) != magic {
		c.bad.Add(1)
		return
	}
	nonce := [nonceLen]byte(b[8:questionLen])
	c.mu.Lock()
	sent, ok := c.sent[nonce]
	delete(c.sent, nonce)
	c.mu.Unlock()
	if !ok {
		c.late.Add(1)
		return
	}
	s := &clock.Sample{Now: base.Timestamp(binary.BigEndian.Uint64(b[questionLen:])),
		Bound: time.Duration(binary.BigEndian.Uint64(b[questionLen+8:])), Sent: sent, Arrived: arrived}
	if s.Now == 0 || s.Now > base.MaxTimestamp/2 || s.Bound < 0 || s.Bound > maxBound {
		c.bad.Add(1)
		return
	}
	c.answers.Add(1)
	c.heard.Store(&arrived)
	if old := c.newest.Load(); old == nil || s.Better(old, arrived) {
		c.newest.Store(s)
	}
	c.once.Do(func() { close(c.first) })
}

// Read implements clock.Source.
func (c *Client) Read() (base.Timestamp, time.Duration) { return c.ReadAt(time.Now()) }

// ReadAt is Read at a moment that was just taken.
func (c *Client) ReadAt(t time.Time) (base.Timestamp, time.Duration) { return c.newest.Load().At(t) }

// silentAfter is how long a server may be silent before it is told.
const silentAfter = 2 * time.Second

// Name says where the time comes from.
func (c *Client) Name() string {
	name := "time server " + c.addr
	if at := c.heard.Load(); at != nil {
		if d := time.Since(*at); d > silentAfter {
			name += ", " + clock.Silent + d.Truncate(time.Second).String()
		}
	}
	return name
}

// Counts are the datagrams that came, by what became of them.
func (c *Client) Counts() map[string]uint64 {
	return map[string]uint64{"taken": c.answers.Load(), "malformed": c.bad.Load(), "late": c.late.Load()}
}
