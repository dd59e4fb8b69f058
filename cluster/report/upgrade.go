package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/base"
)

// buildsDiffer: nodes that answer run different builds. That is how an upgrade goes, but it is not
// meant to last.
func (x *examination) buildsDiffer() []string {
	nodes := map[string][]base.NodeID{}
	var builds []string
	for _, n := range x.Nodes {
		if !n.Live || n.Version == "" {
			continue
		}
		if nodes[n.Version] == nil {
			builds = append(builds, n.Version)
		}
		nodes[n.Version] = append(nodes[n.Version], n.ID)
	}
	if len(builds) < 2 {
		return nil
	}
	slices.Sort(builds)
	var parts []string
	for _, b := range builds {
		parts = append(parts, fmt.Sprintf("%s on nodes %v", b, nodes[b]))
	}
	return []string{"nodes run different builds: " + strings.Join(parts, ", ") + ": go on with the upgrade, or go back"}
}

// upgradeNotFinal: a node knows a version by which the cluster does not act yet.
func (x *examination) upgradeNotFinal() []string {
	newest := base.ClusterVersion(0)
	for _, n := range x.Nodes {
		newest = max(newest, n.Knows)
	}
	if newest <= x.t.Acts() {
		return nil
	}
	why := x.UpgradeWaits
	if why == "" {
		why = "asks all nodes"
	}
	return []string{fmt.Sprintf("the upgrade from cluster version %d to %d is not final, and can be taken back: it %s",
		x.t.Acts(), newest, why)}
}
