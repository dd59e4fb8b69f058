package wan

import (
	"errors"
	"sync"
	"time"

	"github.com/godwitdb/godwit/wire"
)

var (
	errQueueFull   = errors.New("queue full")
	errStreamEnded = errors.New("stream ended")
)

// outbox is the sending half of one TCP stream. Messages are encoded straight
// into the buffer that the writer writes next, so all that gather while one
// write is under way leave in the next, and an idle stream delays nothing.
type outbox struct {
	lim *Limits

	mu       sync.Mutex
	buf      []byte // frames for the next write
	msgs     int    // in buf
	taken    uint64 // stream offset of buf[0]: bytes ever given to the writer
	writing  int    // bytes of the write under way
	writingN int    // messages of it
	closed   bool

	wake  chan struct{} // capacity 1: buf is not empty, or closed
	space chan struct{} // closed when room was made or the outbox closed; nil if nobody waits
	spare []byte        // the buffer of the last write, for reuse
}

// spareMax bounds the buffer kept by an idle stream.
const spareMax = 1 << 20

func newOutbox(lim *Limits) *outbox { return &outbox{lim: lim, wake: make(chan struct{}, 1)} }

// put queues a frame and returns its size. With wait it waits for room,
// otherwise a full queue is errQueueFull. cl, if any, learns the frame's offset.
func (o *outbox) put(typ frameType, kind wire.Kind, timeout time.Duration, id uint64, m Msg, cl *call, wait bool) (int, error) {
	need := headerLen
	if m != nil {
		need += m.SizeVT()
	}
	o.mu.Lock()
	for {
		if o.closed {
			o.mu.Unlock()
			return 0, errStreamEnded
		}
		msgs, bytes := o.msgs+o.writingN, len(o.buf)+o.writing
		if msgs == 0 || (msgs < o.lim.QueueMsgs && bytes+need <= o.lim.QueueBytes) {
			break
		}
		if !wait {
			o.mu.Unlock()
			return 0, errQueueFull
		}
		if o.space == nil {
			o.space = make(chan struct{})
		}
		space := o.space
		o.mu.Unlock()
		<-space
		o.mu.Lock()
	}
	off := len(o.buf)
	buf, err := appendFrame(o.buf, typ, kind, timeout, id, m, o.lim.MaxFrame)
	if err != nil {
		o.mu.Unlock()
		return 0, err
	}
	o.buf = buf
	o.msgs++
	if cl != nil {
		cl.start = o.taken + uint64(off)
	}
	o.mu.Unlock()
	if off == 0 {
		select {
		case o.wake <- struct{}{}:
		default:
		}
	}
	return len(buf) - off, nil
}

// withdraw turns a request that was not given to the writer into a no-op.
func (o *outbox) withdraw(cl *call) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return cl.start >= o.taken
	}
	if cl.start < o.taken {
		return false
	}
	b := o.buf[cl.start-o.taken:]
	n, err := frameLen(b, o.lim.MaxFrame)
	if err != nil {
		return false // cannot be: the frame was encoded here
	}
	putHeader(b[:n], typeNoop, 0, 0, 0)
	return true
}

// take waits for frames and gives them to the writer; nil when closed.
func (o *outbox) take() []byte {
	for {
		o.mu.Lock()
		if o.closed {
			o.mu.Unlock()
			return nil
		}
		if len(o.buf) > 0 {
			b := o.buf
			o.taken += uint64(len(b))
			o.writing, o.writingN = len(b), o.msgs
			o.buf, o.msgs = o.spare[:0], 0
			o.spare = nil
			o.mu.Unlock()
			return b
		}
		o.mu.Unlock()
		<-o.wake
	}
}

// wrote returns the buffer of the last take.
func (o *outbox) wrote(b []byte) {
	o.mu.Lock()
	o.writing, o.writingN = 0, 0
	if cap(b) <= spareMax {
		o.spare = b
	}
	o.release()
	o.mu.Unlock()
}

func (o *outbox) release() {
	if o.space != nil {
		close(o.space)
		o.space = nil
	}
}

// close ends the stream; it returns the bytes ever given to the writer and the
// number of messages that were not.
func (o *outbox) close() (taken uint64, left int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.closed = true
		left = o.msgs
		o.buf, o.spare, o.msgs = nil, nil, 0
		o.release()
		select {
		case o.wake <- struct{}{}:
		default:
		}
	}
	return o.taken, left
}

func (o *outbox) queued() (msgs, bytes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.msgs + o.writingN, len(o.buf) + o.writing
}
