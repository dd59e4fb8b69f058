package lead

import (
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Past is what a process knows of its service under leases of a group that it has asked for
// (TIME-1b). The zero value is of one that has never asked.
type Past struct {
	least, most base.Timestamp // ends of the leases
	// Floor is the timestamp at or below which it has served, and below which votes that it has
	// cast may commit without the locks that they rest on being in the log; Held is the catalog
	// hold that it has promised.
	Floor, Held base.Timestamp
	// Barred is the term below which it does not serve any more: another node leads in that one.
	Barred uint64

	ended uint64    // the newest term that has ended while the process lived
	until time.Time // when the last lease of that term ends, by the monotonic clock
}

// Asked notes a lease that is about to be proposed, or that the process was given.
func (p *Past) Asked(end base.Timestamp) {
	if p.least == 0 || end < p.least {
		p.least = end
	}
	p.most = max(p.most, end)
}

// Served notes the end of a term in which it led.
func (p *Past) Served(l *Leadership, floor base.Timestamp) {
	p.Floor, p.Held = max(p.Floor, floor), max(p.Held, l.Held)
	p.ended, p.until = max(p.ended, l.Term), l.latest
}

// Release is what a process that does not lead says unasked of its service until the newest term
// that has ended (TIME-1c); nil if no lease of it goes on. It serves no more in these terms.
func (p *Past) Release(now time.Time) *wire.GroupRelease {
	if p.ended == 0 || p.least == 0 || now.After(p.until) {
		return nil
	}
	p.Barred = max(p.Barred, p.ended+1)
	return &wire.GroupRelease{Term: p.ended, Least: uint64(p.least), Most: uint64(p.most), Floor: uint64(p.Floor),
		Held: uint64(p.Held)}
}

// Knows reports whether a lease with this end, the newest one of this node in a log, is of this
// process. Leases of a node end ever later (TIME-1a), so that it knows of all that was served under
// the ones before, too: a process begins above the leases of those before it.
func (p *Past) Knows(end base.Timestamp) bool { return p.least != 0 && end >= p.least && end <= p.most }
