package node

import (
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/fence"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/mechanism/store"
)

// This file keeps old copies of a store from speaking as the node (FENCE-1 to FENCE-5). Package
// fence has the rules, package join asks the others.

// beatEvery is how often a node notes that it runs. A copy of its store that is older than that is
// told from the original.
const beatEvery = 10 * time.Second

// remember has the node judge the stores of others, from now on.
func (n *Node) remember(st *store.Store, boot *join.Bootstrap) error {
	var of map[string]fence.Memory
	if _, err := loadJSON(st, recOthersLives, &of); err != nil {
		return err
	}
	n.book = fence.NewBook(of, func(of map[string]fence.Memory, sync bool) error {
		return encodeJSON(st, recOthersLives, of, sync)
	})
	boot.Judge(n.book)
	return nil
}

// superseded reports whether a process of another node is known to have been followed by a newer
// one.
func (n *Node) superseded(id base.NodeID, process uint64) bool {
	n.mu.Lock()
	c := n.cluster
	n.mu.Unlock()
	if c == nil {
		return false
	}
	x := c.Topology().Node(id)
	return x != nil && n.book.Superseded(x.UUID, process)
}

// confirm begins a life of the store, and returns once enough other nodes have confirmed that they
// know of no newer one.
func (n *Node) confirm(ctx context.Context, j joining, id *join.Identity) (line fence.Lineage, err error) {
	if _, err := loadJSON(j.store, recLives, &line); err != nil {
		return nil, err
	}
	if j.store.LostTail() != "" {
		line = line.Forgive()
	}
	line = line.Begin(j.process)
	if err := saveJSON(j.store, recLives, line); err != nil {
		return nil, err
	}
	t, err := storedTopology(j.store)
	if err != nil {
		return nil, err
	}
	if t == nil {
		t = &id.First
	}
	var founded bool
	if _, err := loadJSON(j.store, recFounded, &founded); err != nil {
		return nil, err
	}
	claim := fence.Claim{Lineage: line, Force: j.cfg.AcceptOldStore}
	if claim.Force {
		n.log.Warn("this node runs with --accept-old-store: what it has acknowledged since its store was copied is lost")
	}
	q := join.Confirmation{Claim: claim, Members: otherMembers(t, id.Node),
		Enough: func(ok map[string]bool) bool {
			// A founder's first life has nothing to lack, and the others may not know yet that they
			// are members.
			return claim.Force || id.Founding && !founded || enoughToConfirm(t, id.Node, ok)
		},
		Beat: func() (fence.Claim, error) {
			line = line.Beat()
			claim.Lineage = line
			return claim, saveJSON(j.store, recLives, line)
		}}
	if err := n.awaitConfirmed(ctx, j, id, q); err != nil {
		return nil, err
	}
	return line, nil
}

func (n *Node) awaitConfirmed(ctx context.Context, j joining, id *join.Identity, q join.Confirmation) error {
	begin := time.Now()
	if err := j.boot.Confirm(ctx, id.ClusterID, q); err != nil {
		return err
	}
	n.log.Debug("the store is confirmed to be the newest", "took", time.Since(begin))
	return nil
}

// otherMembers are the other nodes of a topology.
func otherMembers(t *base.Topology, self base.NodeID) (js []join.Joiner) {
	for _, x := range t.Nodes {
		if x.ID != self && !x.Gone {
			js = append(js, join.Joiner{UUID: x.UUID, Addr: x.Addr})
		}
	}
	return js
}

// enoughToConfirm reports whether the nodes that know of no newer copy of this one's store are
// enough: with this node they are a majority of the meta group's voters, without which a node can
// do little anyway; and at least one, if there are others.
func enoughToConfirm(t *base.Topology, self base.NodeID, ok map[string]bool) bool {
	if len(otherMembers(t, self)) == 0 {
		return true
	}
	votes, others := 0, 0
	for _, x := range t.Nodes {
		if x.ID != self && !ok[x.UUID] {
			continue
		}
		if x.ID != self {
			others++
		}
		if slices.Contains(t.MetaVoters, x.ID) {
			votes++
		}
	}
	return others > 0 && votes > len(t.MetaVoters)/2
}

// beat notes now and then that this process runs, and tells the others, which tell it if another
// copy of the store has taken its place.
func (n *Node) beat(ctx context.Context, j joining, line fence.Lineage) {
	for {
		line = line.Beat()
		if err := saveJSON(n.store, recLives, line); err != nil {
			n.log.Warn("the node's life cannot be noted in its store", "err", err)
		} else if err := j.boot.Tell(ctx, n.cluster, fence.Claim{Lineage: line, Force: j.cfg.AcceptOldStore}); err != nil {
			n.fail(err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(beatEvery):
		}
	}
}
