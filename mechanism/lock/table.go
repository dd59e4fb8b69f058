package lock

import (
	"bytes"
	"slices"

	"github.com/godwitdb/godwit/base"
)

// Mode is the strength of a lock.
type Mode uint8

// The modes, weakest first.
const (
	Shared Mode = 1 + iota
	Exclusive
)

// String is S for shared and X for exclusive, as in textbooks.
func (m Mode) String() string {
	if m == Exclusive {
		return "X"
	}
	return "S"
}

// Limits bound a table. Zero fields take defaults.
type Limits struct {
	PerTxn  int // locks of one transaction; default 200,000
	Total   int // locks of all transactions; default 2,000,000
	Waiting int // waiting requests; default 20,000
}

func (l Limits) withDefaults() Limits {
	if l.PerTxn <= 0 {
		l.PerTxn = 200_000
	}
	if l.Total <= 0 {
		l.Total = 2_000_000
	}
	if l.Waiting <= 0 {
		l.Waiting = 20_000
	}
	return l
}

// Policy says what becomes of a request that conflicts.
type Policy uint8

// The policies. The numbers of the first three are those of kv.Policy.
const (
	Detect  Policy = iota // wait; of a cycle of waiting transactions the youngest dies
	NoWait                // die
	WaitDie               // wait for younger transactions, die at older ones
	// WaitEnding: wait for transactions that are committing (Ending), die at others. The client of
	// a committing one may have been answered already, and then the lock is about to be free.
	WaitEnding
)

// Request asks for one lock.
type Request struct {
	Txn    base.TxnID
	Age    base.Timestamp // priority, smaller is older; fixed by the first request of a transaction
	Span   base.Span      // its memory belongs to the table from now on
	Mode   Mode
	Policy Policy
	Data   any // handed back in Waiter.Data
}

// Outcome of a request.
type Outcome uint8

// The outcomes.
const (
	Granted Outcome = iota
	Waiting
	Died
)

// String is the outcome in one word.
func (o Outcome) String() string { return [...]string{"granted", "waiting", "died"}[o] }

// Waiter is a request that waits, or did.
type Waiter struct {
	Data any

	txn    *txn
	node   *node
	mode   Mode
	policy Policy
	jump   bool
	seq    uint64
	queued bool
}

// Txn is the waiting transaction.
func (w *Waiter) Txn() base.TxnID { return w.txn.id }

// before is the order of service (LOCK-2).
func (w *Waiter) before(o *Waiter) bool {
	if w.jump != o.jump {
		return w.jump
	}
	return w.seq < o.seq
}

// Events are the changes of other requests that a call caused.
type Events struct {
	Granted []*Waiter
	Died    []*Waiter
}

// Row is one granted or waiting lock, for people to look at.
type Row struct {
	Span    base.Span
	Txn     base.TxnID
	Age     base.Timestamp
	Mode    Mode
	Waiting bool
}

type grant struct {
	txn  *txn
	mode Mode
}

// txn is a transaction that holds or waits for something.
type txn struct {
	id      base.TxnID
	age     base.Timestamp
	nodes   []*node   // those with a grant of this transaction
	ranges  []*node   // those of nodes that are no points
	waiting []*Waiter // queued requests
	ending  bool      // see Ending
}

// older reports whether a has the higher priority: it waits for b under WAIT_DIE,
// and b dies of a deadlock of the two.
func (a *txn) older(b *txn) bool {
	if a.age != b.age {
		return a.age < b.age
	}
	return bytes.Compare(a.id[:], b.id[:]) < 0
}

// Table is the lock table. Not safe for concurrent use.
type Table struct {
	limits  Limits
	tree    tree
	points  map[string]*node
	ranges  int // range nodes in the tree
	txns    map[base.TxnID]*txn
	locks   int
	waiters int
	seq     uint64
	detects int // waiting requests under Detect
}

// New makes an empty table.
func New(limits Limits) *Table {
	return &Table{limits: limits.withDefaults(), points: map[string]*node{}, txns: map[base.TxnID]*txn{}}
}

