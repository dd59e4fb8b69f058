package admit

import (
	"container/heap"
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dolthub/vitess/go/mysql"
	"github.com/prometheus/client_golang/prometheus"
)

// Class says what a statement is.
type Class uint8

// The classes, in the order in which they come to their turns.
const (
	// Locking statements change rows, lock them, or are in a transaction that may have done so.
	Locking Class = iota
	// Reading statements hold nothing that others wait for.
	Reading
	classes
	// Short are all statements as long as they have computed for little: [Gate].
	Short = classes
)

// String is the class as users see it.
func (c Class) String() string { return [...]string{"locking", "reading", "short"}[c] }

const (
	// grace is how long a statement computes without a slot.
	grace = time.Millisecond
	// glance is how much of the time between two calls of [Turn.Yield] counts while there was no
	// slot yet. On a busy machine the operating system takes the processor from a thread for
	// several milliseconds: a statement on a single row to which that happens has computed for
	// little all the same, and must not queue behind those that compute for long.
	glance = grace / 4
	// quantum is how long it keeps a slot while others wait.
	quantum = 5 * time.Millisecond
	// lease is how long it keeps one without saying anything.
	lease = 20 * time.Millisecond
	// stand is how often it lets other goroutines of its processor go first.
	stand = 500 * time.Microsecond
	// lookEvery is how often a statement sees to it that the scheduler looks at the network.
	lookEvery = 200 * time.Microsecond
	// behind is by how much Reading statements come later than Locking ones that ask at the same
	// time, and most by how much those that have computed for long come later.
	behind = 100 * time.Millisecond
	most   = 200 * time.Millisecond
	// Every adaptEvery a slot is closed if one in a hundred goroutines waits for longer than
	// tooLate, and opened if they wait for less than inTime.
	adaptEvery = 100 * time.Millisecond
	// calmFor is for how long nobody waits until there is no crowd any more.
	calmFor = time.Second
	// fewShort short statements within calmFor, and a processor is left to them.
	fewShort = 10
	tooLate  = 3 * time.Millisecond
	inTime   = time.Millisecond
)

// Pool is the slots of a node.
type Pool struct {
	// Gate is where all statements begin.
	Gate *Gate
	// Most is how many statements may wait, and Patience how long one waits for its first slot.
	Most     int
	Patience time.Duration
	// Delay is how long goroutines waited for a processor since it was last asked; nil: not at all.
	Delay func() time.Duration
	// Crowded is told when statements begin to wait for slots, and when none has for a while. nil:
	// nobody is.
	Crowded func(bool)
	// Look has the scheduler look at the network. Statements that compute call it while there is a
	// crowd. nil: nothing does.
	Look func()

	looks atomic.Bool // there is a crowd, and a Look
	mu    sync.Mutex
	short shortStatements
	crowd bool          // Crowded was told so
	last  time.Duration // somebody waited
	slots []slot
	open  int // how many of them are in use
	// helpers are goroutines that compute beside statements (Spare).
	helpers int
	asked   time.Duration // for the delay
	queue   queue
	timer   *time.Timer // runs while somebody waits
	stats   [classes]Stats
	start   time.Time
}

// slot is lent to a turn; nil: it is free.
type slot struct {
	turn *Turn
	seen time.Duration
}

// Stats are the counters of a class.
type Stats struct {
	Class   Class
	Slots   int // of all classes but Short together; of Short its bound, 0: none
	Running int // have a slot; Short: are at work
	Waiting int
	Granted int64         // slots given
	Waited  time.Duration // for them
	Lost    int64         // slots that were taken back from who was silent
	Refused int64         // statements
}

// The usual bounds of a pool.
const (
	usualMost     = 1000
	usualPatience = 30 * time.Second
)

// New makes a pool with n slots; 0: one for each processor.
func New(n int) *Pool {
	if n == 0 {
		n = runtime.GOMAXPROCS(0)
	}
	return &Pool{Gate: NewGate(n), Most: usualMost, Patience: usualPatience, Delay: schedulerDelay(), slots: make([]slot, n), open: n,
		start: time.Now()}
}

// now is the time since the pool began.
func (p *Pool) now() time.Duration { return time.Since(p.start) }

var descs = struct{ slots, running, waiting, granted, waited, lost, refused *prometheus.Desc }{
	prometheus.NewDesc("godwit_admission_slots", "Statements that may compute at once; short ones that may be at work, "+
		"0: any number.", labels, nil),
	prometheus.NewDesc("godwit_admission_running", "Statements that have a slot.", labels, nil),
	prometheus.NewDesc("godwit_admission_waiting", "Statements that wait for a slot.", labels, nil),
	prometheus.NewDesc("godwit_admission_granted_total", "Slots given.", labels, nil),
	prometheus.NewDesc("godwit_admission_wait_seconds_total", "Time for which statements waited for slots.", labels, nil),
	prometheus.NewDesc("godwit_admission_lost_total", "Slots taken back from statements that waited elsewhere.", labels, nil),
	prometheus.NewDesc("godwit_admission_refused_total", "Statements refused, because too many wait, or for too long.",
		labels, nil),
}

