package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/join"
)

// The nodes of a cluster act by one version, which the topology has, and may be of builds that know
// newer ones. When all do, the version is raised, by itself after a time or by a command, and there
// is no way back (docs/protocol.md, VERSION-1 to VERSION-5):
//
//  1. Whoever raises it asks all nodes what they know. One that does not answer is waited for.
//  2. Each node promises, on disk, by the topology that it has: no build that does not know the
//     version opens its store, and it refuses nodes of such builds.
//  3. The next topology has the version, if no other one has come between.
//
// A promise is void when another topology comes.

const askVersion = "version"

// PathUpgrade raises the version of the cluster: POST {}.
const PathUpgrade = "/cluster/upgrade"

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

// UpgradeParams say when the version of the cluster is raised.
type UpgradeParams struct {
	// Finalize is auto or manual.
	Finalize string `json:"finalize"`
	// After is for how long all nodes must have run builds that know the new version, with auto; as
	// of [time.ParseDuration].
	After string `json:"after"`

	after time.Duration
}

// DefaultUpgradeParams leave a day to go back.
func DefaultUpgradeParams() UpgradeParams { return UpgradeParams{Finalize: "auto", After: "24h0m0s"} }

// Validate reads the parameters.
func (p *UpgradeParams) Validate() (err error) {
	if p.Finalize != "auto" && p.Finalize != "manual" {
		return base.Errorf(base.CodeInvalid, "upgrade.finalize is %q; it must be auto or manual", p.Finalize)
	}
	if p.after, err = time.ParseDuration(p.After); err != nil || p.after < 0 {
		return base.Errorf(base.CodeInvalid, "upgrade.after is %q; it must be a duration like 24h or 90m, at least 0s", p.After)
	}
	return nil
}

// upgrades are this node's part in that.
type upgrades struct {
	*env
	disk  Disk
	began time.Time

	params  atomic.Pointer[UpgradeParams]
	looking atomic.Bool
	looked  time.Time // of look alone
	// waits is what the upgrade waits for, as of the last look; only where the meta group is led.
	waits atomic.Pointer[string]
}

// upgradeEvery is the time between two looks whether the version may be raised.
const upgradeEvery = 10 * time.Second

func newUpgrades(e *env, d Disk) *upgrades {
	u := &upgrades{env: e, disk: d, began: time.Now()}
	if err := u.SetUpgradeParams(DefaultUpgradeParams()); err != nil {
		panic(err) // a test would have shown it
	}
	return u
}

// SetUpgradeParams changes when the version is raised by itself.
func (c *upgrades) SetUpgradeParams(p UpgradeParams) error {
	if err := p.Validate(); err != nil {
		return err
	}
	c.params.Store(&p)
	return nil
}

// Knows is the newest cluster version that this build knows.
func (c *upgrades) Knows() base.ClusterVersion { return c.knows }

// accept refuses a topology with a version that this build does not know, and makes the store fit
// for one that it knows before anything is written by it. setting is held.
func (m *membership) accept(t *base.Topology) error {
	if t.Acts() > m.knows {
		return base.TooOld(fmt.Sprintf("topology %d has", t.Version), t.Acts(), m.knows)
	}
	if m.setVersion == nil {
		return nil
	}
	return m.setVersion(Needs(t, m.promise))
}

// # Asking

// versionQuery asks a node what it knows, or for a promise.
type versionQuery struct {
	// Promise is the version; 0 asks only.
	Promise base.ClusterVersion `json:"promise,omitempty"`
	// Topology is the one by which the promise is made.
	Topology uint64 `json:"topology,omitempty"`
}

type versionReply struct {
	Knows base.ClusterVersion `json:"knows"`
	// Up is how long the process has run.
	Up time.Duration `json:"up_ns"`
	// Lacks is why nothing is promised; empty: it is, if it was asked for.
	Lacks string `json:"lacks,omitempty"`
}

// onVersion answers a versionQuery.
func (c *upgrades) onVersion(q versionQuery) versionReply {
	r := versionReply{Knows: c.knows, Up: time.Since(c.began)}
	if q.Promise != 0 {
		if err := c.makePromise(q); err != nil {
			r.Lacks = err.Error()
		}
	}
	return r
}

func (c *upgrades) makePromise(q versionQuery) error {
	c.setting.Lock()
	defer c.setting.Unlock()
	t := c.Topology()
	switch {
	case q.Promise > c.knows:
		return base.TooOld("what is to be promised needs", q.Promise, c.knows)
	case t.Version != q.Topology:
		return base.Errorf(base.CodeUnavailable, "it has topology %d, not %d", t.Version, q.Topology)
	case c.closed:
		return base.Errorf(base.CodeUnavailable, "it is stopping")
	case c.disk.Promise == nil:
		return nil
	}
	p := Promise{q.Promise, q.Topology}
	if err := c.disk.Promise(p); err != nil {
		return err
	}
	c.promise = p
	return c.setVersion(Needs(t, p))
}

