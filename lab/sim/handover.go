package sim

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// HandoverFault replaces the faults of the seed: the lead of the first group is handed over during
// the run, and something fails when a certain message of the hand-over is sent.
type HandoverFault struct {
	// At counts the messages of consensus and of the hand-over between regions from 1: the fault
	// happens at this one. 0: nothing fails.
	At int
	// What is one of HandoverFaults.
	What string
}

// HandoverFaults are the possible failures. The target of the hand-over dies, or the old leader,
// which is the helper. The network loses all messages of one of them, or all between the two. Or
// the third region is cut off.
var HandoverFaults = []string{"target dies", "helper dies", "target alone", "helper alone", "cut", "third alone"}

const (
	handoverWatch = 600 * time.Millisecond // how long messages belong to the hand-over
	handoverLasts = 4 * time.Second        // how long the fault does
)

// leaderOf is the host that serves as the owner of a group now; nil if there is none.
func (w *world) leaderOf(g base.GroupID) *host {
	for _, h := range w.hosts {
		if p := h.up(); p != nil {
			if r := p.node.Owners().Replica(g); r != nil {
				if _, ok := r.Serving(); ok {
					return h
				}
			}
		}
	}
	return nil
}

// hand orders the leader of a group to hand its lead to a node of another region, as soon as that
// node is up to date.
func (w *world) hand(g base.GroupID) (from, to *host) {
	for range 500 {
		if from = w.leaderOf(g); from != nil {
			for _, to = range w.hosts {
				if to.region != from.region && from.up().node.Groups().Group(g).Transfer(to.id) == nil {
					return from, to
				}
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.fail("no hand-over of %v begins", g)
	return nil, nil
}

// handover moves the lead and injects the fault. It returns the number of messages.
func (w *world) handover(f HandoverFault) int {
	var n atomic.Int64
	hit := make(chan struct{}, 1)
	w.net.Tap(func(t wan.Tapped) {
		if t.Kind != wire.KindRaft && t.Kind != wire.KindHandover {
			return
		}
		if int(n.Add(1)) == f.At {
			hit <- struct{}{}
		}
	})
	defer w.net.Tap(nil)
	from, to := w.hand(base.DataGroup(1, 1))
	if from == nil {
		return 0
	}
	timer := time.NewTimer(handoverWatch)
	defer timer.Stop()
	select {
	case <-hit:
		w.log.printf("fault at message %d: %s (from %d to %d)", f.At, f.What, from.id, to.id)
		w.strike(f.What, from, to)
		time.Sleep(handoverLasts)
	case <-timer.C:
	}
	return int(n.Load())
}

func (w *world) strike(what string, from, to *host) {
	switch what {
	case "target dies":
		to.crash()
	case "helper dies":
		from.crash()
	case "target alone":
		w.net.Isolate(to.id)
	case "helper alone":
		w.net.Isolate(from.id)
	case "cut":
		w.net.CutNodes(from.id, to.id)
	case "third alone":
		for _, h := range w.hosts {
			if h != from && h != to {
				w.net.Isolate(h.id)
			}
		}
	default:
		panic(fmt.Sprintf("no such fault: %s", what))
	}
}
