package wan

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net"
	"time"

	"github.com/godwitdb/godwit/base"
)

// protocolVersion is what a node speaks behind the handshake. It rises with
// every change that older nodes cannot follow.
const protocolVersion = 1

// helloMagic begins the body of hello and welcome.
const helloMagic = "GODWIT\x00\x01"

// hello introduces the dialler. A dialler without identity (node 0) may only
// ask (wire.KindAsk): that is how a new node finds its cluster.
type hello struct {
	version uint16
	class   class
	region  base.RegionID
	node    base.NodeID
	want    base.NodeID // who the dialler believes lives here; 0 anybody
	cluster string
	packs   Compression // what the dialler can undo; 0 also from older nodes
	process uint64      // names the dialler's process; 0: not known, also from older nodes
}

func (h hello) encode() []byte {
	b := append(make([]byte, 0, 64), helloMagic...)
	b = binary.LittleEndian.AppendUint16(b, h.version)
	b = append(b, byte(h.class), byte(h.region))
	b = binary.LittleEndian.AppendUint32(b, uint32(h.node))
	b = binary.LittleEndian.AppendUint32(b, uint32(h.want))
	b = append(appendString(b, h.cluster), byte(h.packs))
	return binary.LittleEndian.AppendUint64(b, h.process)
}

func decodeHello(b []byte) (hello, error) {
	const fixed = len(helloMagic) + 2 + 2 + 4 + 4
	if len(b) < fixed || string(b[:len(helloMagic)]) != helloMagic {
		return hello{}, fmt.Errorf("malformed hello: not a Godwit node?")
	}
	b = b[len(helloMagic):]
	le := binary.LittleEndian
	h := hello{
		version: le.Uint16(b), class: class(b[2]), region: base.RegionID(b[3]),
		node: base.NodeID(le.Uint32(b[4:])), want: base.NodeID(le.Uint32(b[8:])),
	}
	var ok bool
	// What newer versions append behind the cluster id is ignored.
	var rest []byte
	if h.cluster, rest, ok = cutString(b[12:]); !ok {
		return hello{}, fmt.Errorf("malformed hello: cluster id is cut off")
	}
	if len(rest) > 0 {
		h.packs = Compression(rest[0])
	}
	if len(rest) >= 1+8 {
		h.process = le.Uint64(rest[1:])
	}
	return h, nil
}

// welcome is the listener's answer: who it is, or why it refuses.
type welcome struct {
	version uint16
	code    base.Code // 0 is welcome
	node    base.NodeID
	region  base.RegionID
	text    string
	packs   Compression // what the listener can undo
}

const welcomed base.Code = 0

func (w welcome) encode() []byte {
	b := append(make([]byte, 0, 64), helloMagic...)
	b = binary.LittleEndian.AppendUint16(b, w.version)
	b = append(b, byte(w.code), byte(w.region))
	b = binary.LittleEndian.AppendUint32(b, uint32(w.node))
	return append(appendString(b, w.text), byte(w.packs))
}

func decodeWelcome(b []byte) (welcome, error) {
	const fixed = len(helloMagic) + 2 + 2 + 4
	if len(b) < fixed || string(b[:len(helloMagic)]) != helloMagic {
		return welcome{}, fmt.Errorf("malformed welcome: not a Godwit node?")
	}
	b = b[len(helloMagic):]
	le := binary.LittleEndian
	w := welcome{version: le.Uint16(b), code: base.Code(b[2]), region: base.RegionID(b[3]), node: base.NodeID(le.Uint32(b[4:]))}
	var ok bool
	var rest []byte
	if w.text, rest, ok = cutString(b[8:]); !ok {
		return welcome{}, fmt.Errorf("malformed welcome: text is cut off")
	}
	if len(rest) > 0 {
		w.packs = Compression(rest[0])
	}
	return w, nil
}

func appendString(b []byte, s string) []byte {
	s = s[:min(len(s), 1<<15)]
	b = binary.LittleEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

func cutString(b []byte) (s string, rest []byte, ok bool) {
	if len(b) < 2 {
		return "", nil, false
	}
	n := int(binary.LittleEndian.Uint16(b))
	if b = b[2:]; len(b) < n {
		return "", nil, false
	}
	return string(b[:n]), b[n:], true
}

// handshakeFrame bounds hello and welcome.
const handshakeFrame = 1 << 16

// greet is the dialler's half of the handshake. Its errors are for the caller
// of Send or Call: nothing was sent.
func greet(conn net.Conn, r *bufio.Reader, h hello, deadline time.Time) (welcome, error) {
	conn.SetDeadline(deadline)
	defer conn.SetDeadline(time.Time{})
	if _, err := conn.Write(appendRaw(nil, typeHello, 0, 0, h.encode())); err != nil {
		return welcome{}, err
	}
	f, err := readFrame(r, handshakeFrame)
	if err != nil {
		return welcome{}, fmt.Errorf("no welcome: %w", err)
	}
	if f.typ != typeWelcome {
		return welcome{}, fmt.Errorf("no welcome but a frame of type %d", f.typ)
	}
	w, err := decodeWelcome(f.body)
	if err != nil {
		return w, err
	}
	if w.code != welcomed {
		return w, base.Errorf(w.code, "%s refuses the connection: %s", conn.RemoteAddr(), w.text)
	}
	return w, nil
}

// judge is the listener's decision about a hello; a text is a refusal.
func judge(h hello, self base.NodeID, cluster string) (base.Code, string) {
	switch {
	case h.version != protocolVersion:
		return base.CodeInvalid, fmt.Sprintf("node %d speaks protocol version %d, not %d: "+
			"run the same release on all nodes", self, protocolVersion, h.version)
	case h.class >= numClasses:
		return base.CodeInvalid, fmt.Sprintf("unknown stream class %d", h.class)
	case h.node == 0:
		return welcomed, ""
	case cluster == "":
		return base.CodeUnavailable, "this node does not belong to a cluster yet: run `godwit init`, or wait until it has joined"
	case h.cluster != cluster:
		return base.CodeInvalid, fmt.Sprintf("node %d belongs to cluster %q, not to %q: "+
			"check the addresses to join and the store folder", self, cluster, h.cluster)
	case h.want != 0 && h.want != self:
		return base.CodeUnavailable, fmt.Sprintf("this is node %d, not node %d: the address is out of date", self, h.want)
	case h.node == self:
		return base.CodeInvalid, fmt.Sprintf("two processes run as node %d: each needs a store folder of its own", self)
	}
	return welcomed, ""
}
