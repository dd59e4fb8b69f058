package multimaster

import (
	"context"
	"errors"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/collective"
	"github.com/godwitdb/godwit/policy/epoch"
	"github.com/godwitdb/godwit/policy/filter"
	"github.com/godwitdb/godwit/wire"
)

// begin begins epochs: when something is to be submitted, or others have begun.
func (e *Engine) begin() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		wait := e.step()
		if wait < 0 { // nothing to do
			wait = time.Hour
		}
		timer.Reset(wait)
		select {
		case <-e.stopc:
			return
		case <-e.kick:
		case <-timer.C:
		}
	}
}

// step does what is due and says when to look again.
func (e *Engine) step() time.Duration {
	e.mu.Lock()
	if !e.active {
		e.mu.Unlock()
		return -1
	}
	now := time.Now()
	want := len(e.pending) > 0 && e.flying < maxFlying || e.wanted > e.begun || e.seen > 0 && e.begun < e.seen+trail
	// if it is late, no epoch can be complete in this view any more
	if want && !e.late && e.begun-e.held < window {
		if wait := e.begunAt.Add(e.cfg.Interval()).Sub(now); wait > 0 {
			e.mu.Unlock()
			return wait
		}
		e.start(now) // unlocks
		return 0
	}
	defer e.mu.Unlock()
	if e.reported < e.full && !want {
		e.ping(false)
	}
	if e.begun == e.held && len(e.queue) == 0 {
		return -1
	}
	if wait := e.pinged.Add(remind).Sub(now); wait > 0 {
		return wait
	}
	e.ping(true)
	return remind
}

// ping tells the members what has begun and what is held here; the caller holds mu.
func (e *Engine) ping(ask bool) {
	e.reported, e.pinged = e.full, time.Now()
	p := &wire.EpochPing{View: e.place.View.Number, Begun: e.begun, Held: e.full, Ask: ask}
	for _, n := range e.place.View.Members {
		if n != e.cfg.Self {
			_ = e.cfg.Transport.Send(n, wire.KindEpochPing, p) // it is repeated
		}
	}
}

func (e *Engine) onPing(from base.NodeID, body []byte) {
	var p wire.EpochPing
	if p.UnmarshalVT(body) != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.View > e.newest {
		e.newest = p.View
		e.need("there is a newer view")
	}
	if p.View != e.place.View.Number || !e.active || !e.place.View.Has(from) {
		if p.Ask && p.View < e.place.View.Number {
			_ = e.cfg.Transport.Send(from, wire.KindEpochPing, &wire.EpochPing{View: e.place.View.Number})
		}
		return
	}
	e.lastHeard[from] = time.Now()
	if p.Begun > e.wanted {
		e.wanted = p.Begun
		poke(e.kick)
	}
	e.note(from, p.Held)
	if p.Ask {
		_ = e.cfg.Transport.Send(from, wire.KindEpochPing, &wire.EpochPing{View: p.View, Begun: e.begun, Held: e.full})
	}
}

// note keeps what a member holds; the caller holds mu.
func (e *Engine) note(n base.NodeID, held uint64) {
	if held > e.others[n] {
		e.others[n] = held
		poke(e.gather)
	}
}

// start begins the next epoch. The caller holds mu; start releases it.
func (e *Engine) start(now time.Time) {
	e.begun++
	e.begunAt = now
	num, view, comm, ctx := e.begun, e.place.View.Number, e.comm, e.viewCtx
	f := &epoch.Frame{View: view, Epoch: num, Held: e.full, Merged: e.applied.Load(), Digest: e.digest}
	b := e.batch(view, num, e.cfg.BatchBytes)
	n := len(b.Txns)
	if n > 0 && num > e.seen+trail && num > e.wanted {
		e.ping(false)
	}
	e.reported = max(e.reported, f.Held)
	if now.Sub(e.planned) >= replan {
		e.planned = now
		l := e.plan(comm, num, now)
		f.RTTs, f.Bytes, f.Uplink = l.rtts, l.bytes, l.uplink
	}
	f.Plan, e.next = e.next, nil
	e.mu.Unlock()
	if n > 0 {
		f.Batch = filter.Encode(&b)
		f.Hash = epoch.HashOf(f.Batch)
		if e.cfg.OnBatch != nil {
			e.cfg.OnBatch(view, num, f.Batch)
		}
	}
	data := f.Encode()
	e.mu.Lock()
	e.flying += len(data)
	if n > 0 {
		e.bytes += (float64(len(data)) - e.bytes) / batchMemory
	}
	e.mu.Unlock()
	if n > 0 && !e.logOwn(ctx, num, data) {
		return
	}
	if ctx.Err() != nil {
		e.mu.Lock()
		e.flying -= len(data)
		e.mu.Unlock()
		return
	}
	e.wg.Go(func() { e.exchange(ctx, comm, view, num, data) })
}

