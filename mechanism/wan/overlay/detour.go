package overlay

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// A detour, from top to bottom:
//
//  1. Each node watches from whom something comes directly. While a link may be cut, all tell each
//     other whom they hear ([Overlay.watch], [links]).
//  2. A node whose link to a peer is cut opens a detour over nodes that hear each other. The peer
//     numbers it, and from then on takes nothing from that node but what bears the number
//     ([Overlay.open], [sender.arrive]).
//  3. One-way messages and requests name the nodes that they have still to reach; each passes them
//     on ([Overlay.onDetour], [Overlay.onDetourCall]).
//  4. When both have heard each other for a while, the node says so on the direct path, behind
//     which the number does not count any more ([peer.straight]).

// watchEvery is how often links are judged, tellEvery how often nodes tell whom they hear while a
// detour may be of use, and tellSlowly while none is.
const (
	watchEvery = 100 * time.Millisecond
	tellEvery  = 200 * time.Millisecond
	tellSlowly = time.Second
	// openIn bounds an attempt to open a detour, besides its round trip; openAgain is how often one
	// is made until one is answered, and mostOpening how many may be under way (OVL-9).
	openIn      = time.Second
	openAgain   = 300 * time.Millisecond
	mostOpening = 6
	// complainEvery is how often a receiver says that it drops what comes.
	complainEvery = 100 * time.Millisecond
)

// asks is the seq of a noticeLinks whose sender wants to know what the others hear.
const asks = 1

// detour is how a peer is reached whose direct path is cut.
type detour struct {
	path   []base.NodeID // the peer last
	number uint64        // that the peer has given it
	since  time.Duration
}

// outlet is the path that all messages to a peer take: the direct one, or a detour.
type outlet struct {
	now atomic.Pointer[detour] // nil: the direct path

	mu      sync.Mutex
	opening uint64        // names the detour that is being opened, or that will be next
	trying  int           // attempts under way
	tried   time.Duration // when one was begun last
	lost    bool
	calls   map[uint64]context.CancelCauseFunc // on a detour
	next    uint64
	// Detours are how many were taken, the others what was sent over them.
	detours, msgs, bytes uint64
}

// inlet is what is taken from a sender: what comes directly, or over a detour.
type inlet struct {
	// turn is held while a message is handled. It is a channel, because handlers may take virtual
	// time in simulations, and goroutines that wait for a mutex stop it.
	turn       chan struct{}
	number     atomic.Uint64 // of the detour; 0: the direct path
	complained time.Duration // guarded by turn
	dropped    atomic.Uint64
	// The newest wish to make a detour, and the number that it was given. Guarded by turn.
	boot, wish, given uint64
}

// ordered reports whether messages of a kind are handled in the order in which they were sent, also
// when their path changes.
func ordered(k wire.Kind) bool {
	switch k {
	case wire.KindRaft, wire.KindRaftBundle, wire.KindHeartbeat, wire.KindClosed, wire.KindConsistency, wire.KindCopies,
		wire.KindParcelNotice:
		return true
	}
	return false
}

// carrier is the kind under which requests of a kind take a detour. Requests that wait for locks
// must not hold up those that release them.
func carrier(k wire.Kind) wire.Kind {
	switch k {
	case wire.KindRead, wire.KindForward, wire.KindServe:
		return wire.KindDetourRead
	case wire.KindCommit:
		return wire.KindDetourCommit
	case wire.KindSnapshot:
		return wire.KindDetourBulk
	}
	return wire.KindDetourCall
}

// # 1. Links

// watch looks after the links until Close.
func (o *Overlay) watch() {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	told := time.Duration(0)
	for {
		select {
		case <-o.stopc:
			return
		case <-t.C:
		case <-o.news:
		}
		if o.Params().Direct {
			continue
		}
		now, peers := o.now(), o.opt.Peers()
		o.linkMu.Lock()
		o.links.look(now, peers)
		var tell *wire.ParcelNotice
		// A look is never quite in time: one that is a moment early must not put off what is due.
		if every, ask := o.links.pace(now); every > 0 && now-told >= every-watchEvery/2 {
			told, tell = now, &wire.ParcelNotice{What: noticeLinks, Boot: o.boot, Links: o.links.told(now)}
			if ask {
				tell.Seq = asks
			}
		}
		o.linkMu.Unlock()
		for _, id := range peers {
			if id == o.Self() {
				continue
			}
			if tell != nil {
				_ = o.Transport.Send(id, wire.KindParcelNotice, tell) // the next one says it again
			}
			o.choose(o.peer(id), now)
		}
	}
}

