package exchange

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/godwitdb/godwit/sql/admit"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
)

// worker is a copy of the chain. One goroutine uses it at a time.
type worker struct {
	ctx  *exec.Ctx
	env  *expr.Env
	top  exec.Op
	feed *feed
	warn []warning
	// quiet: warnings are those of compiling, which the chain itself has given.
	quiet bool
}

type warning struct {
	code int
	msg  string
}

// newWorker makes a copy of the chain and opens it.
func (e *Exchange) newWorker(ctx context.Context) (*worker, error) {
	w := &worker{feed: &feed{decode: e.rows.Decoder()}, env: new(expr.Env), quiet: true}
	*w.env = *e.ctx.Env
	w.ctx = &exec.Ctx{Context: ctx, Mem: e.ctx.Mem, Env: w.env, TempDir: e.ctx.TempDir, NoSpill: true}
	if w.env.Ctx != nil {
		w.env.Ctx = w.ctx
	}
	if w.env.Warn != nil {
		w.env.Warn = w.note
	}
	for k := len(e.links) - 1; k >= 0; k-- {
		var op exec.Op
		switch x := bare(e.links[k]).(type) {
		case exec.Leaf:
			op = w.leaf(x.Spec())
		case exec.Piece:
			op = x.Copy(w.top)
		}
		for link := e.links[k]; ; {
			s, ok := link.(shown)
			if !ok {
				break
			}
			op, link = s.Rewrap(op), s.Unwrap()
		}
		w.top = op
	}
	err := w.top.Open(w.ctx)
	w.quiet = false
	return w, err
}

// leaf is the scan of the parts that the worker gets.
func (w *worker) leaf(s exec.ScanSpec) exec.Op {
	return exec.NewScan(exec.ScanSpec{Source: w.feed, Cols: s.Cols, Types: s.Types, Filter: s.Filter})
}

func (w *worker) note(code int, msg string) {
	if !w.quiet {
		w.warn = append(w.warn, warning{code, msg})
	}
}

// feed is the table that a copy of the scan reads: one part after the other.
type feed struct {
	part   any
	decode func(part any, b *expr.Batch) error
}

// Start implements exec.Source.
func (f *feed) Start(*exec.Ctx, exec.Read) (exec.Rows, error) { return f, nil }

// Next implements exec.Rows.
func (f *feed) Next(b *expr.Batch) (bool, error) {
	if f.part == nil {
		return false, nil
	}
	p := f.part
	f.part = nil
	return true, f.decode(p, b)
}

// Close implements exec.Rows.
func (f *feed) Close() error { return nil }

// task is a part under way.
type task struct {
	part     any
	err      error // of the read, or of an operator
	panicked any   // what a panic said
	begun    bool  // somebody computes it
	done     bool
	out      []*expr.Batch // what it yields, or the beginning of that
	at       int           // the next one of them
	held     int64         // their bytes
	last     *expr.Batch   // comes after them, and belongs to w
	w        *worker       // has what comes after that; nil: there is no more
	warn     []warning
}

// mostOut and mostBytes are how many batches and bytes of one part wait for the statement.
const (
	mostOut   = 16
	mostBytes = 4 << 20
)

// run computes a part beside the statement, or a part that is not the next one.
func (e *Exchange) run(t *task, w *worker, turn *admit.Turn) {
	t.w, w.ctx.Turn = w, turn
	defer func() {
		if r := recover(); r != nil {
			t.panicked, t.w = fmt.Sprintf("%v\n%s", r, debug.Stack()), nil // the copy is in no known state
		}
		t.warn, w.warn, w.ctx.Turn = w.warn, nil, nil
	}()
	w.feed.part = t.part
	for {
		b, err := w.top.Next()
		if err != nil || b == nil {
			t.err = err
			return
		}
		if t.last = b; e.single {
			return // this is all that the part yields: it need not be copied
		}
		size := bytesOf(b)
		if len(t.out) >= mostOut || t.held+size > mostBytes || !e.ctx.Mem.TryGrow(size) {
			return
		}
		t.held += size
		t.out, t.last = append(t.out, copied(b)), nil
	}
}

func bytesOf(b *expr.Batch) (n int64) {
	for _, c := range b.Cols {
		n += c.Bytes(b.Sel)
	}
	return n
}

// copied is a batch that belongs to nobody else.
func copied(b *expr.Batch) *expr.Batch {
	out := &expr.Batch{N: len(b.Sel), Sel: expr.All(len(b.Sel))}
	for _, c := range b.Cols {
		v := &expr.Vec{}
		v.Gather(c, b.Sel)
		out.Cols = append(out.Cols, v)
	}
	return out
}
