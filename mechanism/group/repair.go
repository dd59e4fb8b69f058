package group

import (
	"context"
	"slices"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
)

// A shard whose tables are damaged on one node is fetched from another (package store, repair.go).
// The source must have applied at least what the damaged replica has acknowledged. What is applied
// is committed, so the damaged replica breaks no promise if it goes on with the copy's state and a
// log that ends there. The copy travels in a stream like a Raft snapshot's, with a header for each
// group of the shard. The receiver tells it from a Raft snapshot because the groups are closed.

// SendShard sends a copy of a shard to a node that has lost its own. It returns before all is sent.
// Errors: CodeUnavailable if the copy here does not have each group up to least, or lacks one.
func (h *Host) SendShard(to base.NodeID, shard base.ShardID, least map[base.GroupID]uint64) error {
	s := h.snaps
	k := streamKey{shard, to}
	s.mu.Lock()
	busy := s.active[k] || s.ctx.Err() != nil
	if !busy {
		s.active[k] = true
	}
	s.mu.Unlock()
	if busy {
		return base.Errorf(base.CodeUnavailable, "node %d sends shard %d to node %d already", h.opts.Self, shard, to)
	}
	release := func() {
		s.mu.Lock()
		delete(s.active, k)
		s.mu.Unlock()
	}
	exp, groups, heads, err := s.copyOf(k, least)
	if err != nil {
		release()
		return err
	}
	s.wg.Go(func() {
		defer release()
		defer exp.Close()
		start := time.Now()
		bytes, err := s.send(s.ctx, k, exp, groups, heads)
		if err != nil {
			s.h.stats.snapFailed.Add(1)
			s.h.opts.Logger.Warn("a copy of a shard was not sent", "shard", shard, "to", to, "err", err)
			return
		}
		s.h.stats.snapSent.Add(1)
		s.h.stats.snapBytes.Add(bytes)
		s.h.opts.Logger.Info("a copy of a shard was sent to a node that had lost its own", "shard", shard, "to", to,
			"bytes", bytes, "took", time.Since(start))
	})
	return nil
}

// copyOf opens a copy of a shard, with the header of each of its groups that are here.
func (s *snapshots) copyOf(k streamKey, least map[base.GroupID]uint64) (*store.Export, []base.GroupID, []*pb.Message, error) {
	if s.h.opts.Store.Fetching(k.shard) {
		return nil, nil, nil, base.Errorf(base.CodeUnavailable, "node %d has lost shard %d itself", s.h.opts.Self, k.shard)
	}
	exp, err := s.h.opts.Store.ExportShard(k.shard)
	if err != nil {
		return nil, nil, nil, err
	}
	groups, heads, err := s.heads(k, exp, least)
	if err != nil {
		exp.Close()
		return nil, nil, nil, err
	}
	return exp, groups, heads, nil
}

func (s *snapshots) heads(k streamKey, exp *store.Export,
	least map[base.GroupID]uint64) (groups []base.GroupID, heads []*pb.Message, err error) {
	for _, g := range s.h.Groups() {
		index := uint64(0)
		if g.id.Shard() == k.shard {
			index = exp.Applied[g.id.Region()]
		}
		if index == 0 {
			continue
		}
		if index < least[g.id] {
			return nil, nil, base.Errorf(base.CodeUnavailable, "node %d has applied group %v up to %d, and %d is needed",
				s.h.opts.Self, g.id, index, least[g.id])
		}
		m, err := g.copyMessage(s.ctx, k.to, index)
		if err != nil {
			return nil, nil, err
		}
		groups, heads = append(groups, g.id), append(heads, m)
	}
	for id := range least {
		if !slices.Contains(groups, id) {
			return nil, nil, base.Errorf(base.CodeUnavailable, "node %d has no copy of group %v", s.h.opts.Self, id)
		}
	}
	return groups, heads, nil
}

// copyMessage is the header of a copy that has the group's log applied up to index.
func (g *Group) copyMessage(ctx context.Context, to base.NodeID, index uint64) (m *pb.Message, err error) {
	if e := g.do(ctx, func() {
		term, e := g.log.Term(index)
		if e != nil || g.confApplied > index || len(g.conf.GetVoters()) == 0 {
			err = base.Errorf(base.CodeUnavailable, "group %v: the copy is out of date already; it is made anew", g.id)
			return
		}
		m = snapshotMessage(g, uint64(to), g.term, index, term)
	}); e != nil {
		return nil, e
	}
	return m, err
}

func snapshotMessage(g *Group, to, term, index, indexTerm uint64) *pb.Message {
	return &pb.Message{Type: pb.MsgSnap.Enum(), From: new(uint64(g.host.opts.Self)), To: &to, Term: &term, Snapshot: &pb.Snapshot{
		Metadata: &pb.SnapshotMetadata{Index: &index, Term: &indexTerm, ConfState: g.conf}}}
}

// fetched reports whether a shard is to be fetched here, and no group of it is open.
func (s *snapshots) fetched(shard base.ShardID) bool {
	return s.h.opts.Store.Fetching(shard) &&
		!slices.ContainsFunc(s.h.Groups(), func(g *Group) bool { return g.id.Shard() == shard })
}

// restore ends the stream of a shard that was lost here.
func (s *snapshots) restore(in *inbound) error {
	in.expire.Stop()
	if err := in.imp.Hold(); err != nil {
		s.drop(in)
		return err
	}
	err := in.imp.Restore(in.copies)
	if err == nil {
		s.h.stats.snapReceived.Add(1)
		s.h.opts.Logger.Info("a shard that was lost is whole again", "shard", in.shard, "from", in.key.from)
		if f := s.h.opts.Restored; f != nil {
			f(in.shard, in.key.from)
		}
	}
	s.drop(in)
	return err
}

// copyHeader takes the header of a group of a shard that was lost.
func (in *inbound) copyHeader(g base.GroupID, m *pb.Message) {
	md := m.GetSnapshot().GetMetadata()
	in.copies = append(in.copies, store.GroupAt{Group: g, Index: md.GetIndex(), Term: md.GetTerm(),
		Conf: md.GetConfState()})
}
