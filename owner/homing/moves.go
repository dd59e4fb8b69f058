package homing

import (
	"slices"
	"sync"

	"github.com/godwitdb/godwit/base"
)

// maxMoves is how many moves are remembered.
const maxMoves = 10_000

// Log remembers the newest moves. Its methods may be called from any goroutine.
type Log struct {
	mu    sync.Mutex
	ring  []Move
	next  int
	total int64
	to    [base.MaxRegions + 1]int64
}

// Add notes a move; count: it is one of those that Arrived counts.
func (l *Log) Add(m Move, count bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	if m.From != m.To && m.Key.Index() == 0 && count {
		l.to[m.To]++
	}
	if len(l.ring) < maxMoves {
		l.ring = append(l.ring, m)
		return
	}
	l.ring[l.next] = m
	l.next = (l.next + 1) % maxMoves
}

// Moves are the newest moves, oldest first, and how many there were.
func (l *Log) Moves() ([]Move, int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(slices.Clone(l.ring[l.next:]), l.ring[:l.next]...), l.total
}

// Arrived is how many rows have moved to a region, of the moves that count.
func (l *Log) Arrived(r base.RegionID) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to[r]
}
