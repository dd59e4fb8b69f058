package clock

import (
	"time"

	"github.com/godwitdb/godwit/base"
)

// A message is received after it was sent. So of a heartbeat that carries its sender's bounds and,
// as an echo, those that the receiver told it before, the receiver learns how far it would have to
// move its own clock to agree with the sender's: at least so much that the sender's lower bound
// does not lie in the future, at most so much that its own lower bound then does not lie in the
// sender's future. If that leaves out "not at all", one of the two is outside its bound.

// Sight is what one node knows of another's clock against its own: the corrections of its own that
// would agree.
type Sight struct {
	Lo, Hi time.Duration
	Leader bool // the other one leads the meta group
}

// See makes a sight of a heartbeat: the peer's bounds when it was sent, this node's upper bound
// when it came, and this node's lower bound that the peer had heard of when it sent it (0: none).
func See(peerEarliest, peerLatest, latest, echo base.Timestamp) Sight {
	s := Sight{Lo: peerEarliest.Sub(latest), Hi: time.Duration(never)}
	if echo != 0 {
		s.Hi = peerLatest.Sub(echo)
	}
	return s
}

// Agrees reports whether no correction is one that agrees.
func (s Sight) Agrees() bool { return s.has(0) }

func (s Sight) has(d time.Duration) bool { return s.Lo <= d && d <= s.Hi }

// half reports whether the peer has not heard this process yet. Then it says by how much this clock
// is behind at least, and not at most: with any other clock that is ahead it would seem to agree,
// and two clocks that are wrong, each by something else, would outvote one that is right. Its next
// heartbeats say both.
func (s Sight) half() bool { return s.Hi == time.Duration(never) }

// Verdict of a node on its own clock.
type Verdict uint8

// The verdicts.
const (
	Fine  Verdict = iota
	Wrong         // more clocks agree on another time than with this one
	// this clock and another cannot both be right, and as many speak for one as for the other
	Unsure
)

// String is the verdict in one word.
func (v Verdict) String() string { return [...]string{"fine", "wrong", "unsure"}[v] }

// Judge weighs the sights of a node: the time that most clocks agree on counts (Marzullo's
// algorithm, for one question). Where as many speak for this clock as against it, the meta group's
// leader is believed, if it can tell. off is the least correction that the majority asks for.
func Judge(sights []Sight, leads bool) (v Verdict, off time.Duration) {
	here := 1 // this clock itself
	var points []time.Duration
	against := false
	for _, s := range sights {
		if s.has(0) {
			here++
			continue
		}
		if s.half() {
			continue
		}
		points = append(points, s.Lo, s.Hi)
		against = against || s.Leader
	}
	best := 0
	for _, p := range points {
		n := 0
		for _, s := range sights {
			if s.has(p) && (s.has(0) || !s.half()) {
				n++
			}
		}
		if n > best || n == best && p.Abs() < off.Abs() {
			best, off = n, p
		}
	}
	switch {
	case best < here || best == here && leads:
		return Fine, 0
	case best > here || against:
		return Wrong, off
	}
	return Unsure, off
}
