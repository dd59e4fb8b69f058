package overlay

import (
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Share is one node's part of what SendShared sends: message i of Batch ends with run Runs[i]-1, or with none if that is 0.
type Share struct {
	To    base.NodeID
	Batch *wire.RaftBatch
	Runs  []uint32
}

// FansOut reports whether messages that nodes of a region have in common should be sent once.
func (o *Overlay) FansOut(region base.RegionID) bool {
	return region != 0 && region != o.Region(o.Self()) && o.Params().FanOut
}

// door chooses the node of a region that gets what the others need, too: the one before, if it is among the receivers and well; else
// the nearest. 0 if none is well.
func (o *Overlay) door(region base.RegionID, shares []Share) base.NodeID {
	now := o.now()
	o.doorMu.Lock()
	defer o.doorMu.Unlock()
	is := func(id base.NodeID) bool {
		return o.rests.Usable(int(id), now) && slices.ContainsFunc(shares, func(s Share) bool { return s.To == id })
	}
	if d := o.doors[region]; d != 0 && is(d) {
		return d
	}
	best, least := base.NodeID(0), time.Duration(0)
	for _, s := range shares {
		d := o.opt.RTT(o.Self(), s.To)
		if d < 0 {
			d = unknownRTT
		}
		if is(s.To) && (best == 0 || d < least) {
			best, least = s.To, d
		}
	}
	if best != 0 {
		o.doors[region] = best
	}
	return best
}

func (o *Overlay) doorFailed(id base.NodeID) {
	o.doorMu.Lock()
	defer o.doorMu.Unlock()
	o.rests.Failed(int(id), o.now())
}

// SendShared sends consensus messages of several nodes of one region, with runs of entries that they have in common, to one of them.
// If none is well, each gets its own. The error is that of the first that nothing was sent to.
func (o *Overlay) SendShared(region base.RegionID, runs [][]byte, shares []Share) error {
	var err error
	sent := func(e error) {
		if err == nil {
			err = e
		}
	}
	door := o.door(region, shares)
	if door == 0 || len(shares) == 1 {
		for _, s := range shares {
			sent(o.Send(s.To, wire.KindRaft, whole(s.Batch, s.Runs, runs)))
		}
		return err
	}
	b := &wire.RaftBundle{Runs: runs, Boot: o.boot}
	crossed := make([]bool, len(runs))
	for _, s := range shares {
		if s.To == door {
			b.Shares = append(b.Shares, &wire.RaftShare{To: uint32(s.To), Batch: s.Batch, Runs: s.Runs})
			mark(crossed, s.Runs)
		}
	}
	for _, s := range shares {
		if s.To == door {
			continue
		}
		if x := o.peer(s.To).share(door, s, runs, crossed); x != nil {
			b.Shares = append(b.Shares, x)
			mark(crossed, s.Runs)
		} else {
			sent(o.Send(s.To, wire.KindRaft, whole(s.Batch, s.Runs, runs)))
		}
	}
	if e := o.Send(door, wire.KindRaftBundle, b); e != nil {
		sent(e)
		for _, s := range shares {
			o.peer(s.To).giveUp(laneFan, door, e.Error()) // sends it directly
		}
	}
	return err
}

func mark(crossed []bool, runs []uint32) {
	for _, r := range runs {
		if r > 0 {
			crossed[r-1] = true
		}
	}
}

// share numbers a part of a bundle; nil if it has to go directly.
func (p *peer) share(door base.NodeID, s Share, runs [][]byte, crossed []bool) *wire.RaftShare {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &p.ways[laneFan]
	if w.via != door {
		p.stop(laneFan, false, "")
		if !p.begin(laneFan, door) {
			return nil
		}
	}
	size, saved := 0, 0
	for i, m := range s.Batch.Messages {
		size += len(m)
		if r := s.Runs[i]; r > 0 {
			size += len(runs[r-1])
			if crossed[r-1] {
				saved += len(runs[r-1])
			}
		}
	}
	x := p.number(laneFan, wire.KindRaft, size, func() []byte { return encoded(whole(s.Batch, s.Runs, runs)) })
	if x == nil {
		return nil
	}
	p.stats.SharedMsgs++
	p.stats.SavedBytes += uint64(saved)
	return &wire.RaftShare{To: uint32(s.To), Batch: s.Batch, Runs: s.Runs, Stint: x.Stint, Seq: x.Seq}
}

// whole is a batch with the runs in their places.
func whole(b *wire.RaftBatch, use []uint32, runs [][]byte) *wire.RaftBatch {
	out := &wire.RaftBatch{Groups: b.Groups, Incarnations: b.Incarnations, Messages: make([][]byte, len(b.Messages))}
	for i, m := range b.Messages {
		if i < len(use) && use[i] > 0 && int(use[i]) <= len(runs) {
			m = slices.Concat(m, runs[use[i]-1])
		}
		out.Messages[i] = m
	}
	return out
}

func encoded(b *wire.RaftBatch) []byte {
	body, err := b.MarshalVT()
	if err != nil {
		panic("overlay: raft batch: " + err.Error()) // it has no field that could fail
	}
	return body
}

// gotBundle is the handler of bundles, of which this node is the door: it takes its own part and hands the others theirs.
func (o *Overlay) gotBundle(origin base.NodeID, body []byte) {
	b := new(wire.RaftBundle)
	if err := b.UnmarshalVT(body); err != nil {
		o.log.Warn("bundle refused", "from", uint32(origin), "err", err)
		return
	}
	// The others first: theirs has still a way to go.
	for _, s := range b.Shares {
		if to := base.NodeID(s.To); to != o.Self() && s.Batch != nil {
			x := &wire.Parcel{Origin: uint32(origin), To: s.To, Boot: b.Boot, Lane: uint32(laneFan), Stint: s.Stint, Seq: s.Seq,
				Kind: uint32(wire.KindRaft), Body: encoded(whole(s.Batch, s.Runs, b.Runs))}
			parcel, err := x.MarshalVT()
			if err != nil {
				o.log.Error("parcel cannot be encoded", "err", err)
				continue
			}
			o.pass(origin, to, laneFan, parcel)
		}
	}
	for _, s := range b.Shares {
		if h := o.handlers[wire.KindRaft]; h != nil && base.NodeID(s.To) == o.Self() && s.Batch != nil {
			h(origin, encoded(whole(s.Batch, s.Runs, b.Runs)))
		}
	}
}