// choose begins or ends a detour to a peer, or takes another one.
func (o *Overlay) choose(p *peer, now time.Duration) {
	d := p.out.now.Load()
	o.linkMu.Lock()
	cut, silent := o.links.cut(p.id, now), o.links.silent(p.id, now)
	o.linkMu.Unlock()
	var path []base.NodeID
	var took time.Duration
	good, strays := false, false
	if cut {
		path, took, good, strays = o.wayTo(p, d, now)
	} else {
		p.heals = 0
	}
	switch {
	case d != nil && (!cut || strays && path == nil): // better lost than over nodes that must not have it
		p.straight(d)
	case path != nil && !good && (silent || d != nil):
		p.out.mu.Lock()
		start := p.out.trying < mostOpening && (p.out.tried == 0 || now-p.out.tried >= openAgain)
		if start {
			p.out.trying++
			p.out.tried = now
		}
		wish := p.out.opening
		p.out.mu.Unlock()
		if start {
			o.wg.Go(func() { o.open(p, wish, path, took+openIn) })
		}
	}
}

// wayTo is the best way to a peer whose direct path is cut; nil if there is none. good: the present
// detour d, which may be nil, is as good. strays: d goes over a node that must not pass messages
// on.
func (o *Overlay) wayTo(p *peer, d *detour, now time.Duration) (path []base.NodeID, took time.Duration, good, strays bool) {
	between := o.roundTrips()
	o.linkMu.Lock()
	defer o.linkMu.Unlock()
	may := func(over base.NodeID) bool { return over == p.id || o.mayPass(p.id, over) }
	path, took = o.links.route(p.id, now, false, between, may)
	healing := path == nil && !o.Params().PatientDetours
	if healing {
		path, took = o.links.route(p.id, now, true, between, may)
	}
	if d != nil {
		strays = slices.ContainsFunc(d.path, func(over base.NodeID) bool { return !may(over) })
		// One over links that are healing goes on where another way has become whole sooner: to
		// change it loses what is under way.
		return path, took, o.links.passable(d.path, now, !o.Params().PatientDetours) && len(path) >= len(d.path) && !strays, strays
	}
	if !healing || path == nil {
		p.heals = 0
		return path, took, false, false
	}
	if p.heals == 0 {
		p.heals = now
	}
	if now-p.heals < doubtAfter {
		path = nil
	}
	return path, took, false, false
}

// roundTrips are those between all peers and this node.
func (o *Overlay) roundTrips() func(a, b base.NodeID) time.Duration {
	all := map[[2]base.NodeID]time.Duration{}
	peers := append(o.opt.Peers(), o.Self())
	for _, a := range peers {
		for _, b := range peers {
			all[[2]base.NodeID{a, b}] = o.opt.RTT(a, b)
		}
	}
	return func(a, b base.NodeID) time.Duration { return all[[2]base.NodeID{a, b}] }
}

// heardDirectly notes that something came on the direct path.
func (o *Overlay) heardDirectly(from base.NodeID) {
	o.linkMu.Lock()
	defer o.linkMu.Unlock()
	o.links.heard(from, o.now())
}

// Cut lists the nodes that this one does not hear directly, or that do not hear it, and the way on
// which each is reached instead, itself last; nil if on none.
func (o *Overlay) Cut() map[base.NodeID][]base.NodeID {
	o.linkMu.Lock()
	defer o.linkMu.Unlock()
	out := map[base.NodeID][]base.NodeID{}
	for id := range o.links.peers {
		if o.links.cut(id, o.now()) {
			out[id] = nil
			if d := o.peer(id).out.now.Load(); d != nil {
				out[id] = d.path
			}
		}
	}
	return out
}

