package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Asynchronous groups vote in one region. When that region is lost, the others go on from a cut (PROTOCOLS D2):
//
//  1. Who is told to promote asks every node elsewhere what it holds of the groups. From then on none of them learns more.
//  2. The cut of a region is the smallest over its groups of the largest closed timestamp that a survivor has. Whatever
//     a region has served or relied on lies at or below it, because nobody took more for granted (owner I13, I14).
//  3. A change of the topology, through the meta group, makes it so: cut, where the groups vote from now on, and for each
//     the survivor with most of its log. That one's copy, without what lies above the cut, begins the new
//     incarnation; all others discard their state of the group and what they have above the cut, and are sent it.
//  4. A node of the lost region does the same when it is back and hears of it. All keep a list of what they discarded.

// PathPromote promotes the survivors of a region: POST {"lost": "eu"}, see PromoteRequest.
const PathPromote = "/cluster/promote"

// PromoteRequest says what region is lost.
type PromoteRequest struct {
	Lost string `json:"lost"`
	// Seat is where the groups shall vote; empty chooses the region that holds most.
	Seat string `json:"seat,omitempty"`
	// Force goes on without survivors that do not answer; what only they hold is lost, even if it was served.
	Force bool `json:"force,omitempty"`
	// Back lets the groups of a region that is back vote there again.
	Back bool `json:"back,omitempty"`
}

const (
	askCopies = "copies"
	// frozenFor is how long replicas wait for the promotion they were asked for.
	frozenFor = 30 * time.Second
)

type copiesQuery struct {
	Lost   base.RegionID  `json:"lost"`
	Groups []base.GroupID `json:"groups"`
	Freeze bool           `json:"freeze"` // false: it was called off
}

type copiesReply struct {
	Copies map[base.GroupID]copyReply `json:"copies"`
	Alive  []base.NodeID              `json:"alive,omitempty"` // nodes of the lost region that were heard of lately
}

type copyReply struct {
	Index  uint64         `json:"index"`
	Closed base.Timestamp `json:"closed"`
}

// onCopies answers what this node holds of groups, and lets it learn no more of them.
func (c *Cluster) onCopies(q copiesQuery) copiesReply {
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
	for _, g := range q.Groups {
		c.o.Replicas.Freeze(g, q.Freeze)
		if index, closed, inc := c.o.Replicas.HeldHere(g); index > 0 && inc == t.Incarnation(g) {
			r.Copies[g] = copyReply{index, closed}
		}
	}
	if q.Freeze {
		time.AfterFunc(frozenFor, func() {
			for _, g := range q.Groups {
				c.o.Replicas.Freeze(g, false)
			}
		})
	}
	return r
}

