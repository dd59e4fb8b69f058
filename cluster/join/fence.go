package join

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/fence"
)

// This file asks the other nodes whether this process's store is the newest copy of it (FENCE-2),
// and answers such questions. That works before the node takes part in anything, since all nodes of
// a cluster may start at once.

// Confirmation is what [Bootstrap.Confirm] needs.
type Confirmation struct {
	Claim fence.Claim
	// Members are the other nodes of the cluster, as far as this one knows.
	Members []Joiner
	// Enough reports whether the nodes with these UUIDs are enough to answer.
	Enough func(uuids map[string]bool) bool
	// Beat makes the claim durable with one more beat, before the others are asked to remember it.
	Beat func() (fence.Claim, error)
}

const (
	// stragglers is how long a node waits for more answers once it has enough: the more answer, the
	// likelier one of them knows of a newer copy. Nodes that run answer in a round trip.
	stragglers = time.Second
	// claimTimeout bounds one round.
	claimTimeout = 3 * time.Second
	// stillWaiting is how often a node says that it waits for others.
	stillWaiting = 10 * time.Second
)

// Confirm returns nil once enough other nodes have confirmed that they know of no newer copy of
// this process's store, and remember it. An error says that this is an old copy, or that another
// process runs with it.
func (b *Bootstrap) Confirm(ctx context.Context, clusterID string, q Confirmation) error {
	self := b.self
	self.ClusterID = clusterID
	said := time.Now()
	for busy, attempt := 0, 1; ; attempt++ {
		got, err := b.round(ctx, self, &q, q.Claim)
		if err == nil && got.confirmed(&q) {
			var c fence.Claim
			if c, err = q.Beat(); err != nil {
				return err
			}
			// Some may remember it though others do not answer: they are asked with this beat then.
			q.Claim, c.Take = c, true
			if got, err = b.round(ctx, self, &q, c); err == nil && got.confirmed(&q) {
				return nil
			}
		}
		if err != nil {
			return err
		}
		if got.busy {
			if busy++; busy == twinPatience {
				return errTwin()
			}
			b.log.Warn("another process runs with this node's store: this one waits for its end", "attempt", busy)
		} else {
			busy = 0
		}
		if attempt == 5 || time.Since(said) > stillWaiting {
			said = time.Now()
			b.log.Warn("this node waits for others before it takes part: a majority of the meta group's voters is to "+
				"confirm that its store is no old copy", "answered", len(got.ok), "last_error", b.failed("", nil))
		}
		pause := joinEvery + rand.N(joinEvery) // two that start at once must not go on in step
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

func errTwin() error {
	return base.Errorf(base.CodeInvalid, "another process runs with this store, or with the one that it is a copy of: "+
		"stop that one first, or start this one with an empty --store")
}

// errStale is what an operator reads whose node was started on an old copy.
func errStale(from, why string) error {
	return base.Errorf(base.CodeInvalid, "this store is an old copy: the node at %s remembers that %s. "+
		"It must not be used, since it lacks what the node has acknowledged later. If a newer copy exists, start that one. "+
		"Else replace the node: start a new one with an empty --store, and run `godwit node decommission` for this "+
		"one. Only if no other copy of the data is left anywhere, start it with --accept-old-store", from, why)
}

// round is what one round of questions brought.
type round struct {
	ok   map[string]bool // nodes that know of nothing newer, by UUID
	busy bool
}

func (r *round) confirmed(q *Confirmation) bool { return !r.busy && q.Enough(r.ok) }

// round asks everybody at once. It ends when all have answered, or enough have and stragglers is
// over.
func (b *Bootstrap) round(ctx context.Context, self Joiner, q *Confirmation, c fence.Claim) (round, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	self.Claim = &c
	addrs := b.addresses(q.Members)
	answers := make(chan *answered, len(addrs))
	for _, a := range addrs {
		go func() {
			r := &answered{addr: a}
			if err := post(ctx, b.client, b.scheme+"://"+a, PathJoin, self, &r.Answer); err != nil {
				b.failed(a, err)
				r = nil
			}
			answers <- r
		}()
	}
	got := round{ok: map[string]bool{}}
	var late <-chan time.Time
	for range addrs {
		if late == nil && q.Enough(got.ok) {
			late = time.After(stragglers)
		}
		select {
		case r := <-answers:
			if err := b.count(&got, r); err != nil {
				return got, err
			}
		case <-late:
			return got, nil
		}
	}
	return got, nil
}

// count takes one answer; nil is of a node that does not answer.
func (b *Bootstrap) count(got *round, r *answered) error {
	if r == nil {
		return nil
	}
	b.located(append(r.Known, r.Self)...)
	switch {
	case r.Final:
		return base.Errorf(base.CodeInvalid, "the node at %s refuses this one: %s", r.addr, r.Error)
	case r.Verdict == fence.Stale:
		return errStale(r.addr, r.Error)
	case r.Verdict == fence.Busy || r.Twin:
		got.busy = true
	case r.Verdict == fence.OK || r.Verdict == "" && r.Identity != nil: // the latter of an older version
		got.ok[r.Self.UUID] = true
	}
	return nil
}

// addresses are all at which other nodes may be.
func (b *Bootstrap) addresses(members []Joiner) []string {
	addrs := slices.Clone(b.join)
	for _, m := range members {
		addrs = append(addrs, m.Addr)
	}
	b.mu.Lock()
	addrs = slices.AppendSeq(addrs, maps.Values(b.where))
	b.mu.Unlock()
	slices.Sort(addrs)
	return slices.DeleteFunc(slices.Compact(addrs), func(a string) bool { return a == "" || a == b.self.Addr })
}

// located notes where members are.
func (b *Bootstrap) located(js ...Joiner) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, j := range js {
		if j.UUID != "" && j.UUID != b.self.UUID && j.Addr != "" && (b.where[j.UUID] != "" || len(b.where) < maxJoiners) {
			b.where[j.UUID] = j.Addr
		}
	}
}

// locations are the members whose address was noted.
func (b *Bootstrap) locations() (js []Joiner) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for uuid, addr := range b.where {
		js = append(js, Joiner{UUID: uuid, Addr: addr})
	}
	return js
}

