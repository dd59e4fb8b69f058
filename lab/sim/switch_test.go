package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/wire"
)

// switchSteps are the steps of a change of the clock mode: the messages to or from each node that
// carry it. Between two of them the leader of the meta group only waits.
var switchSteps = []string{
	"DUAL is logged at", "DUAL is ordered at", "DUAL is acknowledged by",
	"the target is logged at", "the target is ordered at", "the target is acknowledged by",
}

// switchFaults are the faults that happen when a message of a step arrives for the first time. All
// but the first end after a time that is shorter, or longer, than the lease on the mode.
var switchFaults = []string{"lost", "receiver crashes", "sender crashes", "receiver is cut off", "sender is cut off"}

// switchCase is one fault at one step.
type switchCase struct {
	to    clock.Setting
	step  int
	node  int // of those that do not lead the meta group
	fault int
	long  bool
}

func (x switchCase) String() string {
	d := map[bool]string{true: " for long", false: ""}[x.long]
	return fmt.Sprintf("to %s: %s follower %d: %s%s", x.to, switchSteps[x.step], x.node, switchFaults[x.fault], d)
}

func switchCases() (all []switchCase) {
	for _, to := range []clock.Setting{clock.WantGTM, clock.WantGClock} {
		for step := range switchSteps {
			for node := range 2 {
				for fault := range switchFaults {
					all = append(all, switchCase{to, step, node, fault, false})
					if fault > 0 {
						all = append(all, switchCase{to, step, node, fault, true})
					}
				}
			}
		}
	}
	return all
}

// orderIn finds a step of the clock mode among the entries of a log that a message carries.
func orderIn(body []byte) *wire.ClockOrder {
	const field = 11<<3 | 2 // Command.clock
	for at := 0; ; {
		i := bytes.IndexByte(body[at:], field)
		if i < 0 {
			return nil
		}
		at += i + 1
		n, k := binary.Uvarint(body[at:])
		var o wire.ClockOrder
		if k > 0 && n < 300 && at+k+int(n) <= len(body) && o.UnmarshalVT(body[at+k:at+k+int(n)]) == nil &&
			strings.HasPrefix(o.By, "node ") && o.Epoch > 0 && o.Mode > 0 {
			return &o
		}
	}
}

// stepOf is the step that a message belongs to, and its follower. step is -1 if the message is not
// part of the switch that begins after an epoch.
func stepOf(from, to, leader base.NodeID, kind wire.Kind, body []byte, epoch uint64) (step int, follower base.NodeID) {
	base3 := func(e uint64) int { // 0 is DUAL's, 3 the target's
		switch e {
		case epoch + 1:
			return 0
		case epoch + 2:
			return 3
		}
		return -10
	}
	switch kind {
	case wire.KindRaft:
		if from == leader {
			if o := orderIn(body); o != nil {
				return base3(o.Epoch), to
			}
		}
	case wire.KindHeartbeat:
		var p wire.Heartbeat
		if p.UnmarshalVT(body) != nil || p.Clock == nil {
			break
		}
		if from == leader && p.Clock.OrderMode != 0 {
			return base3(p.Clock.OrderEpoch) + 1, to
		}
		if to == leader {
			return base3(p.Clock.Epoch) + 2, from
		}
	}
	return -1, 0
}

// play changes the mode and injects the fault.
func (x switchCase) play(hit *bool) func(w *world) {
	return func(w *world) {
		target := map[clock.Setting]clock.Mode{clock.WantGTM: clock.GTM, clock.WantGClock: clock.GClock}[x.to]
		if x.to == clock.WantGClock {
			w.setPolicy(clock.WantGTM)
			w.inMode(clock.GTM)
		}
		c := w.hosts[0].up().node.Cluster()
		leader := c.Leader(base.MetaGroup)
		epoch := c.Clock().Epoch
		var followers []base.NodeID
		for _, h := range w.hosts {
			if h.id != leader {
				followers = append(followers, h.id)
			}
		}
		slices.Sort(followers)
		d := 1500 * time.Millisecond
		if x.long {
			d = 9 * time.Second
		}
		over := make(chan struct{})
		begin := func(h *host, cut bool) {
			w.dying.Go(func() {
				defer close(over)
				w.log.printf("node %d: %v", h.id, x)
				if cut {
					w.net.Isolate(h.id)
					time.Sleep(d)
					w.net.Rejoin(h.id)
					return
				}
				h.crash()
				time.Sleep(d)
				h.boot()
			})
		}
		done := false // messages of one connection come one by one, but there are two
		power := make(chan struct{}, 1)
		spy := func(from, to base.NodeID, kind wire.Kind, body []byte) bool {
			step, follower := stepOf(from, to, leader, kind, body, epoch)
			if step != x.step || follower != followers[x.node] {
				return false
			}
			power <- struct{}{}
			defer func() { <-power }()
			if done {
				return false
			}
			done, *hit = true, true
			switch switchFaults[x.fault] {
			case "lost":
				close(over)
			case "receiver crashes":
				begin(w.hosts[to-1], false)
			case "sender crashes":
				begin(w.hosts[from-1], false)
				return false
			case "receiver is cut off":
				begin(w.hosts[to-1], true)
			case "sender is cut off":
				begin(w.hosts[from-1], true)
				return false
			}
			return true
		}
		w.spy.Store(&spy)
		w.setPolicy(x.to)
		select {
		case <-over:
		case <-time.After(20 * time.Second):
			w.fail("%v: the step does not come", x)
		}
		w.inMode(target)
		w.spy.Store(nil)
		time.Sleep(500 * time.Millisecond)
	}
}

// inMode waits until all nodes are in a mode.
func (w *world) inMode(m clock.Mode) {
	for range 600 {
		left := ""
		for _, h := range w.hosts {
			if l := h.up(); l == nil || l.node.Cluster().Clock().Mode != m.String() || l.node.Cluster().Clock().Right <= 0 {
				left = fmt.Sprint("node ", h.id)
			}
		}
		if left == "" {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, h := range w.hosts {
		if l := h.up(); l != nil {
			w.fail("the clock mode does not become %v: node %d: %+v", m, h.id, *l.node.Cluster().Clock())
		}
	}
}

func switchConfig(seed uint64) Config {
	return Config{Seed: seed, Regions: 3, NodesPerRegion: 1, Shards: 1, Delay: even(3, 15*time.Millisecond),
		LAN:        250 * time.Microsecond,
		ClockBound: 20 * time.Millisecond, SyncDelay: time.Millisecond, Workload: "mixed", Clients: 2, Keys: 3,
		Think:  20 * time.Millisecond,
		Warmup: 3 * time.Second, Duration: time.Second, GCAge: 10 * time.Minute}
}

// TestSwitchSteps injects a fault at each step of a change of the clock mode, in each direction.
// The change is completed or begun anew, histories stay strictly serializable, and no acknowledged
// write is lost. It runs all cases at full length, else every seventeenth.
func TestSwitchSteps(t *testing.T) {
	for i, x := range switchCases() {
		if i%some(17, 1) != 0 {
			continue
		}
		t.Run(strings.ReplaceAll(x.String(), " ", "_"), func(t *testing.T) {
			cfg := switchConfig(*flagFirst + uint64(i))
			hit := false
			cfg.play = x.play(&hit)
			o, err := runSeed(t, cfg)
			if err != nil || !hit {
				t.Errorf("%v: hit: %v\n%s%s\n%s%v\nhistory and journal: %s", x, hit, cfg.String(), o.Summary(),
					o.Kinds(), err, save(t, o))
			}
		})
	}
}
