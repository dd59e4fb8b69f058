package owner_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/store"
)

// looks change nothing.
var looks = map[string]func(*script) string{
	"log":   (*script).log,
	"rows":  (*script).table,
	"locks": (*script).locks,
	"who":   (*script).who,
	"stats": (*script).stats,
	"guess": (*script).guess,
	"modes": (*script).modes,
}

// log shows the entries since it was asked for last.
func (s *script) log() string {
	l := s.logbook(s.word())
	vectors := s.flag("vectors")
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for ; l.shown < len(l.entries); l.shown++ {
		line := s.entry(l.shown+1, l.entries[l.shown], vectors)
		if uint64(l.shown) >= l.committed {
			line += " (not committed)"
		}
		fmt.Fprintln(&b, line)
	}
	return b.String()
}

// table shows all versions at a node, the newest of a key first.
func (s *script) table() string {
	n := s.nodeOf(s.word())
	var b strings.Builder
	shard := base.ShardID(1)
	if s.flag("meta") {
		shard = base.MetaShard
	}
	if err := n.store.EachVersion(shard, func(v *store.Version) error {
		fmt.Fprintf(&b, "%s=%s @%s", keyName(v.Key), v.Value, s.c.at(v.TS))
		if v.Tombstone {
			b.WriteString(" deleted")
		}
		if h := v.Label.Home(); h > 1 {
			fmt.Fprintf(&b, " of r%d", h)
		}
		if v.Label.Pinned() {
			b.WriteString(" pinned")
		}
		b.WriteString("\n")
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

// locks shows transactions and locks at an owner.
func (s *script) locks() string {
	g := s.group()
	r := s.replica(g)
	var lines []string
	for _, x := range r.Txns() {
		line := s.txnName(x.ID) + " is " + x.Phase
		if x.TS != 0 {
			line += " @" + s.c.at(x.TS)
		}
		lines = append(lines, line)
	}
	for _, l := range r.Locks(0) {
		line := fmt.Sprintf("%s %s %s", s.txnName(l.Txn), l.Mode, spanName(l.Span))
		if l.CRT {
			line += " against transactions that cross regions"
		}
		if l.Waiting {
			line += " (waits)"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	if len(lines) == 0 {
		return "none\n"
	}
	return strings.Join(lines, "\n") + "\n"
}

// who shows which nodes serve a group.
func (s *script) who() string {
	g := s.groupOf(s.word())
	out := ""
	s.c.each(func(n *node) {
		if n.running.Load() == nil {
			return
		}
		if term, ok := n.set().Replica(g).Serving(); ok {
			out += fmt.Sprintf("n%d serves in term %d\n", n.id, term)
		}
	})
	if out == "" {
		return "nobody\n"
	}
	return out
}

// stats shows counters of a replica that are not 0.
func (s *script) stats() string {
	st := s.replica(s.group()).Stats()
	out := ""
	for _, x := range []struct {
		name string
		n    int64
	}{
		{"slot waits", st.SlotWaits.Load()}, {"waits for the undecided", st.UndecidedWaits.Load()},
		{"patches", st.Patches.Load()},
		{"waits for patches", st.PatchWaits.Load()}, {"patches lost", st.PatchesLost.Load()}, {"expired", st.Expired.Load()},
		{"handed over", st.HandedOver.Load()}, {"inherited", st.Inherited.Load()}, {"given up", st.GivenUp.Load()},
		{"passed on", st.Helped.Load()},
		{"died", st.Died.Load()}, {"lock waits", st.LockWaits.Load()}, {"deadlocks", st.Deadlocks.Load()},
		{"collected", st.Collected.Load()},
	} {
		if x.n != 0 {
			out += fmt.Sprintf("%s: %d\n", x.name, x.n)
		}
	}
	return out
}

// modes are the clock modes that a node knows to have been ordered.
func (s *script) modes() string {
	now, steps := s.nodeOf(s.word()).set().Replica(base.MetaGroup).ClockSteps()
	out := fmt.Sprintf("%s is in force, epoch %d\n", clock.Mode(now.Mode), now.Epoch)
	for _, o := range steps {
		out += fmt.Sprintf("  %d %s\n", o.Epoch, clock.Mode(o.Mode))
	}
	return out
}

// guess is what a node takes for the owners of keys and the parts of ranges.
func (s *script) guess() string {
	n := s.nodeOf(s.word())
	out := ""
	for _, w := range s.keys() {
		if len(w.End) == 0 {
			g, ok := n.set().Locate(w.Start)
			out += fmt.Sprintf("%s: %s %v\n", keyName(w.Start), groupName(g), ok)
			continue
		}
		parts, ok := n.set().Segments(base.Span{Start: w.Start, End: w.End}, 100)
		for _, p := range parts {
			out += fmt.Sprintf("%s: %s\n", spanName(p.Span), groupName(p.Owner))
		}
		if !ok {
			out += "not known\n"
		}
	}
	return out
}
