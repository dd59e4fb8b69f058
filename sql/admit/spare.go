package admit

import "time"

// Spare is a processor that a goroutine uses which helps a statement. It is no slot: nobody waits
// for it, and whoever has it gives it back as soon as others want to compute.
type Spare struct{ pool *Pool }

// Spare takes a processor for a helper of the statement; nil: there is none. It never waits.
// Helpers and statements with a slot are together no more than there are processors, and one is
// left to short statements while such come. While statements wait there are no helpers, nor for a
// statement that has computed for less than a millisecond.
func (t *Turn) Spare() *Spare {
	if t == nil || t.pool == nil || !t.begun {
		return nil
	}
	p := t.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.helpers++; !p.spares(now) {
		p.helpers--
		return nil
	}
	p.grant(now) // so that it is looked for short statements
	return &Spare{p}
}

// spares reports whether there are processors for all helpers.
func (p *Pool) spares(now time.Duration) bool {
	top := len(p.slots)
	if p.shortNow(now) {
		top = max(1, top-1)
	}
	return len(p.queue) == 0 && p.computing(now)+p.helpers <= top
}

// shortNow reports whether short statements come. While nobody looks for them they are not counted
// by the second.
func (p *Pool) shortNow(now time.Duration) bool {
	all := p.Gate.short.Load()
	if now-p.short.since > 2*calmFor {
		p.short = shortStatements{since: now, before: all}
	}
	return p.short.come(now, all)
}

// computing is how many statements compute with a slot.
func (p *Pool) computing(now time.Duration) (n int) {
	for _, s := range p.slots {
		if s.turn != nil && now-s.seen < lease {
			n++
		}
	}
	return n
}

// Keep reports whether the helper may go on. It is asked between batches.
func (s *Spare) Keep() bool {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.pool.spares(s.pool.now())
}

// End gives the processor back.
func (s *Spare) End() {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	s.pool.helpers--
}

// Pooled reports whether there are slots at all.
func (t *Turn) Pooled() bool { return t != nil && t.pool != nil }
