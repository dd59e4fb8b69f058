package admit

import (
	"runtime"
	"sync/atomic"
)

// Logins bound how many logins compute at once: they check passwords, sign for TLS and build
// sessions. Thousands of them that come together would have each statement of those who are logged
// in wait behind them all.
type Logins struct{ places chan struct{} }

// NewLogins makes the bound of a node with a number of processors, 0: those of this process. Half
// of them are for logins, and one at least.
func NewLogins(processors int) *Logins {
	if processors == 0 {
		processors = runtime.GOMAXPROCS(0)
	}
	return &Logins{make(chan struct{}, max(1, processors/2))}
}

// Taken is how many compute at the moment, most how many may.
func (l *Logins) Taken() (n, most int) { return len(l.places), cap(l.places) }

// Login is a login's place among others. It has one while it computes, and none while it waits for
// its client: so nobody waits for a client of another's. The zero value has none.
type Login struct {
	place atomic.Pointer[Logins] // where it has one
	done  bool
}

// Begin waits until the login may compute. It has no place before. Those that wait get places in
// the order in which they came. After Done it waits for nothing.
func (l *Login) Begin(all *Logins) {
	if l.done {
		return
	}
	select {
	case all.places <- struct{}{}:
	default:
		all.places <- struct{}{}
		// It was woken by another login, on that one's processor: whoever waits there goes first.
		runtime.Gosched()
	}
	l.place.Store(all)
}

// End gives the place back, and reports whether there was one. Who closes a connection may call it
// beside its owner.
func (l *Login) End() bool {
	p := l.place.Swap(nil)
	if p != nil {
		<-p.places
	}
	return p != nil
}

// Done ends the login for good.
func (l *Login) Done() {
	l.done = true
	l.End()
}
