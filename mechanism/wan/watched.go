package wan

import (
	"bytes"
	"context"

	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/wire"
)

// This file has how the span of a request goes with it, so that what the other node does for it is
// part of the trace: behind the message stands a field that messages do not have. Nodes of earlier
// versions, and those that send no traces, pass over it.

// spanField is the beginning of the field: number 2047, its length, and what tells it from chance.
var spanField = []byte{0xfa, 0x7f, 4 + 16 + 8, 'W', '3', 'C', 1}

var spanBytes = len(spanField) + 16 + 8

// served are the kinds of requests whose work somebody waits for.
var served = [wire.KindMax]bool{wire.KindRead: true, wire.KindCommit: true, wire.KindFinish: true, wire.KindResolve: true,
	wire.KindServe: true, wire.KindVote: true, wire.KindRelease: true}

// Watch has the node send spans of what it does for requests that are watched. It is called before
// the first one comes.
func (c *core) Watch(t *obs.Tracer) { c.tracer.Store(t) }

// watched begins the span of a request, if its statement is watched, and puts it behind the
// message.
func (c *core) watched(ctx context.Context, kind wire.Kind, m Msg) (Msg, *obs.Span) {
	s := obs.TraceOf(ctx).Span().Start(kind.String())
	if s == nil || m == nil || !served[kind] {
		return m, s
	}
	return &spanned{m, s.SpanContext}, s
}

// spanned is a message and the span that it goes with.
type spanned struct {
	Msg
	of obs.SpanContext
}

// SizeVT implements [Msg].
func (m *spanned) SizeVT() int { return m.Msg.SizeVT() + spanBytes }

// MarshalVT implements [Msg].
func (m *spanned) MarshalVT() ([]byte, error) {
	b := make([]byte, m.SizeVT())
	_, err := m.MarshalToSizedBufferVT(b)
	return b, err
}

// MarshalToSizedBufferVT implements [Msg]. It fills b from its end.
func (m *spanned) MarshalToSizedBufferVT(b []byte) (int, error) {
	at := len(b) - spanBytes
	copy(b[at:], spanField)
	copy(b[at+len(spanField):], m.of.Trace[:])
	copy(b[len(b)-8:], m.of.Span[:])
	n, err := m.Msg.MarshalToSizedBufferVT(b[:at])
	return n + spanBytes, err
}

// serving begins the span of what this node does for a request, if that is watched, for the context
// of its handler.
func (c *core) serving(ctx context.Context, kind wire.Kind, body []byte) (context.Context, *obs.Span) {
	t := c.tracer.Load()
	at := len(body) - spanBytes
	if t == nil || !served[kind] || at < 0 || !bytes.HasPrefix(body[at:], spanField) {
		return ctx, nil
	}
	parent := obs.SpanContext{Sampled: true}
	copy(parent.Trace[:], body[at+len(spanField):])
	copy(parent.Span[:], body[len(body)-8:])
	return serveSpan(ctx, t.Serve(parent, kind.String()))
}

func serveSpan(ctx context.Context, s *obs.Span) (context.Context, *obs.Span) {
	if s == nil {
		return ctx, nil
	}
	tr := &obs.Trace{}
	tr.SetSpan(s)
	return obs.WithTrace(ctx, tr), s
}
