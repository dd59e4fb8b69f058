package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/mechanism/group"
)

// Asynchronous groups vote in one region. When that region is lost, the others go on from a cut
// (docs/protocol.md, REPL-2):
//
//  1. The node that is asked to promote asks every node elsewhere what it holds of the groups. From
//     then on none of them learns more (promotion.freeze).
//  2. The cut of a region is the smallest over its groups of the largest closed timestamp that a
//     survivor has. Whatever a region has served or relied on lies at or below it, because no node
//     took more for granted (OWN-13, OWN-14) (decidePromotion).
//  3. A change of the topology, through the meta group, makes it so: cut, where the groups vote
//     from now on, and for each the survivor with most of its log (promotion.write).
//  4. Each node brings its replicas to the new incarnation (promotions.rewind). The copy with most,
//     without what lies above the cut, begins it; all others discard their state of the group and
//     what they have above the cut, and are sent it. A node of the lost region does the same when
//     it is back and hears of the promotion. All keep a list of what they discarded.
//  5. The groups may have begun in other regions than the one in which they shall vote. Once their
//     voters have arrived there, the topology says so (promotions.arrived).
//
// The region votes again on command (promotions.back), which is 3 and 5 alone.

// PathPromote promotes the survivors of a region: POST {"lost": "eu"}, see PromoteRequest.
const PathPromote = "/cluster/promote"

// PromoteRequest says what region is lost.
type PromoteRequest struct {
	Lost string `json:"lost"`
	// Seat is where the groups shall vote; empty chooses the region that holds most.
	Seat string `json:"seat,omitempty"`
	// Force goes on without survivors that do not answer; what only they hold is lost, even if it
	// was served.
	Force bool `json:"force,omitempty"`
	// Back lets the groups of a region that is back vote there again.
	Back bool `json:"back,omitempty"`
}

const (
	askCopies = "copies"
	// frozenFor is how long replicas wait for the promotion they were asked for.
	frozenFor = 30 * time.Second
	// leaderPoll is the pause between looks whether groups have leaders.
	leaderPoll = 20 * time.Millisecond
)

// promotions are this node's part in promotions.
type promotions struct {
	*env
	copies   *copies
	replicas Incarnations
	arriving atomic.Bool // arrived is changing the topology
}

func newPromotions(e *env, c *copies, r Incarnations) *promotions {
	return &promotions{env: e, copies: c, replicas: r}
}

// promotion is one attempt to promote.
type promotion struct {
	*promotions
	PromoteRequest
	t       *base.Topology // when it began
	lost    base.RegionID
	seat    base.RegionID // where the groups shall vote; 0: where most is held
	regions []base.RegionID
	groups  []base.GroupID // of those regions: all that vote in the lost one

	answers map[base.NodeID]copiesReply // of survivors
	silent  []base.NodeID               // survivors that did not answer
}

// Promote lets survivors take over the asynchronous groups of a lost region, and says how.
func (c *promotions) Promote(ctx context.Context, q PromoteRequest) ([]base.Promotion, error) {
	p := &promotion{promotions: c, PromoteRequest: q, t: c.Topology()}
	if err := p.check(); err != nil {
		return nil, err
	}
	if q.Back {
		return nil, c.back(ctx, p.t, p.lost)
	}
	if err := p.find(); err != nil {
		return nil, err
	}
	if err := decidable(p.t, c.Live); err != nil {
		return nil, err
	}
	p.freeze(ctx)
	ps, err := p.decide()
	if err == nil {
		err = p.write(ctx, ps)
	}
	if err != nil {
		if base.CodeOf(err) != base.CodeAmbiguous { // else it may have been written
			p.callOff(ctx)
		}
		return nil, err
	}
	return ps, c.awaitLeaders(ctx, p.groups)
}

// check reads the regions of the request.
func (p *promotion) check() error {
	p.lost, p.seat = p.t.RegionByName(p.Lost), p.t.RegionByName(p.Seat)
	switch {
	case p.lost == 0:
		return base.Errorf(base.CodeInvalid, "there is no region %q", p.Lost)
	case p.Seat != "" && (p.seat == 0 || p.seat == p.lost):
		return base.Errorf(base.CodeInvalid, "region %q cannot take over from %s", p.Seat, p.Lost)
	case !p.Back && p.region() == p.lost:
		return base.Errorf(base.CodeInvalid, "this node is itself in region %s: ask a node of another one", p.Lost)
	}
	return nil
}

