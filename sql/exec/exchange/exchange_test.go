package exchange

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/exec/helper"
	"github.com/godwitdb/godwit/sql/expr"
	_ "github.com/godwitdb/godwit/sql/expr/fn" // the functions of the chains
)

const perPart = 8

// numbers is a table of one column, 0 to n-1, in parts of perPart rows.
type numbers struct {
	n, at  int
	failAt int          // Take fails there; 0: never
	taken  atomic.Int64 // parts
}

// Start implements exec.Source.
func (s *numbers) Start(*exec.Ctx, exec.Read) (exec.Rows, error) {
	s.at = 0
	s.taken.Store(0)
	return s, nil
}

// Take implements exec.Parted.
func (s *numbers) Take() (any, error) {
	if s.failAt > 0 && s.at >= s.failAt {
		return nil, errRead
	}
	if s.at >= s.n {
		return nil, nil
	}
	from := s.at
	s.at += perPart
	s.taken.Add(1)
	return from, nil
}

var errRead = errors.New("the read fails")

// Ready implements exec.Parted.
func (s *numbers) Ready() bool { return true }

// Decoder implements exec.Parted.
func (s *numbers) Decoder() func(part any, b *expr.Batch) error {
	return func(part any, b *expr.Batch) error {
		from := part.(int)
		n := min(perPart, s.n-from)
		if len(b.Cols) == 0 {
			b.Cols = []*expr.Vec{{}}
		}
		b.Cols[0].Reset(expr.TypeInt, n)
		for i := range n {
			b.Cols[0].I[i] = int64(from + i)
		}
		b.N, b.Sel = n, expr.All(n)
		return nil
	}
}

// Next implements exec.Rows.
func (s *numbers) Next(b *expr.Batch) (bool, error) {
	part, err := s.Take()
	if err != nil || part == nil {
		return false, err
	}
	return true, s.Decoder()(part, b)
}

// Close implements exec.Rows.
func (s *numbers) Close() error { return nil }

func col() expr.Node { return &expr.Col{ID: 1, T: expr.TypeInt} }

func call(name string, args ...expr.Node) expr.Node {
	n, err := expr.NewCall(expr.Lookup(name), args...)
	if err != nil {
		panic(err)
	}
	return n
}

func scanOf(s exec.Source, filter ...expr.Node) exec.Op {
	return exec.NewScan(exec.ScanSpec{Source: s, Cols: []expr.ColID{1}, Types: []expr.Type{expr.TypeInt}, Filter: filter})
}

// inverse projects 1000 / (n - at): a division by zero is a warning, or an error in strict mode.
func inverse(s exec.Source, at int64) exec.Op {
	return exec.NewProject(scanOf(s), []exec.Column{{ID: 1, Expr: col()},
		{ID: 2, Expr: call("div", expr.IntConst(1000), call("-", col(), expr.IntConst(at)))}})
}

// eager lets helpers begin at once.
func eager(t *testing.T) {
	helper.Eager = true
	t.Cleanup(func() { helper.Eager = false })
}

func statement(ctx context.Context, workers int) *exec.Ctx {
	c := &exec.Ctx{Context: ctx, Mem: exec.NewMem(nil, 0), Env: &expr.Env{}, Workers: workers}
	c.Env.Ctx = c
	return c
}

// read opens an operator and reads up to most rows; what is a line for each row and warning.
func read(ctx *exec.Ctx, op exec.Op, most int) (what []string, err error) {
	ctx.Env.Warn = func(code int, _ string) { what = append(what, fmt.Sprint("warning ", code)) }
	defer op.Close()
	if err := op.Open(ctx); err != nil {
		return nil, err
	}
	for rows := 0; rows < most; {
		b, err := op.Next()
		if err != nil || b == nil {
			return what, err
		}
		for _, i := range b.Sel {
			var vals []string
			for _, c := range b.Cols {
				vals = append(vals, c.At(i).Text(c.T))
			}
			what = append(what, strings.Join(vals, " "))
		}
		rows += len(b.Sel)
	}
	return what, nil
}

// TestSame: rows, their order, warnings and errors are those without helpers, however many helpers
// there are, and no memory is kept.
func TestSame(t *testing.T) {
	eager(t)
	join := func(s exec.Source) exec.Op {
		j, err := exec.NewHashJoin(exec.JoinSpec{Kind: exec.Left, Left: scanOf(s), Right: func() exec.Op {
			var rows [][]expr.Node
			for i := range 300 {
				rows = append(rows, []expr.Node{expr.IntConst(int64(i % 40))})
			}
			return exec.NewValues([]expr.ColID{3}, []expr.Type{expr.TypeInt}, rows)
		}(), LeftKeys: []expr.Node{col()}, RightKeys: []expr.Node{&expr.Col{ID: 3, T: expr.TypeInt}}, NullSafe: []bool{false}})
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	for name, make := range map[string]func() exec.Op{
		"scan":  func() exec.Op { return scanOf(&numbers{n: 1000}) },
		"empty": func() exec.Op { return scanOf(&numbers{}) },
		"filter": func() exec.Op {
			return scanOf(&numbers{n: 1003}, call("=", call("%", col(), expr.IntConst(7)), expr.IntConst(3)))
		},
		"warnings": func() exec.Op { return inverse(&numbers{n: 1000}, 500) },
		"read":     func() exec.Op { return scanOf(&numbers{n: 1000, failAt: 640}) },
		"join":     func() exec.Op { return join(&numbers{n: 500}) },
	} {
		for _, mode := range []expr.Mode{expr.ErrorForDivisionByZero, expr.ErrorForDivisionByZero | expr.Strict} {
			for _, most := range []int{1 << 20, 100} {
				alone := statement(t.Context(), 1)
				alone.Env.Mode = mode
				want, wantErr := read(alone, make(), most)
				for _, workers := range []int{2, 3, 9} {
					ctx := statement(t.Context(), workers)
					ctx.Env.Mode = mode
					op := New(make())
					if _, ok := op.(*Exchange); !ok {
						t.Fatalf("%s: no exchange", name)
					}
					before := Helped.Load()
					got, err := read(ctx, op, most)
					if !slices.Equal(got, want) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
						t.Errorf("%s, %d workers, at most %d rows: %d lines and %v, want %d and %v\n%v\n%v", name, workers, most, len(got), err,
							len(want), wantErr, got, want)
					}
					if Helped.Load() == before && name != "empty" {
						t.Errorf("%s, %d workers: nobody has helped", name, workers)
					}
					if n := ctx.Mem.Used(); n != 0 {
						t.Errorf("%s, %d workers: %d bytes are kept", name, workers, n)
					}
				}
			}
		}
	}
}

