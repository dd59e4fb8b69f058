package sqlfront

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// AUTO_INCREMENT counters live in the meta shard: a lease works from every
// region and does not depend on where the table's rows are. A gateway leases blocks of values
// through transactions of their own; a block is one value at first and grows eightfold
// while blocks are used up quickly, so that a lone session sees 1, 2, 3 and a
// bulk load pays one lease per thousand rows. The next block is leased when the last value of one is taken, so that
// no insert but a gateway's first waits for it. Values of a block that a gateway does not use up are lost, as
// after a rollback in MySQL.
const (
	maxBlock  = 4096
	quickNext = 2 * time.Second  // a block that is used up within this time of the last one makes the next one larger
	leaseTime = 30 * time.Second // of a lease that nobody waits for
)

// counters are the leased blocks of one gateway.
type counters struct {
	db kv.DB
	mu sync.Mutex
	m  map[counterID]*block
}

type counterID struct {
	key, epoch uint64
}

type block struct {
	mu        sync.Mutex
	next, end uint64 // values [next, end) are ours
	size      uint64
	usedUp    time.Time // when the last value of a block was taken
}

func newCounters(db kv.DB) *counters { return &counters{db: db, m: map[counterID]*block{}} }

func counterKey(id uint64) base.Key {
	return base.AppendUint64(base.IndexPrefix(base.MetaShard, tabCounter, 0, 0), id)
}

func (c *counters) block(id counterID) *block {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.m[id]
	if b == nil {
		b = &block{}
		c.m[id] = b
	}
	return b
}

// take returns the next value of a counter.
func (c *counters) take(ctx context.Context, id counterID) (uint64, error) {
	b := c.block(id)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next >= b.end {
		if err := c.lease(ctx, id, b, 1); err != nil {
			return 0, err
		}
	}
	v := b.next
	if b.next++; b.next >= b.end {
		c.leaseAhead(id, b)
	}
	return v, nil
}

// leaseAhead takes the next block while nobody waits for it; the caller holds b.mu.
func (c *counters) leaseAhead(id counterID, b *block) {
	now := time.Now()
	if now.Sub(b.usedUp) < quickNext {
		b.size = min(8*b.size, maxBlock)
	} else {
		b.size = 1
	}
	b.usedUp = now
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), leaseTime)
		defer cancel()
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.next >= b.end {
			_ = c.lease(ctx, id, b, 1) // whoever needs it tries again
		}
	}()
}

// passed notes that a value was given by a client: later ones are above it.
func (c *counters) passed(ctx context.Context, id counterID, v uint64) error {
	b := c.block(id)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case v < b.next:
		return nil
	case v < b.end:
		b.next = v + 1
		return nil
	case v == math.MaxUint64:
		v--
	}
	return c.lease(ctx, id, b, v+1)
}

// peek returns the next value without taking it.
func (c *counters) peek(ctx context.Context, id counterID) (uint64, error) {
	b := c.block(id)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next < b.end {
		return b.next, nil
	}
	t := c.db.Begin(kv.Options{ReadOnly: true})
	defer t.Rollback(ctx)
	rows, err := t.Get(ctx, []base.Key{counterKey(id.key)}, kv.LockNone)
	if err != nil {
		return 0, err
	}
	return counterValue(rows[0].Value)
}

func counterValue(v []byte) (uint64, error) {
	if v == nil {
		return 1, nil
	}
	n, _, err := base.TakeUint64(v)
	return n, err
}

// lease takes a block that begins at or above least.
func (c *counters) lease(ctx context.Context, id counterID, b *block, least uint64) error {
	b.size = max(b.size, 1)
	var from uint64
	_, err := kv.Run(ctx, c.db, kv.Options{}, func(t kv.Txn) error {
		key := counterKey(id.key)
		rows, err := t.Get(ctx, []base.Key{key}, kv.LockExclusive)
		if err != nil {
			return err
		}
		if from, err = counterValue(rows[0].Value); err != nil {
			return err
		}
		from = max(from, least)
		end := from + b.size
		if end < from {
			end = math.MaxUint64
		}
		t.Put(key, base.AppendUint64(nil, end), 0)
		return nil
	})
	if err != nil {
		return err
	}
	b.next, b.end = from, from+b.size
	if b.end < b.next {
		b.end = math.MaxUint64
	}
	return nil
}

func (t *sqlTable) counter() counterID {
	return counterID{t.t.desc.AutoKey, t.t.desc.AutoEpoch}
}

