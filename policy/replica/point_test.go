package replica

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// The model: nodes of one region, messages with random delays that overtake each other and get
// lost, processes that die and start again, and views that change under them: some cut off, some
// slow to hear of it. Time is true time in ticks; clocks are right within bound. Clients hop
// between nodes; none may be shown less than before.

const bound = 3

type event struct {
	at  int
	seq int
	do  func()
}

type agenda []event

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	return a[i].at < a[j].at || a[i].at == a[j].at && a[i].seq < a[j].seq
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(x any)   { *a = append(*a, x.(event)) }
func (a *agenda) Pop() any {
	x := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return x
}

type model struct {
	rnd    *rand.Rand
	now    int
	seq    int
	todo   agenda
	nodes  map[base.NodeID]*modelNode
	views  []View // committed ones, by time; may lie ahead of now
	told   int    // of views, those that the meta shard's leader has applied
	newest base.Timestamp
	by     base.NodeID
	served map[modelMode]int
	errs   []string

	// The clock mode, as ordered by the meta shard's leader (docs/protocol.md, MODE).
	mode   modelMode
	epoch  int
	since  int
	full   int            // when all nodes had taken it over; 0: not yet
	oracle base.Timestamp // newest that it has issued
	mark   base.Timestamp
	meta   base.Timestamp // up to which the meta shard is closed
	// broken rules, to see that the model notices
	noWait, noView, noBoot bool
}

type modelMode int

const (
	gclock modelMode = iota
	toGTM            // DUAL
	gtm
	toGClock // DUAL
)

type modelNode struct {
	id     base.NodeID
	p      *Point
	w      *Watch
	up     bool
	skew   int
	closed base.Timestamp
	meta   base.Timestamp // its replica of the meta shard is complete up to here
	life   int
	deaf   int // until when it hears nothing of the meta shard
	side   int // of a partition
	mode   modelMode
	epoch  int
	known  base.Timestamp // the oracle has reached it
	past   base.Timestamp // settled
}

// watchTicks is the length of a report's validity.
const watchTicks = 40

func (m *model) clock() time.Time { return time.Unix(0, 0).Add(time.Duration(m.now) * time.Second) }

// adopt takes over the mode in force.
func (m *model) adopt(n *modelNode) {
	n.mode, n.epoch = m.mode, m.epoch
	n.w.Mode(m.clock())
}

// settled is clock.Clock.SettledTo.
func (m *model) settled(n *modelNode) base.Timestamp {
	s := base.MaxTimestamp
	if n.mode != gtm {
		s = m.earliest(n).Prev()
	}
	if n.mode != gclock {
		s = min(s, n.known)
	}
	n.past = max(n.past, s)
	return n.past
}

// snapshot is clock.Clock.Snapshot.
func (m *model) snapshot(n *modelNode) base.Timestamp {
	switch n.mode {
	case gclock:
		return m.latest(n)
	case gtm:
		m.oracle++
	default:
		m.oracle = max(m.oracle+1, m.latest(n))
	}
	return m.oracle
}

// step is a tick of the oracle and of the leader of the meta shard, who changes the clock mode.
func (m *model) step() {
	present := base.Timestamp(1000 + m.now)
	if m.mode == gtm {
		m.oracle += base.Timestamp(m.rnd.IntN(3)) // its time is not that of the clocks
		present = m.oracle
	} else if m.oracle < present {
		m.oracle = present
	}
	m.meta = max(m.meta, present+30)
	if m.full == 0 {
		for _, n := range m.nodes {
			if n.up && n.epoch != m.epoch {
				if m.rnd.IntN(8) == 0 {
					m.adopt(n)
				}
				return
			}
		}
		m.full, m.mark = m.now, m.oracle
	}
	next := false
	switch m.mode {
	case toGTM:
		for _, n := range m.nodes {
			m.oracle = max(m.oracle, m.latest(n))
		}
		next = m.now > m.full+2*bound
	case toGClock:
		next = m.now > m.full+2*bound
		for _, n := range m.nodes {
			next = next && (!n.up || m.earliest(n) > m.mark)
		}
	default:
		next = m.rnd.IntN(200) == 0
	}
	if next {
		m.mode, m.epoch, m.since, m.full = (m.mode+1)%4, m.epoch+1, m.now, 0
	}
}