var labels = []string{"class"}

// Describe implements prometheus.Collector.
func (p *Pool) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descs.slots, descs.running, descs.waiting, descs.granted, descs.waited, descs.lost,
		descs.refused} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (p *Pool) Collect(ch chan<- prometheus.Metric) {
	for _, s := range p.Stats() {
		class := s.Class.String()
		for d, v := range map[*prometheus.Desc]int{descs.slots: s.Slots, descs.running: s.Running, descs.waiting: s.Waiting} {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), class)
		}
		for d, v := range map[*prometheus.Desc]float64{descs.granted: float64(s.Granted), descs.waited: s.Waited.Seconds(),
			descs.lost: float64(s.Lost), descs.refused: float64(s.Refused)} {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, class)
		}
	}
}

// Slots is how many statements may compute at once now.
func (p *Pool) Slots() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open
}

// Stats are the counters of all classes, by class.
func (p *Pool) Stats() []Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := append([]Stats(nil), p.stats[:]...)
	for c := range out {
		out[c].Class, out[c].Slots = Class(c), p.open
	}
	for _, s := range p.slots {
		if s.turn != nil {
			out[s.turn.class].Running++
		}
	}
	for _, w := range p.queue {
		out[w.turn.class].Waiting++
	}
	return append(out, p.Gate.Stats())
}

// Turn is a statement's place among others. It is used by one goroutine at a time. The zero value,
// without a pool, waits for nobody.
type Turn struct {
	// Slots counts the slots that the statement gets; nil: nobody wants to know.
	Slots *atomic.Int64

	pool  *Pool
	class Class

	last   time.Duration // Yield was called
	used   time.Duration // of computing, about
	since  time.Duration // it has its slot
	stood  time.Duration // it last let others go first
	looked time.Duration // it last had the scheduler look at the network
	begun  bool          // it has had a slot
}

// Turn begins a statement. Without a pool it waits for nobody.
func (p *Pool) Turn(c Class) Turn { return Turn{pool: p, class: c} }

// Locks says that the statement may hold locks after all.
func (t *Turn) Locks() { t.class = Locking }

// errs are what statements are told that do not get a slot.
var (
	errFull = mysql.NewSQLError(3168, "HY000",
		"Server isn't available: too many statements wait for a processor; try again later")
	errOld = mysql.NewSQLError(3168, "HY000",
		"Server isn't available: the statement has waited too long for a processor; try again later")
)

// Yield waits until the statement may go on computing. The error is the context's cause, or says
// that there is too much to do.
func (t *Turn) Yield(ctx context.Context) error {
	if t == nil || t.pool == nil {
		return nil
	}
	now := t.pool.now()
	if t.last == 0 {
		t.last, t.stood, t.looked = now, now, now
		return nil
	}
	if now-t.looked >= lookEvery && t.pool.looks.Load() {
		t.looked = now
		t.pool.Look()
	}
	// Who was away for longer has not computed all the time.
	away := quantum
	if !t.begun {
		away = glance
	}
	t.used += min(now-t.last, away)
	t.last = now
	if t.used < grace {
		return nil
	}
	return t.pool.renew(ctx, t, now)
}

// End gives the slot back.
func (t *Turn) End() {
	if t == nil || t.pool == nil || !t.begun {
		return
	}
	p := t.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := p.held(t); i >= 0 {
		p.slots[i] = slot{}
		p.grant(p.now())
	}
}

// held is the slot of a turn, -1 if it has none.
func (p *Pool) held(t *Turn) int {
	for i := range p.slots {
		if p.slots[i].turn == t {
			return i
		}
	}
	return -1
}

// renew keeps a slot, or waits for one.
func (p *Pool) renew(ctx context.Context, t *Turn, now time.Duration) error {
	p.mu.Lock()
	i := p.held(t)
	if i >= 0 && i < p.open && (now-t.since < quantum || len(p.queue) == 0) {
		p.slots[i].seen = now
		few := p.open < len(p.slots)
		p.mu.Unlock()
		if now-t.stood >= stand {
			t.stood = now
			runtime.Gosched()
			if few {
				yieldThread()
			}
		}
		return nil
	}
	if i >= 0 {
		p.slots[i] = slot{}
	} else if !t.begun && len(p.queue) >= p.Most {
		p.stats[t.class].Refused++
		p.mu.Unlock()
		return errFull
	}
	w := &waiter{turn: t, first: !t.begun, asked: now, key: now + min(t.used, most), ready: make(chan struct{})}
	if t.class == Reading {
		w.key += behind
	}
	heap.Push(&p.queue, w)
	p.grant(now)
	p.mu.Unlock()
	return p.await(ctx, w)
}

