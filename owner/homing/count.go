package homing

import (
	"maps"
	"slices"
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// maxCounted bounds the rows of one read that are told to the policy.
const maxCounted = 256

// Counter tells the policy of the accesses to a group's rows at its owner.
type Counter struct {
	Group  *view.Group
	Policy *Policy
	Now    func() base.Timestamp
	// Mu guards what is kept of transactions.
	Mu sync.Locker
	// TryLock takes the exclusive lock of a row if it is free. It is called without Mu.
	TryLock func(x *txns.Txn, term uint64, s base.Span) (bool, error)
}

// counts reports whether accesses are told to the policy. from is the region they are made for.
func (c *Counter) counts(from base.RegionID) bool {
	return c.Policy.Homes != nil && from != 0 && c.Group.ID.Shard() != base.MetaShard
}

func (c *Counter) access(key base.Key, l base.Label, from base.RegionID, txn base.TxnID, write bool) Verdict {
	if c.Policy.Movable != nil && !c.Policy.Movable(key) {
		return Verdict{}
	}
	return c.Policy.Homes.Accessed(Access{Key: key, Home: l.Home(), From: from, Txn: txn, Write: write, At: c.Now(),
		Changes: l.Changes(), Pinned: l.Pinned()})
}

// region is the home of the rows that the group owns.
func (c *Counter) region() base.RegionID { return c.Group.ID.Region() }

// Read tells the policy of the rows of a read. x is nil for a snapshot read; exclusive says that it
// has locked the rows to write them. (Ranges that are only read do not count: a statement that
// looks through a table is not at home there.) The answer of an exclusive read advises the gateway
// to move rows with its own writes; what else should move is proposed.
func (c *Counter) Read(x *txns.Txn, exclusive bool, q *wire.ReadRequest, resp *wire.ReadResponse, from base.RegionID) {
	if !c.counts(from) || q.Quiet {
		return
	}
	n := 0
	rows := rowCount{Counter: c, x: x, resp: resp, from: from, exclusive: exclusive}
	rows.takesAlong = exclusive && from != c.region() && q.Limit == 0 && view.AllPoints(q.Spans)
	for _, row := range resp.Rows {
		if row.Absent {
			continue
		}
		if n++; n > maxCounted {
			break
		}
		rows.row(row)
	}
	rows.takeAlong()
}

// rowCount tells the policy of the rows of one read.
type rowCount struct {
	*Counter
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
	v := c.access(row.Key, base.Label(row.Label), c.from, id, c.exclusive)
	if c.takesAlong {
		c.along = append(c.along, v.Along...)
	}
	if v.To == 0 || v.To == c.region() {
		return
	}
	if c.exclusive && v.To == c.from {
		c.advise(row, &v)
	} else {
		c.propose(Proposal{Key: base.Key(row.Key).Clone(), From: c.region(), To: v.To, Reason: v.Reason})
		c.resp.Moves++
	}
	c.resp.Moves += c.proposeWith(v)
}

// advise has the transaction move a row with its own write.
func (c *rowCount) advise(row *wire.KV, v *Verdict) {
	row.Advice = uint32(v.To)
	c.Mu.Lock()
	if c.x.Advice == nil {
		c.x.Advice = map[string][]byte{}
	}
	c.x.Asker = c.from
	c.x.Advice[string(row.Key)] = v.Reason
	c.Mu.Unlock()
	for _, k := range v.With {
		if c.with == nil {
			c.with = map[string][]byte{}
		}
		c.with[string(k)] = v.Reason
	}
}

func (c *Counter) propose(p Proposal) {
	if c.Policy.Proposed != nil {
		c.Policy.Proposed(p)
	}
}

func (c *Counter) proposeWith(v Verdict) (n uint32) {
	for _, k := range v.With {
		c.propose(Proposal{Key: k, From: c.region(), To: v.To, Reason: v.Reason})
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
	rd := c.Group.Store.NewReader() // newer than the locks
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
		if len(got) == maxAlong || k.Shard() != c.Group.ID.Shard() || c.inAnswer(k) ||
			slices.ContainsFunc(got, func(o base.Key) bool { return o.Compare(k) == 0 }) {
			continue
		}
		if ok, err := c.TryLock(c.x, c.resp.Term, base.PointSpan(k)); err == nil && ok {
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
	if p.Owner != c.Group.ID || !p.Found || p.V.Tombstone || int(c.resp.SizeVT())+len(p.V.Value) > c.Group.MaxBytes {
		return false
	}
	// A row that has been handed over may have to be waited for (OWN-14).
	return !c.Group.IsAsync() || p.Writer.Region == c.region() || p.Writer.Index == 0
}

func (c *rowCount) show(k base.Key, p *view.Place) {
	x := c.x
	row := &wire.KV{Key: k, Value: slices.Clone(p.V.Value), Ts: uint64(p.V.TS), Label: uint64(p.V.Label)}
	c.resp.MaxTs = max(c.resp.MaxTs, row.Ts)
	seen := view.Seen{Key: k, Place: *p}
	seen.V.Key, seen.V.Value = nil, nil
	c.Mu.Lock()
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
	c.Mu.Unlock()
	c.resp.Along = append(c.resp.Along, row)
}

// Write tells the policy of a write whose row was not read first, or not asked for. It lets the
// write take the row along if nothing else depends on the row's home, and says how many other moves
// it has proposed.
func (c *Counter) Write(x *txns.Txn, q *wire.CommitRequest, w *wire.Write, p *view.Place) (moves uint32) {
	from := base.RegionID(q.Txn.GatewayRegion)
	if q.LockTerm != 0 && !x.Along[string(w.Key)] || !c.counts(from) || w.Kind == wire.WriteKind_MOVE ||
		w.Kind == wire.WriteKind_FENCE {
		return 0
	}
	v := c.access(w.Key, p.V.Label, from, x.ID, true)
	if v.To == 0 || v.To == c.region() {
		return 0
	}
	if v.To == from && w.Follow && w.Move == 0 && w.Kind == wire.WriteKind_PUT {
		w.Move, w.Soft, w.Reason = uint32(v.To), true, v.Reason
	} else if w.Move == 0 {
		c.propose(Proposal{Key: base.Key(w.Key).Clone(), From: c.region(), To: v.To, Reason: v.Reason})
		moves++
	}
	return moves + c.proposeWith(v)
}

// Untaken has the mover carry out what was advised to a transaction that is over and did not do it
// with its own writes: rows that it only locked, or could not take along. It says how many that
// are.
func (c *Counter) Untaken(x *txns.Txn, writes []*wire.Write) (moves uint32) {
	c.Mu.Lock()
	advice, to := maps.Clone(x.Advice), x.Asker
	c.Mu.Unlock()
	for _, w := range writes {
		if w.Move != 0 || w.Kind == wire.WriteKind_DELETE || c.Group.HandsOver(w) {
			delete(advice, string(w.Key))
		}
	}
	for k, why := range advice {
		c.propose(Proposal{Key: base.Key(k), From: c.region(), To: to, Reason: why})
	}
	return uint32(len(advice))
}
