package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/owner/gauge"
	"github.com/godwitdb/godwit/wire"
)

// TestScripts plays the stories of testdata/cluster against several Clusters in virtual time. Each
// command prints what the nodes have logged since the last one, and then its answer.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/cluster", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			s := &script{}
			defer func() {
				if s.world != nil {
					s.close()
				}
			}()
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				c := commands[d.Cmd]
				if c == nil {
					d.Fatalf(t, "no command %s", d.Cmd)
				}
				answer := c(s, args{t, d})
				if settles[d.Cmd] {
					time.Sleep(2 * time.Second)
				}
				synctest.Wait()
				return s.takeEvents(settles[d.Cmd]) + answer
			})
		})
	})
}

type script struct{ *world }

// settles are commands after which nodes do several things at about the same time, which a
// transaction that is run again may delay: they are waited for, and printed node by node.
var settles = map[string]bool{"restart": true, "promote": true, "join": true, "decommission": true}

// commands of the scripts. n1 is a node, s1@r1 a group.
var commands = map[string]func(*script, args) string{
	"cluster": (*script).newCluster, // regions=(1,1,1) [shards=1] [async]: so many nodes in each region
	"run":     (*script).run,        // for=5s
	"kill":    (*script).kill,       // n1
	"restart": (*script).restart,    // n1
	"link":    (*script).link,       // from=(1) to=(2,3) [lost] [twice] [late=500ms]; without faults: heals
	"lead":    (*script).lead,       // s1@r1 [node=2] [no-lease] [closes] [stays]: another node leads, in a new term
	"leaders": (*script).leaders,    // n1: where it sends requests

	"clock":  (*script).setClock, // n1 [jump=1s] [bound=400ms]
	"policy": (*script).policy,   // [mode=gtm] [recovery=5s]: at all nodes
	"log":    (*script).log,      // [fails]: of the clock mode
	"clocks": (*script).clocks,
	"steps":  (*script).history,

	"copy":       (*script).copy,    // n1 s2@r1 index=9 [closed=5s] [incarnation=1]: what it holds
	"promote":    (*script).promote, // n1 lost=1 [seat=2] [force] [return]
	"promotions": (*script).promotions,
	"frozen":     (*script).showFrozen,

	"join":         (*script).join,         // n1 region=2 [uuid=u9] [addr=h9]: asks n1
	"decommission": (*script).decommission, // n1 node=2: asks n1
	"members":      (*script).members,
	"abandoned":    (*script).abandon, // n1 s1@r1 [index=3]: a copy that hears of no leader
	"held":         (*script).held,

	"survives": (*script).survives, // n1 s2@r1: what of a group survives the loss of its region, as n1 knows
	"asks":     (*script).askHeld,  // n1 s2@r1 index=9: n1 asks other regions to say when they have that
	"want":     (*script).want,     // n1 [for=2s]: a reader there waits for closed timestamps
	"notices":  (*script).notices,  // [every=-1ms]: how many were sent since the last look; or how often they are
	"server":   (*script).server,   // n1 shard=1 [age=100ms]: which node it asks for a snapshot

	"load":  (*script).load,       // s1@r1 from=2 requests=100: at its leader, each time it looks
	"moves": (*script).moves,      // of leads
	"move":  (*script).moveLeader, // n1 s1@r1 to=2: asks n1
	"drain": (*script).drain,      // n1: hands all its leads over
	"mode":  (*script).leaderMode, // on, off, dry_run: leader.mode
}

func (s *script) newCluster(a args) string {
	if s.world != nil {
		s.close()
	}
	shards := 1
	a.d.MaybeScanArgs(a.t, "shards", &shards)
	t := *addressed(topo(shards, a.numbers("regions")...))
	t.ClusterID = "test"
	if a.has("async") {
		t.Async = shards
	}
	s.world = newWorld(a.t, t)
	return ""
}

func (s *script) run(a args) string {
	time.Sleep(a.duration("for"))
	return ""
}

func (s *script) kill(a args) string {
	s.nodes[a.node()].stop()
	return ""
}

func (s *script) restart(a args) string {
	s.nodes[a.node()].start()
	return ""
}

