package owner_test

import (
	"context"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wire"
)

// logbook is the log of one group. Its entries commit when they are proposed, unless it is held.
type logbook struct {
	c  *cluster
	id base.GroupID

	mu        sync.Mutex
	entries   []*entry // index 1 first
	committed uint64
	term      uint64
	leader    base.NodeID
	held      bool
	shown     int // entries that the script has seen
	lanes     map[base.NodeID]*lane
}

type entry struct {
	term uint64
	by   *lane
	cmd  *wire.Command // the proposer's own; nil: the first entry of a term
	data []byte
	done func(any, uint64, error)
	once sync.Once
}

// answer tells the proposer, once.
func (e *entry) answer(res any, index uint64, err error) {
	if e.done != nil {
		e.once.Do(func() { e.done(res, index, err) })
	}
}

// lane is a group at a node: what is package group otherwise. What it tells the replica it tells in
// turns. Fields are guarded by the logbook's mu.
type lane struct {
	log   *logbook
	node  *node
	r     *owner.Replica
	turns chan func()
	over  chan struct{}

	applied   uint64
	lags      bool        // it applies nothing
	lead      base.NodeID // whom it takes for the leader
	term      uint64
	leads     bool
	first     uint64
	told      bool // the replica knows that it leads
	known     [2]uint64
	unaware   bool     // it has not heard of newer terms
	limbo     []*entry // proposed while unaware
	preparing bool     // of a transfer
}

func (l *logbook) join(n *node, r *owner.Replica) *lane {
	a := &lane{log: l, node: n, r: r, turns: make(chan func(), 4096), over: make(chan struct{})}
	applied, err := n.store.Applied(l.id)
	if err != nil {
		panic(err)
	}
	l.mu.Lock()
	a.applied, a.lead, a.term = applied, l.leader, l.term
	l.lanes[n.id] = a
	l.mu.Unlock()
	go func() {
		for {
			select {
			case f := <-a.turns:
				f()
			case <-a.over:
				return
			}
		}
	}()
	r.Attach(a)
	a.later(a.pump)
	return a
}

func (a *lane) leave() {
	l := a.log
	l.mu.Lock()
	defer l.mu.Unlock()
	close(a.over)
	delete(l.lanes, a.node.id)
	if l.leader == a.node.id {
		l.leader = 0
	}
}

// later has the lane do something in its next turn.
func (a *lane) later(f func()) {
	select {
	case a.turns <- f:
	case <-a.over:
	}
}

// pump applies what is committed, or known to be, and tells the replica when it leads.
func (a *lane) pump() {
	l := a.log
	for {
		l.mu.Lock()
		limit := l.committed
		if k := a.known; k[1] > 0 && a.leads && k[1]+1 == a.first && l.entries[k[1]-1].term == k[0] {
			limit = max(limit, k[1])
		}
		if a.lags || a.applied >= limit {
			tell := a.leads && !a.told && a.applied+1 >= a.first
			a.told = a.told || tell
			term, first := a.term, a.first
			l.mu.Unlock()
			if tell {
				a.r.Leading(term, first)
			}
			return
		}
		i := a.applied + 1
		e := l.entries[i-1]
		cmd := e.cmd
		l.mu.Unlock()
		if cmd != nil && e.by != a {
			cmd = new(wire.Command)
			if err := cmd.UnmarshalVT(e.data); err != nil {
				panic(err)
			}
		}
		res := a.apply(i, e.term, cmd)
		l.mu.Lock()
		a.applied = i
		mine := e.by == a
		l.mu.Unlock()
		if mine {
			e.answer(res, i, nil)
		}
	}
}

func (a *lane) apply(index, term uint64, cmd *wire.Command) (res any) {
	b := a.node.store.NewBatch()
	defer b.Close()
	if cmd != nil {
		out, err := a.r.Apply(b, []group.Entry{{Index: index, Term: term, Cmd: cmd, Arrived: time.Now()}})
		if err != nil {
			a.log.c.note("n%d stops at entry %d: %s", a.node.id, index, base.CodeOf(err))
			return nil
		}
		if out != nil {
			res = out[0]
		}
	}
	b.SetApplied(a.log.id, index)
	if err := b.Commit(false); err != nil {
		panic(err)
	}
	a.r.Applied(index)
	return res
}

