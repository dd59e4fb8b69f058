package group

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
	pb "go.etcd.io/raft/v3/raftpb"
)

type inKey struct {
	from base.NodeID
	id   uint64
}

// inbound is a stream being received.
type inbound struct {
	key    inKey
	shard  base.ShardID
	imp    *store.Import
	turn   chan struct{} // held by the chunk being staged; one slot
	expire *time.Timer
	heard  time.Time // when its newest chunk came; guarded by snapshots.mu

	// Under turn.
	parts []*stagedSnapshot
	// copies are the groups of a shard that was lost here.
	lost   bool
	copies []store.GroupAt
	seen   map[uint32]bool
	ended  bool
}

// handle is the receiver of KindSnapshot.
func (s *snapshots) handle(ctx context.Context, from base.NodeID, body []byte) (wan.Msg, error) {
	c := new(wire.SnapshotChunk)
	if err := c.UnmarshalVT(body); err != nil {
		return nil, base.Errorf(base.CodeInvalid, "snapshot chunk from node %d cannot be decoded: %v", from, err)
	}
	ack := &wire.SnapshotAck{Id: c.Id, Seq: c.Seq}
	if chunkCRC(c) != c.Crc || len(c.Keys) != len(c.Values) || len(c.Heads) != len(c.HeadGroups) ||
		len(c.Heads) > 0 && s.h.opts.LoneHeads {
		return nil, base.Errorf(base.CodeCorrupt, "snapshot chunk %d from node %d arrived damaged", c.Seq, from)
	}
	in, err := s.admit(ctx, from, c)
	if err != nil {
		return nil, err
	}
	select {
	case in.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
	defer func() { <-in.turn }()
	if in.ended {
		return nil, base.Errorf(base.CodeUnavailable, "snapshot stream %d from node %d is over", c.Id, from)
	}
	in.expire.Reset(s.h.opts.SnapshotTimeout)
	if err := s.chunk(in, c); err != nil {
		s.drop(in)
		return nil, err
	}
	return ack, nil
}

// quietStream is how long a stream may be silent before another one may take its place.
const quietStream = 5 * time.Second

// abandoned lists the streams that stand in the way of a new one and have ended at their sender: a
// sender has one stream at a time for a shard, so that a new one says that the one before has
// failed; another sender is lost, or says nothing. A voter that lacks a snapshot confirms nothing:
// with a sender that died it may be the second of three that is missing.
func (s *snapshots) abandoned(from base.NodeID, shard base.ShardID) (out []*inbound) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, in := range s.in {
		if in.shard == shard && k.from == from || s.h.opts.Transport.Lost(k.from) || time.Since(in.heard) > quietStream {
			out = append(out, in)
		}
	}
	return out
}

// makeRoom drops what is abandoned and not at work right now.
func (s *snapshots) makeRoom(from base.NodeID, shard base.ShardID) {
	for _, in := range s.abandoned(from, shard) {
		select {
		case in.turn <- struct{}{}:
			s.drop(in)
			<-in.turn
		default:
		}
	}
}

// A stream that finds no place waits for one: admitWait at most, since it takes a place of its
// sender. What no stream says when it ends, as that its sender is lost, is looked for every
// admitLook.
const admitWait, admitLook = 2 * time.Second, 200 * time.Millisecond

// admit is inboundOf for a stream that waits for its place. Because: a node comes back and lacks
// the logs of ten groups, which three nodes lead. Of two that send it a shard at the same time one
// is refused and tries again half a second later, when the place is taken by the third. Until the
// last one is through the groups have no majority, if another node is lost (seed 500108).
func (s *snapshots) admit(ctx context.Context, from base.NodeID, c *wire.SnapshotChunk) (*inbound, error) {
	for end := time.Now().Add(admitWait); ; {
		s.mu.Lock()
		freed := s.freed
		s.mu.Unlock()
		in, err := s.inboundOf(from, c)
		if base.CodeOf(err) != base.CodeOverloaded || s.h.opts.RefusesStreams || !time.Now().Before(end) {
			return in, err
		}
		select {
		case <-freed:
		case <-time.After(admitLook):
		case <-ctx.Done():
			return nil, err
		case <-s.ctx.Done():
			return nil, err
		}
	}
}

