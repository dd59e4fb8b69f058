package exec

import (
	"context"
	"math/rand"
	"testing"

	"github.com/godwitdb/godwit/sql/expr"
)

// asked counts how often a plan asks whether it may go on, and says no after most of them.
type asked struct {
	context.Context
	n, most int
}

// Err implements context.Context.
func (a *asked) Err() error {
	if a.n++; a.n > a.most {
		return context.Canceled
	}
	return nil
}

// TestSortsStop: what sorts, or writes and reads files, asks many times a million rows whether it
// may go on, and gives all memory back when it may not.
func TestSortsStop(t *testing.T) {
	const n = 20_000
	table := randomTable(rand.New(rand.NewSource(1)), 1, n, 1000)
	keys := []SortKey{{Expr: table.col(1)}, {Expr: table.col(0), Desc: true}}
	numbers := []SortKey{{Expr: table.col(3)}}
	joined := agg(t, 20, "GROUP_CONCAT", false, keys, table.col(1))
	plans := map[string]func() Op{
		"texts":   func() Op { return NewSort(table.scan(), keys) },
		"numbers": func() Op { return NewSort(table.scan(), numbers) },
		"first":   func() Op { return NewTopN(table.scan(), keys, expr.IntConst(n/2)) },
		"group":   func() Op { return NewHashAgg(AggSpec{In: table.scan(), Aggs: []AggColumn{joined}}) },
	}
	for name, plan := range plans {
		for _, limit := range []int64{0, 600_000} {
			if limit > 0 && name == "group" {
				continue // it does not go to files
			}
			whole := &asked{Context: context.Background(), most: 1 << 40}
			if err := drain(t, plan(), whole, limit); err != nil {
				t.Fatal(err)
			}
			scan := &asked{Context: context.Background(), most: 1 << 40}
			if err := drain(t, table.scan(), scan, 0); err != nil {
				t.Fatal(err)
			}
			if more := whole.n - scan.n; more < n/atOnce {
				t.Errorf("%s, limit %d: asks %d times more than who only reads", name, limit, more)
			}
			for k := 1; k < 20; k++ {
				stop := &asked{Context: context.Background(), most: whole.n * k / 20}
				if err := drain(t, plan(), stop, limit); err == nil || stop.n > stop.most+1 {
					t.Errorf("%s, limit %d, stopped after %d: %v, asked %d times", name, limit, stop.most, err, stop.n)
				}
			}
		}
	}
}

// atOnce is how many rows are sorted without asking, at most.
const atOnce = 256

// drain runs a plan to its end.
func drain(t *testing.T, op Op, c context.Context, limit int64) error {
	t.Helper()
	mem := NewMem(nil, limit)
	ctx := &Ctx{Context: c, Mem: mem, TempDir: t.TempDir()}
	ctx.Env = &expr.Env{Ctx: ctx, GroupConcatMax: 1 << 20}
	err := op.Open(ctx)
	for err == nil {
		var b *expr.Batch
		if b, err = op.Next(); b == nil {
			break
		}
	}
	if cerr := op.Close(); cerr != nil {
		t.Fatal(cerr)
	}
	if mem.Used() != 0 {
		t.Errorf("%d bytes are still taken", mem.Used())
	}
	return err
}
