package fast

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/kv/patch"
	"github.com/godwitdb/godwit/sql/schema/rowfmt"
	"github.com/godwitdb/godwit/wire"
)

// TestNarrowed tries all guards on small numbers: the patch is defined over those for which the
// guard holds and the sum is in the column, and over no others, wherever the guard can be told.
func TestNarrowed(t *testing.T) {
	const most = 20
	told := map[wire.PatchKind]int{}
	for _, kind := range []wire.PatchKind{wire.PatchKind_PATCH_ADD, wire.PatchKind_PATCH_ADD_UNSIGNED} {
		least := int64(-most)
		if kind == wire.PatchKind_PATCH_ADD_UNSIGNED {
			least = 0
		}
		for _, guard := range []string{sqlparser.LessThanStr, sqlparser.LessEqualStr, sqlparser.GreaterThanStr, sqlparser.GreaterEqualStr} {
			for v := int64(-most - 2); v <= most+2; v++ {
				for add := int64(-most - 2); add <= most+2; add++ {
					op := &wire.PatchOp{Column: 1, Kind: kind, Add: add, Least: least, Most: most}
					if add == 0 || !narrowed(op, guard, v) {
						continue
					}
					told[kind]++
					p := &wire.Patch{Format: 1, Ids: []uint32{1}, Classes: []byte{byte(rowfmt.Varint)}, Ops: []*wire.PatchOp{op}}
					for n := least; n <= most; n++ {
						value := []byte{1, 1 << 1}
						if kind == wire.PatchKind_PATCH_ADD {
							value = binary.AppendVarint(value, n)
						} else {
							value = binary.AppendUvarint(value, uint64(n))
						}
						_, defined := patch.Apply(p, value)
						want := n+add >= least && n+add <= most && holds(n, guard, v)
						if defined != want {
							t.Fatalf("%v: n + %d where n %s %d is defined over %d: %v", kind, add, guard, v, n, defined)
						}
					}
				}
			}
		}
	}
	for kind, n := range told {
		if n < 2000 {
			t.Errorf("%v: only %d guards were told", kind, n)
		}
	}
	for _, c := range []struct {
		guard string
		v     int64
		add   int64
	}{{sqlparser.GreaterThanStr, math.MaxInt64, 1}, {sqlparser.LessThanStr, math.MinInt64, 1}, {sqlparser.LessEqualStr, math.MaxInt64, 1},
		{sqlparser.GreaterEqualStr, math.MinInt64, -1}, {sqlparser.NotEqualStr, 1, 1}} {
		if narrowed(&wire.PatchOp{Kind: wire.PatchKind_PATCH_ADD, Add: c.add}, c.guard, c.v) {
			t.Errorf("n %s %d is told", c.guard, c.v)
		}
	}
}

func holds(n int64, guard string, v int64) bool {
	switch guard {
	case sqlparser.LessThanStr:
		return n < v
	case sqlparser.LessEqualStr:
		return n <= v
	case sqlparser.GreaterThanStr:
		return n > v
	}
	return n >= v
}
