package lead

import "time"

// Terms are how long a lease is to be, and at what age it is renewed, as of the last moments: each
// commit asks, and round trips change slowly.
type Terms struct {
	at          time.Time
	length, age time.Duration
}

// TermsFor is how old the terms of a lease may be. It is short beside the time in which a lease is
// renewed.
const TermsFor = 50 * time.Millisecond

// At is what find says, at most TermsFor ago.
func (t *Terms) At(now time.Time, find func(time.Time) (length, age time.Duration)) (length, age time.Duration) {
	if now.Sub(t.at) >= TermsFor {
		t.at = now
		t.length, t.age = find(now)
	}
	return t.length, t.age
}
