package table

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// AUTO_INCREMENT counters live in the meta shard: a lease works from every region and does not
// depend on where the table's rows are. A gateway leases blocks of values through transactions of
// their own, the next one when half of a block is taken, or sooner if what is left might be used up
// while the leader of the meta group is dead (longLease). So no insert but a gateway's first waits
// for it. Blocks grow eightfold while they are used up quickly: a lone session sees 1, 2, 3, and a
// bulk load pays one lease for thousands of rows. In a cluster of several regions the values of a
// block come with the gaps that their rows will fall into (fence.go). Values of a block that a
// gateway does not use up are lost, as after a rollback in MySQL.
const (
	maxBlock = 4096
	// in a cluster of several regions, where each block costs a trip to its gaps' owner, too
	firstBlock = 8
	// a block that is used up within this time makes the next one larger
	quickNext = 10 * time.Second
	slowNext  = 60 * time.Second // one that lasts longer, smaller
	leaseTime = 30 * time.Second // of a lease that no statement waits for
	// how long a block may take to come if the leader of the meta group dies: what is left of its
	// lease, an election, and the gaps that come with it
	longLease = 5 * time.Second
)

// Counters are the leased blocks of one gateway.
type Counters struct {
	env *session.Env
	db  kv.DB
	mu  sync.Mutex
	m   map[schema.CounterID]*block
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
	taken uint64        // values of now
	pace  float64       // values a second of the block before now
}

// begin starts to hand out a block. The pace of the one before is known now even if it had one
// value: the first value of this one follows it.
func (b *block) begin(v values) {
	if b.taken > 0 {
		b.pace = float64(b.taken) / max(time.Since(b.began), time.Millisecond).Seconds()
	}
	b.now, b.then, b.began, b.taken = v, values{}, time.Now(), 0
}

// speed is how many values a second are taken. What the present block says counts once half of it
// is taken.
func (b *block) speed() float64 {
	if b.taken < 2 || b.taken < b.now.end-b.now.next {
		return b.pace
	}
	return float64(b.taken-1) / max(time.Since(b.began), time.Millisecond).Seconds()
}

// low reports whether it is time for the next block.
func (b *block) low() bool {
	left := b.now.end - b.now.next
	return left <= b.size/2 || float64(left) < b.speed()*longLease.Seconds()
}

func newCounters(env *session.Env) *Counters {
	return &Counters{env: env, db: env.DB, m: map[schema.CounterID]*block{}}
}

// CounterKey is the key of a counter in the meta shard.
func CounterKey(id uint64) base.Key {
	return base.AppendUint64(base.IndexPrefix(base.MetaShard, schema.TabCounter, 0, 0), id)
}