// find finds the groups that vote in the lost region: its own, and those it has taken over.
func (p *promotion) find() error {
	for _, r := range p.t.Regions {
		if p.t.Votes(r.ID, p.lost) && p.t.Async > 0 {
			p.regions = append(p.regions, r.ID)
			p.groups = append(p.groups, p.t.AsyncGroups(r.ID)...)
		}
	}
	if len(p.regions) > 0 {
		return nil
	}
	if by := p.t.Seat(p.lost); by != p.lost {
		return base.Errorf(base.CodeInvalid, "region %s has taken over from %s already (godwit.promotions), "+
			"and no other asynchronous table votes there", p.t.RegionName(by), p.Lost)
	}
	return base.Errorf(base.CodeInvalid, "no asynchronous table votes in region %s: synchronous ones go on by themselves", p.Lost)
}

// decidable reports why nothing can be decided now: a promotion is a change of the topology, which
// the meta group logs.
func decidable(t *base.Topology, live func(base.NodeID) bool) error {
	var dead []base.NodeID
	for _, n := range t.MetaVoters {
		if !live(n) {
			dead = append(dead, n)
		}
	}
	if 2*len(dead) < len(t.MetaVoters) {
		return nil
	}
	return base.Errorf(base.CodeUnavailable, "of the voters of the meta group, nodes %v, %v do not answer: "+
		"without a majority of them no region can be promoted, "+
		"by force neither, because the others may go on without this one; start one of them", t.MetaVoters, dead)
}

// # 1. What survivors hold

type copiesQuery struct {
	Lost   base.RegionID  `json:"lost"`
	Groups []base.GroupID `json:"groups"`
	Freeze bool           `json:"freeze"` // false: it was called off
}

type copiesReply struct {
	Copies map[base.GroupID]copyReply `json:"copies"`
	// nodes of the lost region that were heard of lately
	Alive []base.NodeID `json:"alive,omitempty"`
}

type copyReply struct {
	Index  uint64         `json:"index"`
	Closed base.Timestamp `json:"closed"`
}

// freeze asks all nodes outside of the lost region what they hold of its groups; they learn no more
// of them.
func (p *promotion) freeze(ctx context.Context) {
	p.answers, p.silent = p.askSurvivors(ctx, p.t, copiesQuery{Lost: p.lost, Groups: p.groups, Freeze: true})
}

// callOff lets the nodes that were asked learn again. Those that do not hear of it do so when
// frozenFor has passed.
func (p *promotion) callOff(ctx context.Context) {
	p.askSurvivors(context.WithoutCancel(ctx), p.t, copiesQuery{Lost: p.lost, Groups: p.groups})
}

