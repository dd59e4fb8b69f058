// Package budget accounts for the memory that statements keep.
package budget

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

// Less is the budget without n bytes, which were taken elsewhere.
func (m *Mem) Less(n int64) *Mem {
	if m.limit > 0 {
		m.limit = max(1, m.limit-n)
	}
	return m
}

// TryGrow takes n bytes, or nothing if a limit does not allow it. It is for operators that can go
// on with files: it leaves an eighth of each limit to those that cannot.
func (m *Mem) TryGrow(n int64) bool {
	return (m == nil || n <= 0 || SpillAbove <= 0 || m.Used()+n <= SpillAbove) && m.take(n, 8) == nil
}

// SpillAbove is the memory of a statement above which its operators go on with files, in bytes; 0:
// as their limits say. Tests set it before the first statement. Spilled counts the files.
var (
	SpillAbove int64
	Spilled    atomic.Int64
)

// A statement that keeps more than little leaves one of spared parts of what all may keep to those
// that keep less: else a few large statements have one on a single row fail.
const (
	little = 1 << 20
	spared = 16
)

// take leaves one of parts of each limit, or nothing if parts is 0. It returns the budget that
// refuses, nil if none does.
func (m *Mem) take(n, parts int64) (by *Mem) {
	if m == nil {
		return nil
	}
	limit := m.limit
	if parts > 0 {
		limit -= limit / parts
	}
	now := m.used.Add(n)
	if n > 0 && limit > 0 && now > limit {
		by = m
	} else {
		if parts == 0 && now > little {
			parts = spared
		}
		by = m.parent.take(n, parts)
	}
	if by != nil {
		m.used.Add(-n)
		return by
	}
	for {
		p := m.peak.Load()
		if now <= p || m.peak.CompareAndSwap(p, now) {
			return nil
		}
	}
}

// Grow takes n bytes, or returns the error that tells the user so.
func (m *Mem) Grow(n int64) error {
	by := m.take(n, 0)
	if by == nil {
		return nil
	}
	if by != m {
		return mysql.NewSQLError(mysql.EROutOfSortMemory, "HY001", "Out of memory: the statements of this node together "+
			"need more than their limit of %d bytes, which is sql-memory-mb; this one has %d of them: try again later",
			by.limit, m.Used())
	}
	return m.Short()
}

// Short is the error of a lack of memory.
func (m *Mem) Short() error {
	return mysql.NewSQLError(mysql.EROutOfSortMemory, "HY001",
		"Out of memory: the statement needs more than its limit of %d bytes, a quarter of sql-memory-mb and at most 256 MiB",
		m.tightest())
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

// Release gives back all that is taken. Nothing may be taken afterwards.
func (m *Mem) Release() {
	if m.parent != nil {
		m.parent.Shrink(m.used.Swap(0))
	}
}

// Parent is the budget of which this one is a part; nil: there is none.
func (m *Mem) Parent() *Mem { return m.parent }

// Limit is what may be taken at most; 0: there is no limit.
func (m *Mem) Limit() int64 { return m.limit }

// Used is what is taken now.
func (m *Mem) Used() int64 { return m.used.Load() }

// Done gives everything back, and returns the most that was taken at once. It is the end of m.
func (m *Mem) Done() int64 { m.Release(); return m.peak.Load() }