// inboundOf finds the stream of a chunk, or begins it with its first one. It is CodeOverloaded if
// there is no place for it.
func (s *snapshots) inboundOf(from base.NodeID, c *wire.SnapshotChunk) (*inbound, error) {
	key, shard := inKey{from, c.Id}, base.GroupID(c.Group).Shard()
	if c.Seq == 0 {
		s.makeRoom(from, shard)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, base.Errorf(base.CodeUnavailable, "node %d is closing", s.h.opts.Self)
	}
	if in := s.in[key]; in != nil {
		if in.shard != shard {
			return nil, base.Errorf(base.CodeInvalid, "snapshot stream %d from node %d changes its shard", c.Id, from)
		}
		in.heard = time.Now()
		return in, nil
	}
	if c.Seq != 0 || len(c.Raft) == 0 && len(c.Heads) == 0 {
		return nil, base.Errorf(base.CodeUnavailable, "snapshot stream %d from node %d is not known here (any more)", c.Id, from)
	}
	if s.shards[shard] || !s.ahead(shard) && s.taken() >= s.h.opts.SnapshotStreams {
		return nil, base.Errorf(base.CodeOverloaded, "node %d receives other snapshots; retry later", s.h.opts.Self)
	}
	imp, err := s.h.opts.Store.ImportShard(shard)
	if err != nil {
		return nil, err
	}
	imp.Incarnations = store.IncarnationsOf(c.Incarnations)
	in := &inbound{key: key, shard: shard, imp: imp, turn: make(chan struct{}, 1), seen: map[uint32]bool{}, heard: time.Now(),
		lost: s.fetched(shard)}
	in.expire = time.AfterFunc(s.h.opts.SnapshotTimeout, func() {
		select {
		case in.turn <- struct{}{}:
			s.drop(in)
			<-in.turn
		case <-s.ctx.Done():
		}
	})
	s.in[key] = in
	s.shards[shard] = true
	return in, nil
}

// drop forgets a stream, with its turn held.
func (s *snapshots) drop(in *inbound) {
	if in.ended {
		return
	}
	in.ended = true
	in.expire.Stop()
	_ = in.imp.Abort()
	s.mu.Lock()
	delete(s.in, in.key)
	delete(s.shards, in.shard)
	close(s.freed)
	s.freed = make(chan struct{})
	s.mu.Unlock()
}

// chunk takes a part of a stream.
func (s *snapshots) chunk(in *inbound, c *wire.SnapshotChunk) error {
	in.seen[c.Seq] = true
	if len(c.Raft) > 0 {
		return s.header(in, base.GroupID(c.Group), c.Raft)
	}
	for i, h := range c.Heads {
		if err := s.header(in, base.GroupID(c.HeadGroups[i]), h); err != nil {
			return err
		}
	}
	if len(c.Keys) > 0 {
		if err := in.imp.Add(c.Keys, c.Values); err != nil {
			return err
		}
	}
	if !c.Last {
		return nil
	}
	if len(in.seen) != int(c.Seq)+1 {
		return base.Errorf(base.CodeUnavailable, "snapshot stream %d lacks %d of %d chunks", c.Id,
			int(c.Seq)+1-len(in.seen), c.Seq+1)
	}
	s.wg.Add(1)
	defer s.wg.Done()
	if in.lost {
		return s.restore(in)
	}
	return s.install(in)
}

// header takes the header of a group.
func (s *snapshots) header(in *inbound, id base.GroupID, raft []byte) error {
	m, err := unmarshalMessage(raft)
	if err != nil {
		return base.Errorf(base.CodeInvalid, "snapshot header of group %v cannot be decoded: %v", id, err)
	}
	if m.GetType() != pb.MsgSnap || m.GetTo() != uint64(s.h.opts.Self) || m.GetFrom() != uint64(in.key.from) ||
		m.GetSnapshot().GetMetadata().GetConfState() == nil || id.Shard() != in.shard {
		return base.Errorf(base.CodeInvalid, "snapshot header of group %v is not one", id)
	}
	if in.lost {
		in.copyHeader(id, m)
		return nil
	}
	g := s.h.Group(id)
	if g == nil {
		return base.Errorf(base.CodeUnavailable, "group %v is not open on node %d", id, s.h.opts.Self)
	}
	in.parts = append(in.parts, &stagedSnapshot{g: g, m: m, decided: make(chan bool, 1)})
	return nil
}

// install merges a complete stream for the groups whose raft wants it.
func (s *snapshots) install(in *inbound) error {
	in.expire.Stop()
	if err := in.imp.Hold(); err != nil {
		s.drop(in)
		return err
	}
	for _, p := range in.parts {
		if !p.g.mb.put(func(m *mail) { m.snaps = append(m.snaps, p) }) {
			p.decide(false)
		}
	}
	var taken []*stagedSnapshot
	var adopt []base.GroupID
	for _, p := range in.parts {
		if <-p.decided {
			taken = append(taken, p)
			adopt = append(adopt, p.g.id)
		}
	}
	if len(taken) == 0 {
		s.drop(in) // all are up to date without it
		return nil
	}
	err := in.imp.Finish(adopt, func(b *store.Batch) error {
		for _, p := range taken {
			if err := p.place(b); err != nil {
				return err
			}
		}
		return nil
	})
	for _, p := range taken {
		p.err = err
		p.g.mb.put(func(m *mail) { m.placed = p })
	}
	if err == nil {
		s.h.stats.snapReceived.Add(1)
	}
	s.drop(in)
	return err
}
