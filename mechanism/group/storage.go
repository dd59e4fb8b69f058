package group

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
)

// A fresh group's log begins after an entry that never was, as if its first
// members had been made by a snapshot. So a replica without any state differs
// from a first member, and whoever joins later gets the membership by snapshot.
const (
	firstIndex = 1
	firstTerm  = 1
)

// storage is the log as raft sees it.
type storage struct {
	*store.Log
	g *Group
}

// InitialState implements raft.Storage. The stored commit index may lag: what
// was applied was committed.
func (s *storage) InitialState() (*pb.HardState, *pb.ConfState, error) {
	hs, cs, err := s.Log.InitialState()
	if err != nil || hs == nil {
		return hs, cs, err
	}
	if a := s.g.applied.Load(); hs.GetCommit() < a {
		hs.Commit = new(a)
	}
	return hs, cs, nil
}

// snapshot describes the snapshot that would be sent now; see snapshots for its content.
func (s *storage) snapshot() (*pb.Snapshot, error) {
	if s.g.host.snaps.full() {
		return nil, raft.ErrSnapshotTemporarilyUnavailable
	}
	return s.g.snapshotHeader()
}

func (g *Group) snapshotHeader() (*pb.Snapshot, error) {
	index := g.applied.Load()
	term, err := g.log.Term(index)
	if err != nil {
		return nil, err
	}
	return &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(index), Term: new(term), ConfState: g.conf}}, nil
}

// setApplied adds the applied index, and the membership if it changed, to the batch that makes it
// so.
func (s *storage) setApplied(b *store.Batch, index uint64, confChanged bool) error {
	b.SetApplied(s.g.id, index)
	if confChanged {
		return s.Log.SetConfState(b, s.g.conf)
	}
	return nil
}

// recover reads what is stored of the group, or makes a fresh group if there
// is nothing and this node is one of its first members. With no state and
// no membership the replica waits for a leader's snapshot.
func (g *Group) recover(members Conf) error {
	s := g.host.opts.Store
	log, err := s.Log(g.id)
	if err != nil {
		return err
	}
	g.log, g.disk = log, &storage{log, g}
	if g.incarnation, err = s.Incarnation(g.id); err != nil {
		return err
	}
	hs, cs, err := log.InitialState()
	if err != nil {
		return err
	}
	applied, err := s.Applied(g.id)
	if err != nil {
		return err
	}
	self := g.host.opts.Self
	switch {
	case len(cs.Voters) > 0:
		if err := g.verify(hs, applied); err != nil {
			return err
		}
	case applied > 0:
		return g.damaged("entries up to %d are applied but the group has no members", applied)
	case hs == nil && (slices.Contains(members.Voters, self) || slices.Contains(members.Learners, self)):
		if cs, err = g.found(members); err != nil {
			return err
		}
		applied = firstIndex
	}
	g.applied.Store(applied)
	g.setConf(cs)
	if !g.host.opts.TrustTails {
		if g.suspicion.why, err = s.Suspicion(g.id); err != nil {
			return err
		}
	}
	if hs, _, err = log.InitialState(); err != nil {
		return err
	}
	g.saved = pb.HardState{Term: new(hs.GetTerm()), Vote: new(hs.GetVote())}
	g.term = hs.GetTerm()
	log.SetSnapshot(g.disk.snapshot)
	return nil
}

// found makes a fresh group on disk.
func (g *Group) found(members Conf) (*pb.ConfState, error) {
	if err := checkConf(g.id, members); err != nil {
		return nil, err
	}
	cs := &pb.ConfState{Voters: raftIDs(members.Voters), Learners: raftIDs(members.Learners)}
	s := g.host.opts.Store
	b := s.NewBatch()
	defer b.Close()
	if err := g.log.ResetToSnapshot(b, firstIndex, firstTerm, cs); err != nil {
		return nil, err
	}
	b.SetApplied(g.id, firstIndex)
	if why := s.LostTail(); why != "" {
		b.SetSuspicion(g.id, why) // it may be that the group was begun before, and has gone on
	}
	return cs, b.Commit(true)
}

func checkConf(id base.GroupID, c Conf) error {
	all := slices.Concat(c.Voters, c.Learners)
	slices.Sort(all)
	if len(c.Voters) == 0 {
		return base.Errorf(base.CodeInvalid, "group %v: a group needs at least one voter", id)
	}
	if all[0] == 0 || len(slices.Compact(all)) != len(c.Voters)+len(c.Learners) {
		return base.Errorf(base.CodeInvalid, "group %v: node 0 or a node twice among voters %v and learners %v", id,
			c.Voters, c.Learners)
	}
	return nil
}

