package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// While faults go on, each node keeps writing rows of each group, as statements do. A set of nodes
// is whole if no fault touches them, they reach each other, and they are a majority of each group.
// Each write of a whole node must succeed within wholeBound of the write before, or of the last
// change of the whole set, and so must the rows after the last fault. After a time without a whole
// set leaders are elected anew and wait for leases, for lostBound. (serveBound is the goal.)

const (
	wholeBound = 3500 * time.Millisecond
	lostBound  = 5 * time.Second
	aliveEvery = 250 * time.Millisecond // a write for each node and group
	aliveSlots = 20                     // rows of each, so that no write waits for an earlier one
	aliveHang  = 5 * time.Second        // what ends a write
	aliveLook  = 100 * time.Millisecond // between looks at what is whole
)

// schemaKey is read as the definition of a table is: the catalog hold covers it.
var schemaKey = base.AppendUint64(base.IndexPrefix(base.MetaShard, base.CatalogTable, 1, 0), 1<<40)

// writeUnderSchema changes keys through a node, under a schema that it has read.
func writeUnderSchema(ctx context.Context, db kv.DB, keys ...base.Key) error {
	t := db.Begin(kv.Options{})
	_, err := t.Get(ctx, []base.Key{schemaKey}, kv.LockNone)
	for _, k := range keys {
		t.Put(k, []byte("x"), 0)
	}
	if err == nil {
		_, err = t.Commit(ctx)
	}
	if err != nil {
		t.Rollback(context.Background())
	}
	return err
}

// served has the writes of one node to rows of one group. It is a cell of the table that a vigil
// watches.
type served struct {
	h    *host
	g    base.GroupID
	keys []base.Key

	mu   sync.Mutex
	last time.Time // when a write succeeded
	err  error     // of the newest write that failed

	// Used by the goroutine that judges:
	since    time.Time // from when on writes must succeed; zero: they need not now
	from     time.Time // when the present pause began
	noted    bool      // this pause has been noted as longer than the goal
	reported bool      // this pause has been reported
}

// vigil watches that whole nodes are served during a run.
type vigil struct {
	w     *world
	cells []*served
	stop  chan struct{}
	done  sync.WaitGroup
	// longest is the longest pause while a majority was whole, longestLost that after a time when
	// none was; lost is when none was last.
	longest, longestLost time.Duration
	lost                 time.Time
}

// watch begins to write and to judge. It must be called while no fault is on.
func (b *bench) watch() *vigil {
	w := b.w
	v := &vigil{w: w, stop: make(chan struct{})}
	for _, g := range w.ident.First.Groups() {
		if g == base.MetaGroup {
			continue
		}
		for _, h := range w.hosts {
			c := &served{h: h, g: g}
			for i := range aliveSlots {
				c.keys = append(c.keys, probeKey(g, h.id, 100+i))
			}
			v.cells = append(v.cells, c)
		}
	}
	var made sync.WaitGroup
	for _, c := range v.cells {
		made.Go(func() { v.found(c) })
	}
	made.Wait()
	for _, c := range v.cells {
		c.last = time.Now()
		for i := range aliveSlots {
			v.done.Go(func() { v.write(c, i) })
		}
	}
	v.done.Go(v.look)
	return v
}

// found makes the rows of a cell, and pins them to their home.
func (v *vigil) found(c *served) {
	ctx, cancel := context.WithTimeout(context.Background(), liveBound)
	defer cancel()
	l := c.h.up()
	if l == nil {
		v.w.fail("node %d is not up before the faults", c.h.id)
		return
	}
	_, err := kv.Run(ctx, l.node.DB(), kv.Options{}, func(t kv.Txn) error {
		for _, k := range c.keys {
			t.Put(k, []byte("new"), c.g.Region())
			t.Move(k, c.g.Region(), kv.MoveOptions{Pin: kv.PinOn})
		}
		return nil
	})
	if err != nil {
		v.w.fail("node %d cannot make rows of %v before the faults: %w", c.h.id, c.g, err)
	}
}

// end stops the writes and the judging.
func (v *vigil) end() {
	close(v.stop)
	v.done.Wait()
}

