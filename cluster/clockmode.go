package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/wire"
)

// The clock mode of the cluster (docs/protocol.md, MODE), from top to bottom:
//
//  1. Each heartbeat carries a report of the sender's clock, and an echo of the receiver's newest
//     report ([clockModes.report]).
//  2. The receiver compares the two clocks ([clock.See]), judges its own by all comparisons
//     ([clock.Judge]), and trusts it or not (trust).
//  3. The leader of the meta group decides by all reports whether the mode is to change
//     ([clock.Switch]), and logs one step at a time ([clockModes.order]).
//  4. Its reports carry the step in force out. A node adopts it, and gets the right to go by it for
//     a lease that counts from when it sent what the leader echoes. Its next report acknowledges.
//
// All decisions are made by package clock, which knows no network; this file carries messages.

// clockModes is this node's part in the clock mode.
type clockModes struct {
	*env
	steps    ClockLog
	options  Trust
	adopting func(adopt func() bool) bool // see consistency.whileAdopting
	life     uint64                       // names this process

	mu      sync.Mutex
	policy  clock.Policy
	reports map[base.NodeID]*clockReport // the newest of each other node

	trust     trust
	verdict   clock.Verdict
	off       time.Duration  // how far the others say this clock is off
	since     time.Time      // when trust became proving
	raw       reading        // of the source, when it was judged last
	steppedAt time.Time      // when the source was last found to have been set
	fencedAt  base.Timestamp // at or above all that this node acknowledged before it was fenced

	// While this node leads the meta group:
	leadSince time.Time // zero: it does not
	decides   clock.Switch
	ordering  bool   // a step is being logged
	blocked   string // what the next step waits for
}

// trust is how far a node trusts its own clock. Whether it uses it is another matter: a clock that
// is found wrong is fenced at once, one that only cannot be told right is not, and what is fenced
// stays so until it is trusted again.
type trust uint8

const (
	// doubted: the others do not say that the clock is right. It was found wrong or may be wrong,
	// it was set, or too few others have been heard.
	doubted trust = iota
	// proving: the clock agrees with most others, but has not for fineFor.
	proving
	// trusted: it has agreed with most others for fineFor or longer.
	trusted
)

// clockReport is what another node said of its clock last.
type clockReport struct {
	*wire.ClockReport
	sent   uint64 // sent_ns of the heartbeat that brought it
	at     time.Time
	sight  clock.Sight
	sees   bool // the sight counts
	echoes bool // it compares with what this process has said of its clock
}

// reading is what a source said.
type reading struct {
	ts    base.Timestamp
	bound time.Duration
	at    time.Time
}

// agrees reports whether a later reading is as late as the monotonic clock says.
func (r reading) agrees(x reading) bool {
	age := x.at.Sub(r.at)
	return x.ts.Sub(r.ts.Add(age)).Abs() <= r.bound+x.bound+clock.Stretched(age)-age+time.Microsecond
}

const (
	// defaultModeLease is how long a node may go on in a mode without hearing the meta group's
	// leader.
	defaultModeLease = 5 * time.Second
	// fineFor is how long a clock that was found wrong has to agree with the others before it is
	// used again. Others are served within three seconds of its correction.
	fineFor = 2 * time.Second
	// orderTimeout bounds the logging of one step.
	orderTimeout = 5 * time.Second
)

func newClockModes(e *env, steps ClockLog, adopting func(func() bool) bool, o Trust) *clockModes {
	if o.NoProof || o.NoFence {
		e.clock.Confirm()
	}
	return &clockModes{env: e, steps: steps, options: o, adopting: adopting, life: rand.Uint64() | 1,
		policy:  clock.DefaultPolicy(),
		reports: map[base.NodeID]*clockReport{}, trust: proving, since: time.Now()}
}

// SetClockPolicy takes over what the operator wants of the clock mode.
func (k *clockModes) SetClockPolicy(p clock.Policy) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.policy = p
}

// # 1. Reports

