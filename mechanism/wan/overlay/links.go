package overlay

import (
	"maps"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

const (
	// cutAfter is how long a node may not be heard directly before its link counts as cut, and
	// doubtAfter before the others are asked whom they hear.
	cutAfter   = 600 * time.Millisecond
	doubtAfter = 300 * time.Millisecond
	// afterReset is how long a node may not be heard after its connection has broken.
	afterReset = 200 * time.Millisecond
	// healedAfter is how long it must have been heard without a pause of cutAfter before the link
	// counts as whole again. (Not of doubtAfter: all that comes on it meanwhile are reports, one
	// every tellEvery, on a busy machine or a lossy path one now and then later.)
	healedAfter = 2 * time.Second
	// freshFor is how long a report of a node counts.
	freshFor = 2500 * time.Millisecond
	// newsFor is how long nodes tell each other often that somebody hears somebody no more, or
	// again.
	newsFor = 5 * time.Second
	// asleepAfter is the time between two looks after which this process was stopped or starved: it
	// then knows nothing of the others' silence.
	asleepAfter = 500 * time.Millisecond
	// latePart is how much longer another node may be silent for each unit of time by which this
	// process was woken late: the others may run on the same machine, or be as busy.
	latePart = 2
	// maxHops bounds the nodes of a detour, the receiver included.
	maxHops = 6
)

// links is what a node knows of who hears whom directly. It is pure: time comes from the caller and
// only grows.
type links struct {
	self    base.NodeID
	peers   map[base.NodeID]*link
	reports map[base.NodeID]linkReport // of others
	number  uint64                     // of this node's newest report
	looked  time.Duration
	late    base.Worst           // by how much this process was woken late
	asked   time.Duration        // when another node has asked for reports
	missed  map[base.NodeID]bool // nodes that some node does not hear
	own     map[base.NodeID]bool // those that this one does not hear; false: hears again
	changed time.Duration        // since when these have been so
}

// link is the direct path from a peer.
type link struct {
	heard time.Duration // when something came on it
	since time.Duration // from when on things have come on it without a pause
	cut   bool
}

// linkReport is whom a node does not hear.
type linkReport struct {
	number                uint64
	at                    time.Duration
	cut, doubted, healing []base.NodeID
}

// newLinks begins with a number above those of the processes before this one, if the clock is
// right.
func newLinks(self base.NodeID, number uint64) *links {
	return &links{self: self, number: number, peers: map[base.NodeID]*link{}, reports: map[base.NodeID]linkReport{}}
}

// heard notes that something came directly from a peer.
func (l *links) heard(id base.NodeID, now time.Duration) {
	x := l.peers[id]
	if x == nil {
		return
	}
	if now-x.heard > cutAfter {
		x.since = now
	}
	x.heard = now
}

// reset notes that the connection with a peer has broken.
func (l *links) reset(id base.NodeID, now time.Duration) {
	if x := l.peers[id]; x != nil {
		x.heard = min(x.heard, now+afterReset-cutAfter)
	}
}

// look judges the links to all peers. It is called every watchEvery, or more often.
func (l *links) look(now time.Duration, peers []base.NodeID) {
	slept := l.looked != 0 && now-l.looked > asleepAfter
	after := cutAfter
	if l.looked != 0 {
		at := time.Time{}.Add(now)
		l.late.Add(at, min(max(0, now-l.looked-watchEvery), asleepAfter))
		after += latePart * l.late.Most(at)
	}
	l.looked = now
	for id := range l.peers {
		if !slices.Contains(peers, id) {
			delete(l.peers, id)
		}
	}
	for _, id := range peers {
		x := l.peers[id]
		switch {
		case id == l.self:
		case x == nil:
			l.peers[id] = &link{heard: now, since: now}
		case x.cut:
			x.cut = now-x.heard > doubtAfter || now-x.since < healedAfter
		case slept:
			x.heard = now
		default:
			x.cut = now-x.heard > after
		}
	}
}

// learn takes reports that came from another node. What goes round among the others is no news:
// only a later report of the same node is. It reports whether some node hears others than before.
func (l *links) learn(reports []*wire.LinkReport, now time.Duration) (news bool) {
	for _, r := range reports {
		id, at := base.NodeID(r.Node), now-time.Duration(r.AgeMs)*time.Millisecond
		if old, ok := l.reports[id]; id == l.self || ok && now-old.at <= freshFor && old.number >= r.Number {
			continue
		}
		x := linkReport{number: r.Number, at: at, cut: idsOf(r.Cut), doubted: idsOf(r.Doubted), healing: idsOf(r.Healing)}
		news = news || !slices.Equal(x.cut, l.reports[id].cut) || !slices.Equal(x.doubted, l.reports[id].doubted)
		l.reports[id] = x
	}
	return news
}

// pace is whether reports are to be told to the others now, how often, and whether they are asked
// for theirs: this node doubts a link, or hears that another one does. While that is news, or a
// detour may be of use, it is often.
func (l *links) pace(now time.Duration) (every time.Duration, ask bool) {
	missed, own := map[base.NodeID]bool{}, map[base.NodeID]bool{}
	for id, x := range l.peers {
		if x.cut || now-x.heard > doubtAfter {
			ask, missed[id], own[id] = true, true, now-x.heard > doubtAfter
		}
	}
	for _, r := range l.reports {
		for _, n := range r.cut {
			if now-r.at <= freshFor {
				missed[n] = true
			}
		}
	}
	if !maps.Equal(missed, l.missed) || !maps.Equal(own, l.own) {
		l.missed, l.own, l.changed = missed, own, now
		return time.Nanosecond, ask // at once
	}
	switch {
	case len(missed) == 0 && (l.asked == 0 || now-l.asked > freshFor):
		return 0, false
	case now-l.changed < newsFor || l.mendable(now):
		return tellEvery, ask
	}
	return tellSlowly, ask
}

// mendable reports whether somebody hears a node that somebody else does not.
func (l *links) mendable(now time.Duration) bool {
	for n := range l.missed {
		if n != l.self && l.hears(l.self, n, now) || l.elsewhere(n, now) {
			return true
		}
	}
	return false
}

// elsewhere reports whether another node hears a node.
func (l *links) elsewhere(id base.NodeID, now time.Duration) bool {
	for n := range l.peers {
		if n != id && l.hears(n, id, now) {
			return true
		}
	}
	return false
}

func idsOf(numbers []uint32) []base.NodeID {
	out := make([]base.NodeID, len(numbers))
	for i, n := range numbers {
		out[i] = base.NodeID(n)
	}
	return out
}

// told are the reports that this node passes on, its own first.
func (l *links) told(now time.Duration) []*wire.LinkReport {
	l.number++
	own := &wire.LinkReport{Node: uint32(l.self), Number: l.number}
	for id, x := range l.peers {
		switch {
		case x.cut:
			own.Cut = append(own.Cut, uint32(id))
			if now-x.heard <= doubtAfter {
				own.Healing = append(own.Healing, uint32(id))
			}
		case now-x.heard > doubtAfter:
			own.Doubted = append(own.Doubted, uint32(id))
		}
	}
	slices.Sort(own.Cut)
	slices.Sort(own.Doubted)
	slices.Sort(own.Healing)
	out := []*wire.LinkReport{own}
	for id, r := range l.reports {
		if now-r.at > freshFor {
			delete(l.reports, id)
			continue
		}
		out = append(out, &wire.LinkReport{Node: uint32(id), Number: r.number, AgeMs: uint32((now - r.at).Milliseconds()) + 1,
			Cut: numbersOf(r.cut), Doubted: numbersOf(r.doubted), Healing: numbersOf(r.healing)})
	}
	return out
}

// hears reports whether a is known to hear b directly.
func (l *links) hears(a, b base.NodeID, now time.Duration) bool {
	if a == l.self {
		x := l.peers[b]
		return x != nil && !x.cut && now-x.heard <= doubtAfter
	}
	r, ok := l.reports[a]
	return ok && now-r.at <= freshFor && !slices.Contains(r.cut, b) && !slices.Contains(r.doubted, b)
}

// hearsAgain is hears, also of a link that is healing.
func (l *links) hearsAgain(a, b base.NodeID, now time.Duration) bool {
	if a == l.self {
		x := l.peers[b]
		return x != nil && now-x.heard <= doubtAfter
	}
	r, ok := l.reports[a]
	return ok && now-r.at <= freshFor && !slices.Contains(r.doubted, b) &&
		(!slices.Contains(r.cut, b) || slices.Contains(r.healing, b))
}

// whole reports whether two nodes are known to hear each other directly; healing: or to do so again
// since a moment ago.
func (l *links) whole(a, b base.NodeID, now time.Duration, healing bool) bool {
	if healing {
		return l.hearsAgain(a, b, now) && l.hearsAgain(b, a, now)
	}
	return l.hears(a, b, now) && l.hears(b, a, now)
}

// cut reports whether one of this node and a peer does not hear the other one directly.
func (l *links) cut(id base.NodeID, now time.Duration) bool {
	x, r := l.peers[id], l.reports[id]
	return x != nil && x.cut || now-r.at <= freshFor && slices.Contains(r.cut, l.self)
}

// silent reports whether one of this node and a peer hears nothing of the other one directly. A
// link that is cut and not silent is healing: who makes a detour goes on with it for a while, and
// who makes none begins none.
func (l *links) silent(id base.NodeID, now time.Duration) bool {
	return l.deaf(l.self, id, now) || l.deaf(id, l.self, now)
}

// route is the best way to a peer over others that may pass messages on: of those with the fewest
// nodes, the fastest one. Nil if there is none. took is its round trip, about. healing: links that
// are healing will do, but for the one to the peer itself (OVL-8).
func (l *links) route(to base.NodeID, now time.Duration, healing bool, rtt func(a, b base.NodeID) time.Duration,
	may func(over base.NodeID) bool) (path []base.NodeID, took time.Duration) {
	type way struct {
		path []base.NodeID
		took time.Duration
	}
	done := map[base.NodeID]bool{l.self: true}
	level := map[base.NodeID]way{l.self: {}}
	for range maxHops {
		next := map[base.NodeID]way{}
		for from, w := range level {
			for id := range l.peers {
				if done[id] || !may(id) || from == l.self && id == to || !l.whole(from, id, now, healing) {
					continue
				}
				d := rtt(from, id)
				if d < 0 {
					d = unknownRTT
				}
				if x, ok := next[id]; !ok || w.took+d < x.took || w.took+d == x.took && slices.Compare(w.path, x.path) < 0 {
					next[id] = way{append(slices.Clone(w.path), id), w.took + d}
				}
			}
		}
		if w, ok := next[to]; ok {
			return w.path, w.took
		}
		for id := range next {
			done[id] = true
		}
		level = next
	}
	return nil, 0
}

// passable reports whether all links of a path are known to be whole; healing: or to be healing.
func (l *links) passable(path []base.NodeID, now time.Duration, healing bool) bool {
	from := l.self
	for _, id := range path {
		if !l.whole(from, id, now, healing) {
			return false
		}
		from = id
	}
	return true
}

// parted reports whether no way leads to a peer, directly or over others, as far as nodes have
// told: each has a link over which one end is known not to hear the other one. A node that has not
// told of late may hear all.
func (l *links) parted(id base.NodeID, now time.Duration) bool {
	seen, next := map[base.NodeID]bool{l.self: true}, []base.NodeID{l.self}
	for len(next) > 0 && !seen[id] {
		from := next[0]
		next = next[1:]
		for n := range l.peers {
			if !seen[n] && !l.deaf(from, n, now) && !l.deaf(n, from, now) {
				seen[n], next = true, append(next, n)
			}
		}
	}
	return !seen[id]
}

// deaf reports whether a is known not to hear b directly.
func (l *links) deaf(a, b base.NodeID, now time.Duration) bool {
	if a == l.self {
		x := l.peers[b]
		return x != nil && x.cut && now-x.heard > doubtAfter
	}
	r := l.reports[a]
	return now-r.at <= freshFor && slices.Contains(r.cut, b) && !slices.Contains(r.healing, b)
}