// judgeClaim answers a process that asks whether its store is the newest.
func (b *Bootstrap) judgeClaim(j Joiner, serving bool, twin func(Joiner) bool) Answer {
	if j.UUID == b.self.UUID {
		if serving && j.Process != b.self.Process {
			return Answer{Verdict: fence.Busy, Error: "this process runs with that store"}
		}
		return Answer{Error: "another process starts with that store"}
	}
	look := *j.Claim
	look.Take = false
	v, why, err := b.book.Judge(j.UUID, &look, time.Now())
	switch {
	case v != fence.OK:
	case twin != nil && twin(j):
		v, why = fence.Busy, "another process runs with this store, and is heard here"
	case j.Claim.Take:
		v, why, err = b.book.Judge(j.UUID, j.Claim, time.Now())
	}
	if err != nil {
		return Answer{Error: fmt.Sprintf("the store of the node that answers takes nothing: %v", err)}
	}
	if v == fence.Stale {
		b.log.Error("a node is refused: its store is an old copy", "uuid", j.UUID, "addr", j.Addr, "why", why)
	} else {
		b.located(j)
	}
	return Answer{Verdict: v, Error: why, Known: b.locations()}
}

// Tell tells the members that this process still runs. An error says that another copy of its store
// has taken its place.
func (b *Bootstrap) Tell(ctx context.Context, c Cluster, claim fence.Claim) error {
	self := b.self
	self.ClusterID = c.ID()
	claim.Take = true
	_, err := b.round(ctx, self, &Confirmation{Members: c.Members(), Enough: func(map[string]bool) bool { return false }},
		claim)
	return err
}