// bounds are the effective and the raw readings of the source.
func (k *clockModes) bounds() (earliest, latest, rawEarliest, rawLatest base.Timestamp, bound time.Duration) {
	now, bound := k.clock.Source()
	earliest, latest = now.Add(-bound), now.Add(bound)
	rawEarliest, rawLatest = earliest, latest
	if k.options.Steady != nil {
		raw, b := k.options.Steady.Raw()
		rawEarliest, rawLatest = raw.Add(-b), raw.Add(b)
	}
	return
}

// report is what this node says of its clock to another one. leads: with the step in force, as the
// leader of the meta group.
func (k *clockModes) report(to base.NodeID, leads bool) *wire.ClockReport {
	mode, epoch := k.clock.Mode()
	earliest, latest, rawEarliest, rawLatest, _ := k.bounds()
	w := &wire.ClockReport{Mode: uint32(mode), Epoch: epoch, Earliest: uint64(earliest), Latest: uint64(latest),
		RawEarliest: uint64(rawEarliest), RawLatest: uint64(rawLatest), Fenced: k.clock.Fenced(),
		Unproven: k.clock.Unproven(), Life: k.life, Source: k.sourceName()}
	k.mu.Lock()
	defer k.mu.Unlock()
	w.Seen, w.Unsure = uint64(k.acknowledged()), k.verdict == clock.Unsure
	if x := k.reports[to]; x != nil {
		// What that clock says by now, at least.
		now := base.Timestamp(x.RawEarliest).Add(clock.Shrunk(time.Since(x.at)))
		w.Echo, w.EchoLife, w.EchoSent = uint64(now), x.Life, x.sent
	}
	if leads && k.groups.Closes(base.MetaGroup) { // still, after what is echoed was heard
		now, _ := k.steps.ClockSteps()
		w.OrderMode, w.OrderEpoch, w.LimitNs = now.Mode, now.Epoch, uint64(k.policy.MaxBound)
		w.Oracle = uint64(k.clock.Known())
	}
	return w
}

// acknowledged is at or above all that this node acknowledged. mu is held.
func (k *clockModes) acknowledged() base.Timestamp {
	latest := k.clock.Latest()
	switch {
	case k.clock.Fenced():
		latest = k.fencedAt
	case k.clock.Unproven():
		latest = 0
	}
	return max(k.clock.Seen(), latest)
}

func (k *clockModes) sourceName() string {
	if k.options.SourceName == nil {
		return "fixed"
	}
	return k.options.SourceName()
}

// heard takes another node's report. believed reports whether this node believes what the sender
// says of the time. granted is, if the report came from the meta group's leader and gave this node
// the right to act, when this node sent what the leader had heard; zero otherwise.
func (k *clockModes) heard(from base.NodeID, m *wire.Heartbeat, now time.Time) (believed bool, granted time.Time) {
	w := m.Clock
	if w == nil {
		return true, time.Time{}
	}
	_, _, _, latest, _ := k.bounds()
	x := &clockReport{ClockReport: w, sent: m.SentNs, at: now, sees: w.RawEarliest != 0,
		echoes: w.EchoLife == k.life && w.Echo != 0}
	echo := base.Timestamp(w.Echo)
	if !x.echoes {
		echo = 0 // of the process before this one
	}
	x.sight = clock.See(base.Timestamp(w.RawEarliest), base.Timestamp(w.RawLatest), latest, echo)
	x.sight.Leader = w.OrderMode != 0
	k.mu.Lock()
	k.reports[from] = x
	k.mu.Unlock()
	k.judge(now) // before this node may issue
	if w.OrderMode != 0 {
		granted = k.obey(w, now)
	}
	return k.believes(x), granted
}

// believes reports whether this node believes what a sender says of the time (MODE-9). Who does not
// go by a source of its own, goes by the oracle: it cannot be off by its source, nor take others to
// task.
func (k *clockModes) believes(x *clockReport) bool {
	m := clock.Mode(x.Mode)
	bySource := !x.Fenced && !x.Unproven && (m == clock.GClock || m == clock.Dual)
	return x.sight.Lo <= 0 || !bySource || k.clock.Fenced() || k.clock.Unproven()
}

