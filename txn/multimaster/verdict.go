package multimaster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/epoch"
)

// All nodes must make the same of the epochs. Whoever speaks says what it has made of them and up
// to which one: a claim. Once one that differs is found, the majority of those concerned is right:
// it goes on without the others, and a node that is not part of it stops (rule EPO-8).

// claim is what a node says that it has made of the epochs up to one.
type claim struct {
	at     uint64
	digest epoch.Digest
}

// comparison is what is known of the outcomes of this node and of others.
type comparison struct {
	digests map[uint64]epoch.Digest // of epochs applied here of late
	claims  map[base.NodeID]claim   // what others say, not compared yet
	agree   map[base.NodeID]uint64  // nodes with the same outcomes, and up to which epoch at least
	differ  map[base.NodeID]uint64  // nodes with others, and from which epoch on at the latest
}

// digestsKept is how many digests are kept to compare those of others with.
const digestsKept = 256

func (c *comparison) init() {
	c.digests, c.claims = map[uint64]epoch.Digest{}, map[base.NodeID]claim{}
	c.agree, c.differ = map[base.NodeID]uint64{}, map[base.NodeID]uint64{}
}

// applyDigest adds an epoch that was applied here, and compares the claims.
func (c *comparison) applyDigest(num uint64, d epoch.Digest) {
	c.digests[num] = d
	if len(c.digests) > digestsKept {
		oldest := num
		for n := range c.digests {
			oldest = min(oldest, n)
		}
		delete(c.digests, oldest)
	}
	for n := range c.claims {
		c.compare(n)
	}
}

// hear takes a claim; the caller holds mu.
func (e *Engine) hear(n base.NodeID, at uint64, d epoch.Digest) {
	if n == e.cfg.Self || at == 0 {
		return
	}
	// If the old claim is of a later epoch, this node will soon be able to compare that one.
	if old, ok := e.claims[n]; !ok || old.at <= e.applied.Load() {
		e.claims[n] = claim{at, d}
	}
	e.compare(n)
}

// compare looks at a claim if it is of an epoch whose outcome is known here.
func (c *comparison) compare(n base.NodeID) {
	said, ok := c.claims[n]
	mine, known := c.digests[said.at]
	if !ok || !known {
		return
	}
	delete(c.claims, n)
	switch from, differs := c.differ[n]; {
	case mine == said.digest:
		c.agree[n] = max(c.agree[n], said.at)
		delete(c.differ, n)
	case !differs || said.at < from:
		c.differ[n] = said.at
	}
}

type verdict int

const (
	open     verdict = iota // nobody differs, or nobody can tell yet who is right
	right                   // this node, and a majority
	outvoted                // this node is not part of any majority
)

// judge says whose outcomes count among some nodes, of which self is one.
func (c *comparison) judge(self base.NodeID, among []base.NodeID) verdict {
	first, against := uint64(0), 0
	for _, n := range among {
		if from, ok := c.differ[n]; ok && n != self {
			against++
			if first == 0 || from < first {
				first = from
			}
		}
	}
	with := 1
	for _, n := range among {
		if _, ok := c.differ[n]; !ok && n != self && c.agree[n] >= first {
			with++
		}
	}
	switch {
	case against == 0:
		return open
	case 2*with > len(among):
		return right
	case 2*against >= len(among):
		return outvoted
	}
	return open
}

// concerned are the members and voters of a view, and this node.
func (e *Engine) concerned(v *epoch.View) (among []base.NodeID) {
	for _, n := range slices.Concat(v.Members, v.Voters, []base.NodeID{e.cfg.Self}) {
		if !slices.Contains(among, n) {
			among = append(among, n)
		}
	}
	return among
}

// weigh acts on what members have said, and reports whether this node may go on with them; the
// caller holds mu.
func (e *Engine) weigh() bool {
	if !e.active || len(e.differ) == 0 {
		return true
	}
	switch e.judge(e.cfg.Self, e.place.View.Members) {
	case right:
		e.late = true
		e.need("the outcomes of a member differ from those of the majority")
		return false
	case outvoted:
		e.diverge()
		return false
	}
	return true
}

// diverge stops this node because its outcomes are not those of the majority; the caller holds mu.
func (e *Engine) diverge() {
	var who []string
	first := uint64(0)
	for n, from := range e.differ {
		who = append(who, fmt.Sprint(n))
		if first == 0 || from < first {
			first = from
		}
	}
	slices.Sort(who)
	e.diverged = e.failure == nil || e.diverged
	e.halt(base.Errorf(base.CodeCorrupt, "the rows of MULTI MASTER tables on node %d differ from those of nodes %s as "+
		"of epoch %d, so it takes no part in epochs any more and its rows of these tables are "+
		"not to be relied on. Keep a copy of its data directory if the cause is to be found, "+
		"and check its disk and memory; then `godwit epochs copy --addr` with this node's own address "+
		"replaces those rows by another node's, while all goes on", e.cfg.Self, strings.Join(who, ", "), first))
}

// Recopy has a node that has stopped because its rows differ discard them, and copy those of
// another node. What it has of the log, and has said that it holds, it keeps (rule EPO-2).
func (e *Engine) Recopy() error {
	if !e.lock() {
		return base.Errorf(base.CodeUnavailable, "the node stops")
	}
	defer e.unlock()
	e.mu.Lock()
	failure, diverged := e.failure, e.diverged
	e.mu.Unlock()
	switch {
	case failure == nil:
		return base.Errorf(base.CodeInvalid, "this node has not stopped taking part in epochs: there is nothing to repair")
	case !diverged:
		return base.Errorf(base.CodeInvalid, "this node has stopped for another reason than rows that differ, "+
			"which copying does not cure: %v", failure)
	}
	if err := e.setLoading(true); err != nil {
		return err
	}
	e.copies.Add(1) // reads under way begin again
	e.mu.Lock()
	e.failure, e.diverged = nil, false
	e.forgive()
	e.mu.Unlock()
	e.log.Warn("the rows of MULTI MASTER tables are discarded, and copied from another node", "because", failure)
	e.need("the rows are to be copied")
	return nil
}

// Discard has a node copy the rows of another one, because its own are damaged. Nobody reads them
// from now on. It is a member again when it has at least what it has said it holds (EPO-2).
func (e *Engine) Discard(why error) error {
	if !e.lock() {
		return base.Errorf(base.CodeUnavailable, "the node stops")
	}
	defer e.unlock()
	e.mu.Lock()
	if e.place.View.Number == 0 || e.place.Loading && e.failure == nil {
		e.mu.Unlock()
		return nil
	}
	e.retire()
	e.place.Least = max(e.full, e.place.Least)
	e.mu.Unlock()
	if err := e.setLoading(true); err != nil {
		return err
	}
	e.copies.Add(1) // reads under way begin again
	e.mu.Lock()
	e.failure, e.diverged = nil, false
	e.forgive()
	e.mu.Unlock()
	e.log.Warn("the rows of MULTI MASTER tables are damaged, and copied from another node", "why", why)
	e.need("the rows are damaged")
	return nil
}

// forgive forgets what was compared: the rows are others.
func (c *comparison) forgive() {
	clear(c.claims)
	clear(c.agree)
	clear(c.differ)
	clear(c.digests)
}
