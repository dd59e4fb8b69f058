package patch

import (
	"math/rand/v2"
	"testing"

	"github.com/godwitdb/godwit/sql/schema/rowfmt"
	"github.com/godwitdb/godwit/wire"
)

// add is `SET n = n + by` of a TINYINT in a row of one column.
func add(by int64) *wire.Patch {
	return &wire.Patch{Format: 1, Ids: []uint32{1}, Classes: []byte{byte(rowfmt.Varint)},
		Ops: []*wire.PatchOp{{Column: 1, Kind: wire.PatchKind_PATCH_ADD, Add: by, Least: -128, Most: 127}}}
}

// bounded is `SET n = n + by` with the bounds that a guard gives.
func bounded(by, least int64, most uint64) *wire.Patch {
	p := add(by)
	p.Ops[0].Least, p.Ops[0].Most = least, most
	return p
}

// TestJoint compares Joint with trying all orders of all subsets: whatever it accepts is defined in
// each of them, and for columns of one kind it refuses nothing else.
func TestJoint(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	accepted, apart := 0, 0
	for range 2000 {
		value := []byte{1, 1 << 1, byte(rng.IntN(254)), 0}[:3] // a varint of one byte or the first of two
		if value[2] >= 128 {
			value = append(value, 1)
		}
		var ps []*wire.Patch
		guards := rng.IntN(2) == 0
		for range 1 + rng.IntN(4) {
			by := rng.Int64N(161) - 80
			switch {
			case by == 0:
			case guards && rng.IntN(2) == 0:
				ps = append(ps, bounded(by, rng.Int64N(200)-128, uint64(rng.IntN(128))))
			default:
				ps = append(ps, add(by))
			}
		}
		want := everyWay(value, ps)
		if got := Joint(value, ps); got != want {
			t.Fatalf("Joint of %d patches over %v is %v, all ways say %v", len(ps), value, got, want)
		}
		if want && len(ps) > 1 {
			accepted++
			if same, _ := alike(ps); !same {
				apart++
			}
		}
	}
	if accepted < 50 || apart < 10 {
		t.Errorf("%d sets were accepted, %d of them with guards: they show little", accepted, apart)
	}
	null := []byte{1, 1<<1 | 1}
	other := add(1)
	other.Ops[0].Kind = wire.PatchKind_PATCH_ADD_UNSIGNED
	for _, x := range []struct {
		value []byte
		ps    []*wire.Patch
	}{{null, []*wire.Patch{add(1)}}, {[]byte{1, 1 << 1, 2}, []*wire.Patch{add(1), other}}} {
		if Joint(x.value, x.ps) {
			t.Errorf("%v is defined over %v", x.ps, x.value)
		}
	}
	for _, p := range []*wire.Patch{Set([]byte("x")), add(0), Append(nil), {}} {
		if Stacks(p) {
			t.Errorf("%v stacks", p)
		}
	}
	if !Stacks(add(-1)) || !Stacks(Append([]byte("x"))) || !Joint([]byte("a"), []*wire.Patch{Append([]byte("x"))}) {
		t.Error("additions and appends stack")
	}
}

// everyWay reports whether patches are defined in all orders of all their subsets.
func everyWay(value []byte, left []*wire.Patch) bool {
	for i, p := range left {
		out, ok := Apply(p, value)
		if !ok {
			return false
		}
		rest := append(append([]*wire.Patch{}, left[:i]...), left[i+1:]...)
		if !everyWay(out, rest) {
			return false
		}
	}
	return true
}