func (c *Counters) block(id schema.CounterID) *block {
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
func (c *Counters) take(ctx context.Context, t *schema.Table) (uint64, error) {
	b := c.block(t.Counter())
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.now.empty() {
		switch {
		case !b.then.empty():
			if time.Since(b.began) > slowNext {
				c.grow(b)
			}
			b.begin(b.then)
		case b.busy != nil:
			if err := b.settled(ctx); err != nil {
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
	b.taken++
	if b.then.empty() && b.busy == nil && b.low() {
		if b.speed()*quickNext.Seconds() > float64(b.size) {
			b.size = min(8*b.size, maxBlock)
		}
		c.leaseAhead(t, b)
	}
	return v, nil
}

// grow chooses the size of the next block by how long the last one has lasted; the caller holds
// b.mu.
func (c *Counters) grow(b *block) {
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

func (c *Counters) regions() int { return len(c.db.Topology().Regions) }

// leaseNow takes a block for the statement that waits for it; the caller holds b.mu. The gap of the
// value that comes first is left to that statement's own row.
func (c *Counters) leaseNow(ctx context.Context, t *schema.Table, b *block, least uint64) error {
	c.grow(b)
	v, err := c.lease(ctx, t.Counter(), b.size, least)
	if err != nil {
		return err
	}
	b.begin(v)
	if v.next++; !v.empty() {
		c.env.Go(func(ctx context.Context) { c.fence(ctx, t, v) })
	}
	return nil
}

// leaseAhead takes the next block before a statement waits for it; the caller holds b.mu.
func (c *Counters) leaseAhead(t *schema.Table, b *block) {
	busy, size, least := make(chan struct{}), b.size, b.now.end
	b.busy = busy
	began := c.env.Go(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, leaseTime)
		defer cancel()
		v, err := c.lease(ctx, t.Counter(), size, least)
		if err == nil {
			c.fence(ctx, t, v)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.busy = nil
		close(busy)
		// Otherwise a client's own value has passed the block, and the next statement leases
		// another one.
		if err == nil && v.next >= b.now.end {
			b.then = v
		}
	})
	if !began {
		b.busy = nil
	}
}

// settled waits until the lease under way has ended; the caller holds b.mu, which is free
// meanwhile.
func (b *block) settled(ctx context.Context) error {
	busy := b.busy
	b.mu.Unlock()
	defer b.mu.Lock()
	select {
	case <-busy:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// passed notes that a client has given the value v itself: later values are above it. If the
// current block ends below v, the next one may still be being leased. That lease may have moved the
// counter beyond v already, so it is waited for: without it the value after v would depend on how
// fast the lease was.
func (c *Counters) passed(ctx context.Context, t *schema.Table, v uint64) error {
	b := c.block(t.Counter())
	b.mu.Lock()
	defer b.mu.Unlock()
	for v >= b.now.end && b.busy != nil {
		if err := b.settled(ctx); err != nil {
			return err
		}
	}
	switch {
	case v < b.now.next:
		return nil
	case v < b.now.end:
		b.now.next = v + 1
		return nil
	case !b.then.empty() && v < b.then.end:
		b.begin(values{max(v+1, b.then.next), b.then.end})
		return nil
	case v == math.MaxUint64:
		v--
	}
	return c.leaseNow(ctx, t, b, v+1)
}

// peek returns the next value without taking it.
func (c *Counters) peek(ctx context.Context, id schema.CounterID) (uint64, error) {
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
	rows, err := t.Get(ctx, []base.Key{CounterKey(id.Key)}, kv.LockNone)
	if err != nil {
		return 0, err
	}
	return CounterValue(rows[0].Value)
}

// CounterValue is the next value of a counter as it is stored.
func CounterValue(v []byte) (uint64, error) {
	if v == nil {
		return 1, nil
	}
	n, _, err := base.TakeUint64(v)
	return n, err
}

// lease takes size values at or above least.
func (c *Counters) lease(ctx context.Context, id schema.CounterID, size, least uint64) (values, error) {
	var v values
	_, err := kv.Run(ctx, c.db, kv.Options{}, func(t kv.Txn) error {
		key := CounterKey(id.Key)
		rows, err := t.Get(ctx, []base.Key{key}, kv.LockExclusive)
		if err != nil {
			return err
		}
		from, err := CounterValue(rows[0].Value)
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

// GetNextAutoIncrementValue implements sql.AutoIncrementTable.
func (t *Table) GetNextAutoIncrementValue(ctx *sql.Context, given any) (uint64, error) {
	s := session.Of(ctx)
	kctx := context.Context(ctx)
	if s != nil {
		kctx = s.KVContext(ctx)
	}
	if given == nil {
		if s != nil && (s.Speculation != nil || len(s.Stmt.Reserved) > 0) {
			return t.takeReserved(kctx, s)
		}
		return t.takeNext(kctx, s)
	}
	conv, _, err := types.Uint64.Convert(ctx, given)
	if err != nil {
		return 0, err
	}
	v := conv.(uint64)
	if s != nil && s.Speculation != nil {
		return v, nil
	}
	if s != nil && len(s.Stmt.Reserved) > 0 {
		s.Stmt.Reserved[t.Def.Counter()] = slices.DeleteFunc(s.Stmt.Reserved[t.Def.Counter()],
			func(r uint64) bool { return r <= v })
	}
	if s != nil && t.IsTemporary() {
		s.PassTemporary(t.Def, v)
		return v, nil
	}
	return v, schema.ClientError(t.Env.Counters.passed(kctx, t.Def, v))
}

// takeNext takes the next value of the counter.
func (t *Table) takeNext(kctx context.Context, s *session.Session) (uint64, error) {
	if s != nil && t.IsTemporary() {
		return s.TakeTemporary(t.Def), nil
	}
	v, err := t.Env.Counters.take(kctx, t.Def)
	return v, schema.ClientError(err)
}

// takeReserved is the next value for a row in a trigger: speculative execution reserves the values
// that it uses, and the statement uses them after it.
func (t *Table) takeReserved(kctx context.Context, s *session.Session) (uint64, error) {
	id := t.Def.Counter()
	sp := s.Speculation
	if sp == nil {
		if free := s.Stmt.Reserved[id]; len(free) > 0 {
			s.Stmt.Reserved[id] = free[1:]
			return free[0], nil
		}
		v, err := t.Env.Counters.take(kctx, t.Def)
		return v, schema.ClientError(err)
	}
	st := &sp.Session().Stmt
	n := sp.NextReserved(id)
	if n == len(st.Reserved[id]) {
		v, err := t.Env.Counters.take(kctx, t.Def)
		if err != nil {
			return 0, schema.ClientError(err)
		}
		if st.Reserved == nil {
			st.Reserved = map[schema.CounterID][]uint64{}
		}
		st.Reserved[id] = append(st.Reserved[id], v)
	}
	return st.Reserved[id][n], nil
}

// GiveBack returns values that were reserved but not used, unless others were taken after them.
func (c *Counters) GiveBack(reserved map[schema.CounterID][]uint64) {
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
func (t *Table) PeekNextAutoIncrementValue(ctx *sql.Context) (uint64, error) {
	if s := session.Of(ctx); s != nil && t.IsTemporary() {
		return s.PeekTemporary(t.Def), nil
	}
	v, err := t.Env.Counters.peek(ctx, t.Def.Counter())
	if p := t.Def.Desc.AutoIncCol(); p >= 0 {
		v = min(v, t.Def.Cols[p].LargestInt()) // as MySQL shows a counter that is exhausted
	}
	return v, schema.ClientError(err)
}

// AcquireAutoIncrementLock implements sql.AutoIncrementSetter. Values are unique without it;
// one statement's values need not be consecutive (innodb_autoinc_lock_mode = 2).
func (e *Editor) AcquireAutoIncrementLock(*sql.Context) (func(), error) { return func() {}, nil }

// LargestAutoInc is the largest value of the AUTO_INCREMENT column, 0 if none.
func (t *Table) LargestAutoInc(ctx *sql.Context) (uint64, error) {
	if p := t.Def.Desc.AutoIncCol(); p >= 0 {
		return t.Largest(ctx, p)
	}
	return 0, nil
}

// Largest is the largest value of an integer column, 0 if there is none.
func (t *Table) Largest(ctx *sql.Context, p int) (uint64, error) {
	full := *t
	full.Columns, full.names, full.sch = nil, nil, nil
	t = &full
	it, err := t.ScanAll(ctx)
	if err != nil {
		return 0, err
	}
	defer it.Close(ctx)
	for _, x := range t.Def.EngineIndexes() {
		i := x.(*schema.EngineIndex)
		if i.Positions[0] != p || !i.Reversible(ctx) {
			continue
		}
		r := make(sql.MySQLRange, len(i.Positions))
		for j, c := range i.ColumnTypes {
			r[j] = sql.AllRangeColumnExpr(c.Type)
		}
		it, err = t.scanLookup(ctx, sql.IndexLookup{Index: i, Ranges: sql.MySQLRangeCollection{r}, IsReverse: true})
		if err != nil {
			return 0, err
		}
		it.(*Source).Limit = 1
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
	if n, ok := schema.ToUint64(v); ok {
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
