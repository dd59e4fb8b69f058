package leader

import "math"

// Meter turns the counts of one node's requests into what [Facts] want: popularity follows the last
// heartbeats, the write ratio a longer time (the paper: "longer-term statistics"). The zero value
// has the default memory and has seen nothing.
type Meter struct {
	// Memory is after how many heartbeats without requests half of the popularity is forgotten.
	// Default 25 (5 s of 200 ms).
	Memory float64
	// RatioMemory is the same for the write ratio. Default 150.
	RatioMemory float64

	rate, reads, writes float64
}

// Quiet is the rate below which a node counts as having no requests.
const quiet = 1e-3

// Add takes the counts of a number of heartbeats (at least 1; more when one was missed).
func (m *Meter) Add(requests, writes float64, heartbeats int) {
	if requests < 0 || writes < 0 || writes > requests || heartbeats < 1 {
		return // a counter began anew
	}
	fade := func(half, def float64) float64 {
		if half <= 0 {
			half = def
		}
		return math.Exp2(-float64(heartbeats) / half)
	}
	keep := fade(m.Memory, 25)
	m.rate = keep*m.rate + (1-keep)*requests/float64(heartbeats)
	keep = fade(m.RatioMemory, 150)
	m.reads = keep*m.reads + requests - writes
	m.writes = keep*m.writes + writes
}

// Load is the rate of requests a heartbeat, and of those that write.
func (m *Meter) Load() (requests, writes float64) {
	if m.rate < quiet || m.reads+m.writes == 0 {
		return 0, 0
	}
	return m.rate, m.rate * m.writes / (m.reads + m.writes)
}
