package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// encoded is a plan as it travels.
type encoded struct {
	Groups   []Group       `json:"groups"`
	Routes   [][]int       `json:"routes,omitempty"` // from, relays, to
	Order    [][]int       `json:"order,omitempty"`
	Makespan time.Duration `json:"makespan"`
	Flat     time.Duration `json:"flat"`
	Bound    time.Duration `json:"bound"`
}

// Encode makes bytes of what rounds need of a plan.
func (p *Plan) Encode() []byte {
	e := encoded{Groups: p.Groups, Order: p.Order, Makespan: p.Makespan, Flat: p.Flat, Bound: p.Bound}
	for _, k := range slices.SortedFunc(maps.Keys(p.Routes), func(a, b [2]int) int { return slices.Compare(a[:], b[:]) }) {
		e.Routes = append(e.Routes, slices.Concat(k[:1], p.Routes[k], k[1:]))
	}
	data, err := json.Marshal(e)
	if err != nil {
		panic("plan: " + err.Error()) // numbers
	}
	return data
}

// Decode undoes Encode, and checks the plan for n nodes.
func Decode(data []byte, n int) (*Plan, error) {
	var e encoded
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("a plan cannot be read: %w", err)
	}
	p := &Plan{Groups: e.Groups, Of: make([]int, n), Routes: map[[2]int][]int{}, Order: e.Order, Makespan: e.Makespan,
		Flat: e.Flat, Bound: e.Bound}
	for g, gr := range p.Groups {
		for _, m := range gr.Members {
			if m >= 0 && m < n {
				p.Of[m] = g
			}
		}
	}
	for _, r := range e.Routes {
		if len(r) < 3 {
			return nil, fmt.Errorf("a plan has the route %v", r)
		}
		p.Routes[[2]int{r[0], r[len(r)-1]}] = r[1 : len(r)-1]
	}
	return p, p.Check(n)
}