// commit commits the next n entries; 0: all there are.
func (l *logbook) commit(n uint64) {
	l.mu.Lock()
	end := uint64(len(l.entries))
	if n > 0 {
		end = min(end, l.committed+n)
	}
	l.committed = max(l.committed, end)
	l.pumpAll()
	l.mu.Unlock()
}

func (l *logbook) isHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

func (l *logbook) hold(on bool) {
	l.mu.Lock()
	l.held = on
	l.mu.Unlock()
	if !on {
		l.commit(0)
	}
}

// pumpAll has all lanes apply; mu is held.
func (l *logbook) pumpAll() {
	for _, a := range l.lanes {
		a.later(a.pump)
	}
}

// win makes a node the leader of the next term. lose of the entries that are not committed are not
// in its log. unaware: the old leader does not hear of it.
func (l *logbook) win(n base.NodeID, lose int, unaware bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ; lose > 0 && uint64(len(l.entries)) > l.committed; lose-- {
		i := len(l.entries)
		e := l.entries[i-1]
		l.entries = l.entries[:i-1]
		if e.by != nil {
			e.by.later(func() {
				e.answer(nil, 0, base.Errorf(base.CodeAborted, "entry %d was overwritten", i))
			})
		}
	}
	l.term++
	for id, a := range l.lanes {
		if id == n || a.unaware {
			continue
		}
		if unaware && a.leads {
			a.unaware = true
			continue
		}
		a.depose(n, l.term)
	}
	l.leader = n
	l.entries = append(l.entries, &entry{term: l.term})
	if a := l.lanes[n]; a != nil {
		a.lead, a.term, a.leads, a.told, a.first = n, l.term, true, false, uint64(len(l.entries))
	}
	if !l.held {
		l.committed = uint64(len(l.entries))
	}
	l.pumpAll()
}

// depose ends what the lane knows of its term: lead, or nobody, leads in the next one. mu is held.
func (a *lane) depose(lead base.NodeID, term uint64) {
	old, led, limbo := a.term, a.leads && a.told, a.limbo
	a.lead, a.term, a.leads, a.told, a.unaware, a.limbo, a.preparing = lead, max(term, a.term), false, false, false, nil, false
	if led {
		a.later(func() { a.r.Stopped(old) })
	}
	for _, e := range limbo {
		a.later(func() { e.answer(nil, 0, base.Errorf(base.CodeAborted, "the entry was overwritten")) })
	}
}

// abandon answers all that waits for the log: the outcome is unknown.
func (l *logbook) abandon() {
	l.mu.Lock()
	var all []*entry
	all = append(all, l.entries...)
	for _, a := range l.lanes {
		all = append(all, a.limbo...)
		a.limbo = nil
	}
	l.mu.Unlock()
	for _, e := range all {
		e.answer(nil, 0, base.Errorf(base.CodeAmbiguous, "nothing is known of the entry"))
	}
}

// transfer has the leader hand its lead over, as package group does.
func (l *logbook) transfer(from, to base.NodeID) {
	l.mu.Lock()
	a := l.lanes[from]
	term := a.term
	a.preparing = true
	l.mu.Unlock()
	a.later(func() {
		a.r.Revoking(term, to, func(told bool, err error) {
			l.mu.Lock()
			late := !a.preparing || a.term != term
			a.preparing = false
			l.mu.Unlock()
			switch {
			case late:
			case err != nil:
				l.c.note("n%d keeps %s: %s", a.node.id, groupName(l.id), base.CodeOf(err))
				a.later(func() { a.r.Leading(term, 0) })
			case told:
				l.c.note("n%d has nothing under way in %s any more", a.node.id, groupName(l.id))
			default:
				l.c.note("n%d lets raft move %s", a.node.id, groupName(l.id))
			}
		})
	})
}

// resume gives a transfer up: the target did not take over in time.
func (l *logbook) resume() {
	l.mu.Lock()
	a := l.lanes[l.leader]
	term := a.term
	a.preparing = false
	l.mu.Unlock()
	a.later(func() { a.r.Leading(term, 0) })
}