// Ending says that a transaction is committing (or, with on false, that it goes on after all). Then
// requests under WAIT_DIE wait for it even if their transactions are younger, and requests under
// WaitEnding wait for it. Its client may have been answered already, and the client's next
// transaction must not die because of its last one. A Prepare of the transaction may still wait for
// a lock, so such waits may close a cycle: the caller bounds them (see Older).
func (t *Table) Ending(id base.TxnID, on bool) {
	if x := t.txns[id]; x != nil {
		x.ending = on
	}
}

// Acquire asks for a lock. If it has to wait, the Waiter is reported by a later
// call's Events, exactly once, unless it is cancelled or its transaction is
// released. Errors are limits: base.CodeInvalid if the transaction holds too
// many locks, base.CodeOverloaded if the table is full.
func (t *Table) Acquire(r Request) (Outcome, *Waiter, Events, error) {
	x := t.txns[r.Txn]
	held := x != nil && t.covered(x, r.Span, Shared)
	if held && (r.Mode == Shared || t.covered(x, r.Span, r.Mode)) {
		return Granted, nil, Events{}, nil
	}
	if err := t.room(x); err != nil {
		return Died, nil, Events{}, err
	}
	upgrade := held && r.Mode == Exclusive
	fresh := x == nil
	if fresh {
		x = &txn{id: r.Txn, age: r.Age}
	}
	// n is the node of exactly this span, if there is one.
	n := t.find(r.Span)
	w := Waiter{txn: x, mode: r.Mode, policy: r.Policy, jump: upgrade, seq: t.seq + 1}
	conflict, dies := t.conflicts(r.Span, n, &w)
	if dies {
		return Died, nil, Events{}, nil
	}
	if err := t.roomToWait(conflict); err != nil {
		return Died, nil, Events{}, err
	}
	// From here on the table changes.
	if fresh {
		t.txns[r.Txn] = x
	}
	if n == nil {
		n = t.insert(r.Span)
	}
	t.seq++
	victims := t.overtaken(r.Span, n, &w)
	if !conflict {
		t.grant(n, x, r.Mode)
		ev := t.kill(x, victims, upgrade)
		return Granted, nil, ev, nil
	}
	res := t.enqueue(n, &w, r.Data)
	if t.detects > 0 && t.victimOf(x) {
		t.unqueue(res) // before it has changed anything
		return Died, nil, Events{}, nil
	}
	ev := t.kill(x, victims, true)
	if i := slices.Index(ev.Granted, res); i >= 0 {
		// It waited only for the queued request of a victim.
		ev.Granted = slices.Delete(ev.Granted, i, i+1)
		return Granted, nil, ev, nil
	}
	return Waiting, res, ev, nil
}

// room reports whether the limits leave room for one more lock of x, which is nil for a transaction
// that holds and waits for nothing yet.
func (t *Table) room(x *txn) error {
	if x != nil && len(x.nodes)+len(x.waiting) >= t.limits.PerTxn {
		return base.Errorf(base.CodeInvalid,
			"transaction %v holds %d locks, the most allowed: use fewer rows per transaction", x.id, len(x.nodes))
	}
	if t.locks >= t.limits.Total {
		return base.Errorf(base.CodeOverloaded, "the lock table is full (%d locks): retry later", t.locks)
	}
	return nil
}

// roomToWait reports whether one more request may wait, if it has to.
func (t *Table) roomToWait(wait bool) error {
	if wait && t.waiters >= t.limits.Waiting {
		return base.Errorf(base.CodeOverloaded, "%d requests wait for locks already: retry later", t.waiters)
	}
	return nil
}

// conflicts looks for a transaction that w would have to wait for. dies is true if w's policy lets
// w die of one of them. n is the node of exactly this span, or nil.
//
// Under some policies it has to look at all of them (looksOn). Under the others the first conflict
// decides.
func (t *Table) conflicts(span base.Span, n *node, w *Waiter) (conflict, dies bool) {
	t.overlapping(span, n, func(o *node) bool {
		t.blockers(o, w, func(b *txn) bool {
			conflict = true
			dies = w.diesAt(b)
			return !dies && w.policy.looksOn()
		})
		return !dies && (!conflict || w.policy.looksOn())
	})
	return conflict, dies
}

