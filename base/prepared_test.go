package base

import "testing"

func TestPreparedKeys(t *testing.T) {
	id := MakeTxnID(12345, 7, 9)
	for _, g := range []GroupID{MetaGroup, DataGroup(1, 1), DataGroup(300, 14)} {
		k := PreparedKey(g, id, 3)
		got, n, ok := PreparedBy(g, k)
		if !ok || got != id || n != 3 {
			t.Errorf("group %v: record %v, %d, %v", g, got, n, ok)
		}
		if k.DefaultOwner() != g {
			t.Errorf("the records of group %v are owned by %v", g, k.DefaultOwner())
		}
		if s := PreparedSpan(g); !s.Contains(k) || s.Contains(PreparedName([]byte("x"))) {
			t.Errorf("group %v: its span is %v", g, s)
		}
		if _, _, ok := PreparedBy(DataGroup(1, 2), k); ok {
			t.Errorf("a record of group %v counts as one of another", g)
		}
		for _, bad := range []Key{nil, k[:len(k)-1], append(k.Clone(), 0), PreparedName([]byte("x")), PreparedName(nil)} {
			if _, _, ok := PreparedBy(g, bad); ok {
				t.Errorf("%v is no record of group %v", bad, g)
			}
		}
	}
	if !PreparedNames().Contains(PreparedName([]byte{0xff, 0xff})) || !PreparedTable.IsSpace() || PreparedTable.IsPrivate() {
		t.Error("the names lie outside of their span")
	}
}
