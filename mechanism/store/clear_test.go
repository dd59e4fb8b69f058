package store

import (
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/godwitdb/godwit/base"
)

// A node that joins a group again must not vote twice in a term.
func TestClearShardKeepsVotes(t *testing.T) {
	s := openMem(t)
	g := base.DataGroup(1, 2)
	log, err := s.Log(g)
	if err != nil {
		t.Fatal(err)
	}
	b := s.NewBatch()
	defer b.Close()
	if err := log.ResetToSnapshot(b, 10, 3, &pb.ConfState{Voters: []uint64{1, 2}}); err != nil {
		t.Fatal(err)
	}
	b.SetApplied(g, 10)
	if err := log.Append(b, &pb.HardState{Term: new(uint64(7)), Vote: new(uint64(2)), Commit: new(uint64(10))}, nil); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(true); err != nil {
		t.Fatal(err)
	}
	if err := s.ClearShard(1); err != nil {
		t.Fatal(err)
	}
	if log, err = s.Log(g); err != nil {
		t.Fatal(err)
	}
	hs, cs, err := log.InitialState()
	if err != nil || hs.GetTerm() != 7 || hs.GetVote() != 2 || hs.GetCommit() != 0 || len(cs.Voters) != 0 {
		t.Errorf("after clearing: %v, %v, %v", hs, cs, err)
	}
	if a, err := s.Applied(g); a != 0 || err != nil {
		t.Errorf("after clearing %d is applied, %v", a, err)
	}
	if first, err := log.FirstIndex(); first != 1 || err != nil {
		t.Errorf("after clearing the log begins at %d, %v", first, err)
	}
}