// diesAt reports whether the policy of w lets it die because it meets b.
func (w *Waiter) diesAt(b *txn) bool {
	switch w.policy {
	case NoWait:
		return true
	case WaitDie:
		return !b.ending && !w.txn.older(b)
	case WaitEnding:
		return !b.ending
	}
	return false
}

// looksOn reports whether a request may die at one transaction though it may wait for another.
func (p Policy) looksOn() bool { return p == WaitDie || p == WaitEnding }

// overtaken are the waiting requests under WAIT_DIE that an upgrade goes before, although their
// transactions are younger: they would wait for an older one (LOCK-3).
func (t *Table) overtaken(span base.Span, n *node, w *Waiter) (victims []*Waiter) {
	if !w.jump || t.waiters == 0 {
		return nil
	}
	t.overlapping(span, n, func(o *node) bool {
		for _, v := range o.queue {
			if v.txn != w.txn && v.policy == WaitDie && conflicting(v.mode, w.mode) && w.before(v) && !v.txn.older(w.txn) {
				victims = append(victims, v)
			}
		}
		return true
	})
	return victims
}

// conflicting reports whether locks of these modes of two transactions exclude each other.
func conflicting(a, b Mode) bool { return a == Exclusive || b == Exclusive }

// enqueue has the request that w describes wait at n.
func (t *Table) enqueue(n *node, w *Waiter, data any) *Waiter {
	q := &Waiter{Data: data, txn: w.txn, node: n, mode: w.mode, policy: w.policy, jump: w.jump, seq: t.seq, queued: true}
	n.queue = append(n.queue, q)
	q.txn.waiting = append(q.txn.waiting, q)
	t.waiters++
	if q.policy == Detect {
		t.detects++
	}
	return q
}

// kill takes the victims out of their queues and, if cycles is set, those that die because x closed
// a cycle. Whoever waited only for them is granted.
func (t *Table) kill(x *txn, victims []*Waiter, cycles bool) Events {
	var spans []base.Span
	for _, v := range victims {
		spans = append(spans, v.node.span)
		t.unqueue(v)
	}
	if t.detects > 0 && cycles {
		for v := t.deadlock(x); v != nil; v = t.deadlock(x) {
			victims, spans = append(victims, v), append(spans, v.node.span)
			t.unqueue(v)
		}
	}
	ev := Events{Died: victims}
	if len(victims) > 0 {
		t.wake(spans, &ev)
	}
	return ev
}

// blockers calls fn for each transaction in node o that w has to wait for,
// until fn returns false. It does not test whether the spans overlap.
func (t *Table) blockers(o *node, w *Waiter, fn func(*txn) bool) {
	for _, g := range o.grants {
		if g.txn != w.txn && conflicting(g.mode, w.mode) && !fn(g.txn) {
			return
		}
	}
	for _, v := range o.queue {
		if v.txn != w.txn && v.before(w) && conflicting(v.mode, w.mode) && !fn(v.txn) {
			return
		}
	}
}

// covered reports whether x holds at least mode on all of span, by one lock.
func (t *Table) covered(x *txn, span base.Span, mode Mode) bool {
	has := func(n *node) bool {
		for _, g := range n.grants {
			if g.txn == x {
				return g.mode >= mode
			}
		}
		return false
	}
	if span.IsPoint() {
		if n := t.points[string(span.Start)]; n != nil && has(n) {
			return true
		}
	}
	for _, n := range x.ranges {
		if contains(n.span, span) && has(n) {
			return true
		}
	}
	return false
}

// Holds reports whether txn holds at least mode on all of span, by one lock.
func (t *Table) Holds(id base.TxnID, span base.Span, mode Mode) bool {
	x := t.txns[id]
	return x != nil && t.covered(x, span, mode)
}

