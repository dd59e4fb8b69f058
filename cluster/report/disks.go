package report

import (
	"fmt"
	"time"
)

const (
	// fullSoon is how long before a disk is full somebody is told: a weekend.
	fullSoon = 3 * 24 * time.Hour
	// littleFree is the part of a disk that is little, in percent, unless it is stores times what
	// the store takes: then the store is not what fills it.
	littleFree = 10
	stores     = 4
)

// disksFilling are disks of nodes that are nearly full, or will be soon. A store that finds no room
// stops its node.
func (x *examination) disksFilling() (out []string) {
	for _, n := range x.Nodes {
		if !n.Live || n.DiskTotal <= 0 {
			continue
		}
		percent := float64(n.DiskFree) / float64(n.DiskTotal) * 100
		little := percent < littleFree && n.DiskFree < stores*n.DiskBytes
		soon := n.DiskFullIn > 0 && n.DiskFullIn < fullSoon
		if !little && !soon {
			continue
		}
		text := fmt.Sprintf("node %d in %s: %.0f %% (%.1f GiB) of its disk is free", n.ID, n.Region, percent,
			float64(n.DiskFree)/(1<<30))
		if soon {
			text += fmt.Sprintf(", and as it is being used it is full in %s", about(n.DiskFullIn))
		}
		out = append(out, text+": give it a larger disk, add nodes to the region, or remove rows (their space comes back "+
			"when old versions are collected)")
	}
	return out
}

// about is a duration as people say it.
func about(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("about %.0f days", d.Hours()/24)
	case d >= 2*time.Hour:
		return fmt.Sprintf("about %.0f hours", d.Hours())
	}
	return fmt.Sprintf("about %.0f minutes", max(1, d.Minutes()))
}
