package owner

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/owner/view"
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

// Homes is the policy of row homes: package home decides, and an adapter in package node implements
// this interface. Its methods are called from many goroutines, on the path of every statement.
type Homes interface {
	// Accessed is called for an access to a row that this node owns.
	Accessed(Access) Verdict
	// Moved is called for a move that was applied here, wherever it was decided.
	Moved(Move)
}

// Move is a change of a row's home, or only of its pin (then From is To), as every replica of the
// shard learns it from the log.
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

// Moves are the newest moves applied on this node, oldest first, and how many there were since it
// started.
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

// Arrived is how many rows have moved to a region since this node started, of shards of which it
// has the first replica: the sum over all nodes counts each move once.
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

// count tells the policy of the rows of a read. (Ranges that are only read do not count: a
// statement that looks through a table is not at home there.) The answer of an exclusive read
// advises the gateway to move rows with its own writes; what else should move is proposed.
func (r *Replica) count(x *txns.Txn, q *wire.ReadRequest, resp *wire.ReadResponse, from base.RegionID, mode lock.Mode) {
	if !r.counted(from) || q.Quiet {
		return
	}
	c := rowCount{r: r, resp: resp, from: from}
	if x != nil {
		c.x, c.exclusive = x, mode == lock.Exclusive
	}
	c.takesAlong = c.exclusive && from != r.region && q.Limit == 0 && view.AllPoints(q.Spans)
	n := 0
	for _, row := range resp.Rows {
		if row.Absent {
			continue
		}
		if n++; n > maxCounted {
			break
		}
		c.row(row)
	}
	c.takeAlong()
}

// rowCount tells the policy of the rows of one read.
type rowCount struct {
	r          *Replica
	x          *txns.Txn // nil: a snapshot read
	resp       *wire.ReadResponse
	from       base.RegionID
	exclusive  bool // x has locked the rows to write them
	takesAlong bool // x is shown rows unasked

	along []base.Key        // rows that x will probably ask for next
	with  map[string][]byte // those that go along with a row, and why
}

func (c *rowCount) row(row *wire.KV) {
	var id base.TxnID
	if c.x != nil {
		id = c.x.ID
	}
	v := c.r.access(row.Key, base.Label(row.Label), c.from, id, c.exclusive)
	if c.takesAlong {
		c.along = append(c.along, v.Along...)
	}
	if v.To == 0 || v.To == c.r.region {
		return
	}
	if c.exclusive && v.To == c.from {
		c.advise(row, &v)
	} else {
		c.r.proposeMove(Proposal{Key: base.Key(row.Key).Clone(), From: c.r.region, To: v.To, Reason: v.Reason})
		c.resp.Moves++
	}
	c.resp.Moves += c.r.proposeWith(v)
}

// advise has the transaction move a row with its own write.
func (c *rowCount) advise(row *wire.KV, v *Verdict) {
	row.Advice = uint32(v.To)
	c.r.mu.Lock()
	if c.x.Advice == nil {
		c.x.Advice = map[string][]byte{}
	}
	c.x.Asker = c.from
	c.x.Advice[string(row.Key)] = v.Reason
	c.r.mu.Unlock()
	for _, k := range v.With {
		if c.with == nil {
			c.with = map[string][]byte{}
		}
		c.with[string(k)] = v.Reason
	}
}

func (r *Replica) proposeMove(p Proposal) {
	if r.cfg.Proposed != nil {
		r.cfg.Proposed(p)
	}
}

func (r *Replica) proposeWith(v Verdict) (n uint32) {
	for _, k := range v.With {
		r.proposeMove(Proposal{Key: k, From: r.region, To: v.To, Reason: v.Reason})
	}
	return uint32(len(v.With))
}

// maxAlong bounds the rows that come with an answer unasked.
const maxAlong = 8

// takeAlong adds rows to the answer of a locking read from another region that its transaction will
// probably ask for next: those that this group owns and nobody has locked. That saves it a trip.
func (c *rowCount) takeAlong() {
	got := c.lockAlong()
	if len(got) == 0 {
		return
	}
	rd := c.r.store.NewReader() // newer than the locks
	defer rd.Close()
	for _, k := range got {
		p, err := view.Locate(rd, k)
		if err == nil && c.showable(&p) {
			c.show(k, &p)
		}
	}
}

// lockAlong are the rows to take along that could be locked at once.
func (c *rowCount) lockAlong() (got []base.Key) {
	for _, k := range c.along {
		if len(got) == maxAlong || k.Shard() != c.r.shard || c.inAnswer(k) || slices.ContainsFunc(got, func(o base.Key) bool { return o.Compare(k) == 0 }) {
			continue
		}
		if ok, err := c.r.tryLock(c.x, c.resp.Term, base.PointSpan(k)); err == nil && ok {
			got = append(got, k)
		}
	}
	return got
}