// contains reports whether range a holds all of b.
func contains(a, b base.Span) bool {
	if b.IsPoint() {
		return a.Contains(b.Start)
	}
	return !a.IsPoint() && bytes.Compare(a.Start, b.Start) <= 0 && bytes.Compare(b.End, a.End) <= 0
}

func (t *Table) grant(n *node, x *txn, mode Mode) {
	for i := range n.grants {
		if n.grants[i].txn == x {
			n.grants[i].mode = max(n.grants[i].mode, mode)
			return
		}
	}
	n.grants = append(n.grants, grant{x, mode})
	x.nodes = append(x.nodes, n)
	if !n.span.IsPoint() {
		x.ranges = append(x.ranges, n)
	}
	t.locks++
}

// unlist takes a waiter off the lists.
func (t *Table) unlist(w *Waiter) {
	w.queued = false
	t.waiters--
	if w.policy == Detect {
		t.detects--
	}
	w.node.queue = remove(w.node.queue, w)
	w.txn.waiting = remove(w.txn.waiting, w)
}

// unqueue takes a waiter out of its queue without waking anybody.
func (t *Table) unqueue(w *Waiter) {
	t.unlist(w)
	t.drop(w.node)
	if len(w.txn.nodes) == 0 && len(w.txn.waiting) == 0 {
		delete(t.txns, w.txn.id)
	}
}

func remove[T comparable](s []T, v T) []T {
	if i := slices.Index(s, v); i >= 0 {
		return slices.Delete(s, i, i+1)
	}
	return s
}

// Cancel ends a waiting request; the transaction keeps what it holds. Nothing
// happens if the request waits no longer.
func (t *Table) Cancel(w *Waiter) Events {
	var ev Events
	if w.queued {
		span := w.node.span
		t.unqueue(w)
		t.wake([]base.Span{span}, &ev)
	}
	return ev
}

// Release ends a transaction: all its locks and waiting requests (which are not
// reported) are gone.
func (t *Table) Release(id base.TxnID) Events {
	var ev Events
	x := t.txns[id]
	if x == nil {
		return ev
	}
	var spans []base.Span
	collect := t.waiters > len(x.waiting)
	for _, w := range slices.Clone(x.waiting) {
		if collect {
			spans = append(spans, w.node.span)
		}
		t.unqueue(w)
	}
	for _, n := range x.nodes {
		for i := range n.grants {
			if n.grants[i].txn == x {
				n.grants = slices.Delete(n.grants, i, i+1)
				break
			}
		}
		t.locks--
		if collect {
			spans = append(spans, n.span)
		}
		t.drop(n)
	}
	delete(t.txns, id)
	if collect {
		t.wake(spans, &ev)
	}
	return ev
}

// Rename gives all locks of a transaction to another one, which waits for nothing. Requests of the
// former that wait are gone, unreported. The latter is not Ending. Who waits for these locks goes
// on waiting.
func (t *Table) Rename(from, to base.TxnID, age base.Timestamp) Events {
	var ev Events
	x := t.txns[from]
	if x == nil {
		return ev
	}
	var spans []base.Span
	for _, w := range slices.Clone(x.waiting) {
		spans = append(spans, w.node.span)
		t.unlist(w)
		t.drop(w.node)
	}
	delete(t.txns, from)
	if len(x.nodes) > 0 {
		if y := t.txns[to]; y == nil {
			x.id, x.age, x.ending = to, age, false
			t.txns[to] = x
		} else {
			t.join(x, y)
		}
	}
	t.wake(spans, &ev)
	return ev
}

// join gives what x holds to y.
func (t *Table) join(x, y *txn) {
	for _, n := range x.nodes {
		i := slices.IndexFunc(n.grants, func(g grant) bool { return g.txn == x })
		mode := n.grants[i].mode
		n.grants = slices.Delete(n.grants, i, i+1)
		t.locks--
		t.grant(n, y, mode)
	}
}

