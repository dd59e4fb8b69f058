package node

import (
	"context"
	"fmt"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/cluster/upgrade"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/node/knobs"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/sql/server"
)

// This file keeps the store in the format of the cluster's version, so that older builds open it
// exactly as long as they may take part (docs/protocol.md, VERSION-2).

// agreeOnFormat puts the store into the format that the newest topology on disk and the node's
// promise ask for: a crash may have come between. It returns the promise.
func agreeOnFormat(st *store.Store, id *join.Identity, stored *base.Topology) (p upgrade.Promise, err error) {
	if _, err := loadJSON(st, recPromise, &p); err != nil {
		return p, err
	}
	t := stored
	if t == nil {
		t = &id.First
	}
	needs := upgrade.Needs(t, p)
	if needs > st.Knows() {
		return p, base.TooOld("this store is of a cluster that acts by", needs, st.Knows())
	}
	return p, setFormat(st, needs)
}

// keepPromise keeps a promise on disk. The format comes first: without it the promise would not
// bind.
func keepPromise(st *store.Store, p upgrade.Promise) error {
	if err := setFormat(st, max(st.Format(), p.Version)); err != nil {
		return err
	}
	return saveJSON(st, recPromise, p)
}

func setFormat(st *store.Store, v base.ClusterVersion) error {
	if st.Format() == v {
		return nil
	}
	return st.SetFormat(v)
}

// build names the build, and what it acts as if that is not all that it knows.
func (n *Node) build() string {
	if knows := n.store.Knows(); knows < base.VersionNewest {
		return fmt.Sprintf("%s-as-%d", obs.Version(), knows)
	}
	return obs.Version()
}

func (n *Node) upgradeSettings() knobs.Group {
	return knobs.Of("upgrade.", upgrade.Defaults(), map[string]string{
		"finalize": "when all nodes know a newer cluster version: auto (it is raised after upgrade.after) or manual " +
			"(`godwit upgrade finalize` raises it); there is no way back to older builds then",
		"after": "for how long all nodes must have run such builds, with auto; a duration like 24h",
	}, upgrade.Read, n.cluster.SetUpgradeParams)
}

var upgradeTopics = []server.Topic{
	{Name: "versions", Comment: "builds of the nodes, and the cluster versions that they know and act by", Columns: slices.Concat(
		columns(server.TopicInt, "node"), columns(server.TopicText, "region", "build"),
		columns(server.TopicInt, "knows", "acts_by"), columns(server.TopicText, "waits_for"))},
}

// versionRows are the builds of all nodes; of one that does not answer nothing is known.
func (n *Node) versionRows(ctx context.Context) (rows [][]any) {
	s := n.cluster.Status(ctx)
	var waits any
	if s.UpgradeWaits != "" {
		waits = s.UpgradeWaits
	}
	for _, x := range s.Nodes {
		var build, knows any
		if x.Live {
			build, knows = x.Version, uint32(x.Knows)
		}
		rows = append(rows, []any{x.ID, x.Region, build, knows, uint32(s.Topology.Acts()), waits})
	}
	return rows
}
