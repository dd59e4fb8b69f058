package group

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/raft/v3/raftpb"
)

func randomMessage(r *rand.Rand) *pb.Message {
	u := func() *uint64 {
		switch r.IntN(4) {
		case 0:
			return nil
		case 1:
			return new(uint64(0))
		}
		return new(r.Uint64() >> r.IntN(64))
	}
	data := func() []byte {
		switch r.IntN(4) {
		case 0:
			return nil
		case 1:
			return []byte{}
		}
		return bytes.Repeat([]byte{byte(r.IntN(256))}, r.IntN(300))
	}
	m := &pb.Message{To: u(), From: u(), Term: u(), LogTerm: u(), Index: u(), Commit: u(), RejectHint: u(), Vote: u(),
		Context: data()}
	if r.IntN(5) > 0 {
		m.Type = pb.MessageType(r.IntN(20)).Enum()
	}
	if r.IntN(2) == 0 {
		m.Reject = new(r.IntN(2) == 0)
	}
	for range r.IntN(4) {
		e := &pb.Entry{Term: u(), Index: u(), Data: data()}
		if r.IntN(2) == 0 {
			e.Type = pb.EntryType(r.IntN(3)).Enum()
		}
		m.Entries = append(m.Entries, e)
	}
	if r.IntN(8) == 0 {
		m.Snapshot = &pb.Snapshot{Data: data(), Metadata: &pb.SnapshotMetadata{Index: u()}}
	}
	return m
}

// The plain twin of the codec is protobuf's own.
func TestCodec(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	fast := 0
	for range 20000 {
		m := randomMessage(r)
		b, err := marshalMessage(m)
		must(t, err)
		var plain pb.Message
		must(t, proto.Unmarshal(b, &plain))
		if !proto.Equal(m, &plain) {
			t.Fatalf("wrote %v, protobuf reads %v", m, &plain)
		}
		b2, err := proto.Marshal(m)
		must(t, err)
		got, err := unmarshalMessage(b2)
		must(t, err)
		if !proto.Equal(m, got) {
			t.Fatalf("protobuf wrote %v, read %v", m, got)
		}
		if decodeMessage(b2) != nil {
			fast++
		}
		// Damage must not panic, and both must agree where both read it.
		if len(b2) > 0 {
			b2[r.IntN(len(b2))] ^= 1 << r.IntN(8)
			b2 = b2[:r.IntN(len(b2)+1)]
			var p pb.Message
			perr := proto.Unmarshal(b2, &p)
			if got := decodeMessage(b2); got != nil && (perr != nil || !proto.Equal(got, &p)) {
				t.Fatalf("damaged %x: read %v, protobuf %v (%v)", b2, got, &p, perr)
			}
		}
	}
	if fast < 10000 {
		t.Fatalf("only %d of 20000 took the fast way", fast)
	}
}
