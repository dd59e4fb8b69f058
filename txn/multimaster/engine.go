package multimaster

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/collective"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/policy/epoch"
	"github.com/godwitdb/godwit/policy/filter"
	"github.com/godwitdb/godwit/policy/plan"
	"github.com/godwitdb/godwit/wire"
)

// Registry is where views are decided: the meta group.
type Registry interface {
	// Load reads the view; nil if epochs were never begun. The answer may be old.
	Load(ctx context.Context) (*epoch.View, error)
	// Replace puts v in the place of the view with its number less one; if that is not the
	// view, it fails with base.CodeAborted and changes nothing. Any other error may mean either.
	Replace(ctx context.Context, v *epoch.View) error
}

// Config of a node's engine. The first block is required; zero fields of the rest take the defaults
// given.
type Config struct {
	Self      base.NodeID
	Store     *store.Store
	Transport wan.Transport // not started yet
	Registry  Registry
	// Voters are the nodes whose majority makes epochs permanent, from the next view on.
	Voters func() []base.NodeID

	// Plan is asked now and then for how rounds among these nodes should travel, and must answer at
	// once; nil, or no answer, is flat.
	Plan func(nodes []base.NodeID) *plan.Plan
	// RTT is the smoothed round trip to a node, 0 if unknown. Members tell each other theirs, and
	// plan rounds by them; nil does without.
	RTT func(base.NodeID) time.Duration
	// Region is where a node is; needed with RTT.
	Region func(base.NodeID) base.RegionID
	// Uplink is what this node can send into the WAN, in bits a second, 0 if no limit is known;
	// nil: unknown.
	Uplink func() float64
	// NoFilter has groups pass on what they gather as it is, so that the filter can be measured.
	// All members must agree.
	NoFilter bool
	// Interval is the least time between two epochs that this node begins. Default 10 ms.
	Interval func() time.Duration
	// Settle is how long a change of the network must last before rounds are planned anew. Default
	// 5 s.
	Settle time.Duration
	// Suspect is how long a batch may be missing, and a member silent, before a new view is asked
	// for. Default 3 s.
	Suspect time.Duration
	// Ailing reports whether a node says of itself that it is half broken: its disk stands still,
	// say, while it answers; or whether it is lost: what it sends may arrive, and nothing arrives
	// there. Its batch may then be missing for a quarter of Suspect. nil: none is.
	Ailing func(base.NodeID) bool
	// Ask bounds each step of a view change with one node. Default 1 s; fetching rows takes as long
	// as it takes.
	Ask time.Duration
	// Submit is how long a transaction waits to become part of an epoch. Default 10 s.
	Submit time.Duration
	// Keep is how many epochs the log keeps for nodes that are behind. Default 4096.
	Keep uint64
	// BatchBytes is about the most that one node submits to one epoch. Default 4 MiB.
	BatchBytes int
	Logger     *slog.Logger // nil discards

	// OnBatch sees what is submitted, before it is filtered or sent, and OnView the views that this
	// node installs; for tests.
	OnBatch func(view, num uint64, batch []byte)
	OnView  func(epoch.View)
	// Patient leaves EPO-3b out, for tests.
	Patient bool
	// early breaks rule EPO-2, so that tests can see that it is needed.
	early bool
}

const (
	window = 48                     // epochs begun and not complete
	trail  = 16                     // epochs begun by everybody after one with submissions
	remind = 200 * time.Millisecond // between two pings while something is missing
	replan = time.Second
	// patience is how many times Config.Suspect a batch may take whose node answers.
	patience = 10
	// maxFlying is about how many bytes of own batches are on their way before more are submitted.
	maxFlying = 8 << 20
	commBase  = 0x45 << 24 // communicators of epochs, by view
)

// Engine takes part in the epochs. All methods may be called from any goroutine.
//
// Two things guard its parts. mu guards everything in memory and is never held during I/O. work is
// held while something durable changes, and is taken before mu; it is a channel, because a disk
// takes virtual time in simulations.
type Engine struct {
	cfg      Config
	j        journal
	svc      *collective.Service
	log      *slog.Logger
	born     time.Time
	counters counters

	applied atomic.Uint64 // the last epoch applied, which snapshots read
	copies  atomic.Uint64 // times that the rows here began to be replaced by another node's

	work    chan struct{}
	cleared // guarded by work

	mu          sync.Mutex
	membership  // guarded by mu
	progress    // guarded by mu
	submissions // guarded by mu
	comparison  // guarded by mu
	planner     // guarded by mu, but for its own mutex
	replans     []Replan
	lifecycle   // guarded by mu, but for its channels
}

// cleared is how far the disk has been tidied.
type cleared struct {
	cut   uint64 // the log begins after this epoch, as on disk: it must not go back
	swept uint64 // old versions were collected up to here
}

