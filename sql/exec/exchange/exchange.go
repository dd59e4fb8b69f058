package exchange

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/godwitdb/godwit/sql/admit"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/exec/helper"
	"github.com/godwitdb/godwit/sql/expr"
)

// Helped counts the parts that helpers have computed, in this process.
var Helped atomic.Int64

// Exchange is described with the package.
type Exchange struct {
	top    exec.Op // the chain itself, which yields the rows until there are helpers
	links  []exec.Op
	single bool // a part yields one batch at most

	ctx     *exec.Ctx
	rows    exec.Parted // of the scan, once parts are taken of it
	ended   bool        // nothing is left to take
	over    bool
	cur     *task // what is handed on now
	most    int   // helpers at once
	turns   int
	helpers context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	wake    chan struct{} // a helper has ended a part

	mu      sync.Mutex
	queue   []*task // in the order of the scan
	free    []*worker
	all     []*worker
	active  int // helpers
	stopped bool
}

// New is an exchange above op; op itself if it is no chain of pieces over a scan, or has an
// expression that is not [Free].
func New(op exec.Op) exec.Op {
	links := chain(op)
	if links == nil {
		return op
	}
	e := &Exchange{top: op, links: links, single: true}
	for _, l := range links {
		if _, ok := bare(l).(exec.Keeper); ok {
			e.single = false // a join may find many rows
		}
	}
	return e
}

// Cols implements exec.Op.
func (e *Exchange) Cols() []expr.ColID { return e.top.Cols() }

// Types implements exec.Op.
func (e *Exchange) Types() []expr.Type { return e.top.Types() }

// Open implements exec.Op.
func (e *Exchange) Open(ctx *exec.Ctx) error {
	e.ctx, e.rows, e.ended, e.over, e.stopped, e.most = ctx, nil, false, false, false, 0
	return e.top.Open(ctx)
}

// Next implements exec.Op.
func (e *Exchange) Next() (*expr.Batch, error) {
	if e.rows == nil && !e.divide() {
		return e.top.Next()
	}
	for !e.over {
		if e.cur == nil {
			if err := e.turn(); err != nil {
				return nil, err
			}
			continue
		}
		if b, err := e.yield(e.cur); b != nil || err != nil {
			return b, err
		}
		e.cur = nil
	}
	return nil, nil
}

// divide begins to take parts of the scan if a helper can be had.
func (e *Exchange) divide() bool {
	if e.ctx.Workers <= 1 || e.ctx.Env == nil || e.ctx.Env.Outer != nil {
		return false
	}
	for _, l := range e.links {
		if k, ok := bare(l).(exec.Keeper); ok && !k.Shares() {
			return false
		}
	}
	h := helper.Take(e.ctx.Turn)
	if h == nil {
		return false
	}
	rows, ok := bare(e.links[len(e.links)-1]).(exec.Leaf).Rows().(exec.Parted)
	if !ok || rows.Decoder() == nil {
		h.End()
		e.ctx = withOne(e.ctx) // do not ask again
		return false
	}
	e.rows, e.wake = rows, make(chan struct{}, 1)
	e.helpers, e.cancel = context.WithCancel(e.ctx.Context)
	h.End() // fill takes one when there are parts for it
	return true
}

// withOne is a statement without helpers.
func withOne(ctx *exec.Ctx) *exec.Ctx {
	one := *ctx
	one.Workers = 1
	return &one
}

// start has a helper compute parts until none waits.
func (e *Exchange) start(h *helper.Helper) {
	e.mu.Lock()
	e.active++
	e.most = max(e.most, e.active)
	e.mu.Unlock()
	e.wg.Go(func() {
		defer h.End()
		for {
			t, w := e.next()
			if t == nil {
				return
			}
			e.compute(t, w, nil) // it does not wait for a slot with a part that others wait for
			Helped.Add(1)
			runtime.Gosched()
			if !h.Keep() {
				e.mu.Lock()
				e.active--
				e.mu.Unlock()
				return
			}
		}
	})
}

// next is the oldest part that nobody computes yet, and a copy that is free. If there is none, the
// helper is counted no more.
func (e *Exchange) next() (*task, *worker) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.stopped && e.ahead() < 2*e.ctx.Workers+2 {
		for _, t := range e.queue {
			if !t.begun {
				t.begun = true
				return t, e.unused()
			}
		}
	}
	e.active--
	return nil, nil
}

// unused is a copy that nobody uses; nil: one has to be made. e.mu is held.
func (e *Exchange) unused() (w *worker) {
	if n := len(e.free); n > 0 {
		w, e.free = e.free[n-1], e.free[:n-1]
	}
	return w
}

// made is the copy, or a new one.
func (e *Exchange) made(w *worker) (*worker, error) {
	if w != nil {
		return w, nil
	}
	w, err := e.newWorker(e.helpers)
	e.mu.Lock()
	e.all = append(e.all, w)
	e.mu.Unlock()
	return w, err
}

