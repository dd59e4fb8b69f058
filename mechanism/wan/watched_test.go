package wan

import (
	"context"
	"testing"
	"time"

	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/wire"
)

// TestSpanned: the span of a watched request reaches the other node behind the message, which stays
// readable, also for one that sends no traces; what is not watched is sent as it is.
func TestSpanned(t *testing.T) {
	here, there := obs.NewTracer(0, 8), obs.NewTracer(0, 8)
	var c, other, old core
	c.Watch(here)
	other.Watch(there)
	s := here.Statement("SELECT 1 /*traceparent='00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'*/", time.Now())
	tr := &obs.Trace{}
	ctx := obs.WithTrace(context.Background(), tr)
	q := &wire.ReadRequest{Group: 7, Spans: []*wire.Span{{Start: []byte("a"), End: []byte("b")}}}
	if m, span := c.watched(ctx, wire.KindRead, q); m != Msg(q) || span != nil {
		t.Errorf("unwatched: %T, %v", m, span)
	}
	tr.SetSpan(s)
	m, span := c.watched(ctx, wire.KindRead, q)
	body, err := m.MarshalVT()
	if err != nil || span == nil || len(body) != q.SizeVT()+spanBytes || m.SizeVT() != len(body) {
		t.Fatalf("%d bytes, %d without, %v, %v", len(body), q.SizeVT(), span, err)
	}
	var got wire.ReadRequest
	if err := got.UnmarshalVT(body); err != nil || got.Group != 7 || len(got.Spans) != 1 || string(got.Spans[0].End) != "b" {
		t.Errorf("%v, %v", &got, err)
	}
	hctx, served := other.serving(context.Background(), wire.KindRead, body)
	if served == nil || served.Trace != s.Trace || served.Parent != span.SpanContext.Span || obs.TraceOf(hctx).Span() != served {
		t.Errorf("served %+v for %+v", served, span)
	}
	if _, served := old.serving(context.Background(), wire.KindRead, body); served != nil {
		t.Error("a node without traces has made a span")
	}
	plain, _ := q.MarshalVT()
	for _, b := range [][]byte{plain, nil, body[:spanBytes-1], body[1:spanBytes]} {
		if _, served := other.serving(context.Background(), wire.KindRead, b); served != nil {
			t.Errorf("a span of %x", b)
		}
	}
	// A message that is empty.
	if m, _ := c.watched(ctx, wire.KindFinish, &wire.ReadRequest{}); m.SizeVT() != spanBytes {
		t.Errorf("%d bytes", m.SizeVT())
	}
	// What is sent all the time, by itself, is not part of a statement's work.
	if m, _ := c.watched(ctx, wire.KindHeartbeat, q); m != Msg(q) {
		t.Errorf("%T", m)
	}
}