func (s *script) link(a args) string {
	l := link{lost: a.has("lost"), twice: a.has("twice")}
	if a.has("late") {
		l.late = a.duration("late")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, from := range a.nodes("from") {
		for _, to := range a.nodes("to") {
			s.links[[2]base.NodeID{from, to}] = l
		}
	}
	return ""
}

func (s *script) lead(a args) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[a.group()]
	if n := a.nodes("node"); n != nil && n[0] != g.leader {
		g.leader = n[0]
		g.term++
	}
	g.leased, g.closes, g.transfers = !a.has("no-lease"), a.has("closes"), !a.has("stays")
	return ""
}

func (s *script) leaders(a args) string {
	var out strings.Builder
	c := s.nodes[a.node()].cluster
	for _, g := range c.Topology().Groups() {
		fmt.Fprintf(&out, "%v: n%d\n", g, c.Leader(g))
	}
	return out.String()
}

// # Clocks

func (s *script) setClock(a args) string {
	src := s.nodes[a.node()].source
	if a.has("jump") {
		src.Jump(a.duration("jump"))
	}
	if a.has("bound") {
		src.Claim(a.duration("bound"))
	}
	return ""
}

func (s *script) policy(a args) string {
	p := clock.DefaultPolicy()
	if a.has("mode") {
		p.Mode = clock.Setting(a.text("mode"))
	}
	if a.has("recovery") {
		p.Recovery = a.duration("recovery")
	}
	for _, n := range s.sorted() {
		n.cluster.SetClockPolicy(p)
	}
	return ""
}

func (s *script) log(a args) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logFails = a.has("fails")
	return ""
}

// clocks shows the mode in force at each node, and whether it may act and trusts its clock.
func (s *script) clocks(args) string {
	var out strings.Builder
	for _, n := range s.sorted() {
		if !n.up {
			fmt.Fprintf(&out, "n%d: down\n", n.id)
			continue
		}
		c := n.cluster.Clock()
		fmt.Fprintf(&out, "n%d: %s/%d, clock %s", n.id, c.Mode, c.Epoch, c.Verdict)
		k := n.cluster.clockModes
		k.mu.Lock()
		fmt.Fprintf(&out, ", %s", [...]string{"doubted", "proving", "trusted"}[k.trust])
		k.mu.Unlock()
		if c.Fenced {
			out.WriteString(", fenced")
		}
		if c.Right <= 0 {
			out.WriteString(", may not act")
		}
		if c.Blocked != "" {
			fmt.Fprintf(&out, ", blocked: %s", c.Blocked)
		}
		out.WriteString("\n")
	}
	return out.String()
}

func (s *script) history(args) string {
	var out strings.Builder
	for _, x := range s.sorted()[0].cluster.ClockHistory() {
		fmt.Fprintf(&out, "%d: %s to %s, towards %s, by %s: %s\n", x.Epoch, x.From, x.To, x.Target, x.By, x.Reason)
	}
	return out.String()
}

// # Promotions

func (s *script) copy(a args) string {
	g := a.secondGroup()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[a.node()]
	c := n.copies[g]
	c.index = uint64(a.numbers("index")[0])
	if a.has("closed") {
		c.closed = base.FromTime(s.began.Add(a.duration("closed")))
	}
	n.copies[g] = c
	return ""
}

func (s *script) promote(a args) string {
	q := PromoteRequest{Lost: fmt.Sprintf("region-%d", a.numbers("lost")[0]), Force: a.has("force"), Back: a.has("return")}
	if a.has("seat") {
		q.Seat = fmt.Sprintf("region-%d", a.numbers("seat")[0])
	}
	// The groups elect leaders of the new incarnation as soon as the topology says which.
	ctx, cancel := context.WithTimeout(a.t.Context(), 10*time.Second)
	defer cancel()
	done := make(chan struct{})
	go s.electAtSeats(ctx, done)
	ps, err := s.nodes[a.node()].cluster.Promote(ctx, q)
	cancel()
	<-done
	if err != nil {
		return err.Error()
	}
	return s.accounts(ps)
}

