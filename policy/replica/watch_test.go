package replica

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// watched is a play of two nodes and the leader of the meta shard, which applies a new view once.
// The clock mode changes; at any moment the nodes are in modes next to each other. Once one of them
// has gone by the new view, none may go by the old one.
type watched struct {
	rnd    *rand.Rand
	now    int
	todo   [1000][]func() // by time
	index  uint64         // applied by the leader; the view is number 2
	nodes  [2]watcher
	used   int // when the new view was used first
	served [2]int
	// broken rules
	noAlone, noHolds, noForget, inDual bool
}

type watcher struct {
	*Watch
	mode    modelMode
	applied uint64
}

const watchLength = 60

func (p *watched) time() time.Time { return time.Unix(int64(p.now), 0) }

func (p *watched) after(d int, f func()) {
	if at := p.now + 1 + d; at < len(p.todo) {
		p.todo[at] = append(p.todo[at], f)
	}
}

func (p *watched) may(n *watcher) bool {
	alone, holds := p.noAlone || n.Alone(p.time()), p.noHolds || n.Holds(n.applied, p.time())
	switch n.mode {
	case gclock:
		// it knows everything up to now: what is used lies above its view
		return n.applied == 2 || p.used == 0
	case gtm:
		return alone && holds
	}
	return p.inDual && alone && holds
}

func (p *watched) play() error {
	p.index = 1
	for i := range p.nodes {
		n := &p.nodes[i]
		n.Watch, n.applied, n.mode = NewWatch(watchLength*time.Second, (watchLength+1)*time.Second), 1, modelMode(2*p.rnd.IntN(2))
		n.mode = p.nodes[0].mode
		n.Shown(1)
	}
	adopt := func(n *watcher, m modelMode) func() {
		return func() {
			if n.mode = m; !p.noForget {
				n.Mode(p.time())
			}
		}
	}
	change := 300 + p.rnd.IntN(200)
	lag := [2]int{p.rnd.IntN(150), p.rnd.IntN(150)}
	for ; p.now < len(p.todo)-1; p.now++ {
		for _, f := range p.todo[p.now] {
			f()
		}
		if p.now == change {
			// a node may know of the view before the leader says that it has applied it
			for i := range p.nodes {
				p.after(lag[i], func() { p.nodes[i].applied = 2; p.nodes[i].View(); p.nodes[i].Shown(2) })
			}
			p.after(p.rnd.IntN(40), func() { p.index = 2 })
		}
		// both have taken the last one over
		if p.now%25 == 0 && p.rnd.IntN(2) == 0 && p.nodes[0].mode == p.nodes[1].mode {
			m := (p.nodes[0].mode + 1) % 4
			for i := range p.nodes {
				p.after(p.rnd.IntN(22), adopt(&p.nodes[i], m))
			}
		}
		for i := range p.nodes {
			n := &p.nodes[i]
			if p.rnd.IntN(3) == 0 {
				sent, lost := p.time(), p.rnd.IntN(400) < 40
				p.after(p.rnd.IntN(10), func() {
					index := p.index
					if !lost {
						p.after(p.rnd.IntN(10), func() { n.Heard(index, sent, p.time()) })
					}
				})
			}
			if !p.may(n) {
				continue
			}
			p.served[n.applied-1]++
			if n.applied == 2 && p.used == 0 {
				p.used = p.now
			}
			if n.applied == 1 && p.used != 0 {
				return fmt.Errorf("at %d node %d goes by the old view in mode %d, and the new one was used at %d",
					p.now, i+1, n.mode, p.used)
			}
		}
	}
	return nil
}

// TestWatch: no node goes by a view after another one has gone by the next, whatever is late and
// lost while the clock mode changes.
func TestWatch(t *testing.T) {
	served := [2]int{}
	for seed := range uint64(2000) {
		p := &watched{rnd: rand.New(rand.NewPCG(seed, 1))}
		if err := p.play(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		served[0] += p.served[0]
		served[1] += p.served[1]
	}
	if served[0] < 100_000 || served[1] < 100_000 {
		t.Errorf("only %v moments at which the views could be used", served)
	}
}

// TestWatchRules: without one of the rules, the play shows it.
func TestWatchRules(t *testing.T) {
	for name, set := range map[string]func(*watched){
		"a new view is used at once":      func(p *watched) { p.noAlone = true },
		"an old view is used for ever":    func(p *watched) { p.noHolds = true },
		"reports of before a mode count":  func(p *watched) { p.noForget = true },
		"views are used in DUAL mode too": func(p *watched) { p.inDual = true },
	} {
		found := false
		for seed := uint64(0); seed < 5000 && !found; seed++ {
			p := &watched{rnd: rand.New(rand.NewPCG(seed, 1))}
			set(p)
			found = p.play() != nil
		}
		if !found {
			t.Errorf("%s: the play does not show it", name)
		}
	}
}
