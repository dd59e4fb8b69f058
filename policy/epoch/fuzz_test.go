package epoch

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/filter"
	"github.com/godwitdb/godwit/wire"
)

// Frames come from other nodes: any bytes are a frame or an error, whatever is done with them.
func FuzzDecodeFrame(f *testing.F) {
	batch := filter.Encode(&filter.Batch{Txns: []filter.Txn{txn(1, 1, 0, "x", "y"), txn(2, 2, 0, "y")}})
	whole := (&Frame{View: 1, Epoch: 2, Hash: HashOf(batch), Held: 1, Merged: 1, Batch: batch, RTTs: []uint32{0, 3},
		Plan: []byte("{}")}).Encode()
	torn := (&Frame{View: 1, Epoch: 2, Hash: HashOf(batch), Batch: batch[:len(batch)-1]}).Encode()
	short, err := (&wire.EpochFrame{View: 1, Epoch: 2, Digest: []byte{1, 2}}).MarshalVT()
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{nil, whole, whole[:len(whole)-3], torn, short} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		frame, err := DecodeFrame(data)
		for _, n := range []int{1, 3} {
			parts := Split(data, n)
			if len(parts) != n {
				t.Fatalf("%d parts of %d", len(parts), n)
			}
			Join(append(parts, data))
		}
		_, _, _ = Shorten([]int{1, 2}, [][]byte{data, data})
		if err != nil {
			return
		}
		if again, err := DecodeFrame(frame.Encode()); err != nil || !bytes.Equal(again.Encode(), frame.Encode()) {
			t.Fatalf("%+v became %+v, %v", frame, again, err)
		}
		if b, err := filter.Decode(1, frame.Batch); err == nil {
			if _, err := Merge(frame.Epoch, []filter.Batch{*b}, table{}, frame.Digest); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// So do views and digests.
func FuzzDecodeView(f *testing.F) {
	v := View{Number: 2, Start: 9, Members: []base.NodeID{1, 2}, Voters: []base.NodeID{1, 3}}
	for _, seed := range []string{"", "{}", "null", string(v.Encode()),
		`{"number":1,"start":1,"members":[1,1],"voters":[1]}`, `{"number":1,"start":0,"members":[1],"voters":[1]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if d, err := ParseDigest(data); err == nil && !bytes.Equal(d[:], data) {
			t.Fatalf("%x became %x", data, d)
		}
		v, err := DecodeView(data)
		if err != nil {
			return
		}
		again, err := DecodeView(v.Encode())
		if err != nil || !reflect.DeepEqual(v, again) {
			t.Fatalf("%+v became %+v, %v", v, again, err)
		}
		held := map[base.NodeID]uint64{v.Voters[0]: v.Start, v.Members[0]: 1}
		v.Exposed(held)
		v.Decide(held)
	})
}
