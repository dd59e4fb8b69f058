package obs

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// SpanContext is what travels of a span: W3C's trace context.
type SpanContext struct {
	Trace   [16]byte
	Span    [8]byte
	Sampled bool
}

// Span is a step of a statement that somebody watches: of a trace of OpenTelemetry, where [Trace]
// only counts. A nil *Span watches nothing.
type Span struct {
	SpanContext
	Parent     [8]byte // zero: it is the first of its trace
	Name       string
	Begin, End time.Time
	Failed     bool
	Role       Role
	Attrs      []Attr

	to *Tracer
}

// Role is whose work a span is.
type Role uint8

// The roles.
const (
	Server Role = iota // what somebody has asked this node for
	Client             // a request to another node
	Part               // a step of either
)

// Attr is an attribute of a span: a text, an int64 or a bool.
type Attr struct {
	Key   string
	Value any
}

// Tracer decides which statements are watched, and takes their spans. It never waits: where the
// queue is full, spans are dropped and counted. A nil *Tracer watches nothing.
type Tracer struct {
	// Region names a region by its number.
	Region func(uint32) string

	ratio   float64 // of statements that no trace context comes with
	queue   chan *Span
	dropped atomic.Uint64
}

// NewTracer makes a tracer with a queue of so many spans. ratio is the share of statements that are
// watched if they come without a trace context, 0 to 1.
func NewTracer(ratio float64, queue int) *Tracer {
	return &Tracer{ratio: ratio, queue: make(chan *Span, queue)}
}

// Spans are those that have ended, for who sends them on.
func (t *Tracer) Spans() <-chan *Span { return t.queue }

// Waiting is how many spans wait to be sent, most how many may.
func (t *Tracer) Waiting() (n, most int) {
	if t == nil {
		return 0, 0
	}
	return len(t.queue), cap(t.queue)
}

// Drop counts spans that were not sent.
func (t *Tracer) Drop(n int) { t.dropped.Add(uint64(n)) }

// Dropped is how many spans were not sent, because the queue was full or nobody took them.
func (t *Tracer) Dropped() uint64 {
	if t == nil {
		return 0
	}
	return t.dropped.Load()
}

// Collector shows that to Prometheus.
func (t *Tracer) Collector() prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "godwit_trace_spans_dropped_total",
		Help: "Spans that were not sent, since the queue was full or the collector did not take them."},
		func() float64 { return float64(t.Dropped()) })
}

// Statement begins the span of a statement, if it is watched; else it is nil. The trace context
// that its text has in a comment decides, and otherwise the ratio.
func (t *Tracer) Statement(query string, begin time.Time) *Span {
	if t == nil {
		return nil
	}
	s := &Span{Begin: begin, to: t}
	parent, ok := traceparent(query)
	switch {
	case ok && !parent.Sampled, !ok && rand.Float64() >= t.ratio:
		return nil
	case ok:
		s.Trace, s.Parent = parent.Trace, parent.Span
	default:
		for i := range 2 {
			binary.LittleEndian.PutUint64(s.Trace[8*i:], rand.Uint64()|1) // zero is no id
		}
	}
	s.Span, s.Sampled = newSpanID(), true
	return s
}

func newSpanID() (id [8]byte) {
	binary.LittleEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}

// child begins a span below this one; nil if nobody watches.
func (s *Span) child(name string) *Span {
	if s == nil {
		return nil
	}
	return &Span{SpanContext: SpanContext{s.Trace, newSpanID(), true}, Parent: s.SpanContext.Span, Name: name, Begin: time.Now(), to: s.to}
}

// Start begins the span of a request to another node, with which its context goes there.
func (s *Span) Start(kind string) *Span {
	c := s.child(kind)
	if c != nil {
		c.Role = Client
	}
	return c
}

// Answered ends the span of a request to a node that has been answered, or given up.
func (s *Span) Answered(node, from, to uint32, failed bool) {
	if s == nil {
		return
	}
	s.Finish(s.Name, failed, Attr{"godwit.node", int64(node)}, Attr{"godwit.from_region", s.to.regionName(from)},
		Attr{"godwit.to_region", s.to.regionName(to)}, Attr{"godwit.crosses_regions", from != to})
}