// logOwn makes this node's batch durable before it is sent; false if the engine stops.
func (e *Engine) logOwn(ctx context.Context, num uint64, data []byte) bool {
	if !e.lock() {
		return false
	}
	defer e.unlock()
	if ctx.Err() != nil { // the view has ended, and the batch with it
		return true
	}
	if err := e.j.own(num, data); err != nil {
		e.fail(err)
	}
	return true
}

// exchange runs the round of an epoch.
func (e *Engine) exchange(ctx context.Context, comm *collective.Comm, view, num uint64, data []byte) {
	ctx, cancel := context.WithTimeout(ctx, patience*e.cfg.Suspect)
	defer cancel()
	begun := time.Now()
	watch := time.AfterFunc(e.cfg.Suspect/4, func() { e.suspect(ctx, cancel, view, begun) })
	defer watch.Stop()
	bodies, err := comm.AllGather(ctx, num, data)
	e.mu.Lock()
	e.flying -= len(data)
	e.mu.Unlock()
	if err != nil {
		e.incomplete(view, num, err)
		return
	}
	frames, bad, err := decodeFrames(bodies, view, num)
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.active || e.place.View.Number != view {
		return
	}
	if err != nil {
		e.late = true
		e.need("a batch cannot be read")
		e.log.Error("the batch of a member cannot be read", "epoch", num, "node", e.place.View.Members[bad], "err", err)
		return
	}
	e.arrived(num, frames)
}

// incomplete gives up a round that has failed, and with it the view.
func (e *Engine) incomplete(view, num uint64, err error) {
	e.mu.Lock()
	same := e.active && e.place.View.Number == view
	e.late = e.late || same
	e.mu.Unlock()
	if !same {
		return
	}
	var missing *collective.Incomplete
	if errors.As(err, &missing) {
		e.log.Warn("an epoch is incomplete", "epoch", num, "missing", missing.Missing)
	}
	e.need("an epoch is incomplete: " + err.Error())
}

// decodeFrames reads what the members have sent for an epoch; bad is the first that cannot be read.
func decodeFrames(bodies [][]byte, view, num uint64) (frames []byteFrame, bad int, err error) {
	frames = make([]byteFrame, len(bodies))
	for i, body := range bodies {
		f, err := epoch.DecodeFrame(body)
		if err != nil {
			return nil, i, err
		}
		if f.View != view || f.Epoch != num {
			return nil, i, base.Errorf(base.CodeInvalid, "it is of epoch %d of view %d", f.Epoch, f.View)
		}
		var b *filter.Batch
		if len(f.Batch) > 0 {
			if b, err = decodeBatch(i, f.Batch); err != nil {
				return nil, i, err
			}
		}
		frames[i] = byteFrame{0, f, b}
	}
	return frames, 0, nil
}

// arrived takes a complete epoch, and what the members say with it; the caller holds mu.
func (e *Engine) arrived(num uint64, frames []byteFrame) {
	some := false
	for i := range frames {
		f, from := frames[i].frame, e.place.View.Members[i]
		frames[i].origin = from
		some = some || len(f.Hash) > 0
		e.note(from, f.Held)
		e.lastHeard[from] = time.Now()
		if len(f.RTTs) == len(frames) {
			e.paths[from] = links{f.RTTs, f.Bytes, f.Uplink}
		}
		e.hear(from, f.Merged, f.Digest)
	}
	if !e.weigh() { // what nodes whose rows differ have made of them should not be part of an epoch
		return
	}
	e.counters.epochs.Add(1)
	if !some {
		e.counters.empty.Add(1)
	} else {
		e.seen = max(e.seen, num)
	}
	e.rounds[num] = frames
	poke(e.gather)
}