// disbelieved reports whether this node does not believe what another one says of the time, as of
// its newest heartbeat.
func (k *clockModes) disbelieved(from base.NodeID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	x := k.reports[from]
	return x != nil && !k.believes(x)
}

// # 2. Trust

// judge compares this node's clock with all that were heard of lately.
func (k *clockModes) judge(now time.Time) {
	if k.options.NoFence {
		return
	}
	latest := k.clock.Latest()
	leads := k.groups.Leased(base.MetaGroup)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.checkSteps()
	sights, confirmed := k.sights(now)
	was := k.verdict
	k.verdict, k.off = clock.Judge(sights, leads)
	if k.verdict != was {
		k.log.Warn("comparison of clocks", "verdict", k.verdict, "off", k.off)
	}
	if k.verdict == clock.Wrong {
		k.fence(latest)
	}
	if k.verdict == clock.Fine && confirmed && k.clock.Unproven() && !k.clock.Fenced() {
		k.clock.Confirm()
	}
	switch {
	case k.verdict != clock.Fine || !confirmed:
		k.trust = doubted
	case k.trust == doubted:
		k.trust, k.since = proving, now
	case now.Sub(k.since) >= fineFor:
		k.trust = trusted
		k.accept()
	}
}

// checkSteps notices that the source was set since it was judged last: then what was heard before
// says nothing of the clock as it is. mu is held.
func (k *clockModes) checkSteps() {
	if k.options.Steady == nil {
		return
	}
	x := reading{at: time.Now()}
	if x.ts, x.bound = k.options.Steady.Raw(); !k.raw.at.IsZero() && !k.raw.agrees(x) {
		k.steppedAt, k.trust = x.at, doubted
	}
	k.raw = x
}

// sights are the comparisons with nodes heard of lately. confirmed: a majority of the meta group's
// voters, with this node if it is one, agrees with the clock as it is now and as this process has
// told it (MODE-9). mu is held.
func (k *clockModes) sights(now time.Time) (out []clock.Sight, confirmed bool) {
	voters := k.Topology().MetaVoters
	agree := 0
	if slices.Contains(voters, k.self) {
		agree++
	}
	for n, x := range k.reports {
		if !x.sees || now.Sub(x.at) >= deadAfter {
			continue
		}
		out = append(out, x.sight)
		if x.echoes && x.sight.Agrees() && x.at.After(k.steppedAt) && slices.Contains(voters, n) {
			agree++
		}
	}
	return out, 2*agree > len(voters)
}

// fence stops the use of this node's clock. latest is its upper bound now. mu is held.
func (k *clockModes) fence(latest base.Timestamp) {
	if k.clock.Fenced() {
		return
	}
	if mode, _ := k.clock.Mode(); (mode == clock.GClock || mode == clock.Dual) && !k.clock.Unproven() {
		// Nothing was acknowledged after the right had ended.
		k.fencedAt = max(k.fencedAt, latest.Add(min(0, k.clock.Right())))
	}
	k.log.Error("this node's clock is outside its bound: fenced; correct it (chronyc tracking, timedatectl)", "off", k.off)
	k.clock.Fence(true)
}

// accept takes a trusted clock into use: as it is now, and again if it was fenced. mu is held.
func (k *clockModes) accept() {
	if s := k.options.Steady; s != nil && s.Stepped() != 0 {
		s.Accept()
	}
	if k.clock.Fenced() {
		k.log.Info("this node's clock agrees with the others again: no longer fenced")
		k.clock.Fence(false)
	}
	k.clock.Confirm()
}

// # 3. The meta group's leader

