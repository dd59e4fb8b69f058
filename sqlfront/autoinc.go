package sqlfront

import (
	"context"
	"math"
	"slices"
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
// through transactions of their own, the next one when half of a block is taken, so that
// no insert but a gateway's first waits for it. Blocks grow eightfold while they are used up quickly: a lone session
// sees 1, 2, 3, and a bulk load pays one lease for thousands of rows. In a cluster of several regions the values of
// a block come with the gaps that their rows will fall into (fence.go). Values of a block that a gateway does not
// use up are lost, as after a rollback in MySQL.
const (
	maxBlock   = 4096
	firstBlock = 8                // in a cluster of several regions, where each block costs a trip to its gaps' owner, too
	quickNext  = 10 * time.Second // a block that is used up within this time makes the next one larger
	slowNext   = 60 * time.Second // one that lasts longer, smaller
	leaseTime  = 30 * time.Second // of a lease that nobody waits for
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

// values are [next, end).
type values struct {
	next, end uint64
}

func (v values) empty() bool { return v.next >= v.end }

type block struct {
	mu    sync.Mutex
	now   values        // being handed out
	then  values        // afterwards
	busy  chan struct{} // closed when the lease under way ends; nil: there is none
	size  uint64        // of the newest block
	began time.Time     // when the first value of now was taken
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

// take returns the next value of a table's counter.
func (c *counters) take(ctx context.Context, t *table) (uint64, error) {
	b := c.block(t.counter())
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.now.empty() {
		switch {
		case !b.then.empty():
			c.grow(b)
			b.now, b.then, b.began = b.then, values{}, time.Now()
		case b.busy != nil:
			busy := b.busy
			b.mu.Unlock()
			select {
			case <-busy:
			case <-ctx.Done():
			}
			b.mu.Lock()
			if err := ctx.Err(); err != nil {
				return 0, err
			}
		default:
			if err := c.leaseNow(ctx, t, b, 1); err != nil {
				return 0, err
			}
		}
	}
	v := b.now.next
	b.now.next++
	if b.now.end-b.now.next <= b.size/2 && b.then.empty() && b.busy == nil {
		c.leaseAhead(t, b)
	}
	return v, nil
}

// grow chooses the size of the next block by how long the last one has lasted; the caller holds b.mu.
func (c *counters) grow(b *block) {
	least := uint64(1)
	if c.regions() > 1 {
		least = firstBlock
	}
	switch d := time.Since(b.began); {
	case b.size == 0 || d > slowNext:
		b.size = least
	case d < quickNext:
		b.size = min(8*b.size, maxBlock)
	}
}

func (c *counters) regions() int { return len(c.db.Topology().Regions) }

// leaseNow takes a block for the statement that waits for it; the caller holds b.mu. The gap of the value that comes
// first is left to that statement's own row.
func (c *counters) leaseNow(ctx context.Context, t *table, b *block, least uint64) error {
	c.grow(b)
	v, err := c.lease(ctx, t.counter(), b.size, least)
	if err != nil {
		return err
	}
	b.now, b.then, b.began = v, values{}, time.Now()
	if v.next++; !v.empty() {
		go c.fence(t, v)
	}
	return nil
}

// leaseAhead takes the next block while nobody waits for it; the caller holds b.mu.
func (c *counters) leaseAhead(t *table, b *block) {
	busy, size, least := make(chan struct{}), b.size, b.now.end
	b.busy = busy
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), leaseTime)
		defer cancel()
		v, err := c.lease(ctx, t.counter(), size, least)
		if err == nil {
			c.fence(t, v)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.busy = nil
		close(busy)
		if err == nil && v.next >= b.now.end { // else a client's own value has passed it; whoever needs another one leases it
			b.then = v
		}
	}()
}

// passed notes that a value was given by a client: later ones are above it.
func (c *counters) passed(ctx context.Context, t *table, v uint64) error {
	b := c.block(t.counter())
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case v < b.now.next:
		return nil
	case v < b.now.end:
		b.now.next = v + 1
		return nil
	case !b.then.empty() && v < b.then.end:
		b.now, b.then, b.began = values{max(v+1, b.then.next), b.then.end}, values{}, time.Now()
		return nil
	case v == math.MaxUint64:
		v--
	}
	return c.leaseNow(ctx, t, b, v+1)
}

