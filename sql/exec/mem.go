package exec

import (
	"sync/atomic"

	"github.com/dolthub/vitess/go/mysql"
)

// Mem accounts for the memory that operators keep. Budgets form a tree: what a statement takes,
// it takes from its session and its node, too.
type Mem struct {
	parent *Mem
	limit  int64
	used   atomic.Int64
	peak   atomic.Int64
}

// NewMem makes a budget of limit bytes (0: unlimited) below parent, which may be nil.
func NewMem(parent *Mem, limit int64) *Mem { return &Mem{parent: parent, limit: limit} }

// TryGrow takes n bytes, or nothing if a limit does not allow it.
func (m *Mem) TryGrow(n int64) bool {
	if m == nil {
		return true
	}
	now := m.used.Add(n)
	if m.limit > 0 && now > m.limit || !m.parent.TryGrow(n) {
		m.used.Add(-n)
		return false
	}
	for {
		p := m.peak.Load()
		if now <= p || m.peak.CompareAndSwap(p, now) {
			return true
		}
	}
}

// Grow takes n bytes, or returns the error that tells the user so.
func (m *Mem) Grow(n int64) error {
	if m.TryGrow(n) {
		return nil
	}
	return mysql.NewSQLError(mysql.EROutOfSortMemory, "HY001",
		"Out of memory: the statement needs more than its limit of %d bytes", m.tightest())
}

func (m *Mem) tightest() int64 {
	for ; m != nil; m = m.parent {
		if m.limit > 0 {
			return m.limit
		}
	}
	return 0
}

// Shrink gives n bytes back.
func (m *Mem) Shrink(n int64) {
	for ; m != nil; m = m.parent {
		m.used.Add(-n)
	}
}

// Used is what is taken now.
func (m *Mem) Used() int64 { return m.used.Load() }

// Peak is the most that was taken at once.
func (m *Mem) Peak() int64 { return m.peak.Load() }
