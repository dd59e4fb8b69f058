package wan

import (
	"context"
	"errors"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Msg is a message with generated vtproto code; *wire.X types are.
// MarshalToSizedBufferVT must write exactly SizeVT bytes.
type Msg interface {
	MarshalVT() ([]byte, error)
	SizeVT() int
	MarshalToSizedBufferVT([]byte) (int, error)
	UnmarshalVT([]byte) error
}

// Handler answers one request. It runs in a goroutine of its own, one of
// [Limits.Handlers] per kind. ctx ends with the caller's deadline, its
// cancellation, the loss of the stream, or Close. body belongs to the handler.
// A nil Msg is an empty answer. Errors other than [base.Error] arrive as
// [base.CodeOther]; those of a context as [base.CodeCanceled].
type Handler func(ctx context.Context, from base.NodeID, body []byte) (Msg, error)

// Transport connects one node to the others. All methods may be called from
// any goroutine; Handle and HandleOrdered only before Start.
type Transport interface {
	// Self is this node.
	Self() base.NodeID
	// Handle serves Calls of a kind, and Sends if HandleOrdered does not.
	Handle(kind wire.Kind, h Handler)
	// HandleOrdered serves Sends of a kind, one at a time and in order per
	// sender. It must not block long: it holds up the stream. body belongs to it.
	HandleOrdered(kind wire.Kind, h func(from base.NodeID, body []byte))
	// Send queues a one-way message and does not block. Messages to one peer in
	// one class arrive in order; some may be missing. CodeOverloaded: the queue
	// is full. CodeUnavailable: the peer is unknown or was just found dead.
	Send(to base.NodeID, kind wire.Kind, m Msg) error
	// Call sends req and decodes the answer into resp (which must be empty; nil
	// drops it). All errors hold a *base.Error; [NeverRan] says whether the
	// request can have run. Between regions it counts two hops and the bytes both
	// ways into obs.TraceOf(ctx). To Self it runs the handler in the caller's
	// goroutine, through bytes.
	Call(ctx context.Context, to base.NodeID, kind wire.Kind, req, resp Msg) error
	// SetPeer makes a peer known, or moves it to another address.
	SetPeer(id base.NodeID, addr string, region base.RegionID)
	// SetLost says that a peer is lost, or is not any more: neither are its messages known to
	// arrive here, nor ours there. Calls that wait for its answers end with CodeUnavailable, and
	// new ones are not sent. Only snapshots are left alone, and whatever is sent one way.
	SetLost(id base.NodeID, lost bool)
	// Lost reports what SetLost has said of a peer.
	Lost(id base.NodeID) bool
	// Region is the region of a peer; 0 if unknown.
	Region(id base.NodeID) base.RegionID
	// SetCompression says how this node compresses what it sends to other regions, from now on.
	SetCompression(Compression)
	// SetBatching says whether frames to other regions that gather while a write is under way leave
	// together in the next one, compressed together, as they do to begin with; or each in a write
	// of its own. Emulated links have no writes, and send each by itself.
	SetBatching(bool)
	// SetCongestion names the kernel's congestion control for connections to other regions, open
	// ones too; "" is its default. What the kernel does not offer is reported and left as it is.
	SetCongestion(name string) error
	// Stats are the counters per peer, by node id.
	Stats() []LinkStats
	// Start begins to receive.
	Start() error
	// Close fails pending Calls, ends the handlers' contexts, and waits for the
	// handlers a few seconds at most.
	Close() error
}

// Limits bound what a transport holds in memory. Zero fields take defaults.
type Limits struct {
	// QueueMsgs and QueueBytes bound one stream (peer and class): messages
	// accepted and not yet written to the socket or, in the emulation, not yet
	// given to the receiver's handler. Defaults 32768 and 64 MiB. One message is
	// always let into an empty queue.
	QueueMsgs, QueueBytes int
	// Pending bounds unanswered Calls per stream. Default 16384.
	Pending int
	// Handlers bounds requests being handled, per kind (a kind whose handlers
	// wait for locks cannot starve the kind that releases them). Default 1024.
	Handlers int
	// Waiting bounds requests waiting for a handler, per kind. Default 4096.
	Waiting int
	// InboundBytes bounds request bodies being handled or waiting. Default 256 MiB.
	InboundBytes int
	// MaxFrame bounds one message. Default 64 MiB.
	MaxFrame int
}

func (l Limits) withDefaults() Limits {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&l.QueueMsgs, 32768)
	set(&l.QueueBytes, 64<<20)
	set(&l.Pending, 16384)
	set(&l.Handlers, 1024)
	set(&l.Waiting, 4096)
	set(&l.InboundBytes, 256<<20)
	set(&l.MaxFrame, 64<<20)
	return l
}