// report has the leader of the meta shard tell a node what it has applied.
func (m *model) report(n *modelNode) {
	life, sent := n.life, m.clock()
	m.after(1+m.rnd.IntN(5), func() {
		index, oracle := m.told, m.oracle
		m.after(1+m.rnd.IntN(5), func() {
			if n.up && n.life == life && m.rnd.IntN(4) > 0 {
				n.w.Heard(uint64(index+1), sent, m.clock())
				n.known = max(n.known, oracle)
			}
		})
	})
}

func (m *model) after(d int, do func()) {
	m.seq++
	heap.Push(&m.todo, event{m.now + d, m.seq, do})
}

func (m *model) latest(n *modelNode) base.Timestamp {
	return base.Timestamp(1000 + m.now + n.skew + bound)
}
func (m *model) earliest(n *modelNode) base.Timestamp {
	return base.Timestamp(1000 + m.now + n.skew - bound)
}

func (m *model) send(from *modelNode, out []Out) {
	for _, o := range out {
		to := m.nodes[o.To]
		if m.rnd.IntN(20) == 0 {
			continue
		}
		d := 1 + m.rnd.IntN(4)
		if m.rnd.IntN(10) == 0 {
			d = m.rnd.IntN(60)
		}
		m.after(d, func() {
			if to.up && to.side == from.side {
				m.send(to, to.p.Hear(o.Message, m.settled(to)))
			}
		})
	}
}

func (m *model) boot(n *modelNode) {
	n.up, n.life = true, n.life+1
	n.w = NewWatch(watchTicks*time.Second, (watchTicks+1)*time.Second)
	n.known, n.past = 0, 0
	m.adopt(n)
	b := m.snapshot(n)
	if m.noBoot {
		b = 1
	}
	n.p = NewPoint(n.id)
	life := n.life
	m.after(m.rnd.IntN(5), func() {
		if n.up && n.life == life {
			m.send(n, n.p.Boot(b))
		}
	})
	var tick func()
	tick = func() {
		if !n.up || n.life != life {
			return
		}
		// Replicas lag by a random and changing amount, and their closed timestamps never fall.
		present := base.Timestamp(1000 + m.now)
		if n.mode == gtm {
			present = m.oracle
		}
		n.closed = max(n.closed, present-5-base.Timestamp(m.rnd.IntN(15)))
		m.report(n)
		if m.now >= n.deaf {
			n.meta = max(n.meta, m.meta-base.Timestamp(m.rnd.IntN(25)))
			if m.rnd.IntN(200) == 0 { // it hears nothing of the meta shard for a while
				n.deaf = m.now + m.rnd.IntN(300)
			}
		}
		if v := m.viewOf(n); v.At != n.p.View().At && m.rnd.IntN(3) > 0 {
			m.send(n, n.p.SetView(v))
			n.w.View()
			n.w.Shown(uint64(m.applied(n)))
		}
		m.send(n, n.p.Complete(n.closed, m.settled(n)))
		if m.rnd.IntN(5) == 0 {
			m.send(n, n.p.Say())
		}
		m.after(1+m.rnd.IntN(3), tick)
	}
	m.after(0, tick)
}

// applied is the index of the meta shard's log that a node has certainly applied: the number of
// views and one.
func (m *model) applied(n *modelNode) int {
	i := 1
	for _, x := range m.views {
		if x.At <= n.meta {
			i++
		}
	}
	return i
}

// viewOf is the newest view that a node's replica of the meta shard shows.
func (m *model) viewOf(n *modelNode) (v View) {
	for _, x := range m.views {
		if x.At <= n.meta {
			v = x
		}
	}
	return v
}

// read is a client's read at a node: it waits a while for a usable value (RCP-5, RCP-6). before is
// the newest snapshot that any read had shown when this one began.
func (m *model) read(n *modelNode, tries int, least, before base.Timestamp) {
	if !n.up {
		return
	}
	life := n.life
	if least == 0 && !m.noWait {
		least = n.p.Known()
	}
	if u := n.p.Usable(); u != 0 && u >= least && m.certified(n, u) {
		if u < before {
			m.errs = append(m.errs, fmt.Sprintf("at %d node %d shows %d in mode %d, after node %d has shown %d",
				m.now, n.id, u, n.mode, m.by, before))
		}
		for _, o := range m.nodes {
			oracle := m.oracle
			if at := m.snapshot(o); o.up && at < u {
				m.errs = append(m.errs, fmt.Sprintf("at %d node %d shows %d in mode %d, and a snapshot of node %d in "+
					"mode %d is %d", m.now, n.id, u, n.mode, o.id, o.mode, at))
			}
			m.oracle = oracle
		}
		m.newest, m.by = max(m.newest, u), n.id
		m.served[n.mode]++
		return
	}
	if tries > 0 {
		m.after(1, func() {
			if n.life == life {
				m.read(n, tries-1, least, before)
			}
		})
	}
}

