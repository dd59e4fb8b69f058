package patch

import "github.com/godwitdb/godwit/wire"

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

// Joint reports whether all of some patches that stack are defined over a value, whichever of the
// others have been applied to it before, and in whatever order: the largest and the smallest values
// that they can lead to are within their bounds.
func Joint(value []byte, ps []*wire.Patch) bool {
	if !alike(ps) {
		return false
	}
	for _, up := range []bool{true, false} {
		at := value
		for _, p := range ps {
			q := toward(p, up)
			if len(q.Ops) == 0 {
				continue
			}
			var ok bool
			if at, ok = Apply(q, at); !ok {
				return false
			}
		}
	}
	return true
}

// toward is the part of a patch that makes columns larger, or smaller.
func toward(p *wire.Patch, up bool) *wire.Patch {
	q := &wire.Patch{Format: p.Format, Ids: p.Ids, Classes: p.Classes}
	for _, o := range p.Ops {
		if (o.Kind == wire.PatchKind_PATCH_APPEND || o.Add > 0) == up {
			q.Ops = append(q.Ops, o)
		}
	}
	return q
}

// alike reports whether patches treat each column in the same way, within the same bounds.
func alike(ps []*wire.Patch) bool {
	of := map[uint32]*wire.PatchOp{}
	for _, p := range ps {
		for _, o := range p.Ops {
			was := of[o.Column]
			if was == nil {
				of[o.Column] = o
			} else if was.Kind != o.Kind || was.Least != o.Least || was.Most != o.Most {
				return false
			}
		}
	}
	return true
}
