package replace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/report"
	"github.com/godwitdb/godwit/policy/placement"
)

// A node that has been silent for long is _away_: the topology places no replica there, so that
// other nodes of its region get what it held. Unlike one that was decommissioned it comes back by
// itself, and gets replicas anew. The rules are AWAY-1 to AWAY-3 in docs/protocol.md.

// Params say when nodes are replaced.
type Params struct {
	// Mode is auto or off.
	Mode string `json:"mode"`
	// After is for how long a node must have been silent; as of [time.ParseDuration].
	After string `json:"after"`
	// CopyMB is how many MiB of shards a node sends to others in a second, at most; 0: any number.
	CopyMB int64 `json:"copy_mb_per_s"`

	after time.Duration
}

// Defaults are those of CockroachDB (server.time_until_store_dead).
func Defaults() Params { return Params{Mode: "auto", After: "5m0s", CopyMB: 64} }

// least is the shortest silence: a restart takes less.
const least = 5 * time.Second

// leastCopyMB is the slowest copy: of a slower one its receiver would think that it stands still.
const leastCopyMB = 4

// Validate reads the parameters.
func (p *Params) Validate() (err error) {
	if p.Mode != "auto" && p.Mode != "off" {
		return base.Errorf(base.CodeInvalid, "replace.mode is %q; it must be auto or off", p.Mode)
	}
	if p.after, err = time.ParseDuration(p.After); err != nil || p.after < least {
		return base.Errorf(base.CodeInvalid, "replace.after is %q; it must be a duration like 5m or 1h, at least %s", p.After, least)
	}
	if p.CopyMB != 0 && p.CopyMB < leastCopyMB {
		return base.Errorf(base.CodeInvalid, "replace.copy_mb_per_s is %d; it must be 0 (no bound) or at least %d", p.CopyMB, leastCopyMB)
	}
	return nil
}

// Read reads the parameters as JSON.
func Read(data []byte) (p Params, err error) {
	if err = json.Unmarshal(data, &p); err == nil {
		err = p.Validate()
	}
	return p, err
}

// Cluster is what a node's part in replacements needs of the rest of the node.
type Cluster interface {
	// Topology is the newest one that the node knows, and Change rewrites it.
	Topology() *base.Topology
	Change(ctx context.Context, fn func(*base.Topology) error) (*base.Topology, error)
	// Status asks all nodes.
	Status(ctx context.Context) *report.Status
	// Silence is how long nothing was heard of a node; since this process began if never.
	Silence(base.NodeID) time.Duration
	// LeadsMeta reports whether this node leads the meta group under a lease.
	LeadsMeta() bool
}

// Keeper is a node's part in replacements.
type Keeper struct {
	node Cluster
	log  *slog.Logger

	params  atomic.Pointer[Params]
	looking atomic.Bool
	looked  time.Time                 // of Look alone
	back    map[base.NodeID]time.Time // since when nodes that were away answer; while looking
	waits   atomic.Pointer[map[base.NodeID]string]
}

// Every is the time between two looks. A node that was away must have answered for backAfter before
// it gets replicas again: one that comes and goes would get them again and again.
const (
	Every     = 5 * time.Second
	backAfter = 30 * time.Second
)

// New makes the part of a node.
func New(c Cluster, log *slog.Logger) *Keeper {
	k := &Keeper{node: c, log: log, back: map[base.NodeID]time.Time{}}
	if err := k.SetReplaceParams(Defaults()); err != nil {
		panic(err) // a test would have shown it
	}
	return k
}

// SetReplaceParams changes when nodes are replaced.
func (k *Keeper) SetReplaceParams(p Params) error {
	if err := p.Validate(); err != nil {
		return err
	}
	k.params.Store(&p)
	return nil
}

// ReplaceWaits is why silent nodes are not replaced; nothing where the meta group is not led.
func (k *Keeper) ReplaceWaits() map[base.NodeID]string {
	if w := k.waits.Load(); w != nil {
		return *w
	}
	return nil
}

// Look replaces a node if that is due, or takes one back. It runs on every node, and does something
// where the meta group is led. Work is begun by begin, which waits for nobody.
func (k *Keeper) Look(ctx context.Context, t *base.Topology, begin func(func())) {
	p := k.params.Load()
	if !k.node.LeadsMeta() || !slices.ContainsFunc(t.Nodes, func(n base.Node) bool {
		return !n.Gone && (n.Away || k.node.Silence(n.ID) >= p.after)
	}) {
		k.waits.Store(nil)
		return
	}
	if time.Since(k.looked) < Every || !k.looking.CompareAndSwap(false, true) {
		return
	}
	k.looked = time.Now()
	begin(func() {
		defer k.looking.Store(false)
		k.look(ctx, t, p)
	})
}

func (k *Keeper) look(ctx context.Context, t *base.Topology, p *Params) {
	s := k.node.Status(ctx)
	k.takeBack(ctx, t, s)
	if p.Mode != "auto" {
		k.waits.Store(nil)
		return
	}
	silent := func(n base.NodeID) bool { return k.node.Silence(n) >= p.after }
	away, waits := Decide(t, s, silent)
	k.waits.Store(&waits)
	if away == 0 {
		return
	}
	err := k.mark(ctx, t, away, true)
	if err == nil {
		k.log.Warn("a node has been silent for long: its replicas move to others of its region, until it is back", "peer", away,
			"silent", k.node.Silence(away).Round(time.Second))
	} else if ctx.Err() == nil {
		k.log.Warn("a silent node cannot be replaced, trying again", "peer", away, "err", err)
	}
}

