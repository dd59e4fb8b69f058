package cluster

import (
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Directory knows who leads each group, from the pulses of the leaders
// themselves. It may be behind; whoever is asked in error says who is right.
type Directory struct {
	mu    sync.RWMutex
	leads map[base.GroupID]lead
}

type lead struct {
	node   base.NodeID
	term   uint64
	inc    uint32 // incarnation of the group
	closed base.Timestamp
	heard  time.Time
}

// NewDirectory knows nobody yet.
func NewDirectory() *Directory { return &Directory{leads: map[base.GroupID]lead{}} }

// Heard records a leader's word on its group; words of older terms are ignored.
func (d *Directory) Heard(from base.NodeID, l *wire.GroupLead, now time.Time) {
	g := base.GroupID(l.Group)
	d.mu.Lock()
	defer d.mu.Unlock()
	if old, ok := d.leads[g]; ok && (old.inc > l.Incarnation || old.inc == l.Incarnation && old.term > l.Term) {
		return
	}
	d.leads[g] = lead{from, l.Term, l.Incarnation, base.Timestamp(l.Closed), now}
}

// Leader is the node last heard to lead a group; 0 if none was.
func (d *Directory) Leader(g base.GroupID) base.NodeID {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.leads[g].node
}

// Incarnation is that of the group as last heard.
func (d *Directory) Incarnation(g base.GroupID) uint32 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.leads[g].inc
}

// Closed is the newest closed timestamp heard of a group, and when.
func (d *Directory) Closed(g base.GroupID) (base.Timestamp, time.Time) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	l := d.leads[g]
	return l.closed, l.heard
}
