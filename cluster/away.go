package cluster

import (
	"time"

	"github.com/godwitdb/godwit/base"
)

// asKept is the node as package replace sees it.
type asKept struct{ *Cluster }

// Silence is how long nothing was heard of a node; since the process began if never.
func (a asKept) Silence(n base.NodeID) time.Duration {
	if n == a.self {
		return 0
	}
	return a.peers.silence(n)
}

// LeadsMeta reports whether this node leads the meta group under a lease.
func (a asKept) LeadsMeta() bool { return a.groups.Leased(base.MetaGroup) }
