package owner

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lock"
	"github.com/godwitdb/godwit/wan"
	"github.com/godwitdb/godwit/wire"
)

// Access is one read or write of a row at its owner.
type Access struct {
	Key     base.Key
	Home    base.RegionID
	From    base.RegionID // on whose behalf
	Txn     base.TxnID    // zero: a snapshot read
	Write   bool          // or locked to be written
	At      base.Timestamp
	Changes uint16 // the label's count of home changes
	Pinned  bool
}

// Verdict is what the policy says to an access: the zero value leaves the row where it is.
type Verdict struct {
	To     base.RegionID
	With   []base.Key // rows of the same home that should go along
	Reason []byte     // travels with the move
	Along  []base.Key // rows that the transaction will probably ask for next
}

// Homes is the policy of row homes (package home implements it). Its methods
// are called from many goroutines, on the path of every statement.
type Homes interface {
	// Accessed tells of an access to a row that this node owns.
	Accessed(Access) Verdict
	// Moved tells of a move that was applied here, wherever it was decided.
	Moved(Move)
}

// Move is a change of a row's home, or only of its pin (then From is To), as every replica of the shard learns it from the log.
type Move struct {
	Key      base.Key
	From, To base.RegionID
	TS       base.Timestamp
	Changes  uint16 // how often the row has moved, modulo 1024
	Alone    bool   // not along with a write of the row
	Bytes    int    // of the log entry's copy of the row
	Reason   []byte
}

// Proposal is a move that no statement carries out: the policy's answer to a
// read, or rows that should go with another one.
type Proposal struct {
	Key      base.Key
	From, To base.RegionID
	Reason   []byte
}

const (
	maxCounted = 256    // rows of one read that are told to the policy
	maxMoves   = 10_000 // moves remembered
)

// moveLog remembers the newest moves.
type moveLog struct {
	mu    sync.Mutex
	ring  []Move
	next  int
	total int64
	to    [base.MaxRegions + 1]int64
}

func (l *moveLog) add(m Move, count bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total++
	if m.From != m.To && m.Key.Index() == 0 && count {
		l.to[m.To]++
	}
	if len(l.ring) < maxMoves {
		l.ring = append(l.ring, m)
		return
	}
	l.ring[l.next] = m
	l.next = (l.next + 1) % maxMoves
}

// Moves are the newest moves applied on this node, oldest first, and how many there were since it started.
func (s *Set) Moves() ([]Move, int64) {
	l := &s.moves
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(slices.Clone(l.ring[l.next:]), l.ring[:l.next]...), l.total
}

// first reports whether this is the first of the group's replicas: the one that counts for all.
func (r *Replica) first() bool {
	at := r.cfg.Directory.Replicas(r.id)
	return len(at) > 0 && slices.Min(at) == r.cfg.Self
}

// Arrived is how many rows have moved to a region since this node started, of shards of which it has the
// first replica: the sum over all nodes counts each move once.
func (s *Set) Arrived(r base.RegionID) int64 {
	s.moves.mu.Lock()
	defer s.moves.mu.Unlock()
	return s.moves.to[r]
}

// moved records a move from an applied entry.
func (r *Replica) moved(w *wire.Write, ts base.Timestamp) {
	m := Move{Key: base.Key(w.Key).Clone(), From: r.region, To: base.Label(w.Label).Home(), TS: ts,
		Changes: base.Label(w.Label).Changes(), Alone: w.Kind == wire.WriteKind_MOVE, Bytes: len(w.Value), Reason: w.Reason}
	r.set.moves.add(m, r.first())
	if h := r.cfg.Homes; h != nil {
		h.Moved(m)
	}
}

// counted reports whether accesses are told to the policy. from is the region they are made for.
func (r *Replica) counted(from base.RegionID) bool {
	return r.cfg.Homes != nil && from != 0 && r.shard != base.MetaShard
}

func (r *Replica) access(key base.Key, l base.Label, from base.RegionID, txn base.TxnID, write bool) Verdict {
	if r.cfg.Movable != nil && !r.cfg.Movable(key) {
		return Verdict{}
	}
	return r.cfg.Homes.Accessed(Access{Key: key, Home: l.Home(), From: from, Txn: txn, Write: write, At: r.clock.Latest(), Changes: l.Changes(), Pinned: l.Pinned()})
}

