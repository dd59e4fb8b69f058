package owner_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/owner/homing"
	"github.com/godwitdb/godwit/wire"
)

// network delivers messages at once, unless a rule says otherwise.
type network struct {
	c     *cluster
	mu    sync.Mutex
	rules []*rule
	held  []*parcel
}

// rule is what happens to the next messages of a kind.
type rule struct {
	what   string // as messageName says
	do     string // drop, lose-answer, double, hold, late
	by     time.Duration
	times  int
	toward base.NodeID // 0: anybody
}

// parcel is a message that is held back.
type parcel struct {
	what string
	free chan struct{}
}

func (w *network) add(r *rule) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules = append(w.rules, r)
}

func (w *network) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rules = nil
}

// match takes the first rule for a message.
func (w *network) match(what string, to base.NodeID) *rule {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.rules {
		if r.times > 0 && r.what == what && (r.toward == 0 || r.toward == to) {
			r.times--
			return r
		}
	}
	return nil
}

// deliver frees the messages of a kind that are held back, and says how many.
func (w *network) deliver(what string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = slices.DeleteFunc(w.held, func(p *parcel) bool {
		if p.what != what {
			return false
		}
		close(p.free)
		n++
		return true
	})
	return n
}

func (w *network) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.held {
		close(p.free)
	}
	w.held = nil
}

func (w *network) wait(ctx context.Context, what string) error {
	p := &parcel{what: what, free: make(chan struct{})}
	w.mu.Lock()
	w.held = append(w.held, p)
	w.mu.Unlock()
	select {
	case <-p.free:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// endpoint is a node's end of the network.
type endpoint struct{ n *node }

func (p endpoint) Handle(k wire.Kind, h wan.Handler) {
	p.n.mu.Lock()
	defer p.n.mu.Unlock()
	p.n.handlers[k] = h
}

// handler is what a node does with messages of a kind; nil if it is down.
func (n *node) handler(k wire.Kind) wan.Handler {
	if n == nil || n.running.Load() == nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.handlers[k]
}

func (p endpoint) Call(ctx context.Context, to base.NodeID, kind wire.Kind, q, resp wan.Msg) error {
	c := p.n.c
	lost := func(ran bool) error {
		return &wan.CallError{Base: base.Errorf(base.CodeUnavailable, "node %d does not answer", to), Ran: ran, Cause: ctx.Err()}
	}
	body, err := q.MarshalVT()
	if err != nil {
		return err
	}
	what := messageName(kind, q)
	rule := c.net.match(what, to)
	do := ""
	if rule != nil {
		if do = rule.do; do != "late" {
			c.note("n%d to n%d: %s %s", p.n.id, to, what, do)
		}
	}
	switch do {
	case "dropped":
		<-ctx.Done()
		return lost(true)
	case "held":
		if c.net.wait(ctx, what) != nil {
			return lost(true)
		}
	case "late":
		select {
		case <-time.After(rule.by):
		case <-ctx.Done():
			return lost(true)
		}
	}
	h := c.nodes[to].handler(kind)
	if h == nil {
		return lost(false)
	}
	if do == "doubled" {
		again := slices.Clone(body)
		go func() {
			time.Sleep(time.Microsecond) // it comes second
			out, err := h(context.WithoutCancel(ctx), p.n.id, again)
			if s, ok := out.(interface{ GetStatus() *wire.Status }); ok && err == nil {
				err = owner.ErrorOf(s.GetStatus())
			}
			c.note("n%d to n%d: the second %s: %s", p.n.id, to, what, verdict(err))
		}()
	}
	out, err := h(ctx, p.n.id, body)
	if do == "unanswered" {
		<-ctx.Done()
		return lost(true)
	}
	if err != nil {
		return err
	}
	if body, err = out.MarshalVT(); err != nil {
		return err
	}
	return resp.UnmarshalVT(body)
}

func verdict(err error) string {
	if err == nil {
		return "ok"
	}
	return base.CodeOf(err).String()
}

// messageName is the kind of a message, and of those of a hand-over which one it is.
func messageName(kind wire.Kind, q wan.Msg) string {
	if h, ok := q.(*wire.HandoverRequest); ok {
		switch {
		case h.TransferredState != nil:
			return "state"
		case h.Stand != 0:
			return "stand"
		}
		return "ask"
	}
	return kind.String()
}

type directory struct{ c *cluster }

func (d directory) Leader(g base.GroupID) base.NodeID {
	l := d.c.logs[g]
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leader
}

func (d directory) Replicas(base.GroupID) []base.NodeID {
	var out []base.NodeID
	d.c.each(func(n *node) { out = append(out, n.id) })
	return out
}

// ---- asynchronous groups, policy of homes ----

type heldBy struct{ n *node }

func (h heldBy) Async(s base.ShardID) bool { return s != base.MetaShard }
func (h heldBy) Confirmed() bool           { return h.n.confirmed }
func (h heldBy) Away(g base.GroupID) bool  { return g.Region() != h.n.region }
func (h heldBy) Sees(g base.GroupID) bool  { return h.Away(g) }
func (h heldBy) AskHeld(g base.GroupID, index uint64, cut base.Timestamp) {
	h.n.c.note("n%d asks whether other regions hold %s up to entry %d and %s", h.n.id, groupName(g), index, h.n.c.at(cut))
}

func (h heldBy) HeldOf(g base.GroupID) (uint64, base.Timestamp) {
	h.n.c.mu.Lock()
	defer h.n.c.mu.Unlock()
	x := h.n.c.copies[g]
	return x.index, x.cut
}

type policy struct{ n *node }

func (p policy) Accessed(a homing.Access) homing.Verdict {
	c := p.n.c
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.advice[string(a.Key)]
	if a.From != v.To {
		v.To, v.Along = 0, nil
	}
	return v
}

func (p policy) Moved(m homing.Move) {
	if m.Alone {
		p.n.c.note("n%d has moved %s from r%d to r%d alone", p.n.id, keyName(m.Key), m.From, m.To)
		return
	}
	p.n.c.note("n%d has moved %s from r%d to r%d with a write", p.n.id, keyName(m.Key), m.From, m.To)
}

// ---- names ----

// Send loses what is told one way: nobody here is a gateway.
func (endpoint) Send(base.NodeID, wire.Kind, wan.Msg) error { return nil }
