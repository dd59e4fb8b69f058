// Package slottime tells how far ahead of now the slots of transactions across regions have to be,
// and the timestamps of those that are ordered by them: by what the last votes took.
package slottime

import (
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/txn/lately"
)

// Votes tells how far ahead of now slots have to be: by region, how long the last votes took
// until they were back, without their waits for locks. (One that waited long for a lock says
// nothing of the next one.) A slot that lies too far ahead holds up those that write what its
// transaction has read; one that lies too near has readers wait for the outcome, and one that is
// past when a vote arrives costs another round trip.
type Votes struct {
	mu sync.Mutex
	by map[base.RegionID]*recentVotes
}

// recentVotes is a ring.
type recentVotes struct {
	took [voteWindow]time.Duration
	at   [voteWindow]time.Time
	n    int
}

const (
	// First is expected of a region of which no vote is known.
	First = 250 * time.Millisecond
	// Max is the most that a slot lies ahead: well below the length of a lease.
	Max   = 1500 * time.Millisecond
	slack = 3 * time.Millisecond
)

const (
	voteWindow = 16               // votes that are remembered,
	voteFor    = 2 * lately.Lasts // for so long; but the newest until there is another one
	voteLonger = 1                // how many of them may have taken longer than expected says
	leadFor    = time.Second / 2  // after which a vote replaces what earlier ones said
)

func (v *recentVotes) add(d time.Duration) {
	i := v.n % voteWindow
	v.took[i], v.at[i] = d, time.Now()
	v.n++
}

// expected is how long nearly all took.
func (v *recentVotes) expected() time.Duration {
	now := time.Now()
	seen := make([]time.Duration, 0, voteWindow)
	for i := max(0, v.n-voteWindow); i < v.n; i++ {
		if at := i % voteWindow; i == v.n-1 || now.Sub(v.at[at]) < voteFor {
			seen = append(seen, v.took[at])
		}
	}
	slices.Sort(seen)
	if len(seen) < voteWindow/2 { // too few to leave some out
		return seen[len(seen)-1]
	}
	return seen[len(seen)-1-voteLonger]
}

// Delay is how long all votes of the groups will take.
func (s *Votes) Delay(groups []base.GroupID, self base.RegionID) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := time.Duration(0)
	for _, g := range groups {
		switch v := s.by[g.Region()]; {
		case v != nil:
			d = max(d, v.expected())
		case g.Region() != self:
			d = max(d, First)
		}
	}
	return min(d+slack, Max)
}

// Answered notes a vote: took until it was back, waited of that for locks.
func (s *Votes) Answered(r base.RegionID, took, waited time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(r).add(max(took-waited, 0))
}

// Missed notes a vote that was refused because the slot, proposed so long ahead of when it was
// sent, was past: by late, and after it had waited for locks.
func (s *Votes) Missed(r base.RegionID, ahead, late, waited time.Duration) {
	there := ahead + late - waited // about when it arrived
	if there <= ahead {
		return // the locks were to blame
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.of(r)
	for range voteLonger + 1 { // often enough that expected does not leave it out
		v.add(min(2*there, Max))
	}
}

func (s *Votes) of(r base.RegionID) *recentVotes {
	if s.by == nil {
		s.by = map[base.RegionID]*recentVotes{}
	}
	if s.by[r] == nil {
		s.by[r] = &recentVotes{}
	}
	return s.by[r]
}

// Leads are how far ahead of now votes have to be asked for, by region: a little longer than it
// lately took until they arrived. They rise fast. They fall by the time that has passed, so that
// they have come down as soon with few votes as with many.
type Leads struct {
	mu sync.Mutex
	by map[base.RegionID]leadTime
}

type leadTime struct {
	d  time.Duration
	at time.Time // of the newest vote
}

// Delay is how long all votes of the groups will take.
func (s *Leads) Delay(groups []base.GroupID, self base.RegionID) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := time.Duration(0)
	for _, g := range groups {
		e, ok := s.by[g.Region()]
		if !ok && g.Region() != self {
			e.d = First
		}
		d = max(d, e.d)
	}
	return min(d+d/16+slack, Max)
}

// Answered notes how long one vote took.
func (s *Leads) Answered(r base.RegionID, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	old, ok := s.by[r]
	switch passed := min(now.Sub(old.at), leadFor); {
	case !ok:
	case d > old.d:
		d = old.d + (d-old.d)/2
	default:
		d = old.d - max((old.d-d)/8, time.Duration(float64(old.d-d)*float64(passed)/float64(leadFor)))
	}
	s.set(r, leadTime{d, now})
}

// TooShort makes the next slots of a region longer.
func (s *Leads) TooShort(r base.RegionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(r, leadTime{min(2*max(s.by[r].d, slack), Max), time.Now()})
}

func (s *Leads) set(r base.RegionID, t leadTime) {
	if s.by == nil {
		s.by = map[base.RegionID]leadTime{}
	}
	s.by[r] = t
}
