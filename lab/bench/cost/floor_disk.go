package cost

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"log"
	"path/filepath"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// quiet swallows what Pebble logs.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}

// commitKeys commits 3 keys at a time to a Pebble with its defaults.
func commitKeys(f *floorRun) (err error) {
	db, err := pebble.Open(filepath.Join(f.dir, "pebble"), &pebble.Options{Logger: quiet{}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var all atomic.Uint64
	return f.repeat(func(int) error {
		const keys = 3
		var key [20]byte
		var value [entryBytes / keys]byte
		b, n := db.NewBatch(), all.Add(1)
		for i := range uint64(keys) {
			binary.BigEndian.PutUint64(key[:], n*11400714819323198485+i) // spread, and never the same
			if err := b.Set(key[:], value[:], nil); err != nil {
				return err
			}
		}
		return errors.Join(b.Commit(pebble.Sync), b.Close())
	})
}

// appendInMemory appends entries that are forgotten.
func appendInMemory(f *floorRun) error {
	return appendEntries(f, func([]*pb.Entry) error { return nil })
}

// logFile is as much as the file of appendSynced holds before it is written from its beginning
// again. It is filled before, so that a sync changes no metadata.
const logFile = 16 << 20

// appendSynced appends entries to a file, with one sync for those that were proposed at once.
func appendSynced(f *floorRun) (err error) {
	file, err := vfs.Default.Create(filepath.Join(f.dir, "log"), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	at := int64(0)
	// By pages: what is written at once may stay one piece of the page cache, all of which goes to
	// the disk with each change of it.
	for page := make([]byte, 4<<10); at < logFile; at += int64(len(page)) {
		if _, err := file.Write(page); err != nil {
			return err
		}
	}
	if err := file.Sync(); err != nil {
		return err
	}
	var buf []byte
	return appendEntries(f, func(ents []*pb.Entry) error {
		buf = buf[:0]
		for _, e := range ents {
			data, err := proto.Marshal(e)
			if err != nil {
				return err
			}
			buf = binary.BigEndian.AppendUint32(buf, crc32.ChecksumIEEE(data))
			buf = append(binary.BigEndian.AppendUint32(buf, uint32(len(data))), data...)
		}
		if at+int64(len(buf)) > logFile {
			at = 0
		}
		if _, err := file.WriteAt(buf, at); err != nil {
			return err
		}
		at += int64(len(buf))
		return file.SyncData()
	})
}

// kept is how many entries raft's storage in memory holds.
const kept = 1000

// appendEntries proposes n entries at once, again and again, to a sole voter, and stores them.
func appendEntries(f *floorRun, store func([]*pb.Entry) error) error {
	mem := raft.NewMemoryStorage()
	first := &pb.SnapshotMetadata{Index: proto.Uint64(1), Term: proto.Uint64(1), ConfState: &pb.ConfState{Voters: []uint64{1}}}
	if err := mem.ApplySnapshot(&pb.Snapshot{Metadata: first}); err != nil {
		return err
	}
	node, err := raft.NewRawNode(&raft.Config{ID: 1, ElectionTick: 10, HeartbeatTick: 1, Storage: mem, Applied: 1,
		MaxSizePerMsg: 1 << 20, MaxInflightMsgs: 256, Logger: &raft.DefaultLogger{Logger: log.New(io.Discard, "", 0)}})
	if err != nil {
		return err
	}
	if err := node.Campaign(); err != nil {
		return err
	}
	data := make([]byte, entryBytes)
	f.begin()
	defer f.finish()
	for !f.over() {
		if node.BasicStatus().RaftState == raft.StateLeader {
			for range f.n {
				if err := node.Propose(data); err != nil {
					return err
				}
			}
		}
		for node.HasReady() {
			committed, err := ready(node, mem, store)
			if err != nil {
				return err
			}
			f.times.Add(committed)
		}
	}
	return nil
}

// ready stores what raft wants stored, and returns how many proposals were committed.
func ready(node *raft.RawNode, mem *raft.MemoryStorage, store func([]*pb.Entry) error) (committed int64, err error) {
	rd := node.Ready()
	if len(rd.Entries) > 0 {
		if err := errors.Join(store(rd.Entries), mem.Append(rd.Entries)); err != nil {
			return 0, err
		}
	}
	for _, e := range rd.CommittedEntries {
		if len(e.GetData()) > 0 {
			committed++
		}
		if i := e.GetIndex(); i%kept == 0 && i > kept {
			if err := mem.Compact(i - kept/2); err != nil {
				return committed, err
			}
		}
	}
	node.Advance(rd)
	return committed, nil
}
