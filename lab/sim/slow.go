package sim

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// slowed is the transport of a node that may be slow. Arriving messages wait before they are
// handled; ordered messages stay in order.
type slowed struct {
	wan.Transport
	by  *atomic.Int64 // ns
	brk *Break
	// transactions whose slots are the region's own (Break.OwnSlots), and by how much they lie
	// behind
	own *sync.Map
	w   *world
	id  base.NodeID
}

func (s slowed) Handle(kind wire.Kind, h wan.Handler) {
	s.Transport.Handle(kind, func(ctx context.Context, from base.NodeID, body []byte) (wan.Msg, error) {
		time.Sleep(time.Duration(s.by.Load()))
		s.w.contained(from, s.id, kind, body)
		if s.brk.RemoteLocks {
			body = unlock(kind, body)
		}
		if s.brk.UntoldReads && kind == wire.KindCommit {
			body = untold(body)
		}
		if s.brk.NoNames && kind == wire.KindForward {
			body = nameless(body)
		}
		if s.brk.NoRefresh || s.brk.NoManager || s.brk.NoDoubt {
			var answer wan.Msg
			if body, answer = s.brk.unordered(kind, body); answer != nil {
				return answer, nil
			}
		}
		if s.brk.OwnSlots > 0 && (kind == wire.KindCommit || kind == wire.KindFinish) {
			return s.ownSlot(ctx, kind, from, body, h)
		}
		res, err := h(ctx, from, body)
		if a, ok := res.(*wire.AskResponse); ok && s.brk.EarlyCopies > 0 {
			s.brk.copies(a)
		}
		return res, err
	})
}

// nameless takes the name off a forwarded statement (Break.NoNames).
func nameless(body []byte) []byte {
	var q wire.ForwardRequest
	if q.UnmarshalVT(body) != nil {
		return body
	}
	q.Id = nil
	out, err := q.MarshalVT()
	if err != nil {
		return body
	}
	return out
}

// copies falsifies a survivor's report of what it holds of groups (Break.EarlyCopies).
func (b *Break) copies(a *wire.AskResponse) {
	var r struct {
		Copies map[base.GroupID]struct {
			Index  uint64         `json:"index"`
			Closed base.Timestamp `json:"closed"`
		} `json:"copies"`
	}
	if json.Unmarshal(a.Body, &r) != nil || len(r.Copies) == 0 {
		return
	}
	for g, c := range r.Copies {
		c.Closed = c.Closed.Add(b.EarlyCopies)
		r.Copies[g] = c
	}
	if out, err := json.Marshal(r); err == nil {
		a.Body = out
	}
}

func (s slowed) HandleOrdered(kind wire.Kind, h func(from base.NodeID, body []byte)) {
	s.Transport.HandleOrdered(kind, func(from base.NodeID, body []byte) {
		time.Sleep(time.Duration(s.by.Load()))
		s.w.contained(from, s.id, kind, body)
		if spy := s.w.spy.Load(); spy != nil && (*spy)(from, s.id, kind, body) {
			return
		}
		if kind == wire.KindHeartbeat && (s.brk.EarlyHeartbeats > 0 || s.brk.ClockBeyond > 0) {
			body = s.brk.heartbeat(body)
		}
		if kind == wire.KindHeartbeat && s.brk.ForgedAcks {
			body = s.w.forge(s.id, body)
		}
		if kind == wire.KindClosed && s.brk.EarlyHeartbeats > 0 {
			body = s.brk.closed(body)
		}
		h(from, body)
	})
}

// heartbeat falsifies the closed timestamps in a heartbeat. It also falsifies the clock if clocks
// are to be wrong: nodes that follow a fast clock would not be wrong any more.
func (b *Break) heartbeat(body []byte) []byte {
	var p wire.Heartbeat
	if p.UnmarshalVT(body) != nil {
		return body
	}
	for _, l := range p.Leads {
		l.Closed += uint64(b.EarlyHeartbeats)
	}
	if b.ClockBeyond > 0 {
		p.Now = 0
	}
	out, err := p.MarshalVT()
	if err != nil {
		return body
	}
	return out
}

// forgery is what [world.forge] knows of the clock mode.
type forgery struct {
	mu    sync.Mutex
	mode  uint32
	epoch uint64
	at    time.Time
}

// lateBy is how much later the last node hears of a clock mode.
const lateBy = 2 * time.Second

