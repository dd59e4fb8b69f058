// Package doctor looks at a machine and says what would hurt a node that runs there: its clock, its
// disk, its limits, its ports, its certificates, its memory. [Look] gathers facts, [Judge] is pure.
package doctor

import (
	"fmt"
	"time"
)

// Grade is how bad a finding is.
type Grade string

// The grades.
const (
	Fine Grade = "fine"
	Warn Grade = "warn"
	Bad  Grade = "bad"
)

// Finding is what is said of one organ.
type Finding struct {
	Organ string `json:"organ"`
	Grade Grade  `json:"grade"`
	Found string `json:"found"`
	Do    string `json:"do,omitempty"`
}

// Port is an address that a node is to listen at.
type Port struct {
	Flag, Addr string
	Err        error
}

// Facts are what was found.
type Facts struct {
	ClockSynced bool
	// Syncs are how long synced writes of a page took.
	Syncs    []time.Duration
	DiskErr  error
	FreeDisk int64 // bytes; negative: not known
	// Files is how many the process may open; 0: not known.
	Files      uint64
	Memory     int64 // bytes; 0: not known
	Processors int
	Ports      []Port
	// Certificate ends at Until; zero: there is none yet. CertErr is why it cannot be read.
	Until   time.Time
	CertErr error
	Now     time.Time
}

// What a node needs.
const (
	needFiles      = 8192
	needMemory     = 1 << 30
	wantMemory     = 4 << 30
	needDisk       = 1 << 30
	wantDisk       = 10 << 30
	slowSync       = 20 * time.Millisecond
	sickSync       = 200 * time.Millisecond
	certificateDue = 30 * 24 * time.Hour
)

// Judge says what the facts mean.
func Judge(f Facts) []Finding {
	out := []Finding{clockOf(f), syncsOf(f), spaceOf(f), filesOf(f), memoryOf(f), processorsOf(f)}
	for _, p := range f.Ports {
		out = append(out, portOf(p))
	}
	return append(out, certificateOf(f))
}

func clockOf(f Facts) Finding {
	if f.ClockSynced {
		return Finding{"clock", Fine, "the kernel's clock is disciplined, and says how far it may be off", ""}
	}
	return Finding{"clock", Warn, "no time daemon disciplines the kernel's clock",
		"install chrony, or give the node --clock-source HOST:PORT of a 'godwit timeserver'; otherwise each node trusts " +
			"--max-clock-error, and data is wrong if the clocks are farther apart"}
}

func syncsOf(f Facts) Finding {
	if f.DiskErr != nil {
		return Finding{"disk", Bad, "the store's folder cannot be written: " + f.DiskErr.Error(),
			"make it, and let the node's user own it"}
	}
	if len(f.Syncs) == 0 {
		return Finding{"disk", Warn, "no synced write was tried", "name the store's folder with --store"}
	}
	median, longest := summary(f.Syncs)
	found := fmt.Sprintf("a synced write of 4 KiB takes %s at the median, %s at most", round(median), round(longest))
	switch {
	case median > sickSync:
		return Finding{"disk", Bad, found, "use another disk: each commit waits for a majority of them"}
	case median > slowSync:
		return Finding{"disk", Warn, found, "look for other users of the disk (iostat), or use a local SSD: each commit waits for " +
			"a majority of the disks"}
	}
	return Finding{"disk", Fine, found, ""}
}

func spaceOf(f Facts) Finding {
	switch found := fmt.Sprintf("%.1f GiB are free", gib(f.FreeDisk)); {
	case f.FreeDisk < 0:
		return Finding{"space", Warn, "this system does not say how much is free", "look at it yourself (df)"}
	case f.FreeDisk < needDisk:
		return Finding{"space", Bad, found, "free some, or move the store: a node whose disk is full stops"}
	case f.FreeDisk < wantDisk:
		return Finding{"space", Warn, found, "a node needs room for old versions and compactions: twice what it holds"}
	default:
		return Finding{"space", Fine, found, ""}
	}
}

func filesOf(f Facts) Finding {
	switch found := fmt.Sprintf("a process may open %d files", f.Files); {
	case f.Files == 0:
		return Finding{"files", Warn, "this system does not say how many files a process may open", "see ulimit -n"}
	case f.Files < needFiles:
		return Finding{"files", Warn, found, fmt.Sprintf("allow %d (ulimit -n, LimitNOFILE= of systemd): tables, connections of "+
			"clients and of other nodes are files", needFiles)}
	default:
		return Finding{"files", Fine, found, ""}
	}
}

func memoryOf(f Facts) Finding {
	switch found := fmt.Sprintf("%.1f GiB of memory", gib(f.Memory)); {
	case f.Memory == 0:
		return Finding{"memory", Warn, "this system does not say how much memory there is", "a node should have 4 GiB"}
	case f.Memory < needMemory:
		return Finding{"memory", Bad, found, "give it 4 GiB, or set --cache-mb and --sql-memory-mb low"}
	case f.Memory < wantMemory:
		return Finding{"memory", Warn, found, "4 GiB are better: cache and statements get a part of it each"}
	default:
		return Finding{"memory", Fine, found, ""}
	}
}

func processorsOf(f Facts) Finding {
	if found := fmt.Sprintf("%d processors", f.Processors); f.Processors >= 2 {
		return Finding{"processors", Fine, found, ""}
	}
	return Finding{"processors", Warn, "one processor", "use two or more: heartbeats wait while a statement computes"}
}

func portOf(p Port) Finding {
	if p.Err != nil {
		return Finding{"port", Bad, fmt.Sprintf("%s %s cannot be listened at: %v", p.Flag, p.Addr, p.Err),
			"stop what listens there (ss -ltnp), or choose another address"}
	}
	return Finding{"port", Fine, fmt.Sprintf("%s %s is free", p.Flag, p.Addr), ""}
}

func certificateOf(f Facts) Finding {
	left := f.Until.Sub(f.Now)
	found := fmt.Sprintf("the node's certificate ends on %s", f.Until.Format(time.DateOnly))
	switch {
	case f.CertErr != nil:
		return Finding{"certificate", Bad, "the node's certificate cannot be used: " + f.CertErr.Error(),
			"see docs/security.md: 'godwit cert create-node' makes another one"}
	case f.Until.IsZero():
		return Finding{"certificate", Fine, "the store has no certificate yet: the node gets one at its first start", ""}
	case left <= 0:
		return Finding{"certificate", Bad, found + ": other nodes refuse it", "'godwit cert create-node' makes another one"}
	case left < certificateDue:
		return Finding{"certificate", Warn, found, "'godwit cert create-node' makes another one; the node reads it without a restart"}
	}
	return Finding{"certificate", Fine, found, ""}
}

// Worst is the worst grade of findings.
func Worst(all []Finding) Grade {
	worst := Fine
	for _, x := range all {
		if x.Grade == Bad || x.Grade == Warn && worst == Fine {
			worst = x.Grade
		}
	}
	return worst
}

func gib(n int64) float64 { return float64(n) / (1 << 30) }
