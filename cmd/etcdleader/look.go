package etcdleader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/leader"
)

// member is a member of the cluster and how to reach it.
type member struct {
	id      id
	name    string
	url     string
	learner bool
}

// discover finds all members through any endpoint. It uses a given endpoint for the member that
// answers there, and for the other members the client URLs that they advertise.
func (a *Access) discover(ctx context.Context, c *client) ([]member, error) {
	if len(a.Endpoints) == 0 {
		return nil, errors.New("--endpoints: give the client URL of at least one member")
	}
	type answer struct {
		url  string
		id   id
		list *memberList
		err  error
	}
	answers := make([]answer, len(a.Endpoints))
	var wg sync.WaitGroup
	for i, e := range a.Endpoints {
		wg.Go(func() {
			x := &answers[i]
			if x.url, x.err = a.endpoint(e); x.err != nil {
				return
			}
			var s *status
			if s, x.err = c.status(ctx, x.url); x.err != nil {
				return
			}
			x.id = s.Header.Member
			x.list, x.err = c.members(ctx, x.url)
		})
	}
	wg.Wait()
	var errs []error
	var list *memberList
	at := map[id]string{}
	for _, x := range answers {
		if x.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", x.url, x.err))
			continue
		}
		at[x.id] = x.url
		list = x.list
	}
	if list == nil {
		return nil, fmt.Errorf("no endpoint of etcd answers: %w", errors.Join(errs...))
	}
	var out []member
	for _, m := range list.Members {
		x := member{id: m.ID, name: m.Name, url: at[m.ID], learner: m.IsLearner}
		if x.url == "" && len(m.ClientURLs) > 0 {
			x.url = strings.TrimSuffix(m.ClientURLs[0], "/")
		}
		if x.name == "" {
			x.name = x.id.String()
		}
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b member) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// look is the answers of one member.
type look struct {
	status *status
	counts *counters
	err    error
	// trips are the round trips that its sidecar has measured; nil: etcd's are used.
	trips   map[id]time.Duration
	sidecar error
}

// seen is the state that is kept of a member between looks.
type seen struct {
	meter  leader.Meter
	counts *counters
	trips  map[id]time.Duration
}

// maxLag is how many entries a member may be behind the leader and still get the lead: etcd refuses
// requests while a new leader catches up.
const maxLag = 1000

// askAll asks all members at once.
func (a *Agent) askAll(ctx context.Context) []look {
	out := make([]look, len(a.members))
	var wg sync.WaitGroup
	for i, m := range a.members {
		wg.Go(func() {
			x := &out[i]
			if x.status, x.err = a.client.status(ctx, m.url); x.err != nil {
				return
			}
			if x.counts, x.err = a.client.metrics(ctx, m.url); x.err != nil {
				return
			}
			if base := a.opts.Sidecars[m.name]; base != "" {
				x.trips, x.sidecar = a.client.sidecar(ctx, base)
			}
		})
	}
	wg.Wait()
	return out
}

// facts turns the answers of the members into the policy's facts, and remembers them. beats is the
// number of intervals since the last time.
func (a *Agent) facts(looks []look, beats int) *leader.Facts {
	n := len(a.members)
	f := &leader.Facts{Nodes: make([]leader.Node, n), RTT: make([][]time.Duration, n)}
	lead, index := a.leader(looks)
	for i, x := range looks {
		m, s := a.members[i], a.seenOf(i)
		a.count(s, x, beats)
		node := &f.Nodes[i]
		node.ID, node.Region, node.Voter = number(i), base.RegionID(i+1), !m.learner
		node.Requests, node.Writes = s.meter.Load()
		node.Able = x.err == nil && !m.learner && len(x.status.Errors) == 0 && x.status.Applied+maxLag >= index
		if m.id == lead {
			f.Leader = node.ID
		}
		if slices.Contains(a.opts.Candidates, m.name) {
			f.MayLead = append(f.MayLead, node.Region)
		}
		f.RTT[i] = a.roundTrips(looks, i)
	}
	return f
}

// leader is the leader of the newest term that a member knows, and the index of its log; 0 if that
// term has no leader, or no member knows it.
func (a *Agent) leader(looks []look) (lead, index id) {
	var term id
	for _, x := range looks {
		switch s := x.status; {
		case s == nil || s.Term < term:
		case s.Term > term || s.Leader != 0:
			lead, term = s.Leader, s.Term
		}
	}
	for i, x := range looks {
		if a.members[i].id == lead && x.status != nil {
			index = x.status.Index
		}
	}
	return lead, index
}

// seenOf returns the state that is kept of a member.
func (a *Agent) seenOf(i int) *seen {
	m := a.members[i].id
	if a.seen[m] == nil {
		a.seen[m] = &seen{trips: map[id]time.Duration{}, meter: leader.Meter{Memory: a.memory}}
	}
	return a.seen[m]
}

// roundTrips are the round trips from a member to all, in their order. Those from and to members
// that do not answer now are unknown, whatever was measured before.
func (a *Agent) roundTrips(looks []look, from int) []time.Duration {
	out := make([]time.Duration, len(a.members))
	for to, m := range a.members {
		d, ok := a.seenOf(from).trips[m.id]
		switch {
		case to == from:
		case !ok || looks[from].err != nil || looks[to].err != nil:
			out[to] = leader.Unknown
		default:
			out[to] = d
		}
	}
	return out
}

// number is the policy's name of a member: its place in the list, from 1.
func number(i int) base.NodeID { return base.NodeID(i + 1) }

// count takes the requests and the round trips of one member.
func (a *Agent) count(s *seen, x look, beats int) {
	if x.counts == nil {
		s.meter.Add(0, 0, beats)
		return
	}
	old := s.counts
	if old == nil {
		// the age of these counts is not known
		old = &counters{reads: x.counts.reads, writes: x.counts.writes}
	}
	writes := since(old.writes, x.counts.writes)
	reads := since(old.reads, x.counts.reads)
	if a.opts.Serializable {
		reads = 0
	}
	// a linearizable read waits for a quorum, as a write does
	s.meter.Add(reads+writes, reads+writes, beats)
	if x.trips != nil {
		s.trips = x.trips
	} else {
		for to, t := range x.counts.trips {
			if d, ok := t.mean(old.trips[to]); ok {
				s.trips[to] = d
			}
		}
	}
	s.counts = x.counts
}
