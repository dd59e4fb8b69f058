package home

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"

	"github.com/godwitdb/godwit/base"
)

// Access is one locking read, write or strong read of a row, as its owner sees it.
type Access struct {
	Key  base.Key      // not kept: the caller may reuse it
	Home base.RegionID // of the row's label
	From base.RegionID // the region on whose behalf it is made (the paper's forward_source)
	// Txn makes all accesses of one transaction to a row count as one. Zero: each counts.
	Txn   base.TxnID
	Write bool // or a locking read that announces a write
	// Pinned rows and tables count, but never move.
	Pinned  bool
	Changes uint16 // of the row's label
	At      base.Timestamp
}

// Decision answers an Access. The zero Decision is: stay.
type Decision struct {
	// Move the row to To, the region that asked. False with a To: it would move, but for the dry
	// run.
	Move bool
	To   base.RegionID
	// With are correlated rows of the same home that should go along if they can. They may lie in
	// other shards.
	With   []base.Key
	Reason Reason // of a move; for an event
	// Along are correlated rows of the same home that the transaction will probably use next, if it
	// comes from another region and announces a write: a trip that can be saved. Whether anything
	// moves does not matter.
	Along []base.Key
}

// Policy decides where the rows live that one node owns. It is safe for
// concurrent use.
type Policy struct {
	set     atomic.Pointer[settings]
	seed    uint64
	ignored atomic.Uint64
	stripes [stripes]stripe
	miner   miner
}

// New makes a policy. The same seed and the same calls give the same answers.
func New(p Params, seed uint64) (*Policy, error) {
	s, err := compile(p)
	if err != nil {
		return nil, err
	}
	pol := &Policy{seed: seed}
	for i := range pol.stripes {
		pol.stripes[i].index = map[uint64]uint32{}
		pol.stripes[i].rng = *rand.NewPCG(seed, uint64(i))
	}
	pol.miner.epoch.Store(1)
	pol.set.Store(s)
	return pol, nil
}

// Params are the settings in force, defaults filled in.
func (p *Policy) Params() Params { return p.set.Load().Params }

// SetParams changes all settings at once, while the policy is in use. What has
// been counted stays, within the new bounds. On an error nothing changes.
func (p *Policy) SetParams(n Params, at base.Timestamp) error {
	s, err := compile(n)
	if err != nil {
		return err
	}
	p.set.Store(s)
	for i := range p.stripes {
		t := &p.stripes[i]
		t.mu.Lock()
		t.shrink(ticksOf(at), s)
		t.mu.Unlock()
	}
	return nil
}

func known(r base.RegionID) bool { return r >= 1 && r <= base.MaxRegions }

// Record counts an access and says whether it moves the row. Accesses of
// regions that cannot exist are ignored.
func (p *Policy) Record(a Access) Decision {
	if !known(a.From) || !known(a.Home) {
		p.ignored.Add(1)
		return Decision{}
	}
	s := p.set.Load()
	if s.weight(a.Write, first) == nil {
		return Decision{}
	}
	h, now := p.hash(a.Key), ticksOf(a.At)
	var f followUp
	t := p.stripe(h)
	t.mu.Lock()
	d := p.count(t, h, &a, now, s, &f)
	t.mu.Unlock()

	if f.ripe {
		p.submit(&f.full, now, s)
	}
	if f.along[0] != 0 {
		d.Along = p.along(f.along, a.Home)
	}
	if f.partners[0] != 0 {
		d.With = p.follow(h, f.partners, &d.Reason, now, s)
		d.Reason.With = len(d.With)
	}
	return d
}

// followUp is what is left to do of an access when the stripe of its row is free again.
type followUp struct {
	ripe            bool // full is to be mined
	full            mined
	along, partners [maxPartners]uint64
}

// count counts an access in the stripe of its row, and decides. The stripe is locked.
func (p *Policy) count(t *stripe, h uint64, a *Access, now uint32, s *settings, f *followUp) Decision {
	txn := p.txnHash(a.Txn)
	tag := uint32(txn >> 32)
	r, old := t.visit(h, a, now, s)
	turn := r.turn(a, tag)
	if turn == repeated {
		return Decision{}
	}
	t.count(r, a, tag, now, s.weight(a.Write, turn), s)
	f.ripe = old && turn == first && s.mines(a.Write) && p.observe(t, r, a.Key, txn, now, s, &f.full)
	if a.From == a.Home && !f.ripe {
		return Decision{}
	}
	if turn == first && s.mine && a.Write && a.From != a.Home {
		f.along = t.partners(r)
	}
	d := t.decide(r, a, now, s)
	if d.To != 0 && s.mine {
		f.partners = t.partners(r)
	}
	return d
}

// mines reports whether such accesses are looked at for rows that are used together.
func (s *settings) mines(write bool) bool { return s.mine && (write || !s.MineWritesOnly) }

// A turn says what an access adds to those of its transaction before.
type turn uint8

const (
	first    turn = iota // its transaction has not used the row before, as far as the row remembers
	upgraded             // the transaction has read the row, and now writes it
	repeated             // nothing new
)

