package owner_test

import (
	"context"
	"fmt"
	"strings"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/owner/homing"
	"github.com/godwitdb/godwit/wire"
)

// controls are what consensus, the network and the clocks do.
var controls = map[string]func(*script) string{
	"txn":   (*script).declare,
	"sleep": func(s *script) string { time.Sleep(s.span(s.word())); return "" },
	"hold":  func(s *script) string { s.logbook(s.word()).hold(true); return "" },
	"free":  func(s *script) string { s.logbook(s.word()).hold(false); return s.settle() },
	"next": func(s *script) string {
		s.logbook(s.word()).commit(uint64(s.number("entries", 1)))
		return s.settle()
	},
	"lag":      (*script).lag,
	"transfer": (*script).transfer,
	"resume":   func(s *script) string { s.logbook(s.word()).resume(); return s.settle() },
	"depose":   (*script).deposed,
	"elect":    (*script).elect,
	"unknown":  func(s *script) string { s.logbook(s.word()).abandon(); return s.settle() },
	"lead":     (*script).lead,
	"stopped":  (*script).stopped,
	"net":      (*script).wires,
	"deliver":  (*script).deliver,
	"clock":    (*script).tune,
	"mode":     (*script).mode,
	"copied":   (*script).copied,
	"advise":   (*script).advise,
	"crash":    func(s *script) string { s.nodeOf(s.word()).stop(); return s.settle() },
	"restart":  func(s *script) string { s.nodeOf(s.word()).start(s.t); return s.settle() },
	"collect":  (*script).collect,
	"cancel":   (*script).cancel,
	"leave":    (*script).leave,
}

// settle lets the consequences of a step happen.
func (s *script) settle() string {
	synctest.Wait()
	time.Sleep(time.Millisecond)
	return ""
}

// declare says how a transaction differs from others.
func (s *script) declare() string {
	x := s.txn()
	x.meta.Age = uint64(s.moment("age"))
	x.meta.GatewayRegion = uint32(s.number("region", 1))
	x.meta.Crt = s.flag("crosses")
	if w, ok := s.arg("timeout"); ok {
		x.meta.LockTimeoutNs = int64(s.span(w))
	}
	ts, gateway := s.moment("began"), s.number("gateway", 9)
	if ts != 0 || gateway != 9 {
		x.id = base.MakeTxnID(max(ts, 1), base.NodeID(gateway), uint32(len(s.txns)))
		x.meta.Id = x.id[:]
	}
	switch w, _ := s.arg("policy"); w {
	case "nowait":
		x.meta.Policy = uint32(kv.NoWait)
	case "waitdie":
		x.meta.Policy = uint32(kv.WaitDie)
	}
	return ""
}

// lag keeps a node from applying a log, or lets it catch up.
func (s *script) lag() string {
	l := s.logbook(s.word())
	n, off := s.nodeOf(s.word()), s.flag("over")
	l.mu.Lock()
	a := l.lanes[n.id]
	a.lags = !off
	l.mu.Unlock()
	a.later(a.pump)
	return s.settle()
}

// transfer has the leader, or whoever takes itself for it (from=n1), hand its lead over. With
// times, it does so again and again, and each hand-over is given up.
func (s *script) transfer() string {
	g := s.groupOf(s.word())
	to, from := s.nodeOf(s.word()).id, directory{s.c}.Leader(g)
	if w, ok := s.arg("from"); ok {
		from = s.nodeOf(w).id
	}
	times := s.number("times", 1)
	if times == 1 {
		s.c.logs[g].transfer(from, to)
		return s.settle()
	}
	stood := 0
	for range times {
		s.c.logs[g].transfer(from, to)
		s.settle()
		for _, e := range s.c.happened() {
			if strings.Contains(e, "stands for election") {
				stood++
			}
		}
		s.c.logs[g].resume()
		s.settle()
	}
	return fmt.Sprintf("the target stands for election %d times of %d\n", stood, times)
}

// deposed ends a leader's term, without another leader.
func (s *script) deposed() string {
	l := s.logbook(s.word())
	n := s.nodeOf(s.word())
	l.mu.Lock()
	if l.leader == n.id {
		l.leader = 0
	}
	l.lanes[n.id].depose(l.leader, l.lanes[n.id].term+1)
	l.mu.Unlock()
	return s.settle()
}

func (s *script) elect() string {
	l := s.logbook(s.word())
	l.win(s.nodeOf(s.word()).id, s.number("lose", 0), s.flag("unaware"))
	return s.settle()
}

// lead carries the words of a node's leaders to the others, or to one.
func (s *script) lead() string {
	n := s.nodeOf(s.word())
	leads := n.set().Leads()
	if w, ok := s.arg("to"); ok {
		s.nodeOf(w).set().OnLeads(leads)
	} else {
		s.c.each(func(o *node) {
			if o != n && o.running.Load() != nil {
				o.set().OnLeads(leads)
			}
		})
	}
	out := ""
	for _, l := range leads {
		if g := base.GroupID(l.Group); g != base.MetaGroup {
			out += fmt.Sprintf("%s is closed up to %s as of entry %d\n", groupName(g), s.c.at(base.Timestamp(l.Closed)), l.Index)
		}
	}
	if out == "" {
		out = "nothing\n"
	}
	return out
}

