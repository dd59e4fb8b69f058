package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/upgrade"
)

// This file is what package upgrade needs of a node: the answers to its questions, and that the
// store keeps the format of the cluster's version.

const askVersion = "version"

// PathUpgrade raises the version of the cluster: POST {}.
const PathUpgrade = "/cluster/upgrade"

// upgrades are this node's part in upgrades.
type upgrades struct {
	*env
	*upgrade.Finalizer
	disk  Disk
	began time.Time
}

func newUpgrades(e *env, d Disk) *upgrades {
	u := &upgrades{env: e, disk: d, began: time.Now()}
	u.Finalizer = upgrade.New(asUpgraded{e, u}, e.knows, e.log)
	return u
}

// asUpgraded is the node as package upgrade sees it.
type asUpgraded struct {
	*env
	u *upgrades
}

func (a asUpgraded) LeadsMeta() bool { return a.groups.Leased(base.MetaGroup) }
func (a asUpgraded) AskVersion(ctx context.Context, n base.NodeID, q upgrade.Query) (upgrade.Reply, error) {
	return a.u.askVersion(ctx, n, q)
}

// accept refuses a topology with a version that this build does not know, and makes the store fit
// for one that it knows before anything is written by it. setting is held.
func (m *membership) accept(t *base.Topology) error {
	if t.Acts() > m.knows {
		return base.TooOld(fmt.Sprintf("topology %d has", t.Version), t.Acts(), m.knows)
	}
	if m.setVersion == nil {
		return nil
	}
	return m.setVersion(upgrade.Needs(t, m.promise))
}

// onVersion answers a upgrade.Query.
func (c *upgrades) onVersion(q upgrade.Query) upgrade.Reply {
	r := upgrade.Reply{Knows: c.knows, Up: time.Since(c.began)}
	if q.Promise != 0 {
		if err := c.makePromise(q); err != nil {
			r.Lacks = err.Error()
		}
	}
	return r
}

func (c *upgrades) makePromise(q upgrade.Query) error {
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
	p := upgrade.Promise{Version: q.Promise, Topology: q.Topology}
	if err := c.disk.Promise(p); err != nil {
		return err
	}
	c.promise = p
	return c.setVersion(upgrade.Needs(t, p))
}

// unknownQuestion is in the answer of a build that does not know a question.
const unknownQuestion = "which this version does not know"

func (c *upgrades) askVersion(ctx context.Context, n base.NodeID, q upgrade.Query) (upgrade.Reply, error) {
	if n == c.self {
		return c.onVersion(q), nil
	}
	r, err := question[upgrade.Reply](ctx, c.env, n, askVersion, q)
	if err != nil && strings.Contains(err.Error(), unknownQuestion) {
		r, err = upgrade.Reply{Knows: base.VersionFirst}, nil
		if q.Promise != 0 {
			r.Lacks = "its build says nothing of versions"
		}
	}
	return r, err
}
