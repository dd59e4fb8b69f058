package filter

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/godwitdb/godwit/base"
)

// Batches come from other nodes: any bytes are a batch or an error.
func FuzzDecode(f *testing.F) {
	whole := Encode(&Batch{Txns: []Txn{
		{ID: base.MakeTxnID(1, 1, 1), Priority: 3, Snapshot: 7, Reads: []string{"r"},
			Ranges: []base.Span{{Start: base.Key("a"), End: base.Key("c")}},
			Writes: []Write{{Key: "a", Value: []byte("v")}, {Key: "b", Value: []byte("v")}, {Key: "n", Null: true},
				{Key: "d", Del: true}}},
		{ID: base.MakeTxnID(2, 2, 1), Lost: true, Writes: []Write{{Key: "a"}}},
	}})
	many := epoch(rand.New(rand.NewPCG(1, 1)), 1, 20, 10)[0]
	f.Add(Encode(&many))
	for _, seed := range [][]byte{nil, whole, whole[:len(whole)/2], bytes.Repeat([]byte{0xff}, 20), {0x0a, 0x00},
		{0x0a, 0x02, 0x0a, 0x00}, {0x0a, 0x04, 0x2a, 0x02, 0x10, 0x09}} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := Decode(1, data)
		if err != nil {
			return
		}
		text := Encode(b)
		again, err := Decode(1, text)
		if err != nil || !bytes.Equal(Encode(again), text) {
			t.Fatalf("%+v became %+v, %v", b, again, err)
		}
		for _, n := range []int{1, 3} {
			Slices(b, n)
		}
		Outcome(Rule{Reads: true}, []Batch{*b, *again})
		Group(Rule{Reads: true}, []Batch{*b, {Origin: 2, Txns: again.Txns}})
	})
}