// askSurvivors asks all nodes outside the lost region.
func (c *promotions) askSurvivors(ctx context.Context, t *base.Topology,
	q copiesQuery) (answers map[base.NodeID]copiesReply, silent []base.NodeID) {
	answers = map[base.NodeID]copiesReply{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, n := range t.Nodes {
		if n.Gone || n.Region == q.Lost {
			continue
		}
		wg.Go(func() {
			var r copiesReply
			var err error
			if n.ID == c.self {
				r = c.onCopies(q)
			} else {
				r, err = question[copiesReply](ctx, c.env, n.ID, askCopies, q)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				answers[n.ID] = r
			} else {
				silent = append(silent, n.ID)
			}
		})
	}
	wg.Wait()
	slices.Sort(silent)
	return answers, silent
}

// onCopies answers what this node holds of groups, and lets it learn no more of them. It does
// neither while it hears of the region that is said to be lost.
func (c *promotions) onCopies(q copiesQuery) copiesReply {
	t := c.Topology()
	r := copiesReply{Copies: map[base.GroupID]copyReply{}}
	for _, n := range t.Nodes {
		if n.Region == q.Lost && !n.Gone && c.Live(n.ID) {
			r.Alive = append(r.Alive, n.ID)
		}
	}
	if q.Freeze && len(r.Alive) > 0 {
		return r
	}
	c.setFrozen(q.Groups, q.Freeze)
	for _, g := range q.Groups {
		if index, closed, inc := c.copies.local.HeldHere(g); index > 0 && inc == t.Incarnation(g) {
			r.Copies[g] = copyReply{index, closed}
		}
	}
	if q.Freeze {
		time.AfterFunc(frozenFor, func() { c.setFrozen(q.Groups, false) })
	}
	return r
}

func (c *promotions) setFrozen(groups []base.GroupID, on bool) {
	for _, g := range groups {
		c.replicas.Freeze(g, on)
	}
}

// # 2. The cut

// decide makes the promotions of what the survivors hold. It refuses if survivors do not answer,
// unless it is forced.
func (p *promotion) decide() ([]base.Promotion, error) {
	ps, err := decidePromotion(p.t, p.lost, p.seat, p.regions, p.answers)
	if err == nil && len(p.silent) > 0 && !p.Force {
		err = base.Errorf(base.CodeInvalid, "nodes %v outside region %s do not answer and may hold the newest copies: "+
			"start them, "+
			"or promote with force if they are lost as well", p.silent, p.Lost)
	}
	return ps, err
}

// decidePromotion makes the promotions of some regions, of which all voters were in the lost one,
// of what the survivors hold. seat is where the groups shall vote; 0 chooses the region that holds
// most.
func decidePromotion(t *base.Topology, lost, seat base.RegionID, regions []base.RegionID,
	answers map[base.NodeID]copiesReply) ([]base.Promotion, error) {
	if err := contradicted(t, lost, seat, answers); err != nil {
		return nil, err
	}
	var ps []base.Promotion
	for _, r := range regions {
		p := base.Promotion{Region: r, Lost: lost, Cut: base.MaxTimestamp}
		near := seat
		if moving := t.Seat(r); moving != lost {
			near = moving // the voters were on their way to there
		}
		for _, g := range t.AsyncGroups(r) {
			x := newestCopy(t, g, near, answers)
			if x.Source == 0 {
				return nil, base.Errorf(base.CodeInvalid, "no survivor has a copy of group %v: start the nodes that held one", g)
			}
			p.Cut = min(p.Cut, x.Closed)
			p.Groups = append(p.Groups, x)
		}
		ps = append(ps, p)
	}
	if seat == 0 {
		seat = seatOfMost(t, lost, ps)
	}
	for i := range ps {
		settle(t, &ps[i], seat)
	}
	return ps, nil
}

// contradicted is what survivors say against a promotion: they hear of the lost region, or none is
// in the region that is to take over.
func contradicted(t *base.Topology, lost, seat base.RegionID, answers map[base.NodeID]copiesReply) error {
	took := seat == 0
	for _, n := range slices.Sorted(maps.Keys(answers)) {
		if alive := answers[n].Alive; len(alive) > 0 {
			return base.Errorf(base.CodeInvalid, "region %s is not lost: node %d has heard of its nodes %v in the "+
				"last %v; if they have just died, repeat this in a few seconds, else stop them first",
				t.RegionName(lost), n, alive, deadAfter)
		}
		took = took || t.RegionOf(n) == seat
	}
	if !took {
		return base.Errorf(base.CodeInvalid, "no node of region %s answers: it cannot take over", t.RegionName(seat))
	}
	return nil
}

// newestCopy is the survivor with most of a group's log, preferably in a region, and the newest
// closed timestamp that any of them has; no source: none has a copy.
func newestCopy(t *base.Topology, g base.GroupID, near base.RegionID, answers map[base.NodeID]copiesReply) base.Promoted {
	x := base.Promoted{Group: g}
	for n, a := range answers {
		h, ok := a.Copies[g]
		if !ok {
			continue
		}
		x.Closed = max(x.Closed, h.Closed)
		if x.Source == 0 || h.Index > x.Index || h.Index == x.Index && better(t, near, n, x.Source) {
			x.Source, x.Index = n, h.Index
		}
	}
	return x
}

// better prefers the copy of a node of a region, and else the lower node.
func better(t *base.Topology, near base.RegionID, n, than base.NodeID) bool {
	a, b := t.RegionOf(n) == near, t.RegionOf(than) == near
	return a && !b || a == b && n < than
}

// seatOfMost is the region in which most of the groups begin.
func seatOfMost(t *base.Topology, lost base.RegionID, ps []base.Promotion) (seat base.RegionID) {
	most := map[base.RegionID]int{}
	for _, p := range ps {
		for _, x := range p.Groups {
			most[t.RegionOf(x.Source)]++
		}
	}
	for _, r := range t.Regions {
		if r.ID != lost && most[r.ID] > most[seat] {
			seat = r.ID
		}
	}
	return seat
}

// settle says where the groups of a promotion vote, and which begin elsewhere. Groups whose voters
// were on their way to another region keep on going there.
func settle(t *base.Topology, p *base.Promotion, seat base.RegionID) {
	if p.Seat = seat; t.Seat(p.Region) != p.Lost {
		p.Seat = t.Seat(p.Region)
	}
	for _, x := range p.Groups {
		if r := t.RegionOf(x.Source); r != p.Seat {
			p.Moving = append(p.Moving, x.Group)
			if !slices.Contains(p.From, r) {
				p.From = append(p.From, r)
			}
		}
	}
}

// # 3. The decision

// write makes the promotions part of the topology, unless that has changed meanwhile.
func (p *promotion) write(ctx context.Context, ps []base.Promotion) error {
	_, err := p.Change(ctx, func(now *base.Topology) error {
		changed := func(r base.RegionID) bool {
			return now.Seat(r) != p.t.Seat(r) || now.Votes(r, p.lost) != p.t.Votes(r, p.lost)
		}
		if now.Async != p.t.Async || len(now.Promotions) != len(p.t.Promotions) || slices.ContainsFunc(p.regions, changed) {
			return base.Errorf(base.CodeInvalid, "another promotion was made at the same time: "+
				"look at godwit.promotions and try again")
		}
		for i := range ps {
			ps[i].ID, ps[i].At = uint64(len(now.Promotions)+1), p.clock.Now()
			now.Promotions = append(now.Promotions, ps[i])
		}
		return nil
	})
	return err
}

// back lets the groups of a region vote there again.
func (c *promotions) back(ctx context.Context, t *base.Topology, r base.RegionID) error {
	if t.Seat(r) == r {
		return base.Errorf(base.CodeInvalid, "the groups of region %s vote there", t.RegionName(r))
	}
	for _, n := range t.Nodes {
		if n.Region == r && !n.Gone && !c.Live(n.ID) {
			return base.Errorf(base.CodeInvalid, "node %d of region %s is not alive: start it first", n.ID, t.RegionName(r))
		}
	}
	_, err := c.Change(ctx, func(t *base.Topology) error {
		p := t.Promoted(r)
		if p == nil || t.Seat(r) == r {
			return nil // it was said already
		}
		if !t.Moving(r) {
			p.From = nil
		}
		p.From = append(slices.Clone(p.From), t.Seat(r))
		p.Moving, p.Back = t.AsyncGroups(r), true
		return nil
	})
	return err
}

// awaitLeaders waits until groups have leaders of their present incarnation.
func (c *promotions) awaitLeaders(ctx context.Context, groups []base.GroupID) error {
	for {
		missing := slices.IndexFunc(groups, func(g base.GroupID) bool {
			n := c.dir.Leader(g)
			return n == 0 || c.dir.Incarnation(g) < c.Topology().Incarnation(g)
		})
		if missing < 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return base.Errorf(base.CodeUnavailable, "promoted, but group %v has no leader yet: see `godwit status`",
				groups[missing])
		case <-time.After(leaderPoll):
		}
	}
}

