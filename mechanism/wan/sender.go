package wan

import (
	"bufio"
	"io"
	"net"

	"github.com/godwitdb/godwit/base"
)

// sender writes the bytes of one stream and counts them.
type sender struct {
	conn  net.Conn
	count *counters
	pack  *packer // nil: as they are
	// single says that each frame is to be a write of its own; nil: never.
	single func() bool
}

// writeAll is the writer of a connection; nil when the outbox was closed.
func (w *sender) writeAll(out *outbox) error {
	for {
		b := out.take()
		if b == nil {
			return nil
		}
		if err := w.frames(b); err != nil {
			return err
		}
		out.wrote(b)
	}
}

// frames writes what has gathered.
func (s *sender) frames(b []byte) error {
	for s.single != nil && s.single() && len(b) > 0 {
		n, err := frameLen(b, len(b))
		if err == nil {
			err = s.write(b[:n])
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	if len(b) == 0 {
		return nil
	}
	return s.write(b)
}

// write gives bytes to the connection: here they leave the process, compressed where the link says
// so.
func (s *sender) write(b []byte) error {
	raw := len(b)
	if s.pack != nil {
		var err error
		if b, err = s.pack.pack(b); err != nil {
			return err
		}
	}
	if _, err := s.conn.Write(b); err != nil {
		return err
	}
	s.count.streamSent.Add(uint64(raw))
	s.count.wireSent.Add(uint64(len(b)))
	s.count.writes.Add(1)
	return nil
}

// halves makes the two halves of a stream that has shaken hands. peer is what the other end, in
// that region, understands.
func (c *core) halves(conn net.Conn, r *bufio.Reader, count *counters, region base.RegionID, peer Compression) (*sender,
	*bufio.Reader, func()) {
	s := &sender{conn: conn, count: count}
	if c.region != region {
		s.single = c.single.Load
	}
	received := func(wire, raw int) {
		count.streamRecv.Add(uint64(raw))
		count.wireRecv.Add(uint64(wire))
	}
	if !packs(c.region, region, understood, peer) {
		return s, bufio.NewReaderSize(&tally{r, received}, readBuffer), func() {}
	}
	s.pack = &packer{use: c.compression, peer: peer}
	u := &unpacker{r: r, read: received}
	return s, bufio.NewReaderSize(u, readBuffer), u.close
}

// tally counts the bytes of a stream that travel as they are.
type tally struct {
	r    io.Reader
	read func(wire, raw int)
}

func (t *tally) Read(b []byte) (int, error) {
	n, err := t.r.Read(b)
	t.read(n, n)
	return n, err
}
