package bound

import (
	"context"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/sqltypes"
)

const (
	// batch is how many rows the engine gathers before it sends them.
	batch = 128
	// flightBytes is how much is on its way to a client that more rows wait.
	flightBytes = 16 << 20
)

// flight are the rows of a statement on their way to the client. The engine has up to 1,300 of
// them between the plan and the client, and does not ask how long they are.
type flight struct {
	sql.RowIter
	charge

	mu    sync.Mutex
	rows  []int64 // their sizes, the oldest first
	bytes int64
	left  chan struct{} // has one when rows were sent
}

// root reports whether a node is the root of the statement's plan: it is what is built first.
func (a *Account) root() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	first := !a.planned
	a.planned = true
	return first
}

// Root builds the root of a plan that only reads, and counts its rows until they are sent. It is to
// be asked before anything else is done for a node, since the node is built anew; a nil iterator
// says that there is nothing to do.
func (b *Builder) Root(ctx *sql.Context, n sql.Node, row sql.Row) (sql.RowIter, error) {
	a := of(ctx)
	if a == nil || !a.root() || !n.IsReadOnly() {
		return nil, nil
	}
	it, err := b.Engine.Build(ctx, n, row)
	if err != nil {
		return it, err
	}
	f := &flight{RowIter: it, charge: charge{a: a}, left: make(chan struct{}, 1)}
	a.mu.Lock()
	a.flight = f
	a.mu.Unlock()
	return f, nil
}

// Next implements sql.RowIter. It waits while much is on its way, unless the engine lacks rows for
// a batch, and would never send those that it has.
func (f *flight) Next(ctx *sql.Context) (sql.Row, error) {
	for f.full() {
		select {
		case <-f.left:
		case <-ctx.Done():
			return nil, interrupted(ctx)
		}
	}
	row, err := f.RowIter.Next(ctx)
	if err != nil {
		return row, err
	}
	n := sizeOf(row)
	f.mu.Lock()
	f.rows = append(f.rows, n)
	f.bytes += n
	f.mu.Unlock()
	return row, f.take(n)
}

func (f *flight) full() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes > flightBytes && len(f.rows) >= batch
}

// Sent says that rows of the statement's result were sent. The engine writes the values of a result
// into one buffer, which it lets go of at the end, so their bytes stay counted.
func Sent(ctx context.Context, rows [][]sqltypes.Value) error {
	a, ok := ctx.Value(accountKey{}).(*Account)
	if !ok {
		return nil
	}
	a.mu.Lock()
	f := a.flight
	a.mu.Unlock()
	if f == nil {
		return nil
	}
	var buffered, sum int64
	for _, r := range rows {
		for _, v := range r {
			buffered += int64(v.Len())
		}
	}
	f.mu.Lock()
	n := min(len(rows), len(f.rows))
	for _, r := range f.rows[:n] {
		sum += r
	}
	f.rows = f.rows[n:]
	f.bytes -= sum
	f.mu.Unlock()
	f.giveBack(sum)
	select {
	case f.left <- struct{}{}:
	default:
	}
	return f.take(buffered)
}
