package prepared

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/wire"
)

// What is recorded in a group comes back as it was, whatever its size; the name stays as it is.
func TestRecords(t *testing.T) {
	g, id := base.DataGroup(3, 2), base.MakeTxnID(99, 1, 2)
	name, err := Name([]byte("n"), &wire.PreparedName{Id: id[:], User: "u", Gateway: 4, At: 77, Groups: []uint32{uint32(g)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 5000} {
		writes := []*wire.Write{name}
		for i := range n {
			writes = append(writes, &wire.Write{Kind: wire.WriteKind_PUT, Key: fmt.Append(base.IndexPrefix(3, 160, 0, 0), i),
				Value: bytes.Repeat([]byte{byte(i)}, 500), Home: 2, Follow: true})
		}
		records, err := Records(g, id, &wire.Standing{Exclusive: []*wire.Span{{Start: []byte("k")}}}, writes)
		if err != nil {
			t.Fatal(err)
		}
		if records[0] != name || len(records) != 2+(n*530+recordBytes-1)/recordBytes {
			t.Errorf("%d writes make %d records", n, len(records))
		}
		var back []*wire.Write
		for i, r := range records[1:] {
			if got, num, ok := base.PreparedBy(g, r.Key); !ok || got != id || int(num) != i || !Span(g, id).Contains(r.Key) {
				t.Errorf("record %d is %v", i, base.Key(r.Key))
			}
			if base.Label(r.Label).Home() != 2 {
				t.Errorf("record %d is at home in region %d", i, base.Label(r.Label).Home())
			}
			for _, makes := range []bool{false, true} {
				ws, err := End(kv.Row{Key: r.Key, Value: r.Value}, makes)
				if err != nil || ws[0].Kind != wire.WriteKind_DELETE || !bytes.Equal(ws[0].Key, r.Key) || !makes && len(ws) > 1 {
					t.Fatalf("record %d ends with %v, %v", i, ws, err)
				}
				if makes {
					back = append(back, ws[1:]...)
				}
			}
		}
		if len(back) != n {
			t.Fatalf("%d of %d writes come back", len(back), n)
		}
		for i, w := range back {
			if !bytes.Equal(w.Key, writes[i+1].Key) || !bytes.Equal(w.Value, writes[i+1].Value) || w.Home != 2 || w.Follow {
				t.Fatalf("write %d comes back as %v", i, w)
			}
		}
	}
	p, err := Parse(kv.Row{Key: name.Key, Value: name.Value})
	if err != nil || string(p.Name) != "n" || p.User != "u" || p.Gateway != 4 || p.At != 77 {
		t.Errorf("the name is %+v, %v", p, err)
	}
}

// FuzzEnd: a damaged record is an error that says so, and nothing else.
func FuzzEnd(f *testing.F) {
	key := base.PreparedKey(base.DataGroup(1, 1), base.TxnID{1}, 1)
	f.Add([]byte(key), []byte{10, 2, 8, 1})
	f.Add([]byte(base.PreparedName([]byte("x"))), []byte{})
	f.Fuzz(func(t *testing.T, k, v []byte) {
		row := kv.Row{Key: k, Value: v}
		for _, makes := range []bool{false, true} {
			if ws, err := End(row, makes); err != nil && base.CodeOf(err) != base.CodeCorrupt || err == nil && len(ws) == 0 {
				t.Fatalf("%v, %v", ws, err)
			}
		}
		if _, err := ParseName(row); err != nil && base.CodeOf(err) != base.CodeCorrupt {
			t.Fatal(err)
		}
		if _, _, ok := base.PreparedBy(base.DataGroup(1, 1), k); ok && len(k) < base.IndexPrefixLen {
			t.Fatal("short")
		}
	})
}