// Elsewhere reports whether another node hears a node directly.
func (o *Overlay) Elsewhere(id base.NodeID) bool {
	o.linkMu.Lock()
	defer o.linkMu.Unlock()
	return o.links.elsewhere(id, o.now())
}

// Parted lists those of Cut to which no way leads that messages could take, as far as nodes have
// told each other whom they hear.
func (o *Overlay) Parted() (out []base.NodeID) {
	o.linkMu.Lock()
	defer o.linkMu.Unlock()
	for id := range o.links.peers {
		if now := o.now(); o.links.cut(id, now) && o.links.parted(id, now) {
			out = append(out, id)
		}
	}
	return out
}

// # 2. Opening

// open is an attempt to begin a detour to a peer. Of those of one wish the first that is answered
// counts.
func (o *Overlay) open(p *peer, wish uint64, path []base.NodeID, within time.Duration) {
	ctx, cancel := context.WithTimeout(o.ctx, within)
	defer cancel()
	var x wire.ParcelNotice
	err := o.over(ctx, path, wire.KindParcelNotice, &wire.ParcelNotice{What: noticeOpen, Boot: o.boot, Seq: wish}, &x)
	p.out.mu.Lock()
	p.out.trying--
	late := p.out.opening != wish
	if !late && err == nil {
		p.out.opening++ // also where it was refused: as one of before
	}
	if !late && err == nil && x.Seq != 0 {
		p.out.detours++
	}
	lost := p.out.lost
	p.out.mu.Unlock()
	if late {
		return
	}
	if err != nil || x.Seq == 0 {
		o.log.Warn("no detour could be opened", "to", uint32(p.id), "over", path[:len(path)-1], "err", err)
		return
	}
	p.mu.Lock()
	d := &detour{path: path, number: x.Seq, since: o.now()}
	was := p.out.now.Swap(d)
	for l := range lanes {
		p.stop(l, false, "")
	}
	p.mu.Unlock()
	o.linkMu.Lock()
	cut, silent := o.links.cut(p.id, o.now()), o.links.silent(p.id, o.now())
	o.linkMu.Unlock()
	if !cut || was == nil && !silent {
		// The direct path was found to be whole meanwhile, or to be healing, which nobody's
		// requests are to suffer from.
		p.straight(d)
		return
	}
	// Nobody gets an answer on the direct path any more.
	o.Transport.SetLost(p.id, true)
	o.opt.Opened(p.id)
	if was == nil || !slices.Equal(was.path, path) {
		o.log.Warn("the direct path is cut: messages make a detour", "to", uint32(p.id), "over", path[:len(path)-1], "lost", lost)
	}
}