// askSurvivors asks all nodes outside the lost region.
func (c *Cluster) askSurvivors(ctx context.Context, t *base.Topology, q copiesQuery) (answers map[base.NodeID]copiesReply, silent []base.NodeID) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, nil
	}
	answers = map[base.NodeID]copiesReply{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, n := range t.Nodes {
		if n.Gone || n.Region == q.Lost {
			continue
		}
		wg.Go(func() {
			var r copiesReply
			ok := true
			if n.ID == c.o.Self {
				r = c.onCopies(q)
			} else {
				ctx, cancel := context.WithTimeout(ctx, askTimeout)
				defer cancel()
				var res wire.AskResponse
				err := c.o.Transport.Call(ctx, n.ID, wire.KindAsk, &wire.AskRequest{Name: askCopies, Body: body}, &res)
				ok = err == nil && json.Unmarshal(res.Body, &r) == nil
			}
			mu.Lock()
			defer mu.Unlock()
			if ok {
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

// Promote lets survivors take over the asynchronous groups of a lost region, and says how.
func (c *Cluster) Promote(ctx context.Context, q PromoteRequest) ([]base.Promotion, error) {
	t := c.Topology()
	lost, seat := t.RegionByName(q.Lost), t.RegionByName(q.Seat)
	switch {
	case lost == 0:
		return nil, base.Errorf(base.CodeInvalid, "there is no region %q", q.Lost)
	case q.Seat != "" && (seat == 0 || seat == lost):
		return nil, base.Errorf(base.CodeInvalid, "region %q cannot take over from %s", q.Seat, q.Lost)
	case q.Back:
		return nil, c.back(ctx, t, lost)
	case t.RegionOf(c.o.Self) == lost:
		return nil, base.Errorf(base.CodeInvalid, "this node is itself in region %s: ask a node of another one", q.Lost)
	}
	ask := copiesQuery{Lost: lost, Freeze: true}
	var regions []base.RegionID
	for _, r := range t.Regions {
		if t.Votes(r.ID, lost) && t.Async > 0 {
			regions = append(regions, r.ID)
			ask.Groups = append(ask.Groups, t.AsyncGroups(r.ID)...)
		}
	}
	if len(regions) == 0 {
		if by := t.Seat(lost); by != lost {
			return nil, base.Errorf(base.CodeInvalid, "region %s has taken over from %s already (godwit.promotions), and no other asynchronous table votes there", t.RegionName(by), q.Lost)
		}
		return nil, base.Errorf(base.CodeInvalid, "no asynchronous table votes in region %s: synchronous ones go on by themselves", q.Lost)
	}
	if err := c.decidable(t); err != nil {
		return nil, err
	}
	answers, silent := c.askSurvivors(ctx, t, ask)
	ps, err := decidePromotion(t, ask, regions, seat, answers)
	if err == nil && len(silent) > 0 && !q.Force {
		err = base.Errorf(base.CodeInvalid, "nodes %v outside region %s do not answer and may hold the newest copies: start them, "+
			"or promote with force if they are lost as well", silent, q.Lost)
	}
	if err == nil {
		_, err = c.Change(ctx, func(now *base.Topology) error {
			changed := func(r base.RegionID) bool { return now.Seat(r) != t.Seat(r) || now.Votes(r, lost) != t.Votes(r, lost) }
			if now.Async != t.Async || len(now.Promotions) != len(t.Promotions) || slices.ContainsFunc(regions, changed) {
				return base.Errorf(base.CodeInvalid, "somebody else has promoted at the same time: look at godwit.promotions and try again")
			}
			now.Promotions = slices.Clone(now.Promotions)
			for i := range ps {
				ps[i].ID, ps[i].At = uint64(len(now.Promotions)+1), c.o.Clock.Now()
				now.Promotions = append(now.Promotions, ps[i])
			}
			return nil
		})
	}
	if err != nil && base.CodeOf(err) != base.CodeAmbiguous {
		ask.Freeze = false
		c.askSurvivors(context.WithoutCancel(ctx), t, ask)
	}
	if err != nil {
		return nil, err
	}
	return ps, c.awaitLed(ctx, ask.Groups)
}

// decidable reports why nothing can be decided now: a promotion is a change of the topology, which the meta group logs.
func (c *Cluster) decidable(t *base.Topology) error {
	var dead []base.NodeID
	for _, n := range t.MetaVoters {
		if !c.Live(n) {
			dead = append(dead, n)
		}
	}
	if 2*len(dead) < len(t.MetaVoters) {
		return nil
	}
	return base.Errorf(base.CodeUnavailable, "of the voters of the meta group, nodes %v, %v do not answer: without a majority of them no region can be promoted, "+
		"by force neither, because the others may go on without this one; start one of them", t.MetaVoters, dead)
}

// decidePromotion makes the promotions of some regions of what the survivors hold.
func decidePromotion(t *base.Topology, q copiesQuery, regions []base.RegionID, seat base.RegionID, answers map[base.NodeID]copiesReply) ([]base.Promotion, error) {
	for n, a := range answers {
		if len(a.Alive) > 0 {
			return nil, base.Errorf(base.CodeInvalid, "region %s is not lost: node %d has heard of its nodes %v in the last %v; if they have just died, repeat this in a few seconds, else stop them first",
				t.RegionName(q.Lost), n, a.Alive, deadAfter)
		}
	}
	if seat != 0 {
		alive := false
		for n := range answers {
			alive = alive || t.RegionOf(n) == seat
		}
		if !alive {
			return nil, base.Errorf(base.CodeInvalid, "no node of region %s answers: it cannot take over", t.RegionName(seat))
		}
	}
	var ps []base.Promotion
	most := map[base.RegionID]int{}
	for _, r := range regions {
		p := base.Promotion{Region: r, Lost: q.Lost, Cut: base.MaxTimestamp}
		want := seat
		if t.Seat(r) != q.Lost {
			want = t.Seat(r) // the voters were on their way to there
		}
		for _, g := range t.AsyncGroups(r) {
			x := base.Promoted{Group: g}
			for n, a := range answers {
				h, ok := a.Copies[g]
				if !ok {
					continue
				}
				x.Closed = max(x.Closed, h.Closed)
				if x.Source == 0 || h.Index > x.Index || h.Index == x.Index && better(t, want, n, x.Source) {
					x.Source, x.Index = n, h.Index
				}
			}
			if x.Source == 0 {
				return nil, base.Errorf(base.CodeInvalid, "no survivor has a copy of group %v", g)
			}
			most[t.RegionOf(x.Source)]++
			p.Cut = min(p.Cut, x.Closed)
			p.Groups = append(p.Groups, x)
		}
		ps = append(ps, p)
	}
	if seat == 0 {
		for _, r := range t.Regions {
			if r.ID != q.Lost && most[r.ID] > most[seat] {
				seat = r.ID
			}
		}
	}
	for i := range ps {
		p := &ps[i]
		if p.Seat = seat; t.Seat(p.Region) != q.Lost {
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
	return ps, nil
}

// better prefers the copy of a node of the seat, and else the lower node.
func better(t *base.Topology, seat base.RegionID, n, than base.NodeID) bool {
	a, b := t.RegionOf(n) == seat, t.RegionOf(than) == seat
	return a && !b || a == b && n < than
}

// back lets the groups of a region vote there again.
func (c *Cluster) back(ctx context.Context, t *base.Topology, r base.RegionID) error {
	if t.Seat(r) == r {
		return base.Errorf(base.CodeInvalid, "the groups of region %s vote there", t.RegionName(r))
	}
	for _, n := range t.Nodes {
		if n.Region == r && !n.Gone && !c.Live(n.ID) {
			return base.Errorf(base.CodeInvalid, "node %d of region %s is not alive: start it first", n.ID, t.RegionName(r))
		}
	}
	_, err := c.Change(ctx, func(t *base.Topology) error {
		t.Promotions = slices.Clone(t.Promotions)
		p := t.Promoted(r)
		if p == nil || t.Seat(r) == r {
			return nil // somebody else has said so
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

// awaitLed waits until groups have leaders of their present incarnation.
func (c *Cluster) awaitLed(ctx context.Context, groups []base.GroupID) error {
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
			return base.Errorf(base.CodeUnavailable, "promoted, but group %v has no leader yet: see `godwit status`", groups[missing])
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// rewind brings the replicas here to the incarnations of a topology, before any of them is opened.
func (c *Cluster) rewind(t *base.Topology) error {
	for i := range t.Promotions {
		p := &t.Promotions[i]
		for _, x := range p.Groups {
			incarnation := uint32(0)
			for j := range t.Promotions[:i+1] {
				if t.Promotions[j].Of(x.Group) != nil {
					incarnation++
				}
			}
			// A copy that missed a promotion of the same group meanwhile is not what a later one began with.
			if err := c.o.Replicas.Rewind(x.Group, incarnation, p, x.Source == c.o.Self); err != nil {
				return fmt.Errorf("group %v: begin incarnation %d: %w", x.Group, incarnation, err)
			}
		}
	}
	return nil
}

func (c *Cluster) registerPromote(mux *http.ServeMux) {
	mux.HandleFunc("POST "+PathPromote, func(w http.ResponseWriter, r *http.Request) {
		var q PromoteRequest
		if err := json.NewDecoder(io.LimitReader(r.Body, maxJoinBody)).Decode(&q); err != nil {
			reply(w, http.StatusBadRequest, PromoteReply{Error: "malformed request: " + err.Error()})
			return
		}
		ps, err := c.Promote(r.Context(), q)
		if err != nil {
			reply(w, http.StatusConflict, PromoteReply{Error: err.Error()})
			return
		}
		reply(w, http.StatusOK, PromoteReply{Promotions: c.Told(ps)})
	})
}

// PromoteReply is what comes of a promotion.
type PromoteReply struct {
	Error      string             `json:"error,omitempty"`
	Promotions []PromotionAccount `json:"promotions,omitempty"`
}

// PromotionAccount is a promotion of one group in words.
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

// Told puts promotions into words, group by group.
func (c *Cluster) Told(ps []base.Promotion) (out []PromotionAccount) {
	t := c.Topology()
	for _, p := range ps {
		for _, g := range p.Groups {
			out = append(out, PromotionAccount{ID: p.ID, At: p.At, Region: t.RegionName(p.Region), Lost: t.RegionName(p.Lost), Seat: t.RegionName(p.Seat),
				Group: g.Group.String(), Cut: p.Cut, Closed: g.Closed, Source: g.Source, Back: p.Back})
		}
	}
	slices.SortFunc(out, func(a, b PromotionAccount) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Group, b.Group))
	})
	return out
}