// membership is this node's part in the view (view.go).
type membership struct {
	place   place
	active  bool // member of the view, not sealed
	comm    *collective.Comm
	viewCtx context.Context
	leave   context.CancelFunc // ends the view's rounds
	sent    collective.Stats   // in views before this one

	newest    uint64                    // the newest view that any node has spoken of
	late      bool                      // an epoch was not complete in time, so none will be in this view
	lostSince time.Time                 // since when attempts at a view fail; zero: they do not
	down      map[base.NodeID]time.Time // members that do not answer any more, and since when
	lastHeard map[base.NodeID]time.Time // of each member
}

// progress is how far the epochs of the view are (rounds.go). An epoch is begun, complete (in
// rounds), held (on disk, in queue if it is not empty) and applied, in this order.
type progress struct {
	begun    uint64 // the last epoch begun here
	begunAt  time.Time
	wanted   uint64                 // the last epoch that another node has begun
	rounds   map[uint64][]byteFrame // complete, not held yet
	held     uint64                 // complete and, if it is not empty, durable, as all before
	full     uint64                 // the last of those that is not empty
	queue    []held                 // held, not applied yet
	seen     uint64                 // the last one complete here that is not empty
	reported uint64                 // full as the members have been told
	pinged   time.Time              // when they were last reminded
	others   map[base.NodeID]uint64 // what members hold
	digest   epoch.Digest           // of all that is applied
}

// lifecycle is how the engine's goroutines begin, wake and end.
type lifecycle struct {
	stopped  bool
	failure  error         // why it has stopped for good
	diverged bool          // is the failure
	kick     chan struct{} // for begin
	gather   chan struct{} // for collect
	trouble  chan string   // for manage: why a new view is needed
	stopc    chan struct{}
	wg       sync.WaitGroup
}

type byteFrame struct {
	origin base.NodeID
	frame  *epoch.Frame
	batch  *filter.Batch // of the frame; nil if it has none
}

// held is an epoch that is on disk.
type held struct {
	*wire.EpochRecord
	batches []filter.Batch // nil: not decoded yet
}

type counters struct {
	epochs, empty, submitted, committed, aborted, resubmitted, views atomic.Uint64
}

// Stats count what a node has seen of epochs.
type Stats struct {
	Epochs, Empty                 uint64 // complete here
	Submitted, Committed, Aborted uint64 // transactions of this node
	Resubmitted                   uint64 // whose epoch a view change discarded
	Views                         uint64 // installed since the start
	View, Applied, Held           uint64
	Active                        bool
	Messages, Bytes, Wants        uint64 // sent in rounds
}

// Status is where a node stands.
type Status struct {
	Stats
	State   string // what the node does: see States
	Members []base.NodeID
	Begun   uint64 // the last epoch that this node has closed and sent
	// Unfinished are transactions of this node whose outcome is open, and epochs that it holds and
	// has not applied.
	Unfinished int
	// Plan says how rounds travel, Planned and Flat what they are predicted to take, so and
	// directly; 0 if nobody knows.
	Plan          string
	Planned, Flat time.Duration
	Why           string // it has stopped
	// Replans are the newest plans that this node has made for all, the oldest of them first.
	Replans []Replan `json:",omitempty"`
}

// States of a node.
const (
	Idle     = "idle"     // there are no epochs in this cluster
	Member   = "member"   // takes part
	Waiting  = "waiting"  // for the next view: it has restarted, is sealed, or was left out
	Catching = "catching" // is copying rows
	Halted   = "halted"   // has stopped for good, after an error of the disk or a divergence
)

// Status is where this node stands.
func (e *Engine) Status() Status {
	st := Status{Stats: e.Stats(), State: Waiting}
	e.mu.Lock()
	defer e.mu.Unlock()
	st.Members, st.Begun = e.place.View.Members, e.begun
	st.Unfinished = len(e.pending) + len(e.own) + len(e.queue)
	switch {
	case e.failure != nil:
		st.State, st.Why = Halted, e.failure.Error()
	case e.place.View.Number == 0:
		st.State = Idle
	case e.active:
		st.State = Member
	case e.place.Loading:
		st.State = Catching
	}
	if p := e.inForce; p != nil && e.active {
		st.Plan, st.Planned, st.Flat = describe(p, st.Members), p.Makespan, p.Flat
	}
	st.Replans = slices.Clone(e.replans)
	return st
}

func (c *Config) fill() {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Interval == nil {
		c.Interval = func() time.Duration { return 10 * time.Millisecond }
	}
	for _, d := range []struct {
		v *time.Duration
		d time.Duration
	}{{&c.Suspect, 3 * time.Second}, {&c.Ask, time.Second}, {&c.Submit, 10 * time.Second}} {
		if *d.v <= 0 {
			*d.v = d.d
		}
	}
	if c.Keep == 0 {
		c.Keep = 4096
	}
	if c.BatchBytes <= 0 {
		c.BatchBytes = 4 << 20
	}
}