// TestFree: what reads or writes state is not free, nor what nobody has looked at.
func TestFree(t *testing.T) {
	for _, x := range []struct {
		n    expr.Node
		want bool
	}{
		{call("+", col(), expr.IntConst(1)), true},
		{call("concat", col(), col()), true},
		{call("rand"), false},
		{call("+", col(), call("sleep", expr.IntConst(0))), false},
		{call("last_insert_id", col()), false},
		{call("found_rows"), false},
		{call("uuid"), false},
		{&expr.Sub{T: expr.TypeInt}, false},
		{&expr.Call{Fn: &expr.Func{Name: "db.mine"}, T: expr.TypeInt}, false},
		{&expr.Col{ID: 1, T: expr.TypeJSON}, false},
	} {
		if Free(x.n) != x.want {
			t.Errorf("%s: free is %t", x.n, !x.want)
		}
	}
	if op := exec.NewProject(scanOf(&numbers{}), []exec.Column{{ID: 2, Expr: call("rand")}}); New(op) != op {
		t.Error("RAND() is computed by helpers")
	}
}

// stuck is a source whose parts cannot be decoded until the statement ends.
type stuck struct {
	numbers
	ctx context.Context
}

// Start implements exec.Source.
func (s *stuck) Start(*exec.Ctx, exec.Read) (exec.Rows, error) { return s, nil }

// Decoder implements exec.Parted.
func (s *stuck) Decoder() func(part any, b *expr.Batch) error {
	plain := s.numbers.Decoder()
	return func(part any, b *expr.Batch) error {
		if part.(int) > 0 {
			<-s.ctx.Done()
			return s.ctx.Err()
		}
		return plain(part, b)
	}
}

// TestKilled: a statement that is killed ends, with its helpers.
func TestKilled(t *testing.T) {
	eager(t)
	ctx, kill := context.WithCancel(t.Context())
	op := New(scanOf(&stuck{numbers: numbers{n: 1000}, ctx: ctx}))
	go func() { time.Sleep(10 * time.Millisecond); kill() }()
	if _, err := read(statement(ctx, 3), op, 1<<20); !errors.Is(err, context.Canceled) {
		t.Errorf("a killed statement: %v", err)
	}
}

// broken is a source whose third part panics.
type broken struct{ numbers }

// Start implements exec.Source.
func (s *broken) Start(*exec.Ctx, exec.Read) (exec.Rows, error) { return s, nil }

// Decoder implements exec.Parted.
func (s *broken) Decoder() func(part any, b *expr.Batch) error {
	plain := s.numbers.Decoder()
	return func(part any, b *expr.Batch) error {
		if part.(int) == 2*perPart {
			panic("a broken row")
		}
		return plain(part, b)
	}
}

// TestPanics: the panic of a helper is one of the statement's goroutine, where the server makes it
// an error, after the rows before.
func TestPanics(t *testing.T) {
	eager(t)
	for range 20 {
		op := New(scanOf(&broken{numbers{n: 1000}}))
		said := ""
		func() {
			defer func() { said = fmt.Sprint(recover()) }()
			_, _ = read(statement(t.Context(), 3), op, 1<<20)
		}()
		if !strings.Contains(said, "a broken row") {
			t.Fatalf("the panic is %q", said)
		}
		if got, err := read(statement(t.Context(), 3), op, 2*perPart); len(got) != 2*perPart || err != nil {
			t.Fatalf("the rows before: %v, %v", got, err)
		}
	}
}

// TestAhead: helpers do not take more parts than are to wait, and none without helpers.
func TestAhead(t *testing.T) {
	eager(t)
	for workers, most := range map[int]int64{1: 1, 4: mostTaken + 1} {
		s := &numbers{n: 1 << 20}
		op := New(scanOf(s))
		if err := op.Open(statement(t.Context(), workers)); err != nil {
			t.Fatal(err)
		}
		if _, err := op.Next(); err != nil {
			t.Fatal(err)
		}
		if n := s.taken.Load(); n > most {
			t.Errorf("%d workers: %d parts were taken for one, want %d at most", workers, n, most)
		}
		if err := op.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