// tick does, before each heartbeat, what time demands. It reports whether this node leads the meta
// group.
func (k *clockModes) tick(ctx context.Context) (leads bool) {
	now := time.Now()
	k.judge(now)
	k.clock.Tick()
	reached := base.Timestamp(0)
	if leads = k.groups.Leased(base.MetaGroup); leads {
		reached = k.steps.Reached()
	}
	k.mu.Lock()
	policy := k.policy
	switch {
	case !leads:
		k.leadSince, k.blocked = time.Time{}, ""
	case reached != 0 && k.leadSince.IsZero():
		k.leadSince, k.decides = now, clock.Switch{}
	}
	k.mu.Unlock()
	if reached == 0 { // the oracle is not here yet
		return k.vouch(now)
	}
	inForce, _ := k.steps.ClockSteps()
	k.clock.Learn(reached)
	k.clock.SetLimit(policy.MaxBound)
	k.adopt(clock.Mode(inForce.Mode), inForce.Epoch, reached)
	// No other node can have taken the lead before now, and a successor waits for this to end.
	k.clock.Grant(now.Add(k.options.ModeLease))
	k.decide(ctx, now, inForce, policy, reached)
	return true
}

// vouch reports whether this node confirms GClock mode to the others although it does not serve the
// meta group yet: it was elected, and closes timestamps (MODE-1b). In the other modes nobody gets
// far without the oracle.
func (k *clockModes) vouch(now time.Time) bool {
	if !k.groups.Closes(base.MetaGroup) {
		return false
	}
	inForce, _ := k.steps.ClockSteps()
	if mode, epoch := k.clock.Mode(); mode != clock.GClock || inForce.Mode != uint32(mode) || inForce.Epoch != epoch {
		return false
	}
	k.clock.Grant(now.Add(k.options.ModeLease))
	return true
}

// decide begins the next step, if there is one and none is being logged.
func (k *clockModes) decide(ctx context.Context, now time.Time, inForce *wire.ClockOrder, policy clock.Policy,
	reached base.Timestamp) {
	f := k.facts(now, inForce, policy, reached)
	k.mu.Lock()
	defer k.mu.Unlock()
	next := k.decides.Decide(f)
	k.blocked = next.Blocked
	if next.Mode == clock.None || k.ordering || ctx.Err() != nil {
		return
	}
	k.ordering = true
	k.work.done.Go(func() {
		k.order(ctx, inForce, next)
		k.mu.Lock()
		k.ordering = false
		k.mu.Unlock()
	})
}

// order logs a step. If that fails, the next tick decides anew.
func (k *clockModes) order(ctx context.Context, inForce *wire.ClockOrder, next clock.Order) {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	o := &wire.ClockOrder{Mode: uint32(next.Mode), Target: uint32(next.Target), Epoch: inForce.Epoch + 1, Reason: next.Reason,
		By: fmt.Sprintf("node %d", k.self), AtNs: uint64(time.Now().UnixNano())}
	if inForce.AtNs != 0 && o.AtNs > inForce.AtNs {
		o.TookNs = o.AtNs - inForce.AtNs
	}
	switch err := k.steps.OrderClock(ctx, o, next.Raise); {
	case err == nil:
		k.log.Info("clock mode ordered", "mode", next.Mode, "target", next.Target, "epoch", o.Epoch, "reason", next.Reason)
	case ctx.Err() == nil:
		k.log.Warn("the clock mode could not be changed yet", "to", next.Mode, "err", err)
	}
}

// facts is what this node, as leader of the meta group, knows of all clocks.
func (k *clockModes) facts(now time.Time, inForce *wire.ClockOrder, policy clock.Policy, reached base.Timestamp) *clock.Facts {
	f := &clock.Facts{Now: now, Mode: clock.Mode(inForce.Mode), Epoch: inForce.Epoch, Policy: policy, Oracle: reached,
		Lease: k.options.ModeLease}
	earliest, latest, _, _, bound := k.bounds()
	mode, epoch := k.clock.Mode()
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.Topology()
	for _, n := range t.Nodes {
		voter := slices.Contains(t.MetaVoters, n.ID)
		if n.ID == k.self {
			f.Nodes = append(f.Nodes, clock.NodeFacts{Node: n.ID, Live: true, Voter: voter, Heard: now, Mode: mode,
				Epoch: epoch, Earliest: earliest, Latest: latest, Bound: bound,
				Seen: k.acknowledged(), Fenced: k.clock.Fenced(), Unsure: k.verdict == clock.Unsure})
			continue
		}
		x := k.factsOf(n.ID, now)
		if x.Voter = voter; x.Live || !n.Gone {
			f.Nodes = append(f.Nodes, x)
		}
	}
	return f
}

