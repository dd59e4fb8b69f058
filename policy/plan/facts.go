package plan

import (
	"errors"
	"math"
	"time"
)

// Facts are what a plan is made from. Nodes are 0..N-1.
type Facts struct {
	// Latency is the one-way delay from i to j; the diagonal is ignored.
	Latency [][]time.Duration
	// Region of each node: bytes between nodes of one region are free. Nil: every
	// node is a region of its own.
	Region []int
	// Uplink is what a node can send into the WAN, in bits per second; 0 is no
	// limit, nil is no limit for all.
	Uplink []float64
	// Batch is the size of each node's batch in bytes; nil is 0.
	Batch []int
	// Keep is the share of a group's bytes that an aggregator passes on after
	// filtering, in (0, 1]; 0 means 1. A group of one passes on everything.
	Keep float64
}

// N is the number of nodes.
func (f *Facts) N() int { return len(f.Latency) }

// Validate reports every fault of the facts together.
func (f *Facts) Validate() error {
	var bad faults
	n := f.N()
	if n == 0 {
		bad.add("there are no nodes")
	}
	f.validateLatency(&bad)
	length := func(what string, l int) {
		if l != 0 && l != n {
			bad.add("%s of %d nodes instead of %d", what, l, n)
		}
	}
	length("regions", len(f.Region))
	length("uplinks", len(f.Uplink))
	length("batch sizes", len(f.Batch))
	for i, b := range f.Uplink {
		if b < 0 || math.IsNaN(b) {
			bad.add("the uplink of node %d is %v bit/s", i, b)
		}
	}
	for i, b := range f.Batch {
		if b < 0 {
			bad.add("the batch of node %d has %d bytes", i, b)
		}
	}
	if f.Keep < 0 || f.Keep > 1 || math.IsNaN(f.Keep) {
		bad.add("keep is %v: it is a share", f.Keep)
	}
	return errors.Join(bad...)
}

// validateLatency: the latencies are a square, and none is negative.
func (f *Facts) validateLatency(bad *faults) {
	for i, row := range f.Latency {
		if len(row) != f.N() {
			bad.add("row %d of the latencies has %d values instead of %d", i, len(row), f.N())
		}
		for j, d := range row {
			if i != j && d < 0 {
				bad.add("the latency from %d to %d is negative", i, j)
			}
		}
	}
}

func (f *Facts) local(i, j int) bool { return len(f.Region) > 0 && f.Region[i] == f.Region[j] }

func (f *Facts) batch(i int) float64 {
	if len(f.Batch) == 0 {
		return 0
	}
	return float64(f.Batch[i])
}

func (f *Facts) keep() float64 {
	if f.Keep == 0 {
		return 1
	}
	return f.Keep
}

// perByte is the time in ns that a byte takes from i to j in i's uplink.
func (f *Facts) perByte(i, j int) float64 {
	if len(f.Uplink) == 0 || f.Uplink[i] == 0 || f.local(i, j) {
		return 0
	}
	return 8e9 / f.Uplink[i]
}

// Params are the choices of a planner. The zero value is the default.
type Params struct {
	// Slack is how much slower than the fastest plan a plan may be to save WAN bytes
	// and messages, though never slower than the flat round. Default 0.02; negative: 0.
	Slack float64
	// Groups fixes the number of groups; 0 leaves it free.
	Groups int
	// RelayGain is what a relayed path must save over the direct one. Default 1 ms; negative: 0.
	RelayGain time.Duration
	// NoRelays uses direct paths only.
	NoRelays bool
	// NoShards gives each group one aggregator.
	NoShards bool
	// ExactNodes is the size up to which the exact search runs. Default 16, at most 32.
	ExactNodes int
	// MaxSteps bounds each of the two exact searches. Default 20,000.
	MaxSteps int
}

func (p Params) withDefaults() Params {
	switch {
	case p.Slack == 0:
		p.Slack = 0.02
	case p.Slack < 0:
		p.Slack = 0
	}
	switch {
	case p.RelayGain == 0:
		p.RelayGain = time.Millisecond
	case p.RelayGain < 0:
		p.RelayGain = 0
	}
	if p.ExactNodes == 0 {
		p.ExactNodes = 16
	}
	p.ExactNodes = min(p.ExactNodes, 32)
	if p.MaxSteps == 0 {
		p.MaxSteps = 20_000
	}
	return p
}

// KStar is the paper's number of groups for n nodes (equation 5): it minimises
// equation 4, which counts all-to-all traffic inside groups. It guides the
// search where trying all numbers is too dear.
func KStar(n int) float64 { return math.Cbrt(float64(n) * float64(n) / 2) }
