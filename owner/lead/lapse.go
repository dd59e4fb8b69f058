package lead

import (
	"time"

	"github.com/godwitdb/godwit/base"
)

// Lapses ends the waits for entries of a leader that cannot log them. One that is cut off from its
// followers has no lease seconds before Raft notices, and then another node may lead; one whose
// disk is frozen may keep it. Whoever waits is told that the outcome is unknown, and asks for it.
// Waits that begin in the same while share a Lapse, so that none needs a timer.
type Lapses struct {
	since     time.Time // when the lease was first missed; zero: it is held
	now, last *Lapse    // what began lately, and in the while before; nil: nothing
	from      time.Time // when a look first found now; zero: none has
}

// Lapse is the end of waits that began in the same while.
type Lapse struct {
	Ended chan struct{} // closed when waiting is of no use any more
	Why   error         // set before
}

const (
	// lapseAfter is longer than what a lease that is only renewed late takes.
	lapseAfter = 500 * time.Millisecond
	// longest is how long an entry is waited for, at least; at most for twice that and a look.
	longest = 30 * time.Second
)

var (
	errLapsed  = base.Errorf(base.CodeUnavailable, "the lease has ended, and this node hears of no majority")
	errDeposed = base.Errorf(base.CodeUnavailable, "another node has begun to lead")
	errSlow    = base.Errorf(base.CodeUnavailable, "its log entry is not durable after %v", longest)
)

// Begin begins a wait.
func (l *Lapses) Begin() *Lapse {
	if l.now == nil {
		l.now = &Lapse{Ended: make(chan struct{})}
		if l.last == nil {
			l.from = time.Time{}
		}
	}
	return l.now
}

// Look is called a few times a second; leased: the lease is held.
func (l *Lapses) Look(now time.Time, leased bool) {
	switch {
	case leased, l.now == nil && l.last == nil:
		l.since = time.Time{}
	case l.since.IsZero():
		l.since = now
	case now.Sub(l.since) >= lapseAfter:
		l.now.end(errLapsed)
		l.last.end(errLapsed)
		*l = Lapses{}
		return
	}
	switch {
	case l.from.IsZero():
		l.from = now
	case now.Sub(l.from) >= longest:
		l.last.end(errSlow)
		l.now, l.last, l.from = nil, l.now, now
	}
}

// End ends all waits: another node leads, and knows what became of the entries.
func (l *Lapses) End() {
	l.now.end(errDeposed)
	l.last.end(errDeposed)
	*l = Lapses{}
}

func (l *Lapse) end(why error) {
	if l != nil {
		l.Why = why
		close(l.Ended)
	}
}
