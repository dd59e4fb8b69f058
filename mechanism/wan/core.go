package wan

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/wire"
)

// core is what both transports share: handlers, pools, calls, counters.
type core struct {
	self   base.NodeID
	region base.RegionID
	lim    Limits
	log    *slog.Logger

	handlers [wire.KindMax]Handler
	ordered  [wire.KindMax]func(base.NodeID, []byte)
	pools    [wire.KindMax]*pool
	started  atomic.Bool
	packing  atomic.Uint32 // Compression wanted
	single   atomic.Bool   // no batching
	closed   atomic.Bool

	tracer atomic.Pointer[obs.Tracer] // of requests that are watched; nil: they are not

	free    callPool
	nextID  atomic.Uint64
	inbound atomic.Int64 // bytes of requests admitted and not yet answered

	mu    sync.RWMutex
	peers map[base.NodeID]*counters
}

func (c *core) init(self base.NodeID, region base.RegionID, lim Limits, log *slog.Logger) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c.self, c.region, c.lim, c.log = self, region, lim.withDefaults(), log.With("node", uint32(self))
	c.peers = map[base.NodeID]*counters{}
	for k := range c.pools {
		c.pools[k] = newPool(c.lim.Handlers, c.lim.Waiting, c.run)
	}
}

func (c *core) Self() base.NodeID { return c.self }

func (c *core) Handle(kind wire.Kind, h Handler) {
	c.checkSetup(kind)
	c.handlers[kind] = h
}

func (c *core) HandleOrdered(kind wire.Kind, h func(base.NodeID, []byte)) {
	c.checkSetup(kind)
	c.ordered[kind] = h
}

func (c *core) checkSetup(kind wire.Kind) {
	if kind == 0 || kind >= wire.KindMax {
		panic(fmt.Sprintf("wan: no such kind: %d", kind))
	}
	if c.started.Load() {
		panic("wan: handlers are set before Start")
	}
}