// ask asks all nodes, and returns what keeps the version from being raised; empty: nothing does. A
// build that does not know the question knows the first version.
func (c *upgrades) ask(ctx context.Context, t *base.Topology, q versionQuery) (knows base.ClusterVersion, up time.Duration,
	lacks string) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	replies := map[base.NodeID]versionReply{}
	for _, n := range t.Nodes {
		if n.Gone && !c.Live(n.ID) {
			continue
		}
		wg.Go(func() {
			r, err := c.onVersionOf(ctx, n.ID, q)
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

// unknownQuestion is in the answer of a build that does not know a question.
const unknownQuestion = "which this version does not know"

func (c *upgrades) onVersionOf(ctx context.Context, n base.NodeID, q versionQuery) (versionReply, error) {
	if n == c.self {
		return c.onVersion(q), nil
	}
	r, err := question[versionReply](ctx, c.env, n, askVersion, q)
	if err != nil && strings.Contains(err.Error(), unknownQuestion) {
		r, err = versionReply{Knows: base.VersionFirst}, nil
		if q.Promise != 0 {
			r.Lacks = "its build says nothing of versions"
		}
	}
	return r, err
}

// # Raising

// errOtherTopology: another change came between, and the promises are void.
var errOtherTopology = errors.New("another change of the topology came between")

// raiseTries is how often another change may come between.
const raiseTries = 5

// FinalizeUpgrade raises the version of the cluster to the newest that all nodes know. There is no
// way back.
func (c *upgrades) FinalizeUpgrade(ctx context.Context) (*base.Topology, error) {
	var err error
	for try := range raiseTries {
		if try > 0 {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(followAgain << try): // until this node has the other topology
			}
		}
		t := c.Topology()
		knows, _, lacks := c.ask(ctx, t, versionQuery{})
		switch {
		case lacks != "":
			return nil, base.Errorf(base.CodeUnavailable, "the upgrade cannot be finalized: %s", lacks)
		case knows <= t.Acts():
			return nil, base.Errorf(base.CodeInvalid, "there is nothing to finalize: the cluster acts by version %d, the newest that "+
				"all of its nodes know; `godwit upgrade status` shows what each knows", t.Acts())
		}
		var next *base.Topology
		if next, err = c.raise(ctx, t, knows); !errors.Is(err, errOtherTopology) {
			return next, err
		}
	}
	return nil, base.Errorf(base.CodeUnavailable, "the upgrade cannot be finalized now: %v; try again", err)
}

// raise has all nodes promise, and raises the version.
func (c *upgrades) raise(ctx context.Context, t *base.Topology, to base.ClusterVersion) (*base.Topology, error) {
	if _, _, lacks := c.ask(ctx, t, versionQuery{Promise: to, Topology: t.Version}); lacks != "" {
		// What others have promised is void by the next topology.
		if _, err := c.Change(ctx, func(*base.Topology) error { return nil }); err != nil {
			c.log.Warn("promises of nodes to refuse older builds are not void yet", "err", err)
		}
		return nil, base.Errorf(base.CodeUnavailable, "the upgrade cannot be finalized: %s", lacks)
	}
	next, err := c.Change(ctx, func(now *base.Topology) error {
		if now.Version != t.Version {
			return errOtherTopology
		}
		now.ClusterVersion = to
		return nil
	})
	if err == nil {
		c.log.Info("the upgrade is final: all nodes know the new cluster version, and older builds are refused", "from", t.Acts(), "to", to)
	}
	return next, err
}

// look raises the version by itself once it may be. It runs on every node, and does something where
// the meta group is led.
func (c *upgrades) look(ctx context.Context, t *base.Topology) {
	if !c.groups.Leased(base.MetaGroup) {
		c.waits.Store(nil)
		return
	}
	if c.knows <= t.Acts() || time.Since(c.looked) < upgradeEvery || !c.looking.CompareAndSwap(false, true) {
		return
	}
	c.looked = time.Now()
	c.work.done.Go(func() {
		defer c.looking.Store(false)
		why := c.mayRaise(ctx, t)
		c.waits.Store(&why)
	})
}

// mayRaise raises the version if it may be, and says what that waits for.
func (c *upgrades) mayRaise(ctx context.Context, t *base.Topology) string {
	p := c.params.Load()
	knows, up, lacks := c.ask(ctx, t, versionQuery{})
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
	if _, err := c.raise(ctx, t, knows); err != nil {
		return fmt.Sprintf("is tried again: %v", err)
	}
	return ""
}

// upgradeWaits is what the upgrade waits for; empty if for nothing, or where the meta group is not
// led.
func (c *upgrades) upgradeWaits() string {
	if w := c.waits.Load(); w != nil && c.knows > c.Topology().Acts() {
		return *w
	}
	return ""
}

func (c *upgrades) serveUpgrade(w http.ResponseWriter, r *http.Request) {
	t, err := c.FinalizeUpgrade(r.Context())
	if err != nil {
		join.Reply(w, http.StatusConflict, join.InitReply{Error: err.Error()})
		return
	}
	join.Reply(w, http.StatusOK, join.InitReply{ClusterID: t.ClusterID, Topology: *t})
}

// ReadUpgradeParams reads the parameters as JSON.
func ReadUpgradeParams(data []byte) (p UpgradeParams, err error) {
	if err = json.Unmarshal(data, &p); err == nil {
		err = p.Validate()
	}
	return p, err
}
