package sim

import (
	"context"

	"github.com/godwitdb/godwit/base"
)

// Counters are rows, one at home in each region. Autocommit statements of all regions increment
// them, and most of these are forwarded. Their sums show a statement that ran twice, or an
// acknowledged one that did not run.

// tally is what one client did to the counters, by row.
type tally struct {
	acked, unknown map[int]int
}

// increment increments one or two rows of one region.
func (s *sqlWork) increment() {
	id := 1 + s.rng.IntN(s.w.cfg.Regions)
	q := "UPDATE cnt SET v = v + 1 WHERE id = ?"
	switch s.rng.IntN(3) {
	case 0:
		q = "UPDATE cnt SET v = v + 1 * 1 WHERE id IN (?)" // not recognised by the fast path
	case 1:
		q = "INSERT INTO cnt (id, v) VALUES (?, 1) ON DUPLICATE KEY UPDATE v = v + 1"
	}
	s.run("increment", false, func(t *stx) error {
		t.counts = id
		n, err := t.exec(q, id)
		if err == nil && n == 0 {
			s.w.fail("%s of %d changed no row", q, id)
		}
		return err
	})
}

// noteCount notes the outcome of an attempt.
func (s *sqlWork) noteCount(t *stx, known bool) {
	if t.counts == 0 {
		return
	}
	if s.acked == nil {
		s.tally = tally{map[int]int{}, map[int]int{}}
	}
	if known {
		s.acked[t.counts]++
	} else {
		s.unknown[t.counts]++
	}
}

// foundCounters makes the rows, each through a node of its region.
func foundCounters(s *sqlWork) {
	for r := 1; r <= s.w.cfg.Regions; r++ {
		for _, h := range s.w.hosts {
			if h.region != base.RegionID(r) {
				continue
			}
			if l := h.up(); l != nil {
				if _, err := s.db(l).Exec("INSERT INTO d.cnt VALUES (?, 0)", r); err != nil {
					s.w.fail("INSERT INTO cnt: %w", err)
				}
				break
			}
		}
	}
	s.close()
}

// checkCounts compares the counters with what all clients did.
func checkCounts(all []*sqlWork) {
	s := all[0]
	for r := 1; r <= s.w.cfg.Regions; r++ {
		acked, unknown := 0, 0
		for _, o := range all {
			acked += o.acked[r]
			unknown += o.unknown[r]
		}
		l := s.gateway()
		if l == nil {
			return
		}
		ctx, cancel := context.WithTimeout(l.ctx, liveBound)
		v := -1
		err := s.db(l).QueryRowContext(ctx, "SELECT v FROM cnt WHERE id = ?", r).Scan(&v)
		cancel()
		if err != nil || v < acked || v > acked+unknown {
			s.w.fail("counter %d is %d (%v): %d increments were acknowledged, the outcome of %d is unknown", r, v, err,
				acked, unknown)
		}
	}
}