// turn judges an access by a transaction's tag (0: it has none), and counts how many transactions
// of one region in a row have used the row.
func (r *row) turn(a *Access, tag uint32) turn {
	if tag != 0 && r.txn == tag && r.asker == a.From {
		if !a.Write || r.flags&flagWritten != 0 {
			return repeated
		}
		return upgraded
	}
	if r.asker == a.From {
		r.run = uint8(min(int(r.run)+1, 255))
	} else {
		r.asker, r.run = a.From, 1
	}
	return first
}

// weight is how an access heats a row; nil: not at all.
func (s *settings) weight(write bool, t turn) *steps {
	switch {
	case t == upgraded:
		return s.upgrade
	case write:
		return s.write
	default:
		return s.read
	}
}

// visit finds the row of an access, as of now, or adds it. old is false for one that was added.
func (t *stripe) visit(h uint64, a *Access, now uint32, s *settings) (r *row, old bool) {
	r = t.find(h)
	old = r != nil
	if !old {
		r = t.add(h, now, s)
		r.home, r.changes = a.Home, a.Changes
		if a.Changes != 0 { // it has moved, who knows when: assume just now
			r.flags |= flagMoved
			r.moved = now
		}
	} else {
		r.settle(now, s.decay)
		// a move that was not reported
		if r.home != a.Home || r.changes != a.Changes && r.flags&flagAdopt == 0 {
			r.arrive(a.Home, now, s)
		}
		r.changes = a.Changes
	}
	r.flags &^= flagPinned | flagAdopt
	if a.Pinned {
		r.flags |= flagPinned
	}
	return r, old
}

// count heats the row for the region that asked. inc may be nil: then the access only shows that
// the region was here.
func (t *stripe) count(r *row, a *Access, tag, now uint32, inc *steps, s *settings) {
	t.stats.Accesses++
	if r.txn = tag; a.Write {
		r.flags |= flagWritten
	} else {
		r.flags &^= flagWritten
	}
	r.touch(a.From, now)
	if inc == nil {
		return
	}
	v := inc.add(r.heat[a.From-1], &t.rng)
	if r.heat[a.From-1] = v; estimate[v] >= float64(s.MaxHeat) {
		r.age()
	}
}

// partners are the rows that are used together with r, as far as mining knows.
func (t *stripe) partners(r *row) (with [maxPartners]uint64) {
	if r.vec != 0 {
		with = t.vecs[r.vec-1].with
	}
	return with
}

// decide says whether the row moves to the region that asked. A dry run says so once per stay.
func (t *stripe) decide(r *row, a *Access, now uint32, s *settings) Decision {
	rule := s.judge(r, a.From, now)
	if !rule.Moves() {
		return Decision{}
	}
	d := Decision{Move: !s.DryRun, To: a.From, Reason: s.reason(r, rule, a.From, now)}
	t.stats.Moves++
	if s.DryRun {
		r.flags |= flagMoved
		r.moved = now
	}
	return d
}

// Explain is how an access like a would be judged now. It counts nothing.
func (p *Policy) Explain(a Access) Reason {
	s, now := p.set.Load(), ticksOf(a.At)
	x := Reason{Rule: RuleUnknown, Mode: s.Mode, DryRun: s.DryRun, From: a.From, Home: a.Home}
	if !known(a.From) || !known(a.Home) {
		return x
	}
	h := p.hash(a.Key)
	t := p.stripe(h)
	t.mu.Lock()
	defer t.mu.Unlock()
	found := t.find(h)
	if found == nil {
		return x
	}
	r := *found
	r.settle(now, s.decay)
	if a.Pinned {
		r.flags |= flagPinned
	}
	return s.reason(&r, s.judge(&r, a.From, now), a.From, now)
}

func (p *Policy) stripe(h uint64) *stripe { return &p.stripes[h>>59] }

const (
	mix0 = 0xa0761d6478bd642f
	mix1 = 0xe7037ed1a0b428db
)

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// hash is a seeded hash of a key: rows that collide share their heat, which
// among a million rows happens to two with probability 3e-8.
func (p *Policy) hash(k []byte) uint64 {
	h := p.seed ^ mix(uint64(len(k))^mix0, mix1)
	for len(k) > 16 {
		h = mix(binary.LittleEndian.Uint64(k)^mix0, binary.LittleEndian.Uint64(k[8:])^h)
		k = k[16:]
	}
	var a, b uint64
	switch n := len(k); {
	case n >= 8:
		a, b = binary.LittleEndian.Uint64(k), binary.LittleEndian.Uint64(k[n-8:])
	case n >= 4:
		a, b = uint64(binary.LittleEndian.Uint32(k)), uint64(binary.LittleEndian.Uint32(k[n-4:]))
	default:
		for _, c := range k {
			a = a<<8 | uint64(c)
		}
	}
	h = mix(mix(a^mix0, b^h)^mix1, mix0^p.seed)
	return h | 1 // 0 means: no row
}

// txnHash is 0 only for the zero id; its upper half is never 0 otherwise.
func (p *Policy) txnHash(id base.TxnID) uint64 {
	if id.IsZero() {
		return 0
	}
	h := mix(binary.LittleEndian.Uint64(id[:8])^mix0, binary.LittleEndian.Uint64(id[8:])^mix1^p.seed)
	return h | 1<<32
}
