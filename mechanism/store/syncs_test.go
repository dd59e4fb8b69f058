package store

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/godwitdb/godwit/base"
)

// TestDiskUse: the age is that of the oldest commit under way, whatever order they end in, and what
// has ended is counted with the time it took.
func TestDiskUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		delay := 4 * time.Second
		s, err := Open(Options{Dir: "db", FS: vfs.NewMem(), Simulation: true, SyncDelay: func() time.Duration { return delay }})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		log, err := s.Log(base.DataGroup(1, 1))
		if err != nil {
			t.Fatal(err)
		}
		begin := s.DiskUse()
		commit := func(index uint64) *Batch {
			b := s.NewBatch()
			if err := log.Append(b, nil, []*pb.Entry{{Index: new(index), Term: new(uint64(1))}}); err != nil {
				t.Fatal(err)
			}
			if err := b.CommitAsync(true); err != nil {
				t.Fatal(err)
			}
			return b
		}
		expect := func(age time.Duration, ended int64, took time.Duration) {
			t.Helper()
			if u := s.DiskUse(); u.Age != age || u.Syncs-begin.Syncs != ended || u.Took-begin.Took != took {
				t.Errorf("the disk is used %+v, want age %v and %d more that took %v", u, age, ended, took)
			}
		}
		expect(0, 0, 0)
		first := commit(1)
		time.Sleep(time.Second)
		delay = time.Second
		second := commit(2)
		defer second.Close()
		if err := second.Wait(); err != nil {
			t.Fatal(err)
		}
		expect(2*time.Second, 1, time.Second)
		first.Close() // waits, too
		expect(0, 2, 5*time.Second)
	})
}