// factsOf is what another node's newest report says. A node that was silent for its lease has no
// right to act any more; one that was never heard of may still have it from a leader before. mu is
// held.
func (k *clockModes) factsOf(n base.NodeID, now time.Time) clock.NodeFacts {
	x, since := clock.NodeFacts{Node: n}, k.leadSince
	if w := k.reports[n]; w != nil {
		x.Heard, x.Mode, x.Epoch, x.Earliest, x.Seen = w.at, clock.Mode(w.Mode), w.Epoch, base.Timestamp(w.Earliest),
			base.Timestamp(w.Seen)
		x.Bound, x.Fenced, x.Unsure = base.Timestamp(w.Latest).Sub(x.Earliest)/2, w.Fenced, w.Unsure
		x.Latest = base.Timestamp(w.Latest).Add(now.Sub(w.at) + k.RTT(n)/2) // about what it is now
		if w.at.After(since) {
			since = w.at
		}
	}
	x.Live = now.Sub(since) < clock.Stretched(k.options.ModeLease)
	return x
}

// # 4. The step in force

// obey takes the step in force from the meta group's leader. If the leader had heard this process
// when it said so, this node may act by that step for a lease from when it was heard; obey returns
// that time.
func (k *clockModes) obey(w *wire.ClockReport, now time.Time) (granted time.Time) {
	k.clock.Learn(base.Timestamp(w.Oracle))
	k.clock.SetLimit(time.Duration(w.LimitNs))
	k.adopt(clock.Mode(w.OrderMode), w.OrderEpoch, base.Timestamp(w.Oracle))
	if w.EchoLife != k.life || w.EchoSent == 0 {
		return time.Time{}
	}
	sent := k.peers.start.Add(time.Duration(w.EchoSent))
	if sent.After(now) {
		return time.Time{}
	}
	k.clock.Grant(sent.Add(k.options.ModeLease))
	return sent
}

func (k *clockModes) adopt(m clock.Mode, epoch uint64, oracle base.Timestamp) {
	if k.adopting(func() bool { return k.clock.Adopt(m, epoch, oracle) }) {
		k.log.Info("clock mode", "mode", m, "epoch", epoch)
	}
}

// # What people see

// Clock describes this node's clock.
func (k *clockModes) Clock() *ClockStatus {
	mode, epoch := k.clock.Mode()
	now, bound := k.clock.Source()
	s := &ClockStatus{Mode: mode.String(), Epoch: epoch, Source: k.sourceName(), Bound: bound, Right: k.clock.Right(),
		Fenced: k.clock.Fenced(),
		Seen:   k.clock.Seen().Time()}
	if known := k.clock.Known(); known != 0 {
		s.Ahead = known.Sub(now)
	}
	if k.options.Steady != nil {
		s.Stepped = k.options.Steady.Stepped()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	s.Verdict, s.Off, s.MaxBound = k.verdict.String(), k.off, k.policy.MaxBound
	s.Needed = k.policy.Mode == clock.WantGClock && (mode == clock.GClock || mode == clock.Dual)
	if !k.leadSince.IsZero() {
		inForce, _ := k.steps.ClockSteps()
		s.Target, s.Blocked = clock.Mode(inForce.Target).String(), k.blocked
	}
	return s
}

// ClockHistory are the newest steps, the oldest first, as this node's meta replica knows them.
func (k *clockModes) ClockHistory() []ClockStep {
	_, steps := k.steps.ClockSteps()
	out := make([]ClockStep, 0, len(steps))
	from := clock.GClock
	for i, o := range steps {
		if i == 0 && o.Epoch > 2 {
			from = clock.None
		}
		out = append(out, ClockStep{At: time.Unix(0, int64(o.AtNs)), Epoch: o.Epoch, From: from.String(),
			To:     clock.Mode(o.Mode).String(),
			Target: clock.Mode(o.Target).String(), Reason: o.Reason, By: o.By, After: time.Duration(o.TookNs)})
		from = clock.Mode(o.Mode)
	}
	return slices.Clip(out)
}