// counters returns those of a peer, made at first use.
func (c *core) counters(id base.NodeID) *counters {
	c.mu.RLock()
	p := c.peers[id]
	c.mu.RUnlock()
	if p != nil {
		return p
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p = c.peers[id]; p == nil {
		p = &counters{peer: id}
		c.peers[id] = p
	}
	return p
}

// receive handles a frame that arrived on the requesting half of a stream
// (all but answers). It reports what the peer must not send.
func (c *core) receive(s *session, f frame) error {
	switch f.typ {
	case typeSend:
		s.count.received(f)
		c.deliver(s.from, f)
	case typeRequest:
		s.count.received(f)
		c.admit(s, f)
	case typeCancel:
		s.cancel(f.id)
	case typeNoop:
	default:
		return fmt.Errorf("unexpected frame of type %d from node %d", f.typ, s.from)
	}
	return nil
}

// deliver runs the handler of a one-way message.
func (c *core) deliver(from base.NodeID, f frame) {
	if f.kind < wire.KindMax {
		if h := c.ordered[f.kind]; h != nil {
			h(from, f.body)
			return
		}
		if h := c.handlers[f.kind]; h != nil {
			if _, err := h(context.Background(), from, f.body); err != nil {
				c.log.Debug("one-way message failed", "kind", f.kind.String(), "from", uint32(from), "err", err)
			}
			return
		}
	}
	c.counters(from).dropped.Add(1)
}

// admit gives a request to the pool of its kind, or refuses it.
func (c *core) admit(s *session, f frame) {
	refuse := func(code base.Code, format string, args ...any) {
		s.reply(typeRefused, f.kind, f.id, statusOf(base.Errorf(code, format, args...)))
	}
	if f.kind >= wire.KindMax || c.handlers[f.kind] == nil {
		refuse(base.CodeInvalid, "node %d has no handler for %s messages (kind %d): "+
			"do the nodes run different versions?", c.self, f.kind, f.kind)
		return
	}
	size := int64(len(f.body))
	if total := c.inbound.Add(size); total > int64(c.lim.InboundBytes) && total != size {
		c.inbound.Add(-size)
		s.count.overloaded.Add(1)
		refuse(base.CodeOverloaded, "node %d holds %d MiB of unanswered requests: retry later", c.self, c.lim.InboundBytes>>20)
		return
	}
	ctx, ok := s.begin(f.id, f.timeout)
	if !ok {
		c.inbound.Add(-size)
		return // the stream has ended: nobody waits for an answer
	}
	if !c.pools[f.kind].submit(job{s: s, kind: f.kind, id: f.id, ctx: ctx, body: f.body}) {
		c.inbound.Add(-size)
		s.end(f.id)
		s.count.overloaded.Add(1)
		if c.closed.Load() {
			refuse(base.CodeUnavailable, "node %d is shutting down", c.self)
			return
		}
		refuse(base.CodeOverloaded, "node %d is busy: %d %s requests running, %d waiting: retry later",
			c.self, c.lim.Handlers, f.kind, c.lim.Waiting)
	}
}

// run is one request in a worker of the pool.
func (c *core) run(j job) {
	defer c.inbound.Add(-int64(len(j.body)))
	if err := j.ctx.Err(); err != nil {
		j.s.end(j.id)
		j.s.reply(typeRefused, j.kind, j.id, &wire.Status{Code: uint32(base.CodeCanceled),
			Msg: "the request's time was over before it was handled"})
		return
	}
	ctx, span := c.serving(j.ctx, j.kind, j.body)
	m, err := c.handlers[j.kind](ctx, j.s.from, j.body)
	span.Done(err != nil)
	j.s.end(j.id)
	if err != nil {
		j.s.reply(typeError, j.kind, j.id, statusOf(err))
		return
	}
	j.s.reply(typeResponse, j.kind, j.id, m)
}

// callSelf runs the own handler, through bytes.
func (c *core) callSelf(ctx context.Context, kind wire.Kind, req, resp Msg) (failed error) {
	if err := ctx.Err(); err != nil {
		return unsent(base.CodeCanceled, err, "%s request to node %d: %v", kind, c.self, err)
	}
	if kind >= wire.KindMax || c.handlers[kind] == nil {
		return unsent(base.CodeInvalid, nil, "node %d has no handler for %s messages", c.self, kind)
	}
	body, err := req.MarshalVT()
	if err != nil {
		return unsent(base.CodeInvalid, err, "encode %s: %v", kind, err)
	}
	// The handler must not see values of the caller's context: over the network it would not.
	hctx, cancel := context.WithCancel(bare{ctx})
	defer cancel()
	if s := obs.TraceOf(ctx).Span(); s != nil && served[kind] {
		hctx, s = serveSpan(hctx, c.tracer.Load().Serve(s.SpanContext, kind.String()))
		defer func() { s.Done(failed != nil) }()
	}
	m, err := c.handlers[kind](hctx, c.self, body)
	if err != nil {
		s, _ := statusOf(err).MarshalVT()
		e, err := errorOf(s)
		if err != nil {
			return unanswered(base.CodeInvalid, err, "malformed error: %v", err)
		}
		return e
	}
	if m == nil || resp == nil {
		return nil
	}
	if body, err = m.MarshalVT(); err == nil {
		err = resp.UnmarshalVT(body)
	}
	if err != nil {
		return unanswered(base.CodeInvalid, err, "answer to %s: %v", kind, err)
	}
	return nil
}

// bare is a context without values.
type bare struct{ context.Context }

func (bare) Value(any) any { return nil }

// await waits for the answer to a request that was queued. withdraw is called
// when the context ends first; it reports whether the request never left.
func (c *core) await(ctx context.Context, t *callTable, id uint64, cl *call, p *counters, kind wire.Kind, sent int,
	resp Msg, span *obs.Span, withdraw func() bool) (failed error) {
	tr := obs.TraceOf(ctx)
	r := p.region.Load()
	if span != nil {
		defer func() { span.Answered(uint32(p.peer), uint32(c.region), r, failed != nil) }()
	}
	if r == uint32(c.region) || r == 0 {
		tr = nil // only what crosses regions counts
	}
	if sent > 0 {
		tr.AddBytes(1, sent)
	}
	if err, over := c.waitFor(ctx, t, id, cl, p, kind, withdraw); over {
		return err
	}
	f, err := cl.f, cl.err
	c.free.put(cl)
	if err != nil {
		return err
	}
	tr.AddBytes(1, f.size)
	tr.AddHops(2)
	tr.AddRegion(r)
	switch f.typ {
	case typeResponse:
		if resp == nil {
			return nil
		}
		if err := resp.UnmarshalVT(f.body); err != nil {
			return unanswered(base.CodeInvalid, err,
				"malformed answer to %s from node %d: %v (do the nodes run different versions?)", kind, p.peer, err)
		}
		return nil
	case typeError, typeRefused:
		e, err := errorOf(f.body)
		if err != nil {
			return unanswered(base.CodeInvalid, err, "malformed error to %s from node %d: %v", kind, p.peer, err)
		}
		if f.typ == typeRefused {
			return &CallError{Base: e}
		}
		return e
	}
	return unanswered(base.CodeInvalid, nil, "unexpected answer of type %d to %s from node %d", f.typ, kind, p.peer)
}

// waitFor waits for the answer to a request; over: it was given up, because the context ended or
// the peer is lost.
func (c *core) waitFor(ctx context.Context, t *callTable, id uint64, cl *call, p *counters, kind wire.Kind,
	withdraw func() bool) (err error, over bool) {
	var lost <-chan struct{}
	code, why := base.CodeUnavailable, errLost
	if hurried(kind) {
		var is bool
		if lost, is = p.lost.watch(); is { // since Call looked
			lost = closedChan
		}
	}
	select {
	case <-cl.done:
		return nil, false
	case <-ctx.Done():
		code, why = base.CodeCanceled, ctx.Err()
	case <-lost:
		if isDespiteLost(ctx) {
			select {
			case <-cl.done:
				return nil, false
			case <-ctx.Done():
				code, why = base.CodeCanceled, ctx.Err()
			}
		}
	}
	if t.take(id) == nil {
		<-cl.done // it is being completed right now
		return nil, false
	}
	gone := withdraw()
	c.free.put(cl)
	if gone {
		return unsent(code, why, "%s request to node %d was not sent in time: %v", kind, p.peer, why), true
	}
	return unanswered(code, why, "no answer to %s from node %d in time: %v", kind, p.peer, why), true
}

// closedChan is closed.
var closedChan = func() chan struct{} {
	ch := make(chan struct{})
	close(ch)
	return ch
}()

// timeoutOf is how long ctx has left; 0 is no deadline.
func timeoutOf(ctx context.Context) time.Duration {
	if d, ok := ctx.Deadline(); ok {
		return max(time.Until(d), time.Microsecond)
	}
	return 0
}

// closePools stops the workers and waits for them, within reason.
func (c *core) closePools(more *sync.WaitGroup) {
	for _, p := range c.pools {
		p.close()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, p := range c.pools {
			p.wg.Wait()
		}
		more.Wait()
	}()
	t := time.NewTimer(closeGrace)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		c.log.Warn("handlers still run although the transport is closed; a handler ignores its context")
	}
}
