package gauge

import "time"

// QuorumDelay is how long a group's commits take to be replicated: commit timestamps are assigned
// so far ahead of now (TIME-4), and then commit wait costs nothing, and commits under way do
// not hold back the closed timestamp. Too much would delay every commit, too little only makes the
// closed timestamp a little older: it falls fast and rises slowly.
type QuorumDelay struct {
	mean time.Duration
	n    int       // commits seen, up to seenEnough
	last time.Time // when the last one was
	// Most is what the network alone explains, as of the last heartbeat; 0: unknown.
	Most time.Duration
}

const (
	// a pause after which it begins anew: commits of an idle group delay others for a short time
	// only
	busyFor = 10 * time.Second
	// before that, one commit that was slow for another reason would slow the next one down
	seenEnough = 3
	leastDelay = 2 * time.Millisecond // within one region there is nothing to gain
	mostDelay  = 400 * time.Millisecond
)

// Took notes that a commit took d.
func (q *QuorumDelay) Took(d time.Duration) {
	if now := time.Now(); now.Sub(q.last) > busyFor {
		*q = QuorumDelay{last: now, Most: q.Most}
	} else {
		q.last = now
	}
	q.n = min(q.n+1, seenEnough)
	switch {
	case q.mean == 0 || d < q.mean:
		q.mean = d
	default:
		q.mean += (min(d, mostDelay) - q.mean) / 16
	}
}

// Ahead is how far ahead of now a commit timestamp is assigned, by a clock that may be off by
// bound.
func (q *QuorumDelay) Ahead(bound time.Duration) time.Duration {
	if q.n < seenEnough || time.Since(q.last) > busyFor {
		return 0
	}
	d := min(q.mean, mostDelay)
	if q.Most > 0 {
		d = min(d, q.Most)
	}
	if d -= 2 * bound; d < leastDelay {
		return 0
	}
	return d
}

// Lag is how new a replica's closed timestamp is whenever it rises: about the one-way delay from
// its leader.
type Lag struct {
	mean time.Duration
	last time.Time // when it rose last
}

// Rose notes that the closed timestamp rises to one that is d old.
func (l *Lag) Rose(d time.Duration) {
	if l.last.IsZero() {
		l.mean = d
	} else {
		l.mean += (d - l.mean) / 4
	}
	l.last = time.Now()
}

// Mean is how old the closed timestamp is when it rises. Not ok: it has not risen for long, with a
// heartbeat every so often.
func (l *Lag) Mean(every time.Duration) (d time.Duration, ok bool) {
	return l.mean, !l.last.IsZero() && time.Since(l.last) <= l.mean+5*every
}
