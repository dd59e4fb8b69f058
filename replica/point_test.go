package replica

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/godwitdb/godwit/base"
)

// The model: nodes of one region, messages with random delays that overtake each other and get lost, processes that
// die and start again, and views that change under them: some cut off, some slow to hear of it. Time is true time in ticks;
// clocks are right within bound. Clients hop between nodes; none may be shown less than before.

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
	newest base.Timestamp
	by     base.NodeID
	served int
	errs   []string
	// broken rules, to see that the model notices
	noWait, noView, noBoot bool
}

type modelNode struct {
	id     base.NodeID
	p      *Point
	up     bool
	skew   int
	closed base.Timestamp
	meta   base.Timestamp // its replica of the meta shard is complete up to here
	life   int
	deaf   int // until when it hears nothing of the meta shard
	side   int // of a partition
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
				m.send(to, to.p.Hear(o.Message, m.earliest(to)))
			}
		})
	}
}

func (m *model) boot(n *modelNode) {
	n.up, n.life = true, n.life+1
	b := m.latest(n)
	if m.noBoot {
		b = 0
	}
	n.p = NewPoint(n.id, b)
	life := n.life
	var tick func()
	tick = func() {
		if !n.up || n.life != life {
			return
		}
		// Replicas lag by a random and changing amount, and their closed timestamps never fall.
		n.closed = max(n.closed, base.Timestamp(1000+m.now-5-m.rnd.IntN(15)))
		if m.now >= n.deaf {
			n.meta = max(n.meta, base.Timestamp(1000+m.now+30-m.rnd.IntN(25)))
			if m.rnd.IntN(200) == 0 { // it hears nothing of the meta shard for a while
				n.deaf = m.now + m.rnd.IntN(300)
			}
		}
		if v := m.viewOf(n); v.At != n.p.View().At && m.rnd.IntN(3) > 0 {
			m.send(n, n.p.SetView(v))
		}
		m.send(n, n.p.Complete(n.closed, m.earliest(n)))
		if m.rnd.IntN(5) == 0 {
			m.send(n, n.p.Say())
		}
		m.after(1+m.rnd.IntN(3), tick)
	}
	m.after(0, tick)
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

// read is a client's read at a node: it waits a while for a usable value (P5, P6). before is the newest snapshot that any
// read had shown when this one began.
func (m *model) read(n *modelNode, tries int, least, before base.Timestamp) {
	if !n.up {
		return
	}
	life := n.life
	if least == 0 && !m.noWait {
		least = n.p.Known()
	}
	certified := n.meta >= m.latest(n) && m.viewOf(n).At == n.p.View().At
	if m.noView {
		certified = true
	}
	if u := n.p.Usable(); u != 0 && u >= least && certified {
		if u < before {
			m.errs = append(m.errs, fmt.Sprintf("at %d node %d shows %d, after node %d has shown %d", m.now, n.id, u, m.by, before))
		}
		if u > base.Timestamp(1000+m.now) {
			m.errs = append(m.errs, fmt.Sprintf("at %d node %d shows the future %d", m.now, n.id, u))
		}
		m.newest, m.by = max(m.newest, u), n.id
		m.served++
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

func (m *model) run(nodes, ticks int) {
	m.nodes = map[base.NodeID]*modelNode{}
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
		v.At = base.Timestamp(1000 + m.now + 30 + 2*bound) // meta commits lie ahead, above all that is closed
		if len(m.views) == 0 || v.At > m.views[len(m.views)-1].At {
			m.views = append(m.views, v)
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
		for len(m.todo) > 0 && m.todo[0].at <= m.now {
			heap.Pop(&m.todo).(event).do()
		}
	}
}

func TestPointModel(t *testing.T) {
	served := 0
	for seed := range uint64(60) {
		for _, nodes := range []int{1, 2, 3, 5} {
			m := &model{rnd: rand.New(rand.NewPCG(seed, uint64(nodes)))}
			m.run(nodes, 3000)
			if len(m.errs) > 0 {
				t.Fatalf("seed %d, %d nodes: %s", seed, nodes, m.errs[0])
			}
			served += m.served
		}
	}
	if served < 20_000 {
		t.Errorf("only %d reads were served: the model shows nothing", served)
	}
}

// TestPointRules: without one of the rules, the model finds a client that is shown less than before.
func TestPointRules(t *testing.T) {
	for name, set := range map[string]func(*model){
		"P4 boot": func(m *model) { m.noBoot = true },
		"P5 wait": func(m *model) { m.noWait = true },
		"P6 view": func(m *model) { m.noView = true },
	} {
		found := false
		for seed := uint64(0); seed < 200 && !found; seed++ {
			m := &model{rnd: rand.New(rand.NewPCG(seed, 3))}
			set(m)
			m.run(3, 3000)
			found = len(m.errs) > 0
		}
		if !found {
			t.Errorf("%s: the model does not miss it", name)
		}
	}
}