// certified is RCP-6.
func (m *model) certified(n *modelNode, u base.Timestamp) bool {
	if m.noView {
		return true
	}
	if m.viewOf(n).At != n.p.View().At {
		return false
	}
	switch n.mode {
	case gclock:
		return n.meta >= m.latest(n)
	case gtm:
		return n.meta >= u && n.w.Alone(m.clock()) && n.w.Holds(uint64(m.applied(n)), m.clock())
	}
	return false
}

func (m *model) run(nodes, ticks int) {
	m.nodes = map[base.NodeID]*modelNode{}
	m.served = map[modelMode]int{}
	var ids []base.NodeID
	for i := range nodes {
		n := &modelNode{id: base.NodeID(i + 1), skew: m.rnd.IntN(2*bound+1) - bound}
		m.nodes[n.id] = n
		ids = append(ids, n.id)
		m.boot(n)
	}
	change := func() {
		v := NextView(slices.DeleteFunc(slices.Clone(ids), func(base.NodeID) bool { return m.rnd.IntN(3) == 0 }))
		if len(v.Members) == 0 {
			v = NextView(ids[:1])
		}
		// meta commits lie ahead, above all that is closed
		v.At = m.meta + 1 + base.Timestamp(m.rnd.IntN(2*bound))
		if len(m.views) == 0 || v.At > m.views[len(m.views)-1].At {
			m.views = append(m.views, v)
			index := len(m.views)
			m.after(m.rnd.IntN(20), func() { m.told = max(m.told, index) })
		}
	}
	change()
	for m.now < ticks {
		n := m.nodes[ids[m.rnd.IntN(len(ids))]]
		switch x := m.rnd.IntN(1000); {
		case x < 4:
			change()
		case x < 8 && n.up:
			n.up = false
		case x < 30 && !n.up:
			m.boot(n)
		case x < 34:
			n.side = m.rnd.IntN(2)
		case x < 60:
			for _, n := range m.nodes {
				n.side = 0
			}
		case x < 700:
			m.read(n, 20, 0, m.newest)
		}
		m.now++
		m.step()
		for len(m.todo) > 0 && m.todo[0].at <= m.now {
			heap.Pop(&m.todo).(event).do()
		}
	}
}

func TestPointModel(t *testing.T) {
	served := map[modelMode]int{}
	for seed := range uint64(60) {
		for _, nodes := range []int{1, 2, 3, 5} {
			m := &model{rnd: rand.New(rand.NewPCG(seed, uint64(nodes)))}
			m.run(nodes, 3000)
			if len(m.errs) > 0 {
				t.Fatalf("seed %d, %d nodes: %s", seed, nodes, m.errs[0])
			}
			for k, n := range m.served {
				served[k] += n
			}
		}
	}
	if served[gclock] < 10_000 || served[gtm] < 10_000 {
		t.Errorf("only %v reads were served, by clock mode: the model shows nothing", served)
	}
}

// TestPointRules: without one of the rules, the model finds a client that is shown less than
// before.
func TestPointRules(t *testing.T) {
	for name, set := range map[string]func(*model){
		"RCP-4 boot": func(m *model) { m.noBoot = true },
		"RCP-5 wait": func(m *model) { m.noWait = true },
		"RCP-6 view": func(m *model) { m.noView = true },
	} {
		found := false
		for seed := uint64(0); seed < 400 && !found; seed++ {
			m := &model{rnd: rand.New(rand.NewPCG(seed, 3))}
			set(m)
			m.run(3, 3000)
			if found = len(m.errs) > 0; found {
				t.Logf("%s: seed %d: %s", name, seed, m.errs[0])
			}
		}
		if !found {
			t.Errorf("%s: the model does not miss it", name)
		}
	}
}