// GetNextAutoIncrementValue implements sql.AutoIncrementTable.
func (t *sqlTable) GetNextAutoIncrementValue(ctx *sql.Context, given any) (uint64, error) {
	s := sessionOf(ctx)
	kctx := context.Context(ctx)
	if s != nil {
		kctx = s.kvctx(ctx)
	}
	if given == nil {
		v, err := t.g.counters.take(kctx, t.counter())
		return v, clientError(err)
	}
	conv, _, err := types.Uint64.Convert(ctx, given)
	if err != nil {
		return 0, err
	}
	v := conv.(uint64)
	return v, clientError(t.g.counters.passed(kctx, t.counter(), v))
}

// PeekNextAutoIncrementValue implements sql.AutoIncrementGetter.
func (t *sqlTable) PeekNextAutoIncrementValue(ctx *sql.Context) (uint64, error) {
	v, err := t.g.counters.peek(ctx, t.counter())
	if p := t.t.desc.autoIncCol(); p >= 0 {
		v = min(v, t.t.cols[p].largestInt()) // as MySQL shows a counter that is exhausted
	}
	return v, clientError(err)
}

// largestInt is the largest value of an integer column.
func (c *column) largestInt() uint64 {
	bits := c.bits
	switch c.typ.Type() {
	case sqltypes.Int24, sqltypes.Uint24:
		bits = 24
	}
	switch c.kind {
	case kindInt:
		return 1<<(bits-1) - 1
	case kindUint:
		if bits < 64 {
			return 1<<bits - 1
		}
	}
	return math.MaxUint64
}

// SetAutoIncrementValue implements sql.AutoIncrementSetter: the counter starts
// again at v, or above the largest value in the table; blocks leased before are void.
func (e *editor) SetAutoIncrementValue(ctx *sql.Context, v uint64) error {
	if e.err != nil {
		return e.err
	}
	t := e.sqlTable
	largest, err := t.largestAutoInc(ctx)
	if err != nil {
		return err
	}
	m, d, err := t.change(ctx)
	if err != nil {
		return err
	}
	d.AutoEpoch++
	m.put(counterKey(d.AutoKey), base.AppendUint64(nil, max(v, largest+1)))
	return t.done(m, d)
}

// AcquireAutoIncrementLock implements sql.AutoIncrementSetter. Values are unique without it;
// one statement's values need not be consecutive (innodb_autoinc_lock_mode = 2).
func (e *editor) AcquireAutoIncrementLock(*sql.Context) (func(), error) { return func() {}, nil }

// largestAutoInc is the largest value of the AUTO_INCREMENT column, 0 if none.
func (t *sqlTable) largestAutoInc(ctx *sql.Context) (uint64, error) {
	if p := t.t.desc.autoIncCol(); p >= 0 {
		return t.largest(ctx, p)
	}
	return 0, nil
}

// startCounter begins to count above the values of a column that becomes AUTO_INCREMENT.
func (t *sqlTable) startCounter(ctx *sql.Context, m *mutation, d *tableDesc, col int) error {
	largest, err := t.largest(ctx, col)
	if err != nil {
		return err
	}
	d.AutoEpoch++
	m.put(counterKey(d.AutoKey), base.AppendUint64(nil, largest+1))
	return nil
}

// largest is the largest value of an integer column, 0 if there is none.
func (t *sqlTable) largest(ctx *sql.Context, p int) (uint64, error) {
	full := *t
	full.cols, full.names, full.sch = nil, nil, nil
	t = &full
	it, err := t.scanAll(ctx)
	if err != nil {
		return 0, err
	}
	defer it.Close(ctx)
	for _, x := range t.t.sqlIndexes() {
		i := x.(*sqlIndex)
		if i.pos[0] != p || !i.Reversible(ctx) {
			continue
		}
		r := make(sql.MySQLRange, len(i.pos))
		for j, c := range i.cets {
			r[j] = sql.AllRangeColumnExpr(c.Type)
		}
		it, err = t.scanLookup(ctx, sql.IndexLookup{Index: i, Ranges: sql.MySQLRangeCollection{r}, IsReverse: true})
		if err != nil {
			return 0, err
		}
		it.(*rowSource).limit = 1
		row, err := it.Next(ctx)
		if err != nil {
			return 0, ignoreEOF(err)
		}
		return unsigned(row[p]), nil
	}
	var largest uint64
	for {
		row, err := it.Next(ctx)
		if err != nil {
			return largest, ignoreEOF(err)
		}
		largest = max(largest, unsigned(row[p]))
	}
}

func unsigned(v any) uint64 {
	if n, ok := toUint64(v); ok {
		return n
	}
	switch f := v.(type) {
	case float32:
		return uint64(max(0, f))
	case float64:
		return uint64(max(0, f))
	}
	return 0
}