// electAtSeats has the groups that were promoted led by the source of their copy.
func (s *script) electAtSeats(ctx context.Context, done chan struct{}) {
	defer close(done)
	for ctx.Err() == nil {
		for _, n := range s.sorted() {
			if n.up {
				s.elect(n.cluster.Topology())
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (s *script) elect(t *base.Topology) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range t.Promotions {
		for _, x := range p.Groups {
			if g := s.groups[x.Group]; int(g.term) < 10*int(p.ID) {
				g.leader, g.term = x.Source, 10*uint64(p.ID)
				g.voters, g.learners = []base.NodeID{x.Source}, nil
			}
		}
	}
}

func (s *script) accounts(ps []base.Promotion) string {
	var out strings.Builder
	for _, p := range ps {
		fmt.Fprintf(&out, "region %d, lost %d, seat %d, cut %v", p.Region, p.Lost, p.Seat,
			p.Cut.Time().Sub(s.began).Round(time.Millisecond))
		if p.Back {
			out.WriteString(", back")
		}
		fmt.Fprintln(&out)
		for _, x := range p.Groups {
			fmt.Fprintf(&out, "  %v: copy of n%d", x.Group, x.Source)
			if slices.Contains(p.Moving, x.Group) {
				out.WriteString(", moving")
			}
			fmt.Fprintln(&out)
		}
	}
	return out.String()
}

func (s *script) promotions(args) string {
	for _, n := range s.sorted() {
		if n.up {
			return s.accounts(n.cluster.Topology().Promotions)
		}
	}
	return ""
}

func (s *script) showFrozen(args) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out strings.Builder
	for _, n := range s.sorted() {
		for _, g := range s.nodes[n.id].cluster.Topology().Groups() {
			if n.frozen[g] {
				fmt.Fprintf(&out, "n%d: %v\n", n.id, g)
			}
		}
	}
	return out.String()
}

// # Members

func (s *script) join(a args) string {
	j := join.Joiner{Knows: base.VersionNewest, UUID: "u9", Addr: "h9:1", Region: fmt.Sprintf("region-%d", a.numbers("region")[0])}
	a.d.MaybeScanArgs(a.t, "uuid", &j.UUID)
	a.d.MaybeScanArgs(a.t, "addr", &j.Addr)
	ctx, cancel := context.WithTimeout(a.t.Context(), 5*time.Second)
	defer cancel()
	id, err := s.nodes[a.node()].cluster.Admit(ctx, j)
	if err != nil {
		return err.Error()
	}
	if s.nodes[id.Node] == nil {
		s.add(id).start()
	}
	return fmt.Sprintf("it is n%d", id.Node)
}

func (s *script) decommission(a args) string {
	ctx, cancel := context.WithTimeout(a.t.Context(), 10*time.Second)
	defer cancel()
	if _, err := s.nodes[a.node()].cluster.Decommission(ctx, a.nodes("node")[0]); err != nil {
		return err.Error()
	}
	return "ok"
}

func (s *script) members(args) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out strings.Builder
	for _, g := range s.sorted()[0].cluster.Topology().Groups() {
		x := s.groups[g]
		slices.Sort(x.voters)
		fmt.Fprintf(&out, "%v: voters %v", g, x.voters)
		if len(x.learners) > 0 {
			slices.Sort(x.learners)
			fmt.Fprintf(&out, ", learners %v", x.learners)
		}
		fmt.Fprintln(&out)
	}
	return out.String()
}

func (s *script) abandon(a args) string {
	g := a.secondGroup()
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[a.node()]
	n.abandoned[g] = true
	if a.has("index") {
		n.open[g] = true
		n.copies[g] = copyHere{copyAt: copyAt{index: uint64(a.numbers("index")[0])}}
	}
	return ""
}

func (s *script) held(args) string {
	var out strings.Builder
	for _, n := range s.sorted() {
		if n.up {
			fmt.Fprintf(&out, "n%d: %v\n", n.id, testReplicas{n}.Held())
		}
	}
	return out.String()
}

// # What survives, and what is read where

func (a args) secondGroup() base.GroupID {
	g, err := base.ParseGroup(a.d.CmdArgs[1].Key)
	if err != nil {
		a.d.Fatalf(a.t, "%v", err)
	}
	return g
}

func (s *script) survives(a args) string {
	c := s.nodes[a.node()].cluster
	index, cut := c.HeldOf(a.secondGroup())
	out := fmt.Sprintf("index %d", index)
	if cut != 0 {
		out += fmt.Sprintf(", cut %v", cut.Time().Sub(s.began).Round(time.Millisecond))
	}
	if c.Away(a.secondGroup()) {
		out += ", votes elsewhere"
	}
	if !c.Confirmed() {
		out += ", not confirmed"
	}
	return out
}

func (s *script) askHeld(a args) string {
	s.nodes[a.node()].cluster.AskHeld(a.secondGroup(), uint64(a.numbers("index")[0]), 0)
	return ""
}

func (s *script) want(a args) string {
	c := s.nodes[a.node()].cluster
	if !a.has("for") {
		c.Want()
		return ""
	}
	for end := time.Now().Add(a.duration("for")); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		c.Want()
	}
	return ""
}

