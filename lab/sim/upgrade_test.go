package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/base"
)

// upgradeConfig is a run in which the nodes are of two builds.
func upgradeConfig(seed uint64) Config {
	c := Pick(seed)
	c.Upgrade = true
	return c
}

// TestUpgradeSeeds: nodes of the build of before and of this one, each life of one or the other,
// work together while clients work and faults strike, and the version of the cluster is raised.
func TestUpgradeSeeds(t *testing.T) {
	if *flagSeed >= 0 {
		seed(t, upgradeConfig(uint64(*flagSeed)))
		return
	}
	for _, n := range seeds([]uint64{1, 2, 3}) {
		seed(t, upgradeConfig(9_300_000+n))
	}
}

// TestUpgradeSoak is TestUpgradeSeeds for many seeds: -first and -seeds, as TestSoak.
func TestUpgradeSoak(t *testing.T) {
	needsSeeds(t)
	for i := range uint64(*flagSeeds) {
		seed(t, upgradeConfig(*flagFirst+i))
	}
}

// TestUpgradeBites: a version that is raised without a promise of all nodes is noticed, as nodes of
// the build of before run on in that cluster (VERSION-2) and stop at an entry that needs more than
// they know (VERSION-3).
func TestUpgradeBites(t *testing.T) {
	runs, stops := false, false
	for s := range uint64(biteSeeds) {
		cfg := upgradeConfig(s)
		cfg.Regions, cfg.NodesPerRegion, cfg.Delay, cfg.Break.HastyUpgrade = 3, 1, even(3, 30*1e6), true
		_, err := runSeed(t, cfg)
		if err == nil {
			continue
		}
		was, is := base.VersionFirst, base.VersionNewest
		runs = runs || strings.Contains(err.Error(), fmt.Sprintf("knows versions up to %d, and the cluster acts by %d", was, is))
		stops = stops || strings.Contains(err.Error(), fmt.Sprintf("needs cluster version %d, and this build knows versions up to %d", is, was))
		if runs && stops {
			return
		}
		t.Logf("seed %d: %.300v", s, err)
	}
	t.Errorf("noticed: %v, a node stops: %v", runs, stops)
}
