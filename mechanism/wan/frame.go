package wan

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"time"

	"github.com/godwitdb/godwit/wire"
)

// frameVersion rises when the layout of frames or of bodies changes so that
// older nodes cannot read them.
const frameVersion = 1

// headerLen is the fixed part of a frame, see the package comment.
const headerLen = 24

// frameType says what the receiver does with a frame. Numbers are never reused.
type frameType uint8

const (
	typeSend     frameType = 1 + iota // one-way
	typeRequest                       // a Call
	typeResponse                      // its answer
	typeError                         // the handler's error: wire.Status
	typeRefused                       // wire.Status; no handler has seen the request
	typeCancel                        // the caller no longer waits for the request
	typeHello                         // first frame of the dialler
	typeWelcome                       // first frame of the listener
	typeNoop                          // a request withdrawn before it was written
	typeMax
)

type frame struct {
	typ     frameType
	kind    wire.Kind
	id      uint64
	timeout time.Duration // of a request; 0 is none
	body    []byte
	size    int // bytes on the wire
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendFrame encodes a frame behind buf; m may be nil. Nothing is appended on error.
func appendFrame(buf []byte, typ frameType, kind wire.Kind, timeout time.Duration, id uint64, m Msg,
	maxFrame int) ([]byte, error) {
	n := 0
	if m != nil {
		n = m.SizeVT()
	}
	if headerLen+n > maxFrame {
		return buf, fmt.Errorf("message %s has %d bytes, more than the %d a frame may have: split it", kind, n, maxFrame)
	}
	off := len(buf)
	buf = grow(buf, headerLen+n)
	b := buf[off:]
	if m != nil {
		k, err := m.MarshalToSizedBufferVT(b[headerLen:])
		if err != nil {
			return buf[:off], fmt.Errorf("encode %s: %w", kind, err)
		}
		if k != n {
			return buf[:off], fmt.Errorf("encode %s: %d bytes instead of %d (changed while being encoded?)", kind, k, n)
		}
	}
	putHeader(b, typ, kind, timeout, id)
	return buf, nil
}

// appendRaw is appendFrame for a body that is bytes already.
func appendRaw(buf []byte, typ frameType, kind wire.Kind, id uint64, body []byte) []byte {
	off := len(buf)
	buf = grow(buf, headerLen+len(body))
	copy(buf[off+headerLen:], body)
	putHeader(buf[off:], typ, kind, 0, id)
	return buf
}

func grow(buf []byte, n int) []byte {
	if need := len(buf) + n; need <= cap(buf) {
		return buf[:need]
	}
	if len(buf) == 0 {
		return make([]byte, n)
	}
	bigger := make([]byte, len(buf)+n, 2*(len(buf)+n))
	copy(bigger, buf)
	return bigger
}

// putHeader fills in the header of the frame b, whose body is in place.
func putHeader(b []byte, typ frameType, kind wire.Kind, timeout time.Duration, id uint64) {
	us := uint32(0)
	// A deadline more than an hour away is none: the cancellation still arrives.
	if timeout > 0 && timeout/time.Microsecond < math.MaxUint32 {
		us = max(1, uint32(timeout/time.Microsecond))
	}
	le := binary.LittleEndian
	le.PutUint32(b, uint32(len(b)-4))
	b[8], b[9], b[10], b[11] = frameVersion, byte(kind), byte(typ), 0
	le.PutUint32(b[12:], us)
	le.PutUint64(b[16:], id)
	le.PutUint32(b[4:], crc32.Checksum(b[8:], castagnoli))
}

// frameLen is the size of the frame that begins with b (at least 4 bytes).
func frameLen(b []byte, maxFrame int) (int, error) {
	n := uint64(binary.LittleEndian.Uint32(b)) + 4
	if n < headerLen || n > uint64(maxFrame) {
		return 0, fmt.Errorf("malformed frame: length %d is not within %d and %d (is the peer a Godwit node, "+
			"and is TLS on at both ends or at none?)",
			n, headerLen, maxFrame)
	}
	return int(n), nil
}

// parseFrame checks and takes apart exactly one frame; body aliases b.
func parseFrame(b []byte) (frame, error) {
	if len(b) < headerLen {
		return frame{}, fmt.Errorf("malformed frame: %d bytes", len(b))
	}
	le := binary.LittleEndian
	if got, want := crc32.Checksum(b[8:], castagnoli), le.Uint32(b[4:]); got != want {
		return frame{}, fmt.Errorf("malformed frame: checksum %08x instead of %08x", got, want)
	}
	f := frame{
		kind:    wire.Kind(b[9]),
		typ:     frameType(b[10]),
		timeout: time.Duration(le.Uint32(b[12:])) * time.Microsecond,
		id:      le.Uint64(b[16:]),
		body:    b[headerLen:len(b):len(b)],
		size:    len(b),
	}
	return f, checkHeader(b)
}

// checkHeader judges what need not wait for the body.
func checkHeader(b []byte) error {
	typ := frameType(b[10])
	if typ == 0 || typ >= typeMax || b[11] != 0 {
		return fmt.Errorf("malformed frame: type %d, flags %#x", typ, b[11])
	}
	// The version of a hello is judged by the handshake, which can answer it.
	if b[8] != frameVersion && typ != typeHello && typ != typeWelcome {
		return fmt.Errorf("frame version %d, this node speaks %d", b[8], frameVersion)
	}
	return nil
}

// firstRead bounds what a length field alone can make a reader allocate.
const firstRead = 1 << 20

// readFrame reads one frame into memory of its own.
func readFrame(r *bufio.Reader, maxFrame int) (frame, error) {
	head, err := r.Peek(4)
	if err != nil {
		if len(head) > 0 && err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, err
	}
	n, err := frameLen(head, maxFrame)
	if err != nil {
		return frame{}, err
	}
	// Nonsense is noticed here rather than when as much of it has come as its length says.
	if head, err = r.Peek(headerLen); err == nil {
		err = checkHeader(head)
	} else if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return frame{}, err
	}
	b := make([]byte, min(n, firstRead))
	for read := 0; ; {
		k, err := io.ReadFull(r, b[read:])
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return frame{}, err
		}
		if read += k; read == n {
			return parseFrame(b)
		}
		more := make([]byte, min(n, 4*len(b)))
		copy(more, b)
		b = more
	}
}