// closeGrace bounds how long Close waits for handlers.
const closeGrace = 5 * time.Second

// class is one of the streams between two nodes.
type class uint8

const (
	classRaft class = iota // small, frequent, delay hurts all: consensus, heartbeats
	classRPC               // what a statement waits for
	classBulk              // large, nobody waits
	numClasses
)

var classNames = [numClasses]string{"raft", "rpc", "bulk"}

func (c class) String() string { return classNames[c] }

func classOf(k wire.Kind) class {
	switch k {
	case wire.KindRaft, wire.KindHeartbeat, wire.KindClosed, wire.KindConsistency, wire.KindParcel,
		wire.KindParcelNotice, wire.KindRaftBundle, wire.KindCopies, wire.KindDetour:
		return classRaft
	case wire.KindSnapshot, wire.KindDetourBulk:
		return classBulk
	}
	return classRPC
}

// CallError is a Call or Send that failed in the transport rather than in the
// handler. It holds a *base.Error, so base.CodeOf works on it.
type CallError struct {
	Base *base.Error
	// Ran is false if the request certainly reached no handler.
	Ran bool
	// Cause is what the network or the context said; may be nil.
	Cause error
}

// Error is the text of the base error: it says what the caller has to know.
func (e *CallError) Error() string { return e.Base.Error() }

// Unwrap gives errors.Is and errors.As both the base error and the cause.
func (e *CallError) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Base}
	}
	return []error{e.Base, e.Cause}
}

// NeverRan reports whether the failed Call certainly had no effect: the request
// never left this node, or the peer refused it before any handler saw it.
func NeverRan(err error) bool {
	var e *CallError
	return errors.As(err, &e) && !e.Ran
}

// NoAnswer reports whether the request was sent and the transport lost track of
// it: it may have run, or be running, or run later.
func NoAnswer(err error) bool {
	var e *CallError
	return errors.As(err, &e) && e.Ran
}

func unsent(c base.Code, cause error, format string, args ...any) error {
	return &CallError{Base: base.Errorf(c, format, args...), Cause: cause}
}

func unanswered(c base.Code, cause error, format string, args ...any) error {
	return &CallError{Base: base.Errorf(c, format, args...), Ran: true, Cause: cause}
}

// statusOf is the error as it travels.
func statusOf(err error) *wire.Status {
	var e *base.Error
	switch {
	case errors.As(err, &e):
		s := &wire.Status{Code: uint32(e.Code), Msg: e.Msg, Node: uint32(e.Node), Key: e.Key}
		if error(e) != err {
			// A wrapper's text says more than the error it wraps.
			var ce *CallError
			if !errors.As(err, &ce) {
				s.Msg = err.Error()
			}
		}
		return s
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &wire.Status{Code: uint32(base.CodeCanceled), Msg: err.Error()}
	}
	return &wire.Status{Code: uint32(base.CodeOther), Msg: err.Error()}
}

func errorOf(body []byte) (*base.Error, error) {
	var s wire.Status
	if err := s.UnmarshalVT(body); err != nil {
		return nil, err
	}
	e := &base.Error{Code: base.CodeOther, Msg: s.Msg, Node: base.NodeID(s.Node)}
	if s.Code <= 255 {
		e.Code = base.Code(s.Code)
	}
	if len(s.Key) > 0 {
		e.Key = base.Key(s.Key)
	}
	return e, nil
}
