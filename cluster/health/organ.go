package health

import (
	"fmt"
	"time"
)

// An Organ is a part of a node that can be sick while the node still answers.
type Organ uint32

const (
	// Disk takes what is synced; leads leave a node whose disk is slow or stands still.
	Disk Organ = 1 << iota
	// Store are the files; leads leave a node of which one is damaged.
	Store
	// Process is the process, which may get no processor; leads leave it.
	Process
	// Clock is the source of time. Leads stay: there are clock modes that do without.
	Clock
	// Links are the connections to the others. Leads stay: elections see to them.
	Links
	// Life is the process's life: leads leave a node that was told to end.
	Life
	// Issuer issues timestamps: leads leave a node that cannot, because its clock is wrong and the
	// operator wants a clock mode that needs it.
	Issuer
)

// organs are all, the worst first.
var organs = []Organ{Life, Store, Disk, Process, Issuer, Clock, Links}

// Leading are the organs that a leader needs.
const Leading = Disk | Store | Process | Life | Issuer

// String names the organ.
func (o Organ) String() string {
	switch o {
	case Disk:
		return "disk"
	case Store:
		return "store"
	case Process:
		return "process"
	case Clock:
		return "clock"
	case Links:
		return "link"
	case Life:
		return "life"
	case Issuer:
		return "issuer"
	}
	return fmt.Sprintf("organ %d", uint32(o))
}

// Advice is what an operator should do about a sick organ.
func (o Organ) Advice() string {
	switch o {
	case Disk:
		return "look at the disk and what else uses it (iostat -x, dmesg, the quota of the volume)"
	case Store:
		return "nothing at once: it is repaired from the other replicas; look at the disk (dmesg, smartctl), " +
			"and if no replica is good, replace the node by one with an empty store"
	case Process:
		return "look for what takes the processor or stops the process (top, the quota of the container, a suspended machine)"
	case Clock:
		return "correct its clock (chronyc tracking, timedatectl)"
	case Links:
		return "look at the network between the nodes"
	case Life:
		return "nothing: it was told to end, and hands its leads over"
	case Issuer:
		return "correct its clock (chronyc tracking, timedatectl), or set clock.mode to auto"
	}
	return ""
}

// State is the state of an organ:
//
//	well --bad--> sick --good--> recovering --good for its patience--> well
//	                ^                |
//	                +------bad-------+
type State uint8

// The states.
const (
	Well State = iota
	Sick
	Recovering
)

// String names the state as an OrganStatus has it.
func (s State) String() string { return [...]string{"well", "sick", "recovering"}[s] }

// An organ that was sick has to be well for its patience before the node gets its leads back: the
// least one leaves time for that within the ten seconds after which latency is as before. Each
// relapse after the leads have come back doubles the patience, and each stretch of health that is
// as long as it halves it. (A disk that is slow seems well between two syncs. That is one
// sickness.)
const (
	leastPatience = 5 * time.Second
	mostPatience  = 160 * time.Second
)

// organ is one organ's state.
type organ struct {
	state    State
	since    time.Time // of the state
	judged   time.Time // when it became well, or its patience was halved last
	why      string    // it was found sick
	patience time.Duration
	relapses bool // it has been sick not long ago
}

// observe takes a look at the organ; changed says that its state is another one now.
func (o *organ) observe(now time.Time, bad bool, why string) (changed bool) {
	if o.patience == 0 {
		o.patience, o.since, o.judged = leastPatience, now, now
	}
	to := o.state
	switch {
	case bad:
		to, o.why = Sick, why
	case o.state == Sick:
		to = Recovering
	case o.state == Recovering && now.Sub(o.since) >= o.patience:
		to = Well
	case o.state == Well && now.Sub(o.judged) >= o.patience:
		o.relapses = o.patience > leastPatience
		o.patience, o.judged = max(o.patience/2, leastPatience), now
	}
	if to == o.state {
		return false
	}
	if to == Sick && o.state == Well && o.relapses {
		o.patience = min(2*o.patience, mostPatience)
	}
	o.relapses = true
	o.state, o.since, o.judged = to, now, now
	return true
}
