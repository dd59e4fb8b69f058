package patch

import (
	"math"

	"github.com/godwitdb/godwit/wire"
)

// Stacks reports whether several updates like this may be pending for one row at a time: whether
// they are defined depends only on how far they go together ([Joint]). Additions of integers and
// appends are such. An update that sets a column is not: what is defined over the old value need
// not be over the new one.
func Stacks(p *wire.Patch) bool {
	for _, o := range p.Ops {
		switch o.Kind {
		case wire.PatchKind_PATCH_ADD, wire.PatchKind_PATCH_ADD_UNSIGNED:
			if o.Add == 0 {
				return false
			}
		case wire.PatchKind_PATCH_APPEND:
			if len(o.Value) == 0 {
				return false
			}
		default:
			return false
		}
	}
	return len(p.Ops) > 0
}

// mostApart is how many patches with bounds of their own are looked at together.
const mostApart = 16

// Joint reports whether all of some patches that stack are defined over a value, whichever of the
// others have been applied to it before, and in whatever order: the largest and the smallest values
// that they can lead to are within their bounds. Patches may have bounds of their own (those with
// guards do). Each must then keep to its own where all others have made its columns as large, or as
// small, as they can.
func Joint(value []byte, ps []*wire.Patch) bool {
	same, alike := alike(ps)
	switch {
	case !alike:
		return false
	case same:
		for _, up := range []bool{true, false} {
			if _, ok := together(value, ps, up, nil); !ok {
				return false
			}
		}
		return true
	case len(ps) > mostApart:
		return false
	}
	for _, p := range ps {
		for _, up := range []bool{true, false} {
			at, ok := together(value, ps, up, p)
			if !ok {
				return false
			}
			if _, ok = Apply(p, at); !ok {
				return false
			}
		}
	}
	return true
}

// together is a value that patches have made as large, or as small, as they can. Without one of
// them, if that is not nil; then bounds do not count, which are looked at for each by itself.
func together(value []byte, ps []*wire.Patch, up bool, without *wire.Patch) (at []byte, ok bool) {
	at = value
	for _, p := range ps {
		q := toward(p, up, without != nil)
		if p == without || len(q.Ops) == 0 {
			continue
		}
		if at, ok = Apply(q, at); !ok {
			return nil, false
		}
	}
	return at, true
}

// toward is the part of a patch that makes columns larger, or smaller; within its bounds, or, if it
// is free, those of the encoding.
func toward(p *wire.Patch, up, free bool) *wire.Patch {
	q := &wire.Patch{Format: p.Format, Ids: p.Ids, Classes: p.Classes}
	for _, o := range p.Ops {
		if (o.Kind == wire.PatchKind_PATCH_APPEND || o.Add > 0) != up {
			continue
		}
		if free {
			o = &wire.PatchOp{Column: o.Column, Kind: o.Kind, Value: o.Value, Add: o.Add, Least: math.MinInt64, Most: math.MaxUint64}
		}
		q.Ops = append(q.Ops, o)
	}
	return q
}

// alike reports whether patches treat each column in the same way; same: within the same bounds.
func alike(ps []*wire.Patch) (same, alike bool) {
	of := map[uint32]*wire.PatchOp{}
	same = true
	for _, p := range ps {
		for _, o := range p.Ops {
			was := of[o.Column]
			switch {
			case was == nil:
				of[o.Column] = o
			case was.Kind != o.Kind:
				return false, false
			case was.Least != o.Least || was.Most != o.Most:
				same = false
			}
		}
	}
	return same, true
}