// count tells the policy of the rows of a read. (Ranges that are only read do not count: who looks through a
// table is not at home there.) The answer of an exclusive
// read advises the asker to move rows with his own writes; what else should move is proposed.
func (r *Replica) count(x *txnState, q *wire.ReadRequest, resp *wire.ReadResponse, from base.RegionID, mode lock.Mode) {
	if !r.counted(from) || q.Quiet {
		return
	}
	var along []base.Key
	var with map[string][]byte // of those that go along with a row, why
	defer func() { r.takeAlong(x, resp, from, along, with) }()
	exclusive := x != nil && mode == lock.Exclusive
	var id base.TxnID
	if x != nil {
		id = x.id
	}
	n := 0
	for _, row := range resp.Rows {
		if row.Absent {
			continue
		}
		if n++; n > maxCounted {
			return
		}
		v := r.access(row.Key, base.Label(row.Label), from, id, exclusive)
		if exclusive && from != r.region && q.Limit == 0 && allPoints(q.Spans) {
			along = append(along, v.Along...)
		}
		if v.To == 0 || v.To == r.region {
			continue
		}
		if exclusive && v.To == from {
			row.Advice = uint32(v.To)
			r.mu.Lock()
			if x.advice == nil {
				x.advice = map[string][]byte{}
			}
			x.asker = from
			x.advice[string(row.Key)] = v.Reason
			r.mu.Unlock()
			for _, k := range v.With {
				if with == nil {
					with = map[string][]byte{}
				}
				with[string(k)] = v.Reason
			}
		} else {
			r.propose1(Proposal{Key: base.Key(row.Key).Clone(), From: r.region, To: v.To, Reason: v.Reason})
			resp.Moves++
		}
		resp.Moves += r.proposeAll(v)
	}
}

func (r *Replica) propose1(p Proposal) {
	if r.cfg.Proposed != nil {
		r.cfg.Proposed(p)
	}
}

func (r *Replica) proposeAll(v Verdict) (n uint32) {
	for _, k := range v.With {
		r.propose1(Proposal{Key: k, From: r.region, To: v.To, Reason: v.Reason})
	}
	return uint32(len(v.With))
}

// maxAlong bounds the rows that come with an answer unasked.
const maxAlong = 8

// takeAlong adds rows to the answer of a locking read from another region that its transaction will probably ask for next:
// those that this group owns and nobody has locked. That saves it a trip.
func (r *Replica) takeAlong(x *txnState, resp *wire.ReadResponse, from base.RegionID, keys []base.Key, with map[string][]byte) {
	var got []base.Key
	for _, k := range keys {
		asked := slices.ContainsFunc(resp.Rows, func(row *wire.KV) bool { return string(row.Key) == string(k) })
		if len(got) == maxAlong || asked || k.Shard() != r.shard || slices.ContainsFunc(got, func(o base.Key) bool { return o.Compare(k) == 0 }) {
			continue
		}
		if ok, err := r.tryLock(x, resp.Term, base.PointSpan(k)); err == nil && ok {
			got = append(got, k)
		}
	}
	if len(got) == 0 {
		return
	}
	rd := r.store.NewReader() // newer than the locks
	defer rd.Close()
	for _, k := range got {
		p, err := locate(rd, k)
		if err != nil || p.owner != r.id || !p.found || p.v.Tombstone || int(resp.SizeVT())+len(p.v.Value) > r.cfg.MaxBytes {
			continue
		}
		if r.async() && p.writer.Region != r.region && p.writer.Index != 0 {
			continue // it has been handed over, which may have to be waited for (I14)
		}
		row := &wire.KV{Key: k, Value: slices.Clone(p.v.Value), Ts: uint64(p.v.TS), Label: uint64(p.v.Label)}
		resp.MaxTs = max(resp.MaxTs, row.Ts)
		seen := seenKey{key: k, place: p}
		seen.v.Key, seen.v.Value = nil, nil
		r.mu.Lock()
		if x.along == nil {
			x.along = map[string]bool{}
		}
		x.along[string(k)] = true
		if why, ok := with[string(k)]; ok {
			x.advice[string(k)], row.Advice = why, uint32(from)
		}
		if len(x.seen) < maxSeen {
			x.seen = append(x.seen, seen)
		}
		r.mu.Unlock()
		resp.Along = append(resp.Along, row)
	}
}

