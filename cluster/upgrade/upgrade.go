// Package upgrade raises the version by which a cluster acts. The nodes may be of builds that know
// newer ones; when all do, the version is raised, by itself after a time or by a command, and there
// is no way back (docs/protocol.md, VERSION-1 to VERSION-5):
//
//  1. Whoever raises it asks all nodes what they know. One that does not answer is waited for.
//  2. Each node promises, on disk, by the topology that it has: no build that does not know the
//     version opens its store, and it refuses nodes of such builds.
//  3. The next topology has the version, if no other one has come between.
//
// A promise is void when another topology comes.
package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Promise is that only builds that know a version open the store of a node.
type Promise struct {
	Version base.ClusterVersion `json:"version"`
	// Topology is the version of the topology by which it was made.
	Topology uint64 `json:"topology"`
}

// Holds reports whether the promise has not become void by a newer topology.
func (p Promise) Holds(t *base.Topology) bool { return t.Version <= p.Topology }

// Needs is the cluster version that a build must know to take part by a topology and a promise.
func Needs(t *base.Topology, p Promise) base.ClusterVersion {
	if p.Holds(t) {
		return max(t.Acts(), p.Version)
	}
	return t.Acts()
}

// Params say when the version of the cluster is raised.
type Params struct {
	// Finalize is auto or manual.
	Finalize string `json:"finalize"`
	// After is for how long all nodes must have run builds that know the new version, with auto; as
	// of [time.ParseDuration].
	After string `json:"after"`

	after time.Duration
}

// Defaults leave a day to go back.
func Defaults() Params { return Params{Finalize: "auto", After: "24h0m0s"} }

// Validate reads the parameters.
func (p *Params) Validate() (err error) {
	if p.Finalize != "auto" && p.Finalize != "manual" {
		return base.Errorf(base.CodeInvalid, "upgrade.finalize is %q; it must be auto or manual", p.Finalize)
	}
	if p.after, err = time.ParseDuration(p.After); err != nil || p.after < 0 {
		return base.Errorf(base.CodeInvalid, "upgrade.after is %q; it must be a duration like 24h or 90m, at least 0s", p.After)
	}
	return nil
}

// Query asks a node what it knows, or for a promise.
type Query struct {
	// Promise is the version; 0 asks only.
	Promise base.ClusterVersion `json:"promise,omitempty"`
	// Topology is the one by which the promise is made.
	Topology uint64 `json:"topology,omitempty"`
}

type Reply struct {
	Knows base.ClusterVersion `json:"knows"`
	// Up is how long the process has run.
	Up time.Duration `json:"up_ns"`
	// Lacks is why nothing is promised; empty: it is, if it was asked for.
	Lacks string `json:"lacks,omitempty"`
}

// Cluster is what a node's part in an upgrade needs of the rest of the node.
type Cluster interface {
	// Topology is the newest one that the node knows, and Change rewrites it.
	Topology() *base.Topology
	Change(ctx context.Context, fn func(*base.Topology) error) (*base.Topology, error)
	// Live reports whether a node has been heard of lately.
	Live(base.NodeID) bool
	// AskVersion asks a node, perhaps this one.
	AskVersion(context.Context, base.NodeID, Query) (Reply, error)
	// LeadsMeta reports whether this node leads the meta group under a lease.
	LeadsMeta() bool
}

// Finalizer is a node's part in upgrades.
type Finalizer struct {
	node  Cluster
	knows base.ClusterVersion
	log   *slog.Logger

	params  atomic.Pointer[Params]
	looking atomic.Bool
	looked  time.Time // of Look alone
	// waits is what the upgrade waits for, as of the last look; only where the meta group is led.
	waits atomic.Pointer[string]
}

// Every is the time between two looks whether the version may be raised.
const Every = 10 * time.Second

// again is the first pause before an attempt after which another topology had come.
const again = 50 * time.Millisecond

// New makes the part of a node whose build knows versions up to one.
func New(c Cluster, knows base.ClusterVersion, log *slog.Logger) *Finalizer {
	u := &Finalizer{node: c, knows: knows, log: log}
	if err := u.SetUpgradeParams(Defaults()); err != nil {
		panic(err) // a test would have shown it
	}
	return u
}

// SetUpgradeParams changes when the version is raised by itself.
func (c *Finalizer) SetUpgradeParams(p Params) error {
	if err := p.Validate(); err != nil {
		return err
	}
	c.params.Store(&p)
	return nil
}