// peek returns the next value without taking it.
func (c *counters) peek(ctx context.Context, id counterID) (uint64, error) {
	b := c.block(id)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, v := range []values{b.now, b.then} {
		if !v.empty() {
			return v.next, nil
		}
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

// lease takes size values at or above least.
func (c *counters) lease(ctx context.Context, id counterID, size, least uint64) (values, error) {
	var v values
	_, err := kv.Run(ctx, c.db, kv.Options{}, func(t kv.Txn) error {
		key := counterKey(id.key)
		rows, err := t.Get(ctx, []base.Key{key}, kv.LockExclusive)
		if err != nil {
			return err
		}
		from, err := counterValue(rows[0].Value)
		if err != nil {
			return err
		}
		v.next = max(from, least)
		if v.end = v.next + size; v.end < v.next {
			v.end = math.MaxUint64
		}
		t.Put(key, base.AppendUint64(nil, v.end), 0)
		return nil
	})
	return v, err
}

func (t *table) counter() counterID { return counterID{t.desc.AutoKey, t.desc.AutoEpoch} }

// GetNextAutoIncrementValue implements sql.AutoIncrementTable.
func (t *sqlTable) GetNextAutoIncrementValue(ctx *sql.Context, given any) (uint64, error) {
	s := sessionOf(ctx)
	kctx := context.Context(ctx)
	if s != nil {
		kctx = s.kvctx(ctx)
	}
	if given == nil {
		if s != nil && (s.rehearsal != nil || len(s.reserved) > 0) {
			return s.takeReserved(kctx, t)
		}
		v, err := t.g.counters.take(kctx, t.t)
		return v, clientError(err)
	}
	conv, _, err := types.Uint64.Convert(ctx, given)
	if err != nil {
		return 0, err
	}
	v := conv.(uint64)
	if s != nil && s.rehearsal != nil {
		return v, nil
	}
	if s != nil && len(s.reserved) > 0 {
		s.reserved[t.t.counter()] = slices.DeleteFunc(s.reserved[t.t.counter()], func(r uint64) bool { return r <= v })
	}
	return v, clientError(t.g.counters.passed(kctx, t.t, v))
}

// takeReserved is the next value for a row in a trigger: a rehearsal reserves those that it uses, and the statement
// uses them after it.
func (s *Session) takeReserved(kctx context.Context, t *sqlTable) (uint64, error) {
	id := t.t.counter()
	r := s.rehearsal
	if r == nil {
		if free := s.reserved[id]; len(free) > 0 {
			s.reserved[id] = free[1:]
			return free[0], nil
		}
		v, err := t.g.counters.take(kctx, t.t)
		return v, clientError(err)
	}
	free := r.s.reserved[id]
	if r.auto[id] == len(free) {
		v, err := t.g.counters.take(kctx, t.t)
		if err != nil {
			return 0, clientError(err)
		}
		free = append(free, v)
		if r.s.reserved == nil {
			r.s.reserved = map[counterID][]uint64{}
		}
		r.s.reserved[id] = free
	}
	r.auto[id]++
	return free[r.auto[id]-1], nil
}

// giveBack returns values that were reserved but not used, unless others were taken after them.
func (c *counters) giveBack(reserved map[counterID][]uint64) {
	for id, free := range reserved {
		b := c.block(id)
		b.mu.Lock()
		for len(free) > 0 && b.now.next == free[len(free)-1]+1 {
			b.now.next--
			free = free[:len(free)-1]
		}
		b.mu.Unlock()
	}
}

// PeekNextAutoIncrementValue implements sql.AutoIncrementGetter.
func (t *sqlTable) PeekNextAutoIncrementValue(ctx *sql.Context) (uint64, error) {
	v, err := t.g.counters.peek(ctx, t.t.counter())
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
	if d.Locality.Kind == multi {
		// Other regions may be inserting values that are not here yet: it only goes up.
		rows, err := m.kv.Get(m.s.kvctx(ctx), []base.Key{counterKey(d.AutoKey)}, kv.LockExclusive)
		if err != nil {
			return m.txn.fail(err)
		}
		now, err := counterValue(rows[0].Value)
		if err != nil {
			return clientError(err)
		}
		v = max(v, now)
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