// stopped carries to a node what another one says of its leaders that have stopped.
func (s *script) stopped() string {
	from, to := s.nodeOf(s.word()), s.nodeOf(s.word())
	qs, out := from.set().Released(), ""
	for _, q := range qs {
		out += fmt.Sprintf("%s has stopped in term %d: it has served up to %s\n", groupName(base.GroupID(q.Group)), q.Term,
			s.c.at(base.Timestamp(q.Floor)))
	}
	to.set().OnReleased(from.id, qs)
	s.settle()
	return out
}

// wires says what becomes of the next messages of a kind: drop, hold, double, mute (the answer is
// lost) or late=50; "clear" ends that.
func (s *script) wires() string {
	if s.flag("clear") {
		s.c.net.clear()
		return ""
	}
	for _, do := range []struct{ arg, name string }{{"drop", "dropped"}, {"hold", "held"}, {"double", "doubled"},
		{"mute", "unanswered"}, {"late", "late"}} {
		what, ok := s.arg(do.arg)
		if !ok {
			continue
		}
		r := &rule{what: what, do: do.name, times: s.number("times", 1)}
		if by, ok := s.arg("by"); ok {
			r.by = s.span(by)
		}
		if to, ok := s.arg("to"); ok {
			r.toward = s.nodeOf(to).id
		}
		s.c.net.add(r)
	}
	return ""
}

func (s *script) deliver() string {
	if s.c.net.deliver(s.word()) == 0 {
		return "there is none\n"
	}
	return s.settle()
}

// tune sets a node's clock: off=5 is ahead, bound=2 is what it says of its error.
func (s *script) tune() string {
	n := s.nodeOf(s.word())
	if w, ok := s.arg("off"); ok {
		off, neg := strings.CutPrefix(w, "-")
		d := s.span(off)
		if neg {
			d = -d
		}
		n.source.Set(d, 0, 0)
	}
	if w, ok := s.arg("bound"); ok {
		n.source.Claim(s.span(w))
	}
	if w, ok := s.arg("limit"); ok {
		n.clock.SetLimit(s.span(w))
	}
	return ""
}

// mode puts a clock mode in force at a node, or orders it by the log of the meta group.
func (s *script) mode() string {
	m := map[string]clock.Mode{"gclock": clock.GClock, "dual": clock.Dual, "gtm": clock.GTM}[s.word()]
	epoch, raise := uint64(s.number("epoch", 2)), s.moment("oracle")
	if w, ok := s.arg("at"); ok {
		if !s.nodeOf(w).clock.Adopt(m, epoch, raise) {
			return "ignored\n"
		}
		return ""
	}
	r := s.replica(base.MetaGroup)
	return s.send("order of "+m.String(), func(ctx context.Context) string {
		if err := r.OrderClock(ctx, &wire.ClockOrder{Mode: uint32(m), Epoch: epoch}, raise); err != nil {
			return s.failed(err)
		}
		now, steps := r.ClockSteps()
		return fmt.Sprintf("%s, epoch %d, after %d steps", clock.Mode(now.Mode), now.Epoch, len(steps))
	})
}

// copied says what other regions have of an asynchronous group.
func (s *script) copied() string {
	g := s.groupOf(s.word())
	x := copied{uint64(s.number("index", 0)), s.moment("cut")}
	s.c.mu.Lock()
	s.c.copies[g] = x
	s.c.mu.Unlock()
	s.c.each(func(n *node) { n.set().HeldChanged() })
	return s.settle()
}

// advise has the policy of homes move a row to the region of whoever uses it there, if that is the
// one given, together with other rows.
func (s *script) advise() string {
	key := keyOf(s.word())
	v := homing.Verdict{To: base.RegionID(s.number("to", 2)), Reason: []byte("test")}
	for _, w := range s.list("with") {
		v.With = append(v.With, keyOf(w))
	}
	for _, w := range s.list("along") {
		v.Along = append(v.Along, keyOf(w))
	}
	s.c.mu.Lock()
	s.c.advice[string(key)] = v
	s.c.mu.Unlock()
	return ""
}

func (s *script) collect() string {
	n := s.nodeOf(s.word())
	return s.send("collection", func(ctx context.Context) string {
		if err := n.set().Collect(ctx); err != nil {
			return s.failed(err)
		}
		return "collected up to " + s.c.at(n.store.GCThreshold(1))
	})
}

// cancel has the clients of all requests that wait give up.
func (s *script) cancel() string {
	for _, r := range s.pending {
		r.cancel()
	}
	return s.settle()
}

// leave takes a group's replica away from a node.
func (s *script) leave() string {
	n, g := s.nodeOf(s.word()), s.group()
	n.set().Remove(g)
	n.lanes[g].log.mu.Lock()
	defer n.lanes[g].log.mu.Unlock()
	n.lanes[g].lags = true
	return ""
}