// Unlock gives one granted lock back, that of exactly this span, if there is one.
func (t *Table) Unlock(id base.TxnID, span base.Span) Events {
	var ev Events
	n, x := t.find(span), t.txns[id]
	if n == nil || x == nil {
		return ev
	}
	i := slices.IndexFunc(n.grants, func(g grant) bool { return g.txn == x })
	if i < 0 {
		return ev
	}
	n.grants = slices.Delete(n.grants, i, i+1)
	other := func(o *node) bool { return o == n }
	x.nodes = slices.DeleteFunc(x.nodes, other)
	x.ranges = slices.DeleteFunc(x.ranges, other)
	t.locks--
	t.drop(n)
	t.wake([]base.Span{span}, &ev)
	if len(x.nodes) == 0 && len(x.waiting) == 0 {
		delete(t.txns, id)
	}
	return ev
}

// wake grants what can be granted among the waiters that overlap spans.
func (t *Table) wake(spans []base.Span, ev *Events) {
	if t.waiters == 0 {
		return
	}
	var cand []*Waiter
	for _, s := range spans {
		t.overlapping(s, nil, func(o *node) bool {
			cand = append(cand, o.queue...)
			return true
		})
	}
	slices.SortFunc(cand, func(a, b *Waiter) int {
		if a == b {
			return 0
		} else if a.before(b) {
			return -1
		}
		return 1
	})
	for _, w := range slices.Compact(cand) {
		blocked := false
		t.overlapping(w.node.span, w.node, func(o *node) bool {
			t.blockers(o, w, func(*txn) bool { blocked = true; return false })
			return !blocked
		})
		if blocked {
			continue
		}
		n := w.node
		t.unlist(w)
		t.grant(n, w.txn, w.mode)
		ev.Granted = append(ev.Granted, w)
	}
}

// Blockers returns the transactions that a waiting request waits for.
func (t *Table) Blockers(w *Waiter) []base.TxnID {
	var ids []base.TxnID
	if !w.queued {
		return nil
	}
	t.overlapping(w.node.span, w.node, func(o *node) bool {
		t.blockers(o, w, func(b *txn) bool {
			if !slices.Contains(ids, b.id) {
				ids = append(ids, b.id)
			}
			return true
		})
		return true
	})
	return ids
}

// Counts are the numbers of granted locks, waiting requests and transactions.
func (t *Table) Counts() (locks, waiting, txns int) { return t.locks, t.waiters, len(t.txns) }

// Count is the number of locks the transaction holds.
func (t *Table) Count(id base.TxnID) int {
	if x := t.txns[id]; x != nil {
		return len(x.nodes)
	}
	return 0
}

// Each calls fn for every lock that the transaction holds, until fn returns false.
func (t *Table) Each(id base.TxnID, fn func(span base.Span, mode Mode) bool) {
	x := t.txns[id]
	if x == nil {
		return
	}
	for _, n := range x.nodes {
		for _, g := range n.grants {
			if g.txn == x && !fn(n.span, g.mode) {
				return
			}
		}
	}
}

// Rows lists locks in the order of their spans, granted before waiting, at most limit (0: all).
func (t *Table) Rows(limit int) []Row {
	var rows []Row
	t.tree.all(func(n *node) bool {
		for _, g := range n.grants {
			rows = append(rows, Row{n.span, g.txn.id, g.txn.age, g.mode, false})
		}
		q := slices.Clone(n.queue)
		slices.SortFunc(q, func(a, b *Waiter) int {
			if a.before(b) {
				return -1
			}
			return 1
		})
		for _, w := range q {
			rows = append(rows, Row{n.span, w.txn.id, w.txn.age, w.mode, true})
		}
		return limit <= 0 || len(rows) < limit
	})
	if limit > 0 && len(rows) > limit {
		rows = rows[:limit]
	}
	return rows
}

// Holders calls fn for each transaction that holds a lock overlapping span, maybe more than once,
// until fn returns false.
func (t *Table) Holders(span base.Span, fn func(id base.TxnID, mode Mode) bool) {
	t.overlapping(span, t.find(span), func(o *node) bool {
		for _, g := range o.grants {
			if !fn(g.txn.id, g.mode) {
				return false
			}
		}
		return true
	})
}