// notices counts them in tens: one more or less is no difference.
func (s *script) notices(a args) string {
	if a.has("every") {
		for _, n := range s.sorted() {
			n.cluster.SetNoticeEvery(a.duration("every"))
		}
		return ""
	}
	s.mu.Lock()
	var out strings.Builder
	for _, n := range s.sorted() {
		fmt.Fprintf(&out, "n%d: about %d\n", n.id, (s.sent[n.id][wire.KindClosed]+5)/10*10)
		clear(s.sent[n.id])
	}
	s.mu.Unlock()
	for _, n := range s.sorted() {
		fmt.Fprintf(&out, "n%d: every %v from s1@r1\n", n.id, n.cluster.Every(base.DataGroup(1, 1)))
	}
	return out.String()
}

func (s *script) server(a args) string {
	var age time.Duration
	if a.has("age") {
		age = a.duration("age")
	}
	n := s.nodes[a.node()]
	if at := n.cluster.ReplicaFor(base.ShardID(a.numbers("shard")[0]), n.clock.Latest().Add(-age), 0); at != 0 {
		return fmt.Sprintf("n%d", at)
	}
	return "none"
}

// # Leaders

// load has the leader of a group see requests, each time it looks, from now on.
func (s *script) load(a args) string {
	g, from, n := a.group(), a.nodes("from")[0], uint64(a.numbers("requests")[0])
	for range a.numbers("beats")[0] {
		s.mu.Lock()
		at := s.nodes[s.groups[g].leader]
		if at.loads[g] == nil {
			at.loads[g] = map[gauge.Asker]gauge.Load{}
		}
		k := gauge.Asker{Node: from}
		x := at.loads[g][k]
		x.Requests += n
		x.Writes += n
		if a.has("whole") {
			x.Whole += n
		}
		at.loads[g][k] = x
		s.mu.Unlock()
		time.Sleep(leaderBeat)
	}
	return ""
}

func (s *script) moves(args) string {
	var out strings.Builder
	for _, m := range s.sorted()[0].cluster.AllLeaderMoves(context.Background()) {
		fmt.Fprintf(&out, "%v from n%d to n%d: %s", m.Group, m.From, m.To, m.Reason)
		if m.Dry {
			out.WriteString(", dry run")
		}
		if m.Error != "" {
			fmt.Fprintf(&out, ", failed: %s", m.Error)
		} else if m.Took > 0 {
			out.WriteString(", done")
		}
		fmt.Fprintln(&out)
	}
	return out.String()
}

func (s *script) moveLeader(a args) string {
	g := a.secondGroup()
	if err := s.nodes[a.node()].cluster.MoveLeader(a.t.Context(), g, a.nodes("to")[0]); err != nil {
		return err.Error()
	}
	return "ok"
}

func (s *script) drain(a args) string {
	s.nodes[a.node()].cluster.Drain(a.t.Context())
	return ""
}

func (s *script) leaderMode(a args) string {
	p := DefaultLeaderParams()
	p.Mode, p.Window, p.MaxWindow = a.d.CmdArgs[0].Key, 5, 10
	for _, n := range s.sorted() {
		if err := n.cluster.SetLeaderParams(p); err != nil {
			return err.Error()
		}
	}
	return ""
}
