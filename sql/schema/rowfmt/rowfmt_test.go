package rowfmt

import (
	"bytes"
	"encoding/binary"
	"math/big"
	"testing"
)

// TestHeads: the heads of columns give back ids and NULLs.
func TestHeads(t *testing.T) {
	type col struct {
		id   uint32
		null bool
	}
	cols := []col{{1, false}, {2, true}, {3, false}, {200, true}, {1 << 30, false}}
	var b []byte
	last := uint32(0)
	for _, c := range cols {
		b, last = AppendHead(b, last, c.id, c.null), c.id
	}
	last = 0
	for _, c := range cols {
		id, null, rest, ok := TakeHead(b, last)
		if !ok || id != c.id || null != c.null {
			t.Fatalf("%v is read as %d, %v, %v", c, id, null, ok)
		}
		b, last = rest, id
	}
	if _, _, _, ok := TakeHead(b, last); ok {
		t.Error("there is a head behind the last one")
	}
}

// TestClassesSayLengths: a payload ends where its class says, and one that is cut is none.
func TestClassesSayLengths(t *testing.T) {
	for c, payload := range map[Class][]byte{
		Varint: binary.AppendVarint(nil, -1234567),
		Fixed8: {1, 2, 3, 4, 5, 6, 7, 8},
		Blob:   AppendBlob(nil, bytes.Repeat([]byte("x"), 300)),
	} {
		if n, ok := c.Len(append(bytes.Clone(payload), 0xff, 0xff)); !ok || n != len(payload) {
			t.Errorf("class %d: length %d, %v, want %d", c, n, ok, len(payload))
		}
		for cut := range len(payload) {
			if n, ok := c.Len(payload[:cut]); ok {
				t.Errorf("class %d: %d of %d bytes have length %d", c, cut, len(payload), n)
			}
		}
	}
	if _, ok := Class(9).Len([]byte{1}); ok {
		t.Error("a class that is not known has a length")
	}
}

// TestDecimals: decimals come back, and nothing else is one.
func TestDecimals(t *testing.T) {
	large, _ := new(big.Int).SetString("123456789012345678901234567890123456789", 10)
	for _, co := range []*big.Int{big.NewInt(0), big.NewInt(7), big.NewInt(-255), large} {
		for _, exp := range []int32{0, -10, 30} {
			v, rest, ok := TakeBlob(AppendDecimal(nil, co, exp))
			if !ok || len(rest) > 0 {
				t.Fatalf("%v: %x, %x, %v", co, v, rest, ok)
			}
			got, e, ok := Decimal(v)
			if !ok || got.Cmp(co) != 0 || e != int64(exp) {
				t.Errorf("%v e%d is read as %v e%d, %v", co, exp, got, e, ok)
			}
		}
	}
	for _, v := range [][]byte{nil, {0}, {0, 2, 1}, {0x80}} {
		if _, _, ok := Decimal(v); ok {
			t.Errorf("%x is a decimal", v)
		}
	}
}