// await waits for a slot.
func (p *Pool) await(ctx context.Context, w *waiter) error {
	select {
	case <-w.ready: // at once
		return nil
	default:
	}
	var late <-chan time.Time
	if w.first {
		t := time.NewTimer(p.Patience)
		defer t.Stop()
		late = t.C
	}
	var err error
	select {
	case <-w.ready:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-late:
		err = errOld
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	w.turn.last, w.turn.stood = now, now
	if err == nil {
		return nil
	}
	if w.at >= 0 {
		heap.Remove(&p.queue, w.at)
		if err == errOld {
			p.stats[w.turn.class].Refused++
		}
		return err
	}
	// It was given a slot in the same moment.
	if ctx.Err() == nil {
		return nil
	}
	if i := p.held(w.turn); i >= 0 {
		p.slots[i] = slot{}
		p.grant(now)
	}
	return err
}

// grant gives free slots to those who wait, and sees to it that slots are taken back while somebody
// waits or all are taken.
func (p *Pool) grant(now time.Duration) {
	p.give(now)
	if p.timer == nil && (len(p.queue) > 0 || p.full(now)) {
		p.timer = time.AfterFunc(lease, p.look)
	}
}

// full reports whether statements and their helpers compute on all processors.
func (p *Pool) full(now time.Duration) bool { return p.computing(now)+p.helpers >= len(p.slots) }

// give gives free slots to those who wait.
func (p *Pool) give(now time.Duration) {
	for i := range p.slots[:p.open] {
		if len(p.queue) == 0 {
			return
		}
		s := &p.slots[i]
		if s.turn != nil && now-s.seen >= lease {
			p.stats[s.turn.class].Lost++
			s.turn = nil
		}
		if s.turn != nil {
			continue
		}
		w := heap.Pop(&p.queue).(*waiter)
		*s = slot{w.turn, now}
		if w.turn.since, w.turn.begun = now, true; w.turn.Slots != nil {
			w.turn.Slots.Add(1)
		}
		c := &p.stats[w.turn.class]
		c.Granted++
		c.Waited += now - w.asked
		close(w.ready)
	}
}

// look takes slots back from who is silent, and tells of crowds.
func (p *Pool) look() {
	p.mu.Lock()
	p.timer = nil
	now := p.now()
	p.adapt(now)
	p.grant(now)
	crowd, told := p.judgeCrowd(now), p.crowd
	p.looks.Store(crowd && p.Look != nil)
	if p.crowd = crowd; crowd && p.timer == nil {
		p.timer = time.AfterFunc(lease, p.look)
	}
	p.mu.Unlock()
	if crowd != told && p.Crowded != nil {
		p.Crowded(crowd)
	}
}

// judgeCrowd reports whether statements wait for slots or compute on all processors, or did lately.
func (p *Pool) judgeCrowd(now time.Duration) bool {
	if len(p.queue) > 0 || p.full(now) {
		p.last = now
		return true
	}
	return p.crowd && now-p.last < calmFor
}

// adapt closes a slot while what is woken waits for a processor, and opens it again later. One
// stays open.
func (p *Pool) adapt(now time.Duration) {
	top := len(p.slots)
	if p.short.come(now, p.Gate.short.Load()) {
		top = max(1, top-1)
	}
	if p.Delay == nil {
		p.open = top
		return
	}
	p.open = min(p.open, top)
	if now-p.asked < adaptEvery {
		return
	}
	p.asked = now
	switch d := p.Delay(); {
	case d > tooLate && p.open > 1:
		p.open--
	case d < inTime && p.open < top:
		p.open++
	}
}

// shortStatements are those that come while others compute.
type shortStatements struct {
	since  time.Duration // they are counted
	before int64         // how many there were then
	many   bool
}

// come reports whether they come, in this second or the one before; all is how many there ever
// were.
func (s *shortStatements) come(now time.Duration, all int64) bool {
	enough := all-s.before >= fewShort
	s.many = s.many || enough
	if now-s.since >= calmFor {
		s.many, s.since, s.before = enough, now, all
	}
	return s.many
}

// waiter waits for a slot.
type waiter struct {
	first bool // the turn had no slot before
	turn  *Turn
	asked time.Duration
	key   time.Duration // the least comes first
	at    int           // its place in the queue, -1 if it has left it
	ready chan struct{}
}

// queue implements heap.Interface.
type queue []*waiter

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].key < q[j].key }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].at, q[j].at = i, j
}

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	w := x.(*waiter)
	w.at = len(*q)
	*q = append(*q, w)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	old := *q
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*q, w.at = old[:len(old)-1], -1
	return w
}