// write has one row of a cell written, by turns with its other ones.
func (v *vigil) write(c *served, slot int) {
	wait := time.Duration(slot) * aliveEvery
	for {
		select {
		case <-v.stop:
			return
		case <-time.After(wait):
		}
		wait = aliveSlots * aliveEvery
		l := c.h.up()
		if l == nil {
			continue
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(l.ctx, aliveHang)
		err := writeUnderSchema(kv.WithPatience(ctx, kv.NewPatience()), l.node.DB(), c.keys[slot])
		cancel()
		wait = max(0, wait-time.Since(began))
		c.mu.Lock()
		if err == nil {
			c.last = time.Now()
		} else {
			c.err = err
		}
		c.mu.Unlock()
		if err != nil && !l.dead.Load() {
			v.w.log.printf("node %d, %v: not written after %v: %v", c.h.id, c.g, time.Since(began), err)
		}
	}
}

// look judges until the end.
func (v *vigil) look() {
	print := ""
	for {
		select {
		case <-v.stop:
			return
		case <-time.After(aliveLook):
		}
		whole, now := v.w.whole(), time.Now()
		text := whole.String()
		if len(whole.nodes) == 0 {
			v.lost = now
		}
		if text != print {
			v.w.log.printf("whole: %v", text)
		}
		var out []string
		var why error
		for _, c := range v.cells {
			if err, over := v.judge(c, whole, text != print, now); over {
				out, why = append(out, fmt.Sprintf("%d:%v", c.h.id, c.g)), err
			}
		}
		if len(out) > 0 {
			v.w.fail("not written for %v though a majority is whole (%v), node by node: %v; an error of before: %w",
				wholeBound, whole, out, why)
		}
		print = text
	}
}

// judge reports whether a cell has not been served for too long, once for each time.
func (v *vigil) judge(c *served, whole *wholeness, changed bool, now time.Time) (err error, over bool) {
	c.mu.Lock()
	last, err := c.last, c.err
	c.mu.Unlock()
	switch {
	case !whole.serves(c):
		c.since = time.Time{}
	case changed || c.since.IsZero():
		c.since = now
	}
	from := c.since
	if last.After(from) {
		from = last
	}
	if from != c.from {
		if c.reported {
			v.w.log.printf("node %d writes rows of %v again, or need not", c.h.id, c.g)
		}
		c.from, c.noted, c.reported = from, false, false
	}
	if c.since.IsZero() {
		return nil, false
	}
	pause := now.Sub(from)
	bound, longest := wholeBound, &v.longest
	if now.Sub(v.lost) < lostBound {
		bound, longest = lostBound, &v.longestLost
	}
	*longest = max(*longest, pause)
	if pause > serveBound && !c.noted {
		c.noted = true
		v.w.log.printf("node %d has not written rows of %v for %v; whole: %v; %v", c.h.id, c.g, pause, whole.nodes, err)
	}
	if pause <= bound || c.reported {
		return nil, false
	}
	c.reported = true
	return cmp.Or(err, error(base.Errorf(base.CodeOther, "none"))), true
}

// wholeness is what no fault touches at present: nodes that reach each other and are a majority of
// each group.
type wholeness struct {
	faults int64 // that have begun or ended
	nodes  []base.NodeID
	homes  map[base.GroupID]bool // groups that have a replica at home among them
	groups string                // their members
}

func (x *wholeness) String() string {
	return fmt.Sprintf("%d changes, nodes %v, %s", x.faults, x.nodes, x.groups)
}

// serves reports whether a node must be able to write rows of a group.
func (x *wholeness) serves(c *served) bool {
	return slices.Contains(x.nodes, c.h.id) && x.homes[c.g]
}

// sound reports whether no fault touches a host.
func (h *host) sound() bool {
	l := h.up()
	return l != nil && h.slow.Load() == 0 && h.disk.Load() == int64(h.w.cfg.SyncDelay) &&
		max(h.frozen.Load(), h.drains.Load()) <= int64(h.w.now()) && !h.jumped.Load() && !h.wrong.Load()
}

// linked reports whether the paths between two hosts are as without faults, and nothing is under
// way that was sent while they were slower: what comes later stays behind it.
func (w *world) linked(a, b *host) bool {
	calm := func(a, b base.RegionID) bool { return w.net.Path(a, b) == w.calmPath(a, b) && !w.net.Drains(a, b) }
	return !w.net.IsCut(a.id, b.id) && !w.net.IsCut(b.id, a.id) && calm(a.region, b.region) && calm(b.region, a.region)
}

// whole finds the largest part of the cluster that is whole. No nodes: none is a majority.
func (w *world) whole() *wholeness {
	out := &wholeness{faults: w.faults.Load(), homes: map[base.GroupID]bool{}}
	best := w.largestPart()
	var b strings.Builder
	for _, g := range w.ident.First.Groups() {
		for _, h := range best {
			l := h.up()
			if l == nil {
				return out
			}
			grp := l.groupOf(g)
			if grp == nil || len(grp.Status().Voters) == 0 { // not here, or added by a move a moment ago
				continue
			}
			why, err := l.store.Suspicion(g)
			st := grp.Status()
			if err != nil || why != "" || !majority(st.Voters, best) || len(st.Outgoing) > 0 && !majority(st.Outgoing, best) {
				return out
			}
			fmt.Fprint(&b, g, h.id, st.Voters, st.Outgoing, st.Learners, " ")
			out.homes[g] = out.homes[g] || h.region == g.Region()
		}
	}
	for _, h := range best {
		out.nodes = append(out.nodes, h.id)
	}
	out.groups = b.String()
	return out
}

// largestPart is the most sound hosts that reach each other over sound ones.
func (w *world) largestPart() (best []*host) {
	for _, h := range w.hosts {
		if !h.sound() || slices.Contains(best, h) {
			continue
		}
		part := []*host{h}
		for i := 0; i < len(part); i++ {
			for _, x := range w.hosts {
				if x.sound() && !slices.Contains(part, x) && w.linked(part[i], x) {
					part = append(part, x)
				}
			}
		}
		if len(part) > len(best) {
			best = part
		}
	}
	slices.SortFunc(best, func(a, b *host) int { return int(a.id) - int(b.id) })
	return best
}

func majority(of []base.NodeID, part []*host) bool {
	n := 0
	for _, h := range part {
		if slices.Contains(of, h.id) {
			n++
		}
	}
	return 2*n > len(of)
}