// # 4. A new incarnation

// rewind brings the replicas here to the incarnations of a topology, before any of them is opened.
func (c *promotions) rewind(t *base.Topology) error {
	for i := range t.Promotions {
		p := &t.Promotions[i]
		for _, x := range p.Groups {
			incarnation := uint32(0)
			for j := range t.Promotions[:i+1] {
				if t.Promotions[j].Of(x.Group) != nil {
					incarnation++
				}
			}
			// A copy that missed a promotion of the same group meanwhile is not what a later one
			// began with.
			if err := c.replicas.Rewind(x.Group, incarnation, p, x.Source == c.self); err != nil {
				return fmt.Errorf("group %v: begin incarnation %d: %w", x.Group, incarnation, err)
			}
		}
	}
	return nil
}

// # 5. Voters that move

// errArrived: another node has said so.
var errArrived = errors.New("the voters are known to have arrived")

// arrived says in the topology which of the groups led here have all their voters where they shall
// be.
func (c *promotions) arrived(ctx context.Context, t *base.Topology) {
	there := c.atTheirSeats(t)
	if len(there) == 0 || !c.arriving.CompareAndSwap(false, true) {
		return
	}
	c.work.done.Go(func() {
		defer c.arriving.Store(false)
		_, err := c.Change(ctx, func(now *base.Topology) error { return settled(now, t, there) })
		if err != nil && !errors.Is(err, errArrived) && ctx.Err() == nil {
			c.log.Warn("the topology cannot say yet that groups have moved, trying again", "err", err)
		}
	})
}