// Serve begins the span of what this node does for a request of another one: parent is the
// request's.
func (t *Tracer) Serve(parent SpanContext, kind string) *Span {
	if t == nil {
		return nil
	}
	return &Span{SpanContext: SpanContext{parent.Trace, newSpanID(), true}, Parent: parent.Span, Name: "serve " + kind, Begin: time.Now(),
		to: t}
}

// Step begins a part of the work of a span. End it, by [Span.Done].
func (s *Span) Step(name string) *Span {
	c := s.child(name)
	if c != nil {
		c.Role = Part
	}
	return c
}

// Done ends a step.
func (s *Span) Done(failed bool, attrs ...Attr) {
	if s != nil {
		s.Finish(s.Name, failed, attrs...)
	}
}

// Over ends a step that has failed if there is an error then.
func (s *Span) Over(err *error) { s.Done(*err != nil) }

func (t *Tracer) regionName(id uint32) string {
	if t.Region == nil {
		return ""
	}
	return t.Region(id)
}

// Finish ends a span.
func (s *Span) Finish(name string, failed bool, attrs ...Attr) {
	if s == nil {
		return
	}
	s.Name, s.End, s.Failed, s.Attrs = name, time.Now(), failed, attrs
	s.to.take(s)
}

func (t *Tracer) take(s *Span) {
	select {
	case t.queue <- s:
	default:
		t.Drop(1)
	}
}

// SetSpan makes s that of the statement that the trace counts for from now on; nil: none.
func (t *Trace) SetSpan(s *Span) {
	if t != nil {
		t.span.Store(s)
	}
}

// Span is that of the statement; nil if it is not watched.
func (t *Trace) Span() *Span {
	if t == nil {
		return nil
	}
	return t.span.Load()
}

// Carry is a statement's text for the node that executes it: with the trace context, if it is
// watched.
func (t *Trace) Carry(query string) string {
	s := t.Span()
	if s == nil {
		return query
	}
	return "/*traceparent='00-" + hex.EncodeToString(s.Trace[:]) + "-" + hex.EncodeToString(s.SpanContext.Span[:]) + "-01'*/ " + query
}

// # Trace contexts in comments

const parentKey = "traceparent='"

// traceparent is the first trace context in a comment of a statement, as sqlcommenter writes it:
// /*traceparent='00-TRACE-SPAN-FLAGS',...*/. Literals and names in quotes are no comments.
func traceparent(q string) (c SpanContext, ok bool) {
	if !strings.Contains(q, parentKey) {
		return c, false
	}
	for i := 0; i < len(q); {
		switch {
		case q[i] == '\'' || q[i] == '"' || q[i] == '`':
			i = quotedEnd(q, i)
		case q[i] == '/' && strings.HasPrefix(q[i:], "/*"):
			body, rest, _ := strings.Cut(q[i+2:], "*/")
			if _, value, found := strings.Cut(body, parentKey); found {
				value, _, _ = strings.Cut(value, "'")
				return parseTraceparent(value)
			}
			i = len(q) - len(rest)
		default:
			i++
		}
	}
	return c, false
}

// quotedEnd is the end of what is quoted from i on.
func quotedEnd(q string, i int) int {
	quote := q[i]
	for i++; i < len(q); i++ {
		if q[i] == '\\' && quote != '`' {
			i++
		} else if q[i] == quote {
			return i + 1 // of a doubled quote, the second one opens again
		}
	}
	return len(q)
}

// parseTraceparent reads VERSION-TRACE-SPAN-FLAGS in lower-case hexadecimal digits. Of later
// versions the beginning counts; ff is none. Ids of zeros are none.
func parseTraceparent(s string) (c SpanContext, ok bool) {
	if len(s) < 55 || len(s) > 55 && (s[:2] == "00" || s[55] != '-') || s[2] != '-' || s[35] != '-' || s[52] != '-' ||
		s[:2] == "ff" || strings.ToLower(s[:55]) != s[:55] {
		return c, false
	}
	var version, flags [1]byte
	for _, p := range []struct {
		to   []byte
		from string
	}{{version[:], s[:2]}, {c.Trace[:], s[3:35]}, {c.Span[:], s[36:52]}, {flags[:], s[53:55]}} {
		if _, err := hex.Decode(p.to, []byte(p.from)); err != nil {
			return SpanContext{}, false
		}
	}
	c.Sampled = flags[0]&1 != 0
	return c, c.Trace != [16]byte{} && c.Span != [8]byte{}
}