// forge makes every node acknowledge the newest clock mode, while one of them does not hear of it
// for a while.
func (w *world) forge(to base.NodeID, body []byte) []byte {
	var p wire.Heartbeat
	if p.UnmarshalVT(body) != nil || p.Clock == nil {
		return body
	}
	f := &w.forged
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.Clock.OrderEpoch > f.epoch {
		f.mode, f.epoch, f.at = p.Clock.OrderMode, p.Clock.OrderEpoch, time.Now()
	}
	if f.epoch != 0 {
		p.Clock.Mode, p.Clock.Epoch = f.mode, f.epoch
	}
	if int(to) == len(w.hosts) && p.Clock.OrderMode != 0 && time.Since(f.at) < lateBy {
		p.Clock.OrderMode = 0
	}
	out, err := p.MarshalVT()
	if err != nil {
		return body
	}
	return out
}

// closed falsifies the closed timestamps that are sent between heartbeats.
func (b *Break) closed(body []byte) []byte {
	var m wire.Closed
	if m.UnmarshalVT(body) != nil || len(m.Leads) == 0 {
		return body
	}
	m.Closed += uint64(b.EarlyHeartbeats)
	for _, l := range m.Leads {
		if l.Closed > 0 {
			l.Closed += uint64(b.EarlyHeartbeats)
		}
	}
	out, err := m.MarshalVT()
	if err != nil {
		return body
	}
	return out
}

// untold removes the reads from a request for a vote for a slot.
func untold(body []byte) []byte {
	var q wire.CommitRequest
	if q.UnmarshalVT(body) == nil && q.Slot != 0 {
		q.Reads = nil
		if out, err := q.MarshalVT(); err == nil {
			return out
		}
	}
	return body
}

// unordered breaks a rule of timestamp ordering in a request of another node. answer is a forged
// answer, if not nil.
func (b *Break) unordered(kind wire.Kind, body []byte) (out []byte, answer wan.Msg) {
	var m wan.Msg
	switch kind {
	case wire.KindOrder:
		if b.NoManager {
			return nil, &wire.OrderResponse{}
		}
	case wire.KindRead:
		var q wire.ReadRequest
		if q.UnmarshalVT(body) != nil || q.LimitTs == 0 {
			break
		}
		if b.NoRefresh && q.Refresh != 0 {
			return nil, &wire.ReadResponse{}
		}
		if b.NoDoubt {
			q.LimitTs, m = q.ReadTs, &q
		}
	case wire.KindCommit:
		var q wire.CommitRequest
		if b.NoRefresh && q.UnmarshalVT(body) == nil && q.Ordered {
			q.Reads, m = nil, &q
		}
	}
	if m != nil {
		if out, err := m.MarshalVT(); err == nil {
			return out, nil
		}
	}
	return body, nil
}

// ownSlot makes this region vote for, and commit at, a slot of its own, without the other regions'
// knowledge.
func (s slowed) ownSlot(ctx context.Context, kind wire.Kind, from base.NodeID, body []byte, h wan.Handler) (wan.Msg, error) {
	var m wan.Msg
	later := uint64(0)
	switch kind {
	case wire.KindCommit:
		var q wire.CommitRequest
		if q.UnmarshalVT(body) != nil || q.Slot == 0 {
			return h(ctx, from, body)
		}
		later = uint64(s.brk.OwnSlots)
		s.own.Store(string(q.Txn.Id), later)
		q.Slot += later
		m = &q
	case wire.KindFinish:
		var q wire.FinishRequest
		if q.UnmarshalVT(body) != nil || !q.Commit {
			return h(ctx, from, body)
		}
		if v, ok := s.own.Load(string(q.Txn)); ok {
			q.Ts += v.(uint64)
		}
		m = &q
	}
	body, err := m.MarshalVT()
	if err != nil {
		return nil, err
	}
	resp, err := h(ctx, from, body)
	if r, ok := resp.(*wire.CommitResponse); ok && r.Hi > r.Ts {
		r.Ts, r.Hi = r.Ts-later, r.Hi-later
	}
	return resp, err
}

// unlock turns a locking read into a snapshot read, and lets the commit claim no locks.
func unlock(kind wire.Kind, body []byte) []byte {
	var m wan.Msg
	switch kind {
	case wire.KindRead:
		var q wire.ReadRequest
		if q.UnmarshalVT(body) == nil && kv.LockMode(q.Lock) != kv.LockNone {
			q.Lock, q.ReadTs = uint32(kv.LockNone), uint64(time.Now().UnixNano())
			m = &q
		}
	case wire.KindCommit:
		var q wire.CommitRequest
		if q.UnmarshalVT(body) == nil {
			q.LockTerm = 0
			m = &q
		}
	}
	if m != nil {
		if out, err := m.MarshalVT(); err == nil {
			return out
		}
	}
	return body
}