// atTheirSeats are the groups led here that were moving and have arrived.
func (c *promotions) atTheirSeats(t *base.Topology) (there []base.GroupID) {
	for _, r := range t.Regions {
		p := t.Promoted(r.ID)
		if p == nil { // what is said of earlier ones no longer matters
			continue
		}
		for _, id := range p.Moving {
			if g := c.groups.Group(id); g != nil && c.atSeat(t, g.Status(), id) {
				there = append(there, id)
			}
		}
	}
	return there
}

// atSeat reports whether a group that is led here has all its voters in the region where they shall
// be.
func (c *promotions) atSeat(t *base.Topology, s group.Status, id base.GroupID) bool {
	elsewhere := func(n base.NodeID) bool { return t.RegionOf(n) != t.Seat(id.Region()) }
	if _, _, incarnation := c.copies.local.HeldHere(id); incarnation != t.Incarnation(id) {
		return false
	}
	return s.IsLeader && s.Serving && len(s.Outgoing) == 0 && len(s.Voters) > 0 && !slices.ContainsFunc(s.Voters, elsewhere)
}

// settled takes groups that have arrived by a topology, then, from those that are moving by another
// one, now.
func settled(now, then *base.Topology, there []base.GroupID) error {
	changed := false
	for _, id := range there {
		if now.Incarnation(id) != then.Incarnation(id) || now.Seat(id.Region()) != then.Seat(id.Region()) {
			continue // it is moving to elsewhere by now
		}
		if p := now.Promoted(id.Region()); p != nil && slices.Contains(p.Moving, id) {
			p.Moving = slices.DeleteFunc(slices.Clone(p.Moving), func(g base.GroupID) bool { return g == id })
			changed = true
		}
	}
	if !changed {
		return errArrived
	}
	return nil
}

// # HTTP

func (c *promotions) servePromote(w http.ResponseWriter, r *http.Request) {
	var q PromoteRequest
	if err := join.Decode(r, &q); err != nil {
		join.Reply(w, http.StatusBadRequest, PromoteReply{Error: err.Error()})
	} else if ps, err := c.Promote(r.Context(), q); err != nil {
		join.Reply(w, http.StatusConflict, PromoteReply{Error: err.Error()})
	} else {
		join.Reply(w, http.StatusOK, PromoteReply{Promotions: c.Accounts(ps)})
	}
}

// PromoteReply is what comes of a promotion.
type PromoteReply struct {
	Error      string             `json:"error,omitempty"`
	Promotions []PromotionAccount `json:"promotions,omitempty"`
}

// PromotionAccount is a promotion of one group, for people.
type PromotionAccount struct {
	ID     uint64         `json:"id"`
	At     base.Timestamp `json:"at"`
	Region string         `json:"region"`
	Lost   string         `json:"lost"`
	Seat   string         `json:"seat"`
	Group  string         `json:"group"`
	Cut    base.Timestamp `json:"cut"`
	Closed base.Timestamp `json:"closed"` // newest closed timestamp heard of the group
	Source base.NodeID    `json:"source"`
	Back   bool           `json:"back"`
}

// Accounts puts promotions into words, group by group.
func (c *promotions) Accounts(ps []base.Promotion) (out []PromotionAccount) {
	t := c.Topology()
	for _, p := range ps {
		for _, g := range p.Groups {
			out = append(out, PromotionAccount{ID: p.ID, At: p.At, Region: t.RegionName(p.Region),
				Lost: t.RegionName(p.Lost), Seat: t.RegionName(p.Seat),
				Group: g.Group.String(), Cut: p.Cut, Closed: g.Closed, Source: g.Source, Back: p.Back})
		}
	}
	slices.SortFunc(out, func(a, b PromotionAccount) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Group, b.Group))
	})
	return out
}
