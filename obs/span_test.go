package obs

import (
	"context"
	"encoding/hex"
	"strings"
	"testing"
	"time"
)

const (
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
	parent  = "00-" + traceID + "-" + spanID + "-01"
)

// TestTraceparent: what sqlcommenter writes is read, where it is a comment, and nothing else.
func TestTraceparent(t *testing.T) {
	for q, want := range map[string]string{
		"SELECT 1 /*traceparent='" + parent + "'*/":                                        "01",
		"SELECT 1 /*route='%2Fx',traceparent='" + parent + "',tracestate='a%3D1'*/":        "01",
		"/*traceparent='" + strings.TrimSuffix(parent, "1") + "0'*/ SELECT 1":              "00",
		"SELECT '/*' /* a */, \"*/\" /*traceparent='" + parent + "'*/":                     "01",
		"/*traceparent='01-" + traceID + "-" + spanID + "-01-more'*/ SELECT 1":             "01",
		"SELECT 'it''s \\' /*traceparent=\\'" + parent + "\\'*/'":                          "",
		"SELECT \"/*traceparent='" + parent + "'*/\"":                                      "",
		"SELECT traceparent='" + parent + "'":                                              "",
		"/*traceparent='" + parent + "-more'*/ SELECT 1":                                   "",
		"/*traceparent='ff-" + traceID + "-" + spanID + "-01'*/ SELECT 1":                  "",
		"/*traceparent='00-" + strings.Repeat("0", 32) + "-" + spanID + "-01'*/ SELECT 1":  "",
		"/*traceparent='00-" + traceID + "-" + strings.Repeat("0", 16) + "-01'*/ SELECT 1": "",
		"/*traceparent='" + strings.ToUpper(parent) + "'*/ SELECT 1":                       "",
		"/*traceparent='00-" + strings.Repeat("x", 32) + "-" + spanID + "-01'*/ SELECT 1":  "",
		"/*traceparent='00'*/ SELECT 1":                                                    "",
		"/*traceparent='" + parent:                                                         "01",
		"SELECT 1":                                                                         "",
	} {
		c, ok := traceparent(q)
		got := ""
		if ok {
			got = map[bool]string{true: "01", false: "00"}[c.Sampled]
			if hex.EncodeToString(c.Trace[:]) != traceID || hex.EncodeToString(c.Span[:]) != spanID {
				t.Errorf("%s: %x %x", q, c.Trace, c.Span)
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", q, got, want)
		}
	}
}

// TestSampling: the flag of the client decides, else the ratio.
func TestSampling(t *testing.T) {
	never, always := NewTracer(0, 1), NewTracer(1, 1)
	on := "SELECT 1 /*traceparent='" + parent + "'*/"
	off := strings.Replace(on, "-01'", "-00'", 1)
	for _, c := range []struct {
		t    *Tracer
		q    string
		want bool
	}{{never, "SELECT 1", false}, {never, on, true}, {never, off, false}, {always, "SELECT 1", true}, {always, on, true},
		{always, off, false}, {nil, on, false}} {
		if s := c.t.Statement(c.q, time.Now()); (s != nil) != c.want {
			t.Errorf("%s: %v", c.q, s)
		}
	}
}

// TestFullQueue: what has no room is dropped and counted, and nobody waits.
func TestFullQueue(t *testing.T) {
	tr := NewTracer(1, 2)
	s := tr.Statement("SELECT 1", time.Now())
	for range 3 {
		s.Start("read").Answered(2, 1, 2, false)
	}
	s.Finish("select", false)
	if tr.Dropped() != 2 || len(tr.Spans()) != 2 {
		t.Errorf("%d dropped, %d queued", tr.Dropped(), len(tr.Spans()))
	}
}

// TestCarry: the text for the node that executes a statement has the statement's own span, before
// the one of the client.
func TestCarry(t *testing.T) {
	tr := NewTracer(0, 1)
	q := "SELECT 1 /*traceparent='" + parent + "'*/"
	s := tr.Statement(q, time.Now())
	var trace Trace
	trace.SetSpan(s)
	r := tr.Statement(trace.Parallel(1)[0].Carry(q), time.Now())
	if r == nil || r.Trace != s.Trace || r.Parent != s.SpanContext.Span || hex.EncodeToString(s.Parent[:]) != spanID {
		t.Errorf("%+v of %+v", r, s)
	}
}

// TestUnwatched: what is not watched costs no memory.
func TestUnwatched(t *testing.T) {
	trace := &Trace{}
	ctx := WithTrace(context.Background(), trace)
	var off *Tracer
	q := "SELECT 1"
	if n := testing.AllocsPerRun(100, func() {
		if s := off.Statement(q, time.Time{}); s != nil || TraceOf(ctx).Span() != nil || trace.Carry(q) != q ||
			TraceOf(ctx).Span().Start("read") != nil || off.Serve(SpanContext{}, "read") != nil {
			t.Error("it is watched")
		}
		TraceOf(ctx).Span().Step("log entry").Done(false)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