func (a *lane) propose(cmd *wire.Command, term uint64, placed func(uint64), done func(any, uint64, error)) {
	data, err := cmd.MarshalVT()
	if err != nil {
		panic(err)
	}
	e := &entry{term: term, by: a, cmd: cmd, data: data, done: done}
	l := a.log
	if placed != nil && l.c.opts.drowsy {
		defer a.asleep(e)()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := a.term
	switch {
	case !a.leads:
		a.later(func() { e.answer(nil, 0, base.Errorf(base.CodeNotLeader, "node %d does not lead", a.node.id)) })
		return
	case term != a.term:
		a.later(func() { e.answer(nil, 0, base.Errorf(base.CodeAborted, "the term is %d", now)) })
		return
	case a.unaware:
		a.limbo = append(a.limbo, e)
		return
	}
	l.entries = append(l.entries, e)
	if index := uint64(len(l.entries)); placed != nil {
		// Replication takes a moment, in which the proposer learns where its entry is.
		a.later(func() { placed(index) })
		go func() {
			time.Sleep(time.Microsecond)
			l.hold(l.isHeld())
		}()
		return
	}
	if !l.held {
		l.committed = uint64(len(l.entries))
		l.pumpAll()
	}
}

// asleep keeps the proposer of an entry, which has not been handed in yet, until the entry has been
// answered.
func (a *lane) asleep(e *entry) (wait func()) {
	answered, done := make(chan struct{}), e.done
	e.done = func(res any, index uint64, err error) {
		done(res, index, err)
		close(answered)
	}
	return func() { <-answered }
}

// The methods of owner.Consensus.

func (a *lane) Propose(_ context.Context, cmd *wire.Command, term uint64) (any, uint64, error) {
	type answer struct {
		res   any
		index uint64
		err   error
	}
	ch := make(chan answer, 1)
	a.propose(cmd, term, nil, func(res any, i uint64, err error) { ch <- answer{res, i, err} })
	got := <-ch
	return got.res, got.index, got.err
}

func (a *lane) ProposeAsync(cmd *wire.Command, term uint64, done func(any, uint64, error)) {
	a.propose(cmd, term, nil, done)
}

func (a *lane) Enqueue(cmd *wire.Command, term uint64, done func(any, uint64, error)) {
	a.propose(cmd, term, nil, done)
}

func (a *lane) ProposePlaced(cmd *wire.Command, term uint64, placed func(uint64), done func(any, uint64, error)) {
	a.propose(cmd, term, placed, done)
}

func (a *lane) Push() {}

func (a *lane) Leader() (base.NodeID, uint64) {
	a.log.mu.Lock()
	defer a.log.mu.Unlock()
	return a.lead, a.term
}

func (a *lane) Stand(term uint64, from base.NodeID, index uint64) error {
	a.log.mu.Lock()
	defer a.log.mu.Unlock()
	if a.leads || a.lead != from || a.term != term {
		return base.Errorf(base.CodeUnavailable, "node %d does not follow node %d in term %d", a.node.id, from, term)
	}
	a.log.c.note("n%d stands for election in %s when its log ends at %d", a.node.id, groupName(a.log.id), index)
	return nil
}

// Deposed has the lane learn of a leader that it has not heard of.
func (a *lane) Deposed(term uint64, by base.NodeID) {
	a.log.mu.Lock()
	defer a.log.mu.Unlock()
	if term > a.term {
		a.depose(by, term)
	}
}

// Resigned does nothing: scripts say who is elected.
func (a *lane) Resigned(base.NodeID, uint64) {}

func (a *lane) Committed(term, index uint64) {
	a.log.mu.Lock()
	a.known = [2]uint64{term, index}
	a.log.mu.Unlock()
	a.later(a.pump)
}

// PassOn gives the lead to the node with the next number, if the test has one that is fit.
func (a *lane) PassOn(term uint64) {
	l := a.log
	l.mu.Lock()
	to := base.NodeID(0)
	for n := range l.lanes {
		if n != a.node.id && (to == 0 || (n > a.node.id) == (to > a.node.id) && n < to || n > a.node.id && to < a.node.id) {
			to = n
		}
	}
	l.mu.Unlock()
	if to == 0 || !l.c.opts.passes {
		return
	}
	a.later(func() {
		a.r.Revoking(term, to, func(_ bool, err error) {
			if err != nil {
				l.c.note("n%d cannot pass the lead of %s on to n%d: %s", a.node.id, groupName(l.id), to, base.CodeOf(err))
				a.later(func() { a.r.Leading(term, 0) })
				return
			}
			l.c.note("n%d passes the lead of %s on to n%d", a.node.id, groupName(l.id), to)
			l.win(to, 0, false)
		})
	})
}

func (a *lane) Hops() int      { return 2 }
func (a *lane) FarCopies() int { return 0 }

// ---- network ----
