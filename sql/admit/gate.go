package admit

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Gate bounds how many short statements are at work at once, but only while what is woken waits
// long for a processor. Else it counts, and nobody waits.
//
// A statement holds its place until it ends, and no longer than one or two periods of a [tick]:
// then it counts as one that waits for a lock, another node or its client, and lets another one in.
// So nobody waits here because of somebody's locks.
//
// Statements in transactions, and those of other nodes, come first: others wait for them. Then the
// users take turns, so that one user's thousand clients do not keep another's waiting.
type Gate struct {
	// Least is the least bound.
	Least int
	// Patience is how long a statement waits at most.
	Patience time.Duration
	// Delay is how long goroutines waited for a processor since it was last asked.
	Delay func() time.Duration

	bound   atomic.Int64 // of statements at work; 0: none
	waiting atomic.Int64
	busy    atomic.Bool // statements came since the last tick
	period  atomic.Uint32
	work    [4]atomic.Int64 // statements at work, by the period in which they came
	short   atomic.Int64    // statements that have ended, and took no slot

	mu      sync.Mutex
	ticking bool
	calm    int // ticks since a statement had to wait
	first   []*caller
	users   map[string]*line
	ring    []*line // users whose statements wait, in the order of their turns
	stats   Stats
	began   time.Time
}

const (
	// tick is how often the gate measures, and the length of a period.
	tick = 20 * time.Millisecond
	// leastShort is the least bound for each processor. As many keep it busy, though some wait.
	leastShort = 32
	// calmTicks is how many ticks without a wait take the bound away.
	calmTicks = 50
)

// NewGate makes a gate for a number of processors.
func NewGate(processors int) *Gate {
	return &Gate{Least: leastShort * processors, Patience: usualPatience, Delay: schedulerDelay(), users: map[string]*line{},
		began: time.Now()}
}

// line is the statements of a user that wait.
type line struct {
	user string
	all  []*caller
}

// caller is a statement that waits.
type caller struct {
	asked time.Time
	pass  Pass
	state callerState
	ready chan struct{}
}

type callerState uint8

const (
	callerWaits callerState = iota
	callerIn
	callerGone // it is still in its line
)

// Pass is a statement's place. The zero value is none.
type Pass struct {
	g      *Gate
	period uint32
}

// TryEnter begins a statement if it need not wait; ok reports whether it has begun. A nil gate lets
// all in.
func (g *Gate) TryEnter() (_ Pass, ok bool) {
	if g == nil {
		return Pass{}, true
	}
	if !g.busy.Load() {
		g.watch()
	}
	if b := g.bound.Load(); b == 0 || g.waiting.Load() == 0 && g.working() < b {
		return g.in(), true
	}
	return Pass{}, false
}

// Enter begins a statement, and waits while too many are at work. The error is the context's cause,
// or says that the statement has waited for too long. A nil gate lets all in.
func (g *Gate) Enter(ctx context.Context, user string, first bool) (Pass, error) {
	if p, ok := g.TryEnter(); ok {
		return p, nil
	}
	return g.wait(ctx, user, first)
}

// Leave ends a statement. long says whether it has taken a slot.
func (p Pass) Leave(long bool) {
	g := p.g
	if g == nil {
		return
	}
	if !long {
		g.short.Add(1)
	}
	if g.period.Load()-p.period < 2 {
		g.work[p.period%4].Add(-1)
	}
	if g.waiting.Load() > 0 {
		g.mu.Lock()
		g.admit()
		g.mu.Unlock()
	}
}

// in counts a statement.
func (g *Gate) in() Pass {
	now := g.period.Load()
	g.work[now%4].Add(1)
	return Pass{g, now}
}

// working is how many statements are at work that came in this period or the one before.
func (g *Gate) working() int64 {
	now := g.period.Load()
	return g.work[now%4].Load() + g.work[(now-1)%4].Load()
}

// watch begins to measure.
func (g *Gate) watch() {
	g.busy.Store(true)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.ticking {
		g.ticking = true
		g.Delay() // since long ago
		time.AfterFunc(tick, g.tick)
	}
}

func (g *Gate) wait(ctx context.Context, user string, first bool) (Pass, error) {
	c := &caller{asked: time.Now(), ready: make(chan struct{})}
	g.mu.Lock()
	g.join(c, user, first)
	g.admit()
	g.mu.Unlock()
	late := time.NewTimer(g.Patience)
	defer late.Stop()
	var err error
	select {
	case <-c.ready:
		return c.pass, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-late.C:
		err = errOld
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.state == callerIn {
		return c.pass, nil // in the same moment
	}
	c.state = callerGone
	g.waiting.Add(-1)
	if err == errOld {
		g.stats.Refused++
	}
	return Pass{}, err
}

// join puts a statement into its line.
func (g *Gate) join(c *caller, user string, first bool) {
	g.calm = 0
	g.waiting.Add(1)
	if first {
		g.first = append(g.first, c)
		return
	}
	l := g.users[user]
	if l == nil {
		l = &line{user: user}
		g.users[user] = l
		g.ring = append(g.ring, l)
	}
	l.all = append(l.all, c)
}

// next takes the statement whose turn it is out of its line; nil if nobody waits.
func (g *Gate) next() *caller {
	if len(g.first) > 0 {
		c := g.first[0]
		g.first = slices.Delete(g.first, 0, 1)
		return c
	}
	if len(g.ring) == 0 {
		return nil
	}
	l := g.ring[0]
	g.ring = slices.Delete(g.ring, 0, 1)
	c := l.all[0]
	if l.all[0] = nil; len(l.all) == 1 {
		delete(g.users, l.user)
		return c
	}
	l.all = l.all[1:]
	g.ring = append(g.ring, l)
	return c
}

// admit lets in those whose turn it is.
func (g *Gate) admit() {
	for b := g.bound.Load(); b == 0 || g.working() < b; {
		c := g.next()
		if c == nil {
			return
		}
		if c.state == callerGone {
			continue
		}
		g.waiting.Add(-1)
		g.stats.Granted++
		g.stats.Waited += time.Since(c.asked)
		c.state, c.pass = callerIn, g.in()
		close(c.ready)
	}
}

// tick begins a period, and changes the bound by how long goroutines waited for a processor.
func (g *Gate) tick() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.period.Load() + 1
	lost := g.work[(now-2)%4].Load()
	g.work[now%4].Store(0)
	g.period.Store(now)
	bound := g.bound.Load()
	if bound > 0 {
		g.stats.Lost += max(0, lost)
	}
	g.calm++
	switch d := g.Delay(); {
	case bound == 0 && d > tooLate:
		bound = max(int64(g.Least), (g.working()+lost)/2)
	case d > tooLate:
		bound = max(int64(g.Least), bound-bound/4)
	case bound > 0 && g.calm > calmTicks:
		bound = 0
	case bound > 0 && d < inTime:
		bound += bound/8 + 1
	}
	g.bound.Store(bound)
	g.admit()
	if g.busy.Swap(false) || bound > 0 || g.waiting.Load() > 0 {
		time.AfterFunc(tick, g.tick)
	} else {
		g.ticking = false
	}
}

// Stats are the counters of short statements.
func (g *Gate) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.stats
	out.Class, out.Slots = Short, int(g.bound.Load())
	out.Running, out.Waiting = int(max(0, g.working())), int(g.waiting.Load())
	return out
}