// New makes a node's engine; call it before the transport starts, and Start after that.
func New(cfg Config) (*Engine, error) {
	cfg.fill()
	e := &Engine{born: time.Now(), cfg: cfg, j: journal{cfg.Store}, log: cfg.Logger, work: make(chan struct{}, 1)}
	e.rounds, e.others = map[uint64][]byteFrame{}, map[base.NodeID]uint64{}
	e.own = map[uint64][]*submission{}
	e.down = map[base.NodeID]time.Time{}
	e.comparison.init()
	e.kick, e.gather, e.trouble = make(chan struct{}, 1), make(chan struct{}, 1), make(chan string, 1)
	e.stopc = make(chan struct{})
	if err := e.load(); err != nil {
		return nil, err
	}
	e.svc = collective.New(cfg.Transport)
	cfg.Transport.HandleOrdered(wire.KindEpochPing, e.onPing)
	cfg.Transport.Handle(wire.KindEpochControl, e.onControl)
	return e, nil
}

// load reads what the node was doing. It takes part again from the next view on.
func (e *Engine) load() (err error) {
	if e.place, err = e.j.loadPlace(); err != nil {
		return err
	}
	applied, d, err := e.j.applied()
	if err != nil {
		return err
	}
	last, err := e.j.last()
	if err != nil {
		return err
	}
	if e.cut, err = e.j.cut(); err != nil {
		return err
	}
	e.applied.Store(applied)
	e.digest = d
	e.digests[applied] = d
	e.full = max(applied, last)
	e.held = e.full
	return e.j.held(applied, last, 0, func(r *wire.EpochRecord) error {
		e.queue = append(e.queue, held{EpochRecord: r})
		return nil
	})
}

// Start begins to take part, if epochs have begun in this cluster.
func (e *Engine) Start() {
	e.wg.Go(e.begin)
	e.wg.Go(e.collect)
	e.wg.Go(e.manage)
	e.need("start")
}

// Close leaves without notice, as a crash does; those who wait learn that their outcome is not
// known.
func (e *Engine) Close() {
	e.mu.Lock()
	if e.stopped {
		e.mu.Unlock()
		return
	}
	e.stopped = true
	e.retire()
	e.dismiss()
	e.mu.Unlock()
	close(e.stopc)
	e.wg.Wait()
}

// retire stops taking part in the view; the caller holds mu.
func (e *Engine) retire() {
	e.active = false
	if e.leave != nil {
		e.leave()
		e.leave = nil
	}
	if e.comm != nil {
		s := e.comm.Stats()
		e.sent.Messages, e.sent.Bytes, e.sent.Wants = e.sent.Messages+s.Messages, e.sent.Bytes+s.Bytes, e.sent.Wants+s.Wants
		e.comm.Close()
		e.comm = nil
	}
}

// fail stops the engine after an error of the disk or a divergence: what it would do next cannot be
// trusted.
func (e *Engine) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.halt(err)
}

// halt is fail; the caller holds mu.
func (e *Engine) halt(err error) {
	if e.failure == nil && !e.stopped {
		e.failure = err
		e.log.Error("epochs stop on this node", "err", err)
		e.dismiss()
	}
	e.retire()
}

// Err is why the engine has stopped taking part for good; nil while it has not.
func (e *Engine) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failure
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// spawn runs f unless the engine stops.
func (e *Engine) spawn(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.stopped {
		e.wg.Go(f)
	}
}

// need asks for a new view.
func (e *Engine) need(why string) {
	select {
	case e.trouble <- why:
	default:
	}
}

// lock takes work; false if the engine stops.
func (e *Engine) lock() bool {
	select {
	case e.work <- struct{}{}:
		return true
	case <-e.stopc:
		return false
	}
}

func (e *Engine) unlock() { <-e.work }

// Snapshot is the epoch that transactions beginning now should read.
func (e *Engine) Snapshot() uint64 { return e.applied.Load() }

// View is the newest view installed here, and whether this node takes part in it.
func (e *Engine) View() (epoch.View, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.place.View, e.active
}

// Digest stands for all that has been applied here.
func (e *Engine) Digest() (uint64, epoch.Digest) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.applied.Load(), e.digest
}

// Stats are the counters so far.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := &e.counters
	st := Stats{Messages: e.sent.Messages, Bytes: e.sent.Bytes, Wants: e.sent.Wants, Epochs: c.epochs.Load(),
		Empty:     c.empty.Load(),
		Submitted: c.submitted.Load(), Committed: c.committed.Load(), Aborted: c.aborted.Load(),
		Resubmitted: c.resubmitted.Load(), Views: c.views.Load(), View: e.place.View.Number,
		Applied: e.applied.Load(), Held: e.held, Active: e.active}
	if e.comm != nil {
		s := e.comm.Stats()
		st.Messages, st.Bytes, st.Wants = st.Messages+s.Messages, st.Bytes+s.Bytes, st.Wants+s.Wants
	}
	return st
}
