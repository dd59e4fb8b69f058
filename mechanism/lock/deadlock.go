package lock

import "github.com/godwitdb/godwit/base"

// maxEdges bounds the search for one deadlock. A search that gives up finds
// none; the caller's bound on waits for older transactions (see Older) breaks what is left.
const maxEdges = 10_000

// search walks the waits-for graph depth first from one transaction back to it.
type search struct {
	t     *Table
	from  *txn
	older bool // only through transactions older than from
	seen  map[*txn]struct{}
	edges int
	path  []*Waiter // the requests of the cycle, the last first
}

// visit reports whether from can be reached from x.
func (s *search) visit(x *txn) (found bool) {
	for _, w := range x.waiting {
		s.t.blocking(w, func(b *txn) bool {
			if s.edges++; s.edges > maxEdges {
				return false
			}
			if b == s.from {
				found = true
			} else if len(b.waiting) > 0 && (!s.older || b.older(s.from)) {
				if _, ok := s.seen[b]; !ok {
					if s.seen == nil {
						s.seen = map[*txn]struct{}{}
					}
					s.seen[b] = struct{}{}
					found = s.visit(b)
				}
			}
			return !found
		})
		if found {
			s.path = append(s.path, w)
			return true
		}
	}
	return false
}

// awaited reports whether anybody can wait for x: it holds something, or another request of it is
// queued.
func (x *txn) awaited() bool { return len(x.nodes) > 0 || len(x.waiting) > 1 }

// victimOf reports whether x is the youngest transaction of a cycle.
func (t *Table) victimOf(x *txn) bool {
	return x.awaited() && (&search{t: t, from: x, older: true}).visit(x)
}

// deadlock finds a cycle through x and returns its youngest transaction's request,
// nil if there is none. All edges of the graph that are new since the last request
// begin or end at x, so that there is no other cycle.
func (t *Table) deadlock(x *txn) (victim *Waiter) {
	s := search{t: t, from: x}
	if !x.awaited() || !s.visit(x) {
		return nil
	}
	for _, w := range s.path {
		if victim == nil || victim.txn.older(w.txn) {
			victim = w
		}
	}
	return victim
}

// blocking calls fn for each transaction that a request waits for, perhaps
// more than once, until it returns false.
func (t *Table) blocking(w *Waiter, fn func(*txn) bool) {
	more := true
	t.overlapping(w.node.span, w.node, func(o *node) bool {
		t.blockers(o, w, func(b *txn) bool {
			more = fn(b)
			return more
		})
		return more
	})
}

// Older reports whether a waiting request waits for a transaction older than its own, and whether
// all such transactions are ending. Every cycle of waiting transactions, also one that several
// tables share, has such a request: bounding the time that it waits breaks them all.
func (t *Table) Older(w *Waiter) (older, ending bool) {
	ending = true
	if w.queued {
		t.blocking(w, func(b *txn) bool {
			if b.older(w.txn) {
				older, ending = true, ending && b.ending
			}
			return ending
		})
	}
	return older, older && ending
}

// Awaited calls fn for each transaction that requests of the given one wait for,
// perhaps more than once, until it returns false.
func (t *Table) Awaited(id base.TxnID, fn func(id base.TxnID, age base.Timestamp) bool) {
	x := t.txns[id]
	if x == nil {
		return
	}
	more := true
	for _, w := range x.waiting {
		t.blocking(w, func(b *txn) bool {
			more = fn(b.id, b.age)
			return more
		})
		if !more {
			return
		}
	}
}
