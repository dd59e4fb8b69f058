package sim

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/gauge"
)

// owners checks, at every step, that a key has one owner at a time. A group owns a key from the
// timestamp of the version whose label names it. It has used its ownership up to the last point at
// which it showed or wrote the key: the timestamp of a snapshot or a commit, or the present for a
// locking read. No other group's time may begin in between. The same holds for the leaders of one
// group: writes of a later leader lie above everything that an earlier one served, and once a later
// one has served, an earlier one grants no locking read.
type owners struct {
	mu      sync.Mutex
	keys    map[string]*ownedKey
	checked int
	age     time.Duration // at which tombstones are collected
	// apart says that a node was in a mode without a bounded clock. Timestamps then lag behind true
	// time, so that a locking read in the present says nothing about them.
	apart bool
}

// ownedKey is the owners of a key, and their leaders.
type ownedKey struct {
	stints []stint // ordered by since; the oldest are dropped
	leads  map[base.GroupID]*leads
}

// stint is the time of one owner under one version. Another one with the same owner may follow, or
// follow after one of another owner that has not been heard of yet: a leader that was cut off finds
// out late that what it wrote is committed.
type stint struct {
	group base.GroupID
	since base.Timestamp
	last  base.Timestamp // newest point at which the key was shown or written
	how   gauge.Service
}

// leads are the leaders of one group, as one key has seen them.
type leads struct {
	term    uint64 // the latest
	first   time.Time
	written base.Timestamp // first write of it; 0 if none
	last    base.Timestamp // newest point of earlier terms
	point   base.Timestamp // newest point of this one
	how     gauge.Service
}

const maxStints = 64

// twoOwners is what the check finds.
type twoOwners struct {
	key  base.Key
	a, b gauge.Service
	why  string
}

func (e *twoOwners) Error() string {
	say := func(s gauge.Service) string {
		what := [...]string{"shown at", "shown under a lock", "written at", "shown to a writer at"}[s.Kind]
		return fmt.Sprintf("group %v term %d on node %d, owner since %d: %s %d", s.Group, s.Term, s.Node, s.Since, what, s.At)
	}
	return fmt.Sprintf("key %v has two owners at a time: %s; %s; %s", e.key, say(e.a), say(e.b), e.why)
}

// leftGClock notes that timestamps are not bound to true time any more.
func (o *owners) leftGClock() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.apart {
		o.apart, o.keys = true, nil
	}
}

// serves takes note of a service. now is true time.
func (o *owners) serves(s gauge.Service, now time.Time) error {
	if s.Key.Shard() == base.MetaShard {
		return nil // its owner is the meta group by definition
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.Kind == gauge.LockService {
		if s.At = base.FromTime(now); o.apart {
			s.At = 0
		}
	}
	o.checked++
	k := o.keys[string(s.Key)]
	if k == nil {
		if o.keys == nil {
			o.keys = map[string]*ownedKey{}
		}
		k = &ownedKey{leads: map[base.GroupID]*leads{}}
		o.keys[string(s.Key)] = k
	}
	s.Key = s.Key.Clone()
	if e := k.lead(s, now); e != nil {
		return e
	}
	merged := base.FromTime(now).Add(-o.age)
	if o.apart {
		merged = base.FromTime(now)
	}
	if e := k.own(s, merged); e != nil {
		return e
	}
	return nil
}

// own checks a service of a key. Tombstones up to merged may have been collected.
func (k *ownedKey) own(s gauge.Service, merged base.Timestamp) *twoOwners {
	if n := len(k.stints); !s.Found && n > 0 && s.Since < k.stints[n-1].since {
		// A gap that lay behind a tombstone may be a part of an older one again, when that has been
		// collected (HOME-4).
		return nil
	}
	if !s.Found && s.At < s.Since {
		return nil // a key that was absent in the past: the present owner of its gap says nothing about then
	}
	at := max(s.At, s.Since)
	i := len(k.stints)
	for i > 0 && k.stints[i-1].since > s.Since {
		i--
	}
	if e := k.apart(s, i, at, merged); e != nil {
		return e
	}
	for j := i - 1; j >= 0 && k.stints[j].since == s.Since; j-- {
		x := &k.stints[j]
		if x.group != s.Group {
			continue
		}
		if at > x.last || at == x.last && s.Kind == gauge.ReadService {
			x.last, x.how = at, s
		}
		return nil
	}
	k.stints = slices.Insert(k.stints, i, stint{s.Group, s.Since, at, s})
	if len(k.stints) > maxStints {
		k.stints = slices.Delete(k.stints, 0, maxStints/2)
	}
	return nil
}

// apart checks that the service lies neither in the time of a later owner, which are the stints
// from i on, nor in that of an earlier one.
func (k *ownedKey) apart(s gauge.Service, i int, at, merged base.Timestamp) *twoOwners {
	// A later owner began above this point. Only the write that gave the key away, and the locking
	// read before it, may be as late as that beginning.
	for _, x := range k.stints[i:] {
		if x.group != s.Group && (x.since < at || x.since == at && s.Kind == gauge.ReadService) {
			return &twoOwners{s.Key, x.how, s, "the older owner goes on"}
		}
	}
	for j := range k.stints[:i] {
		x := &k.stints[j]
		switch {
		case x.group == s.Group:
		case !s.Found && x.last <= merged:
			// Between the two the gap may have lain behind a tombstone that no service has shown
			// (HOME-4).
		case x.since == s.Since:
			return &twoOwners{s.Key, x.how, s, "one version names two"}
		case x.last > s.Since || x.last == s.Since && x.how.Kind == gauge.ReadService:
			return &twoOwners{s.Key, x.how, s, "the older owner was not done"}
		}
	}
	return nil
}

func (k *ownedKey) lead(s gauge.Service, now time.Time) *twoOwners {
	l := k.leads[s.Group]
	if l == nil {
		l = &leads{term: s.Term, first: now}
		k.leads[s.Group] = l
	}
	switch {
	case s.Term > l.term:
		*l = leads{term: s.Term, first: now, last: max(l.last, l.point), how: l.how}
	case s.Term < l.term:
		if s.Kind == gauge.LockService && now.After(l.first) || l.written != 0 && s.At >= l.written {
			return &twoOwners{s.Key, l.how, s, "an earlier leader goes on"}
		}
		l.last = max(l.last, s.At)
		return nil
	}
	if s.Kind == gauge.WriteService {
		if s.At <= l.last {
			return &twoOwners{s.Key, l.how, s, "an earlier leader has served what lies above"}
		}
		if l.written == 0 || s.At < l.written {
			l.written = s.At
		}
	}
	if s.At >= l.point {
		l.point, l.how = s.At, s
	}
	return nil
}