// compute computes a part that is not handed on yet.
func (e *Exchange) compute(t *task, w *worker, turn *admit.Turn) {
	w, err := e.made(w)
	if err != nil {
		t.err = err
	} else {
		e.run(t, w, turn)
	}
	e.mu.Lock()
	t.done = true
	if t.w != nil && t.last == nil && t.err == nil {
		e.free, t.w = append(e.free, t.w), nil
	}
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// turn makes the oldest part the one that is handed on. If a helper is at it, turn computes another
// one, or waits.
func (e *Exchange) turn() error {
	if err := e.ctx.Err(); err != nil {
		return err
	}
	e.fill()
	e.mu.Lock()
	if len(e.queue) == 0 {
		e.mu.Unlock()
		e.over = true
		e.shut()
		return e.top.Close() // the tables of joins are not wanted any more
	}
	t := e.queue[0]
	if t.done {
		e.cur, e.queue = t, e.queue[1:]
		e.mu.Unlock()
		return nil
	}
	if e.turns++; helper.Eager && !t.begun && e.active > 0 && e.turns%3 > 0 {
		e.mu.Unlock()
		return e.wait() // a helper takes it: else it would have little to do with few rows
	}
	if !t.begun {
		t.begun = true
		e.cur, e.queue = t, e.queue[1:]
		w := e.unused()
		e.mu.Unlock()
		w, err := e.made(w)
		if err == nil {
			t.w, w.feed.part = w, t.part
		}
		return err
	}
	for _, t := range e.queue {
		if !t.begun && e.ahead() < 2*e.ctx.Workers+2 {
			t.begun = true
			w := e.unused()
			e.mu.Unlock()
			e.compute(t, w, e.ctx.Turn)
			return nil
		}
	}
	e.mu.Unlock()
	return e.wait()
}

// wait waits until a helper has computed a part.
func (e *Exchange) wait() error {
	select {
	case <-e.wake:
	case <-e.ctx.Done():
	}
	return nil
}

// mostTaken is how many parts wait at most: as many as the scan reads at once, and some of the next
// ones. They are in memory, taken or not.
const mostTaken = 40

// fill takes the parts that are there, so that the scan goes on reading, and waits for one if there
// is none. It looks for helpers as long as there are parts for them.
func (e *Exchange) fill() {
	for {
		n, all, active := e.waiting()
		for !e.ended && (all == 0 || all < mostTaken && e.rows.Ready()) && e.take() {
			n, all = n+1, all+1
		}
		if n < 2+active || active+1 >= e.ctx.Workers || e.full() {
			return
		}
		h := helper.Take(e.ctx.Turn)
		if h == nil {
			return
		}
		e.start(h)
	}
}

// waiting is how many parts nobody computes yet, how many there are, and how many helpers.
func (e *Exchange) waiting() (n, all, active int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range e.queue {
		if !t.begun {
			n++
		}
	}
	return n, len(e.queue), e.active
}

// full reports whether enough parts are computed that have not been handed on: what they yield
// takes memory. e.mu is not held.
func (e *Exchange) full() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ahead() >= 2*e.ctx.Workers+2
}

// ahead is how many parts are computed, or under way, beside the one that is handed on. e.mu is
// held.
func (e *Exchange) ahead() (n int) {
	for _, t := range e.queue {
		if t.begun {
			n++
		}
	}
	return n
}

// take takes a part of the scan. An error comes after what was taken before.
func (e *Exchange) take() bool {
	if e.ended {
		return false
	}
	part, err := e.rows.Take()
	e.ended = err != nil || part == nil
	if part == nil && err == nil {
		return false
	}
	e.mu.Lock()
	e.queue = append(e.queue, &task{part: part, err: err, begun: err != nil, done: err != nil})
	e.mu.Unlock()
	return !e.ended
}

// yield hands on the next batch of a part; nil at its end.
func (e *Exchange) yield(t *task) (*expr.Batch, error) {
	e.note(t.warn)
	t.warn = nil
	if t.at < len(t.out) {
		t.at++
		return t.out[t.at-1], nil
	}
	e.ctx.Mem.Shrink(t.held)
	t.held, t.out, t.at = 0, nil, 0
	if t.panicked != nil {
		panic(t.panicked)
	}
	if b := t.last; b != nil {
		t.last = nil
		return b, nil
	}
	if t.err != nil || t.w == nil {
		return nil, t.err
	}
	w := t.w
	w.ctx.Turn = e.ctx.Turn
	b, err := w.top.Next()
	e.note(w.warn)
	w.warn = w.warn[:0]
	if b == nil && err == nil {
		w.ctx.Turn, t.w = nil, nil
		e.mu.Lock()
		e.free = append(e.free, w)
		e.mu.Unlock()
	}
	return b, err
}

// note gives the warnings of a part.
func (e *Exchange) note(ws []warning) {
	for _, w := range ws {
		e.ctx.Env.Note(w.code, w.msg)
	}
}

// shut ends the helpers, and frees what parts hold that nobody wants any more.
func (e *Exchange) shut() {
	if e.cancel == nil {
		return
	}
	e.mu.Lock()
	e.stopped = true
	e.mu.Unlock()
	e.cancel()
	e.wg.Wait()
	e.cancel = nil
	if e.cur != nil {
		e.queue = append(e.queue, e.cur)
	}
	for _, t := range e.queue {
		e.ctx.Mem.Shrink(t.held)
	}
	for _, w := range e.all {
		_ = w.top.Close() // it has no read of its own
	}
	e.queue, e.cur, e.free, e.all = nil, nil, nil, nil
	for _, l := range e.links {
		if s, ok := l.(shown); ok {
			s.Shared(e.most + 1)
		}
	}
}

// Close implements exec.Op.
func (e *Exchange) Close() error {
	e.shut()
	return e.top.Close()
}