// opened is a sender's wish to make a detour. What it has sent before on other paths is dropped
// from now on. The same wish has the same answer, and changes nothing: it may have come on several
// ways, and late. One from before a newer wish is refused, with the number 0 (OVL-9).
func (s *sender) opened(boot, wish uint64) *wire.ParcelNotice {
	s.in.turn <- struct{}{}
	defer func() { <-s.in.turn }()
	if wish != 0 && boot == s.in.boot && wish <= s.in.wish { // 0: of a build that has no wishes
		if wish < s.in.wish {
			return &wire.ParcelNotice{What: noticeOpen}
		}
		return &wire.ParcelNotice{What: noticeOpen, Seq: s.in.given}
	}
	n := s.o.numbers.Add(1)
	s.in.boot, s.in.wish, s.in.given = boot, wish, n
	s.in.number.Store(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.lanes {
		s.lanes[l].close()
	}
	s.early, s.earlyBytes = nil, 0
	return &wire.ParcelNotice{What: noticeOpen, Seq: n}
}

// arrive handles a message that has an order, if it came on the path that the sender uses; number
// is that of the detour, 0 for the direct path.
func (s *sender) arrive(number uint64, handle func()) {
	s.in.turn <- struct{}{}
	defer func() { <-s.in.turn }()
	at := s.in.number.Load()
	if at == number || s.o.Params().Unnumbered {
		handle()
		return
	}
	s.in.dropped.Add(1)
	if now := s.o.now(); now-s.in.complained >= complainEvery {
		s.in.complained = now
		_ = s.o.base(s.id, wire.KindParcelNotice, &wire.ParcelNotice{What: noticeDropped, Seq: at}) // the next one says it again
	}
}

// straightened ends the detour of a number: what follows comes directly.
func (s *sender) straightened(number uint64) {
	s.in.turn <- struct{}{}
	defer func() { <-s.in.turn }()
	s.in.number.CompareAndSwap(number, 0)
}

// complaint is a receiver's notice that it drops what comes, as it expects the detour of a number;
// 0: it expects the direct path.
func (p *peer) complaint(number uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch d := p.out.now.Load(); {
	case d == nil && number != 0: // the notice was lost, or given to the process before this one
		_ = p.o.Transport.Send(p.id, wire.KindParcelNotice, &wire.ParcelNotice{What: noticeDirect, Seq: number})
	case d != nil && number == 0 && p.o.now()-d.since < cutAfter || d != nil && number != 0 && number < d.number:
		// It was said before this detour was opened: receivers' numbers only grow.
	case d != nil && d.number != number:
		// The receiver has been started anew, or its answer to the opening of a detour was lost.
		p.out.now.CompareAndSwap(d, nil)
	}
}

// Detoured reports whether what comes from a node makes a detour. In a handler of messages that
// have an order it holds for the message that is handled.
func (o *Overlay) Detoured(from base.NodeID) bool { return o.sender(from).in.number.Load() != 0 }

// # 3. Messages

// base sends a message that neither relay nor fan-out proxy carries: directly, or on the detour.
func (o *Overlay) base(to base.NodeID, kind wire.Kind, m wan.Msg) error {
	p := o.peer(to)
	d := p.out.now.Load()
	if d == nil {
		return o.Transport.Send(to, kind, m)
	}
	body, err := m.MarshalVT()
	if err != nil {
		return err
	}
	x, by := &wire.Detour{Origin: uint32(o.Self()), Path: numbersOf(d.path), Kind: uint32(kind), Body: body}, wire.KindDetourSend
	if ordered(kind) {
		x.Number, by = d.number, wire.KindDetour
	}
	p.out.count(len(body))
	return o.Transport.Send(d.path[0], by, x)
}

func (u *outlet) count(bytes int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.msgs++
	u.bytes += uint64(bytes)
}

func numbersOf(path []base.NodeID) []uint32 {
	out := make([]uint32, len(path))
	for i, id := range path {
		out[i] = uint32(id)
	}
	return out
}

// step takes a message that makes a detour. It returns the message as it goes on, and the node that
// is next: 0 if it has arrived.
func (o *Overlay) step(body []byte) (x *wire.Detour, next base.NodeID, err error) {
	x = new(wire.Detour)
	if err := x.UnmarshalVT(body); err != nil {
		return nil, 0, err
	}
	if len(x.Path) == 0 || len(x.Path) > maxHops || base.NodeID(x.Path[0]) != o.Self() {
		return nil, 0, errors.New("it does not lead over this node")
	}
	if x.Path = x.Path[1:]; len(x.Path) > 0 {
		next = base.NodeID(x.Path[0])
	}
	return x, next, nil
}

// onDetour is the handler of one-way messages that make a detour.
func (o *Overlay) onDetour(by wire.Kind) func(base.NodeID, []byte) {
	return func(from base.NodeID, body []byte) {
		x, next, err := o.step(body)
		if err != nil {
			o.log.Warn("a message on a detour was dropped", "from", uint32(from), "err", err)
			return
		}
		if next != 0 {
			o.passed(base.NodeID(x.Origin), len(x.Body))
			_ = o.Transport.Send(next, by, x) // one-way messages may be lost
			return
		}
		origin, kind := base.NodeID(x.Origin), wire.Kind(x.Kind)
		if ordered(kind) && !(kind == wire.KindParcelNotice && isComplaint(x.Body)) {
			o.sender(origin).arrive(x.Number, func() { o.handle(origin, kind, x.Body) })
		} else {
			o.handle(origin, kind, x.Body)
		}
	}
}

// isComplaint reports whether a notice says that messages are dropped. Such a notice counts
// whatever number it bears: if both nodes have the wrong one of each other, neither could say so
// otherwise (OVL-5).
func isComplaint(body []byte) bool {
	x := new(wire.ParcelNotice)
	return x.UnmarshalVT(body) == nil && x.What == noticeDropped
}

func (o *Overlay) passed(origin base.NodeID, bytes int) {
	p := o.peer(origin)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stats.PassedMsgs++
	p.stats.PassedBytes += uint64(bytes)
}

// handle gives a one-way message to its handler.
func (o *Overlay) handle(from base.NodeID, kind wire.Kind, body []byte) {
	if kind >= wire.KindMax {
		return
	}
	if relayed(kind) {
		o.sender(from).direct()
	}
	if h := o.handlers[kind]; h != nil {
		h(from, body)
	}
}

// What became of a request on a detour that was not answered by its receiver.
const (
	neverRan = 1 + iota
	mayHaveRun
)

// over sends a request on a detour.
func (o *Overlay) over(ctx context.Context, path []base.NodeID, kind wire.Kind, req, resp wan.Msg) error {
	body, err := req.MarshalVT()
	if err != nil {
		return &wan.CallError{Base: base.Errorf(base.CodeInvalid, "encode %s: %v", kind, err), Cause: err}
	}
	x := &wire.Detour{Origin: uint32(o.Self()), Path: numbersOf(path), Kind: uint32(kind), Body: body}
	var a wire.DetourAnswer
	if err := o.Transport.Call(o.passing(ctx, path[0]), path[0], carrier(kind), x, &a); err != nil {
		return err
	}
	if a.Failed != 0 {
		s := a.Status
		return &wan.CallError{Base: &base.Error{Code: base.Code(s.GetCode()), Msg: s.GetMsg(),
			Node: base.NodeID(s.GetNode()), Key: s.GetKey()}, Ran: a.Failed != neverRan}
	}
	if resp == nil {
		return nil
	}
	if err := resp.UnmarshalVT(a.Body); err != nil {
		return &wan.CallError{Base: base.Errorf(base.CodeInvalid, "malformed answer to %s from node %d: %v", kind,
			path[len(path)-1], err), Ran: true, Cause: err}
	}
	return nil
}

// passing is the context of a request that makes a detour, to the next node on it. To this node's
// own requests that one may be lost, or they may make a detour to it; who has chosen the path knows
// that both hear each other again (OVL-10).
func (o *Overlay) passing(ctx context.Context, next base.NodeID) context.Context {
	o.linkMu.Lock()
	defer o.linkMu.Unlock()
	if !o.Params().PatientDetours && o.links.whole(o.Self(), next, o.now(), true) {
		return wan.DespiteLost(ctx)
	}
	return ctx
}

// onDetourCall is the handler of requests that make a detour. Errors of the receiver's own handler
// travel as those of a request do.
func (o *Overlay) onDetourCall(ctx context.Context, from base.NodeID, body []byte) (wan.Msg, error) {
	x, next, err := o.step(body)
	if err != nil {
		return failed(neverRan, base.Errorf(base.CodeInvalid, "node %d: a request on a detour was dropped: %v",
			o.Self(), err)), nil
	}
	origin, kind := base.NodeID(x.Origin), wire.Kind(x.Kind)
	if next != 0 {
		o.passed(origin, len(x.Body))
		a := new(wire.DetourAnswer)
		err := o.Transport.Call(o.passing(ctx, next), next, carrier(kind), x, a)
		var lost *wan.CallError
		switch {
		case err == nil:
			return a, nil
		case !errors.As(err, &lost):
			return nil, err
		case wan.NeverRan(err):
			return failed(neverRan, lost.Base), nil
		}
		return failed(mayHaveRun, lost.Base), nil
	}
	if kind == wire.KindParcelNotice {
		w := new(wire.ParcelNotice)
		if err := w.UnmarshalVT(x.Body); err != nil {
			return failed(neverRan, base.Errorf(base.CodeInvalid, "node %d: a malformed wish for a detour: %v", o.Self(), err)), nil
		}
		return answered(o.sender(origin).opened(w.Boot, w.Seq), nil)
	}
	if kind >= wire.KindMax || o.requests[kind] == nil {
		return failed(neverRan, base.Errorf(base.CodeInvalid,
			"node %d has no handler for %s messages (kind %d): do the nodes run different versions?", o.Self(), kind, kind)), nil
	}
	return answered(o.requests[kind](ctx, origin, x.Body))
}

func failed(how uint32, e *base.Error) wan.Msg {
	return &wire.DetourAnswer{Failed: how, Status: &wire.Status{Code: uint32(e.Code), Msg: e.Msg, Node: uint32(e.Node),
		Key: e.Key}}
}

func answered(m wan.Msg, err error) (wan.Msg, error) {
	a := new(wire.DetourAnswer)
	if err != nil || m == nil {
		return a, err
	}
	a.Body, err = m.MarshalVT()
	return a, err
}

// Handle implements [wan.Transport].
func (o *Overlay) Handle(kind wire.Kind, h wan.Handler) {
	o.requests[kind] = h
	o.Transport.Handle(kind, h)
}

// Call implements [wan.Transport].
func (o *Overlay) Call(ctx context.Context, to base.NodeID, kind wire.Kind, req, resp wan.Msg) error {
	if to == o.Self() {
		return o.Transport.Call(ctx, to, kind, req, resp)
	}
	p := o.peer(to)
	d := p.out.now.Load()
	if d == nil {
		return o.Transport.Call(ctx, to, kind, req, resp)
	}
	return p.call(ctx, d, kind, req, resp)
}

var errLost = errors.New("it is lost, on the detour too")

// call sends a request on a detour. Like one on the direct path, it ends when the peer is lost.
func (p *peer) call(ctx context.Context, d *detour, kind wire.Kind, req, resp wan.Msg) error {
	if carrier(kind) == wire.KindDetourBulk {
		return p.o.over(ctx, d.path, kind, req, resp)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	u := &p.out
	u.mu.Lock()
	if u.lost {
		u.mu.Unlock()
		return &wan.CallError{Base: base.Errorf(base.CodeUnavailable, "%s request to node %d was not sent: %v", kind,
			p.id, errLost), Cause: errLost}
	}
	u.next++
	id := u.next
	if u.calls == nil {
		u.calls = map[uint64]context.CancelCauseFunc{}
	}
	u.calls[id] = cancel
	u.msgs++
	u.bytes += uint64(req.SizeVT())
	u.mu.Unlock()
	defer func() {
		u.mu.Lock()
		delete(u.calls, id)
		u.mu.Unlock()
	}()
	err := p.o.over(ctx, d.path, kind, req, resp)
	if err != nil && context.Cause(ctx) == errLost {
		return &wan.CallError{Base: base.Errorf(base.CodeUnavailable, "no answer to %s from node %d: %v", kind, p.id,
			errLost), Ran: !wan.NeverRan(err), Cause: errLost}
	}
	return err
}

// SetLost implements [wan.Transport]. A peer is lost if it is on the detour, too. One that was just
// opened has had no time to show.
func (o *Overlay) SetLost(id base.NodeID, lost bool) {
	p := o.peer(id)
	d := p.out.now.Load()
	if d != nil && o.now()-d.since < cutAfter {
		lost = false
	}
	u := &p.out
	u.mu.Lock()
	u.lost = lost
	if lost {
		for _, cancel := range u.calls {
			cancel(errLost)
		}
	}
	u.mu.Unlock()
	o.Transport.SetLost(id, lost || d != nil)
}

// Lost implements [wan.Transport].
func (o *Overlay) Lost(id base.NodeID) bool {
	u := &o.peer(id).out
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.lost
}

// # 4. Back to the direct path

// straight ends a detour. The notice goes before all that follows on the direct path.
func (p *peer) straight(d *detour) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.o.Transport.Send(p.id, wire.KindParcelNotice, &wire.ParcelNotice{What: noticeDirect, Seq: d.number}) != nil {
		return // it is tried again
	}
	if !p.out.now.CompareAndSwap(d, nil) {
		return
	}
	p.out.mu.Lock()
	lost := p.out.lost
	p.out.mu.Unlock()
	p.o.Transport.SetLost(p.id, lost)
	p.o.log.Info("messages go directly again", "to", uint32(p.id), "detour", d.path[:len(d.path)-1], "lasted",
		(p.o.now() - d.since).Round(time.Millisecond))
}