// suspect gives a round up when a member has not been heard for too long, or is ailing: whoever
// only has much to send answers pings, but so does a node whose disk takes nothing.
func (e *Engine) suspect(ctx context.Context, giveUp context.CancelFunc, view uint64, begun time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ctx.Err() != nil || !e.active || e.place.View.Number != view {
		return
	}
	long := time.Since(begun) >= e.cfg.Suspect
	for _, n := range e.place.View.Members {
		if n == e.cfg.Self {
			continue
		}
		if e.cfg.Ailing != nil && e.cfg.Ailing(n) {
			e.down[n] = time.Now() // nobody waits for its answer either
			giveUp()
			return
		}
		if long && time.Since(e.lastHeard[n]) > e.cfg.Suspect {
			giveUp()
			return
		}
	}
	time.AfterFunc(e.cfg.Suspect/4, func() { e.suspect(ctx, giveUp, view, begun) })
}

// collect writes down what is complete, and applies what is exposed.
func (e *Engine) collect() {
	for {
		select {
		case <-e.stopc:
			return
		case <-e.gather:
		}
		if !e.lock() {
			return
		}
		err := e.hold()
		if err == nil {
			err = e.expose()
		}
		if err == nil {
			err = e.tidy()
		}
		e.unlock()
		if err != nil {
			e.fail(err)
		}
		poke(e.kick)
	}
}

// hold makes complete epochs durable, in order. The caller holds work.
func (e *Engine) hold() error {
	e.mu.Lock()
	var records []*wire.EpochRecord
	var queue []held
	to := e.held
	for e.active {
		frames, ok := e.rounds[to+1]
		if !ok {
			break
		}
		to++
		r := &wire.EpochRecord{Epoch: to, View: e.place.View.Number}
		some, batches := false, make([]filter.Batch, 0, len(frames))
		for _, f := range frames {
			some = some || len(f.frame.Hash) > 0
			if len(f.frame.Plan) > 0 && f.origin == e.place.View.Members[0] {
				e.adoptPlan(f.frame)
			}
			if len(f.frame.Batch) > 0 {
				r.Batches, batches = append(r.Batches, f.frame.Batch), append(batches, *f.batch)
			}
		}
		// what was submitted, not what filters have left of it: all members must agree (VIEW-4)
		if some {
			records, queue = append(records, r), append(queue, held{r, batches})
		}
		delete(e.rounds, to)
	}
	e.mu.Unlock()
	if len(records) > 0 {
		if err := e.j.hold(records); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = to
	if n := len(records); n > 0 {
		e.full = records[n-1].Epoch
		e.queue = append(e.queue, queue...)
	}
	return nil
}

// expose applies what a majority holds. The caller holds work.
func (e *Engine) expose() error {
	e.mu.Lock()
	if !e.active {
		e.mu.Unlock()
		return nil
	}
	e.others[e.cfg.Self] = e.full
	to := e.place.View.Exposed(e.others)
	if e.cfg.early {
		to = e.full
	}
	e.mu.Unlock()
	return e.applyTo(to)
}

// applyTo merges and applies the epochs of the queue up to one. The caller holds work.
func (e *Engine) applyTo(to uint64) error {
	for {
		e.mu.Lock()
		if len(e.queue) == 0 || e.queue[0].Epoch > to {
			e.mu.Unlock()
			return nil
		}
		r := e.queue[0]
		prev := e.digest
		e.mu.Unlock()
		batches := r.batches
		if batches == nil {
			var err error
			if batches, err = batchesOf(r.EpochRecord); err != nil {
				return err
			}
		}
		reader := e.cfg.Store.NewReader()
		m, err := epoch.Merge(r.Epoch, batches, rows{reader}, prev)
		reader.Close()
		if err != nil {
			return err
		}
		if err := e.j.apply(m); err != nil {
			return err
		}
		e.settle(m, r.View)
	}
}

// settle answers those who wait for an epoch. The caller holds work.
func (e *Engine) settle(m *epoch.Merged, view uint64) {
	e.mu.Lock()
	e.queue[0] = held{}
	e.queue = e.queue[1:]
	e.digest = m.Digest
	e.applied.Store(m.Epoch)
	e.applyDigest(m.Epoch, m.Digest)
	e.weigh()
	subs := e.own[m.Epoch]
	delete(e.own, m.Epoch)
	if len(subs) > 0 && subs[0].view != view { // theirs was discarded, and the number used again
		e.reclaim(subs)
		subs = nil
	}
	e.mu.Unlock()
	if len(subs) > 0 {
		e.answerAll(subs, m)
	}
}