// Ask asks all nodes, and returns what keeps the version from being raised; empty: nothing does. A
// build that does not know the question knows the first version.
func (c *Finalizer) Ask(ctx context.Context, t *base.Topology, q Query) (knows base.ClusterVersion, up time.Duration,
	lacks string) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	replies := map[base.NodeID]Reply{}
	for _, n := range t.Nodes {
		if n.Gone && !c.node.Live(n.ID) {
			continue
		}
		wg.Go(func() {
			r, err := c.node.AskVersion(ctx, n.ID, q)
			if err != nil {
				r.Lacks = fmt.Sprintf("it does not answer (%v): start it, or decommission it", err)
			}
			mu.Lock()
			defer mu.Unlock()
			replies[n.ID] = r
		})
	}
	wg.Wait()
	knows, up = c.knows, -1
	for _, n := range t.Nodes {
		r, asked := replies[n.ID]
		if !asked {
			continue
		}
		if r.Lacks != "" && lacks == "" {
			lacks = fmt.Sprintf("node %d: %s", n.ID, r.Lacks)
		}
		if knows = min(knows, r.Knows.OrFirst()); up < 0 || r.Up < up {
			up = r.Up
		}
	}
	return knows, up, lacks
}

// ErrOtherTopology: another change came between, and the promises are void.
var ErrOtherTopology = errors.New("another change of the topology came between")

// raiseTries is how often another change may come between.
const raiseTries = 5

// FinalizeUpgrade raises the version of the cluster to the newest that all nodes know. There is no
// way back.
func (c *Finalizer) FinalizeUpgrade(ctx context.Context) (*base.Topology, error) {
	var err error
	for try := range raiseTries {
		if try > 0 {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(again << try): // until this node has the other topology
			}
		}
		t := c.node.Topology()
		knows, _, lacks := c.Ask(ctx, t, Query{})
		switch {
		case lacks != "":
			return nil, base.Errorf(base.CodeUnavailable, "the upgrade cannot be finalized: %s", lacks)
		case knows <= t.Acts():
			return nil, base.Errorf(base.CodeInvalid, "there is nothing to finalize: the cluster acts by version %d, the newest that "+
				"all of its nodes know; `godwit upgrade status` shows what each knows", t.Acts())
		}
		var next *base.Topology
		if next, err = c.Raise(ctx, t, knows); !errors.Is(err, ErrOtherTopology) {
			return next, err
		}
	}
	return nil, base.Errorf(base.CodeUnavailable, "the upgrade cannot be finalized now: %v; try again", err)
}

// Raise has all nodes promise, and raises the version.
func (c *Finalizer) Raise(ctx context.Context, t *base.Topology, to base.ClusterVersion) (*base.Topology, error) {
	if _, _, lacks := c.Ask(ctx, t, Query{Promise: to, Topology: t.Version}); lacks != "" {
		// What others have promised is void by the next topology.
		if _, err := c.node.Change(ctx, func(*base.Topology) error { return nil }); err != nil {
			c.log.Warn("promises of nodes to refuse older builds are not void yet", "err", err)
		}
		return nil, base.Errorf(base.CodeUnavailable, "the upgrade cannot be finalized: %s", lacks)
	}
	next, err := c.node.Change(ctx, func(now *base.Topology) error {
		if now.Version != t.Version {
			return ErrOtherTopology
		}
		now.ClusterVersion = to
		return nil
	})
	if err == nil {
		c.log.Info("the upgrade is final: all nodes know the new cluster version, and older builds are refused", "from", t.Acts(), "to", to)
	}
	return next, err
}

// Look raises the version by itself once it may be. It runs on every node, and does something where
// the meta group is led.
//
// Work is begun by begin, which waits for nobody.
func (c *Finalizer) Look(ctx context.Context, t *base.Topology, begin func(func())) {
	if !c.node.LeadsMeta() {
		c.waits.Store(nil)
		return
	}
	if c.knows <= t.Acts() || time.Since(c.looked) < Every || !c.looking.CompareAndSwap(false, true) {
		return
	}
	c.looked = time.Now()
	begin(func() {
		defer c.looking.Store(false)
		why := c.mayRaise(ctx, t)
		c.waits.Store(&why)
	})
}

// mayRaise raises the version if it may be, and says what that waits for.
func (c *Finalizer) mayRaise(ctx context.Context, t *base.Topology) string {
	p := c.params.Load()
	knows, up, lacks := c.Ask(ctx, t, Query{})
	switch {
	case lacks != "":
		return "waits for " + lacks
	case knows <= t.Acts():
		return fmt.Sprintf("waits for nodes with builds that know no more than version %d", knows)
	case p.Finalize != "auto":
		return "waits for `godwit upgrade finalize`, since upgrade.finalize is manual"
	case up < p.after:
		return fmt.Sprintf("is finalized in %s by itself, or now by `godwit upgrade finalize`", (p.after - up).Round(time.Second))
	}
	if _, err := c.Raise(ctx, t, knows); err != nil {
		return fmt.Sprintf("is tried again: %v", err)
	}
	return ""
}

// UpgradeWaits is what the upgrade waits for; empty if for nothing, or where the meta group is not
// led.
func (c *Finalizer) UpgradeWaits() string {
	if w := c.waits.Load(); w != nil && c.knows > c.node.Topology().Acts() {
		return *w
	}
	return ""
}

// Read reads the parameters as JSON.
func Read(data []byte) (p Params, err error) {
	if err = json.Unmarshal(data, &p); err == nil {
		err = p.Validate()
	}
	return p, err
}
