package cluster

import (
	"fmt"
	"time"
)

// An Organ is a part of a node that can be sick while the node still answers.
type Organ uint32

const (
	// OrganDisk takes what is synced; leads leave a node whose disk is slow or stands still.
	OrganDisk Organ = 1 << iota
	// OrganStore are the files; leads leave a node of which one is damaged.
	OrganStore
	// OrganProcess is the process, which may get no processor; leads leave it.
	OrganProcess
	// OrganClock is the source of time. Leads stay: there are clock modes that do without.
	OrganClock
	// OrganLinks are the connections to the others. Leads stay: elections see to them.
	OrganLinks
	// OrganLife is the process's life: leads leave a node that was told to end.
	OrganLife
)

// organs are all, the worst first.
var organs = []Organ{OrganLife, OrganStore, OrganDisk, OrganProcess, OrganClock, OrganLinks}

// leaving are the organs that a leader needs.
const leaving = OrganDisk | OrganStore | OrganProcess | OrganLife

func (o Organ) String() string {
	switch o {
	case OrganDisk:
		return "disk"
	case OrganStore:
		return "store"
	case OrganProcess:
		return "process"
	case OrganClock:
		return "clock"
	case OrganLinks:
		return "link"
	case OrganLife:
		return "life"
	}
	return fmt.Sprintf("organ %d", uint32(o))
}

// advice is what an operator should do about a sick organ.
func (o Organ) advice() string {
	switch o {
	case OrganDisk:
		return "look at the disk and what else uses it (iostat -x, dmesg, the quota of the volume)"
	case OrganStore:
		return "the other replicas are good: replace the node by one with an empty store, and look at the disk (dmesg, smartctl)"
	case OrganProcess:
		return "look for what takes the processor or stops the process (top, the quota of the container, a suspended machine)"
	case OrganClock:
		return "correct its clock (chronyc tracking, timedatectl)"
	case OrganLinks:
		return "look at the network between the nodes"
	case OrganLife:
		return "nothing: it was told to end, and hands its leads over"
	}
	return ""
}

// The states of an organ:
//
//	well --bad--> sick --good--> recovering --good for its patience--> well
//	                ^                |
//	                +------bad-------+
type organState uint8

const (
	organWell organState = iota
	organSick
	organRecovering
)

func (s organState) String() string { return [...]string{"well", "sick", "recovering"}[s] }

// An organ that was sick has to be well for its patience before the node gets its leads back. Each
// relapse doubles the patience, and each stretch of health that is as long as it halves it.
const (
	leastPatience = 10 * time.Second
	mostPatience  = 160 * time.Second
)

// organ is one organ's state.
type organ struct {
	state    organState
	since    time.Time // of the state
	why      string    // it was found sick
	patience time.Duration
	relapses bool // it has been sick not long ago
}

// observe takes a look at the organ; changed says that its state is another one now.
func (o *organ) observe(now time.Time, bad bool, why string) (changed bool) {
	if o.patience == 0 {
		o.patience, o.since = leastPatience, now
	}
	to := o.state
	switch {
	case bad:
		to, o.why = organSick, why
	case o.state == organSick:
		to = organRecovering
	case o.state == organRecovering && now.Sub(o.since) >= o.patience:
		to = organWell
	case o.state == organWell && now.Sub(o.since) >= o.patience:
		o.relapses = o.patience > leastPatience
		o.patience, o.since = max(o.patience/2, leastPatience), now
	}
	if to == o.state {
		return false
	}
	if to == organSick && o.relapses {
		o.patience = min(2*o.patience, mostPatience)
	}
	o.relapses = true
	o.state, o.since = to, now
	return true
}
