package plan

import "time"

// Health says which nodes may relay and aggregate for others. One that failed
// rests for a while, longer each time, and is tried again. Time comes from the
// caller.
type Health struct {
	// Rest after the first failure; it doubles up to MaxRest. Defaults 1 s and 8 s: so long after
	// the network was mended, at most, a node is used again.
	Rest, MaxRest time.Duration
	down          map[int]rest
}

type rest struct {
	until, next time.Duration
}

// Failed notes that a message through the node did not arrive.
func (h *Health) Failed(node int, now time.Duration) {
	first, most := h.Rest, h.MaxRest
	if first == 0 {
		first = time.Second
	}
	if most == 0 {
		most = 8 * time.Second
	}
	if h.down == nil {
		h.down = map[int]rest{}
	}
	r, ok := h.down[node]
	switch {
	case ok && now < r.until:
		return // a message sent before the last failure was known
	case !ok || now-r.until > most: // it has been well for long
		r.next = first
	}
	h.down[node] = rest{until: now + r.next, next: min(2*r.next, most)}
}

// Passed notes that a message through the node arrived.
func (h *Health) Passed(node int) { delete(h.down, node) }

// Usable reports whether the node may be used.
func (h *Health) Usable(node int, now time.Duration) bool {
	r, ok := h.down[node]
	return !ok || now >= r.until
}

// Route is the plan's route from u to v, or none (the direct path) if one of its relays rests.
func (h *Health) Route(p *Plan, u, v int, now time.Duration) []int {
	relays := p.Routes[[2]int{u, v}]
	for _, r := range relays {
		if !h.Usable(r, now) {
			return nil
		}
	}
	return relays
}
