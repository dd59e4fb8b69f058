package group

import (
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/wire"
)

// Freeze keeps all messages of other nodes from a replica, or lets them in again.
func (g *Group) Freeze(on bool) { g.frozen.Store(on) }

// incarnationIndex is where the log of an incarnation begins: above all indexes of earlier ones, of
// which some may be known only to nodes that are away.
func incarnationIndex(incarnation uint32) uint64 { return uint64(incarnation) << 40 }

// Begin adds to a batch of store.Rewind the beginning of an incarnation's log, with this node as
// its only voter. Others join as they join any group.
func Begin(s *store.Store, b *store.Batch, g base.GroupID, self base.NodeID, incarnation uint32) error {
	log, err := s.Log(g)
	if err != nil {
		return err
	}
	hs, _, err := log.InitialState()
	if err != nil {
		return err
	}
	index := incarnationIndex(incarnation)
	if err := log.ResetToSnapshot(b, index, hs.GetTerm()+1, &pb.ConfState{Voters: []uint64{uint64(self)}}); err != nil {
		return err
	}
	b.SetApplied(g, index)
	return nil
}

// Tail are the commands in the log of a group that is not open and that its state does not have
// yet. An entry was committed if it lies at or below committed; of the others only a majority of
// the voters could tell.
func Tail(s *store.Store, g base.GroupID, self base.NodeID) (ents []Entry, committed uint64, err error) {
	log, err := s.Log(g)
	if err != nil {
		return nil, 0, err
	}
	applied, err := s.Applied(g)
	if err != nil {
		return nil, 0, err
	}
	hs, cs, err := log.InitialState()
	if err != nil {
		return nil, 0, err
	}
	first, err := log.FirstIndex()
	if err != nil {
		return nil, 0, err
	}
	last, err := log.LastIndex()
	if err != nil {
		return nil, 0, err
	}
	if committed = max(hs.GetCommit(), applied); len(cs.GetVoters()) == 1 && cs.GetVoters()[0] == uint64(self) &&
		len(cs.GetVotersOutgoing()) == 0 {
		committed = last
	}
	from := max(first, applied+1)
	if from > last {
		return nil, committed, nil
	}
	raw, err := log.Entries(from, last+1, 1<<62)
	if err != nil {
		return nil, 0, err
	}
	for _, e := range raw {
		if e.GetType() != pb.EntryNormal || len(e.GetData()) == 0 {
			continue
		}
		cmd := new(wire.Command)
		if err := cmd.UnmarshalVT(e.GetData()); err != nil {
			return nil, 0, base.Errorf(base.CodeCorrupt, "group %v: entry %d cannot be decoded: %v", g, e.GetIndex(), err)
		}
		ents = append(ents, Entry{Index: e.GetIndex(), Term: e.GetTerm(), Cmd: cmd})
	}
	return ents, committed, nil
}
