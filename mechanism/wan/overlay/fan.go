package overlay

import (
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// FansOut reports whether messages that nodes of a region have in common should be sent once.
func (o *Overlay) FansOut(region base.RegionID) bool {
	return region != 0 && region != o.Region(o.Self()) && o.Params().FanOut
}

// proxy chooses the fan-out proxy of a region, the node that gets what the others need, too: the
// one before, if it is well; else the nearest of the receivers. 0 if none is well.
func (o *Overlay) proxy(region base.RegionID, shares []*wire.RaftShare) base.NodeID {
	now := o.now()
	o.proxyMu.Lock()
	defer o.proxyMu.Unlock()
	if d := o.proxys[region]; d != 0 && o.rests.Usable(int(d), now) {
		return d
	}
	best, least := base.NodeID(0), time.Duration(0)
	for _, s := range shares {
		id := base.NodeID(s.To)
		d := o.opt.RTT(o.Self(), id)
		if d < 0 {
			d = unknownRTT
		}
		if o.rests.Usable(int(id), now) && (best == 0 || d < least) {
			best, least = id, d
		}
	}
	o.proxys[region] = best
	return best
}

func (o *Overlay) proxyFailed(id base.NodeID) {
	o.proxyMu.Lock()
	defer o.proxyMu.Unlock()
	o.rests.Failed(int(id), o.now())
	if r := o.Region(id); o.proxys[r] == id {
		delete(o.proxys, r)
	}
}

// SendShared sends consensus messages of several nodes of one region, with runs of encoded entries
// that they have in common, to one of them: message i of a share's batch ends with run Runs[i]-1,
// or with none if that is 0. If no node is well, each gets its own. The error is that of the first
// that nothing was sent to. Nothing of it may change afterwards.
func (o *Overlay) SendShared(region base.RegionID, runs [][]byte, shares []*wire.RaftShare) error {
	var err error
	sent := func(e error) {
		if err == nil {
			err = e
		}
	}
	proxy := o.proxy(region, shares)
	b := &wire.RaftBundle{Runs: runs, Boot: o.boot}
	users := usersOf(runs, shares)
	crossed := make([]bool, len(runs))
	for _, s := range shares {
		if base.NodeID(s.To) == proxy {
			b.Shares = append(b.Shares, s)
			mark(crossed, s.Runs)
		}
	}
	for _, s := range shares {
		to := base.NodeID(s.To)
		if to == proxy {
			continue
		}
		common := slices.ContainsFunc(s.Runs, func(r uint32) bool { return r > 0 && users[r-1] > 1 })
		if x := o.peer(to).share(proxy, s, runs, crossed, common); x != nil {
			b.Shares = append(b.Shares, x)
			mark(crossed, s.Runs)
		} else {
			sent(o.Send(to, wire.KindRaft, whole(s.Batch, s.Runs, runs)))
		}
	}
	switch {
	case len(b.Shares) == 0:
		return err
	case len(b.Shares) == 1 && base.NodeID(b.Shares[0].To) == proxy:
		sent(o.Send(proxy, wire.KindRaft, whole(b.Shares[0].Batch, b.Shares[0].Runs, runs)))
		return err
	}
	b.Runs = onlyCrossed(runs, crossed)
	if e := o.Send(proxy, wire.KindRaftBundle, b); e != nil {
		sent(e)
		for _, s := range shares {
			o.peer(base.NodeID(s.To)).giveUp(laneFan, proxy, e.Error()) // sends it directly
		}
	}
	return err
}

// usersOf counts how many shares use each run.
func usersOf(runs [][]byte, shares []*wire.RaftShare) []int {
	users := make([]int, len(runs))
	for _, s := range shares {
		for _, r := range s.Runs {
			if r > 0 {
				users[r-1]++
			}
		}
	}
	return users
}

// onlyCrossed leaves out the runs whose users all got them directly.
func onlyCrossed(runs [][]byte, crossed []bool) [][]byte {
	if !slices.Contains(crossed, false) {
		return runs
	}
	runs = slices.Clone(runs)
	for i, is := range crossed {
		if !is {
			runs[i] = nil
		}
	}
	return runs
}

// mark notes the runs that a share of the bundle uses.
func mark(crossed []bool, runs []uint32) {
	for _, r := range runs {
		if r > 0 {
			crossed[r-1] = true
		}
	}
}

// share numbers a part of a bundle; nil if it has to go directly. What has nothing in common with
// others goes over the fan-out proxy only if something is on its way there which it should not
// overtake.
func (p *peer) share(proxy base.NodeID, s *wire.RaftShare, runs [][]byte, crossed []bool, common bool) *wire.RaftShare {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &p.ways[laneFan]
	if proxy == 0 || !common && len(w.kept) == 0 || p.out.now.Load() != nil {
		return nil
	}
	if w.via != proxy {
		p.stop(laneFan, false, "")
		if !p.begin(laneFan, proxy) {
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
	return &wire.RaftShare{To: s.To, Batch: s.Batch, Runs: s.Runs, Stint: x.Stint, Seq: x.Seq}
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

// gotBundle is the handler of bundles, of which this node is the fan-out proxy: it takes its own
// part and hands the others theirs.
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