// errOther: another change of the topology came between.
var errOther = errors.New("another change of the topology came between")

func (k *Keeper) mark(ctx context.Context, t *base.Topology, id base.NodeID, away bool) error {
	_, err := k.node.Change(ctx, func(now *base.Topology) error {
		if now.Version != t.Version {
			return errOther
		}
		now.Node(id).Away = away
		return nil
	})
	return err
}

// takeBack lets nodes that were away have replicas again.
func (k *Keeper) takeBack(ctx context.Context, t *base.Topology, s *report.Status) {
	for _, n := range s.Nodes {
		if x := t.Node(n.ID); x == nil || !x.Away || x.Gone || !n.Live {
			delete(k.back, n.ID)
			continue
		}
		if k.back[n.ID].IsZero() {
			k.back[n.ID] = time.Now()
		}
		if time.Since(k.back[n.ID]) < backAfter {
			continue
		}
		if err := k.mark(ctx, t, n.ID, false); err != nil {
			continue // another look follows
		}
		k.log.Info("a node that was away is back, and gets replicas again", "peer", n.ID)
		return // t is an old one now
	}
}

// Decide says which node is to be replaced now, 0 if none, and why others that are silent are not.
func Decide(t *base.Topology, s *report.Status, silent func(base.NodeID) bool) (base.NodeID, map[base.NodeID]string) {
	waits := map[base.NodeID]string{}
	for _, n := range t.Nodes {
		if n.Gone || n.Away || !silent(n.ID) {
			continue
		}
		why := keeps(t, s, n.ID)
		if why == "" {
			return n.ID, waits
		}
		waits[n.ID] = why
	}
	return 0, waits
}

// keeps is why a silent node is not replaced (AWAY-1, AWAY-2); empty: it is.
func keeps(t *base.Topology, s *report.Status, id base.NodeID) string {
	if !t.Allows(base.VersionAway) {
		return t.NotYet("to replace a node", base.VersionAway).Msg
	}
	answers := map[base.NodeID]*report.NodeStatus{}
	for i := range s.Nodes {
		if s.Nodes[i].Live {
			answers[s.Nodes[i].ID] = &s.Nodes[i]
		}
	}
	if answers[id] != nil {
		return "it answers"
	}
	down, all := 0, 0
	for _, n := range t.Nodes {
		if !n.Gone {
			all++
			if answers[n.ID] == nil {
				down++
			}
		}
	}
	r := t.Region(t.RegionOf(id))
	away := 0
	for _, n := range t.NodesIn(r.ID) {
		if t.Node(n).Away {
			away++
		}
	}
	live := func(n base.NodeID) bool { return answers[n] != nil && !t.Node(n).Away }
	switch err := Removable(t, id, live); {
	case err != nil:
		return err.Error()
	case r.State == base.RegionLeaving:
		return "its region is being dropped"
	case down*3 > all:
		return fmt.Sprintf("%d of %d nodes do not answer: that is more than a third, and may be the network", down, all)
	case away > 0 && (away+1)*3 > len(t.NodesIn(r.ID)):
		return fmt.Sprintf("more than a third of the nodes of region %s would be away", r.Name)
	}
	if err := Movable(t, id, s.Groups); err != nil {
		return err.Error()
	}
	return noPlace(t, s, id, answers)
}

// noPlace is why the others of the region cannot take the replicas of a node.
func noPlace(t *base.Topology, s *report.Status, id base.NodeID, answers map[base.NodeID]*report.NodeStatus) string {
	edit := *t
	edit.Nodes = slices.Clone(t.Nodes)
	edit.Node(id).Away = true
	next := placement.Place(edit)
	fewer := len(next.MetaVoters) < len(t.MetaVoters)
	for i := range t.Replicas {
		fewer = fewer || len(next.Replicas[i]) < len(t.Replicas[i])
	}
	for k := range t.Placements {
		for i, set := range t.Placements[k].Replicas {
			fewer = fewer || len(next.Placements[k].Replicas[i]) < len(set)
		}
	}
	for k := range t.Own {
		for i, set := range t.Own[k].Replicas {
			fewer = fewer || len(next.Own[k].Replicas[i]) < len(set)
		}
	}
	if fewer {
		return "no other node of its region is free for its replicas: add one"
	}
	for _, g := range s.Groups {
		voters, _ := placement.Members(t, g.ID)
		if !report.Same(g.Voters, voters) {
			return fmt.Sprintf("replicas of group %s are still on the move", g.Name)
		}
	}
	room, bytes, known := int64(0), int64(0), false
	for _, n := range t.NodesIn(t.RegionOf(id)) {
		if x := answers[n]; x != nil && n != id {
			bytes = max(bytes, x.DiskBytes)
			room += x.DiskFree / 2
			known = known || x.DiskTotal > 0
		}
	}
	if known && room < bytes {
		return fmt.Sprintf("the disks of the others of its region have %d MiB to spare, and its replicas may take %d", room>>20, bytes>>20)
	}
	return ""
}