// verify checks that hard state, log and applied index fit together.
func (g *Group) verify(hs *pb.HardState, applied uint64) error {
	first, err := g.log.FirstIndex()
	if err != nil {
		return err
	}
	last, err := g.log.LastIndex()
	if err != nil {
		return err
	}
	lastTerm, err := g.log.Term(last)
	if err != nil {
		return err
	}
	switch {
	case applied+1 < first:
		return g.damaged("entries up to %d are applied, but the log begins at %d", applied, first)
	case applied > last:
		return g.damaged("entries up to %d are applied, but the log ends at %d", applied, last)
	case hs.GetCommit() > last:
		return g.damaged("entries up to %d are committed, but the log ends at %d", hs.GetCommit(), last)
	case hs.GetTerm() < lastTerm:
		return g.damaged("the last entry has term %d, but the replica has only seen term %d", lastTerm, hs.GetTerm())
	}
	return nil
}

func (g *Group) damaged(format string, args ...any) error {
	return base.Errorf(base.CodeCorrupt, "group %v: %s; the store of this node is damaged: replace the node, "+
		"or start it with an empty store under a new node id", g.id, fmt.Sprintf(format, args...))
}

// destroy forgets everything of the group but term and vote, so that this node
// cannot vote twice if it joins again. The rows stay: they belong to the shard
// (Store.ClearShard).
func (g *Group) destroy() error {
	b := g.host.opts.Store.NewBatch()
	defer b.Close()
	if err := g.log.ResetToSnapshot(b, 0, 0, &pb.ConfState{}); err != nil {
		return err
	}
	b.ForgetGroup(g.id)
	return b.Commit(true)
}

func raftIDs(ids []base.NodeID) []uint64 {
	out := make([]uint64, len(ids))
	for i, id := range ids {
		out[i] = uint64(id)
	}
	return out
}

// maybeTruncate drops applied entries that nobody is likely to ask for. A
// leader keeps, within limits, what its live followers have not got yet; the
// others catch up by snapshot.
func (g *Group) maybeTruncate() {
	o := &g.host.opts
	applied := g.applied.Load()
	if applied < g.truncateCheck && g.log.Bytes() < g.truncateBytes || g.failed != nil {
		return
	}
	g.truncateCheck = applied + max(1, min(o.LogKeepEntries/8, 256))
	if to := g.truncationPoint(applied); to > 0 {
		if err := g.truncate(to, applied); err != nil {
			g.fail(err)
		}
	}
	// The pieces of a large transaction are a few entries of megabytes. What goes while it is in
	// the memtable is never written to a table.
	g.truncateBytes = g.log.Bytes() + o.LogKeepBytes/2
}

// truncationPoint is the last entry that may go; 0: none, or too few to be worth it.
func (g *Group) truncationPoint(applied uint64) uint64 {
	o := &g.host.opts
	first, err := g.log.FirstIndex()
	if err != nil || applied < first {
		return 0
	}
	count, size := applied-first+1, g.log.Bytes()
	if count <= o.LogKeepEntries+o.LogKeepEntries/2 && size <= o.LogKeepBytes+o.LogKeepBytes/2 {
		return 0
	}
	keep := min(count, o.LogKeepEntries)
	if avg := size/int64(count) + 1; int64(keep)*avg > o.LogKeepBytes {
		keep = uint64(o.LogKeepBytes / avg)
	}
	to := applied - keep
	if g.state == raft.StateLeader && size < 4*o.LogMaxBytes {
		to = min(to, g.host.snaps.needs(g.id)) // what follows a snapshot under way
		g.eachPeer(func(p peer) {
			if p.live && !p.snap && size < o.LogMaxBytes {
				to = min(to, p.match)
			}
		})
	}
	if to < first {
		return 0
	}
	return to
}

// truncate drops the entries up to one. The commit index is stored with that, since it must not lie
// before the log's beginning.
func (g *Group) truncate(to, applied uint64) error {
	b := g.host.opts.Store.NewBatch()
	defer b.Close()
	hs := &pb.HardState{Term: new(g.saved.GetTerm()), Vote: new(g.saved.GetVote()), Commit: new(applied)}
	if err := g.log.Append(b, hs, nil); err != nil {
		return err
	}
	if err := g.log.TruncateTo(b, to); err != nil {
		return err
	}
	return b.Commit(false)
}