// inAnswer reports whether a row was asked for.
func (c *rowCount) inAnswer(k base.Key) bool {
	return slices.ContainsFunc(c.resp.Rows, func(row *wire.KV) bool { return string(row.Key) == string(k) })
}

// showable reports whether a row that was locked may come with the answer.
func (c *rowCount) showable(p *view.Place) bool {
	if p.Owner != c.r.id || !p.Found || p.V.Tombstone || int(c.resp.SizeVT())+len(p.V.Value) > c.r.cfg.MaxBytes {
		return false
	}
	// A row that has been handed over may have to be waited for (OWN-14).
	return !c.r.async() || p.Writer.Region == c.r.region || p.Writer.Index == 0
}

func (c *rowCount) show(k base.Key, p *view.Place) {
	x := c.x
	row := &wire.KV{Key: k, Value: slices.Clone(p.V.Value), Ts: uint64(p.V.TS), Label: uint64(p.V.Label)}
	c.resp.MaxTs = max(c.resp.MaxTs, row.Ts)
	seen := view.Seen{Key: k, Place: *p}
	seen.V.Key, seen.V.Value = nil, nil
	c.r.mu.Lock()
	if x.Along == nil {
		x.Along = map[string]bool{}
	}
	x.Along[string(k)] = true
	if why, ok := c.with[string(k)]; ok {
		x.Advice[string(k)], row.Advice = why, uint32(c.from)
	}
	if len(x.Seen) < view.MaxSeen {
		x.Seen = append(x.Seen, seen)
	}
	c.r.mu.Unlock()
	c.resp.Along = append(c.resp.Along, row)
}

// countWrite tells the policy of a write whose row was not read first, or not asked for, and lets
// it take the row along if nothing else depends on the row's home.
func (e *evaluation) countWrite(w *wire.Write, p *view.Place) {
	from := base.RegionID(e.q.Txn.GatewayRegion)
	if e.q.LockTerm != 0 && !e.x.Along[string(w.Key)] || !e.r.counted(from) || w.Kind == wire.WriteKind_MOVE || w.Kind == wire.WriteKind_FENCE {
		return
	}
	v := e.r.access(w.Key, p.V.Label, from, e.x.ID, true)
	if v.To == 0 || v.To == e.r.region {
		return
	}
	if v.To == from && w.Follow && w.Move == 0 && w.Kind == wire.WriteKind_PUT {
		w.Move, w.Soft, w.Reason = uint32(v.To), true, v.Reason
	} else if w.Move == 0 {
		e.r.proposeMove(Proposal{Key: base.Key(w.Key).Clone(), From: e.r.region, To: v.To, Reason: v.Reason})
		e.moves++
	}
	e.moves += e.r.proposeWith(v)
}

// untaken has the mover carry out what was advised to a transaction that is over and did not do it
// with its own writes: rows that it only locked, or could not take along. It says how many that
// are.
func (r *Replica) untaken(x *txns.Txn, writes []*wire.Write) (moves uint32) {
	r.mu.Lock()
	advice, to := maps.Clone(x.Advice), x.Asker
	r.mu.Unlock()
	for _, w := range writes {
		if w.Move != 0 || w.Kind == wire.WriteKind_DELETE || r.handsOver(w) {
			delete(advice, string(w.Key))
		}
	}
	for k, why := range advice {
		r.proposeMove(Proposal{Key: base.Key(k), From: r.region, To: to, Reason: why})
	}
	return uint32(len(advice))
}

// logged is the write as it goes to the log, with its label; nil if there is nothing to log.
func (e *evaluation) logged(w *wire.Write, p *view.Place, there bool) *wire.Write {
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
			out.Reason = e.x.Advice[string(w.Key)]
		}
	}
	if w.Kind == wire.WriteKind_MOVE {
		if !moved && l.Pinned() == p.V.Label.Pinned() {
			return nil // a repeated request: done already
		}
		if out.Value = slices.Clone(p.V.Value); out.Value == nil {
			out.Value = []byte{}
		}
	}
	return out
}

// tryLock takes a lock if it is free.
func (r *Replica) tryLock(x *txns.Txn, term uint64, s base.Span) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.current(x, term) {
		return false, r.lost(x, term)
	}
	out, _, ev, err := r.LockTable.Acquire(lock.Request{Txn: x.ID, Age: x.Age, Span: s, Mode: lock.Exclusive, Policy: lock.NoWait})
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
		if r := s.Replica(view.HomeGroup(k, base.Label(q.Rows[i].Label))); r != nil {
			if _, ok := r.Serving(); ok {
				r.count(nil, &wire.ReadRequest{}, &wire.ReadResponse{Rows: q.Rows[i : i+1]}, base.RegionID(q.Region), lock.Shared)
			}
		}
	}
	return &wire.TouchedResponse{}, nil
}
