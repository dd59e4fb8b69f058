package console

import (
	"net/netip"
	"sync"
	"time"
)

// strikes counts the logins of an address that fail. What accounts allow is for SQL to say; this
// bounds how fast one client tries passwords at all accounts together.
type strikes struct {
	mu sync.Mutex
	by map[netip.Prefix]*strike
}

type strike struct {
	n     int
	until time.Time // when it is forgotten
}

const (
	// maxStrikes logins may fail in strikeWindow.
	maxStrikes   = 10
	strikeWindow = 5 * time.Minute
	// maxStruck bounds the addresses that are remembered.
	maxStruck = 4096
)

func newStrikes() *strikes { return &strikes{by: map[netip.Prefix]*strike{}} }

// origin is what counts as one client: an address, or a /64 network of IPv6.
func origin(addr string) netip.Prefix {
	a, err := netip.ParseAddr(hostname(addr))
	if err != nil {
		return netip.Prefix{} // all that have none together
	}
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits) // the length is right
	return p
}

// begin counts a login as one that fails. If there were too many it says how long to wait.
func (s *strikes) begin(from netip.Prefix) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	x := s.by[from]
	if x == nil || now.After(x.until) {
		if x == nil {
			s.room(now)
		}
		x = &strike{until: now.Add(strikeWindow)}
		s.by[from] = x
	}
	if x.n >= maxStrikes {
		return max(time.Second, x.until.Sub(now))
	}
	x.n++
	return 0
}

// forgive takes back what begin counted: the login did not fail.
func (s *strikes) forgive(from netip.Prefix) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.by[from]; x != nil && x.n > 0 {
		if x.n--; x.n == 0 {
			delete(s.by, from)
		}
	}
}

// room forgets what is over, and if that is nothing the one that is over first.
func (s *strikes) room(now time.Time) {
	if len(s.by) < maxStruck {
		return
	}
	var first netip.Prefix
	var until time.Time
	for p, x := range s.by {
		if now.After(x.until) {
			delete(s.by, p)
		} else if until.IsZero() || x.until.Before(until) {
			first, until = p, x.until
		}
	}
	if len(s.by) >= maxStruck {
		delete(s.by, first)
	}
}