// blind tells the policy of a write whose row was not read first, or not asked for, and lets it
// take the row along if nothing else depends on the row's home.
func (e *evaluation) blind(x *txnState, w *wire.Write, p *place) {
	from := base.RegionID(e.q.Txn.GatewayRegion)
	if e.q.LockTerm != 0 && !x.along[string(w.Key)] || !e.r.counted(from) || w.Kind == wire.WriteKind_MOVE || w.Kind == wire.WriteKind_FENCE {
		return
	}
	v := e.r.access(w.Key, p.v.Label, from, x.id, true)
	if v.To == 0 || v.To == e.r.region {
		return
	}
	if v.To == from && w.Follow && w.Move == 0 && w.Kind == wire.WriteKind_PUT {
		w.Move, w.Soft, w.Reason = uint32(v.To), true, v.Reason
	} else if w.Move == 0 {
		e.r.propose1(Proposal{Key: base.Key(w.Key).Clone(), From: e.r.region, To: v.To, Reason: v.Reason})
		e.moves++
	}
	e.moves += e.r.proposeAll(v)
}

// untaken has the mover carry out what was advised to a transaction that is over and did not do it with its own writes: rows
// that it only locked, or could not take along. It says how many that are.
func (r *Replica) untaken(x *txnState, writes []*wire.Write) (moves uint32) {
	r.mu.Lock()
	advice, to := maps.Clone(x.advice), x.asker
	r.mu.Unlock()
	for _, w := range writes {
		if w.Move != 0 || w.Kind == wire.WriteKind_DELETE || r.handsOver(w) {
			delete(advice, string(w.Key))
		}
	}
	for k, why := range advice {
		r.propose1(Proposal{Key: base.Key(k), From: r.region, To: to, Reason: why})
	}
	return uint32(len(advice))
}

// logged is the write as it goes to the log, with its label; nil if there is nothing to log.
func (e *evaluation) logged(x *txnState, w *wire.Write, p *place, there bool) *wire.Write {
	if !there && (w.Kind == wire.WriteKind_DELETE || w.Kind == wire.WriteKind_MOVE) {
		return nil
	}
	if w.Kind == wire.WriteKind_FENCE && (there || e.r.shard == base.MetaShard) {
		return nil // a row has a home of its own, with its gap
	}
	l, moved := e.label(w, p, there)
	w.Label = uint64(l)
	if w.Kind == wire.WriteKind_FENCE {
		if !e.r.handsOver(w) {
			return nil // the gap is the asker's already
		}
		return &wire.Write{Kind: wire.WriteKind_DELETE, Key: w.Key, Label: w.Label}
	}
	if w.Kind != wire.WriteKind_MOVE && w.Move == 0 {
		return w
	}
	out := &wire.Write{Kind: w.Kind, Key: w.Key, Value: w.Value, Label: w.Label}
	if moved {
		if out.Move, out.Reason = w.Move, w.Reason; len(out.Reason) == 0 {
			out.Reason = x.advice[string(w.Key)]
		}
	}
	if w.Kind == wire.WriteKind_MOVE {
		if !moved && l.Pinned() == p.v.Label.Pinned() {
			return nil // a repeated request: done already
		}
		if out.Value = slices.Clone(p.v.Value); out.Value == nil {
			out.Value = []byte{}
		}
	}
	return out
}

// tryLock takes a lock if it is free.
func (r *Replica) tryLock(x *txnState, term uint64, s base.Span) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.current(x, term) {
		return false, r.lost(x, term)
	}
	out, _, ev, err := r.locks.Acquire(lock.Request{Txn: x.id, Age: x.age, Span: s, Mode: lock.Exclusive, Policy: lock.NoWait})
	r.settle(ev)
	return out == lock.Granted, err
}

func (s *Set) handleTouched(_ context.Context, _ base.NodeID, body []byte) (wan.Msg, error) {
	var q wire.Touched
	if err := q.UnmarshalVT(body); err != nil {
		return nil, base.Errorf(base.CodeInvalid, "malformed accesses: %v", err)
	}
	for i := range q.Rows {
		k := base.Key(q.Rows[i].Key)
		if len(k) < base.ShardPrefixLen {
			continue
		}
		if r := s.Replica(homeGroup(k, base.Label(q.Rows[i].Label))); r != nil {
			if _, ok := r.Serving(); ok {
				r.count(nil, &wire.ReadRequest{}, &wire.ReadResponse{Rows: q.Rows[i : i+1]}, base.RegionID(q.Region), lock.Shared)
			}
		}
	}
	return &wire.TouchedResponse{}, nil
}
