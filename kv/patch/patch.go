package patch

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/godwitdb/godwit/sql/schema/rowfmt"
	"github.com/godwitdb/godwit/wire"
)

// Append is the patch that appends bytes to a value.
func Append(b []byte) *wire.Patch {
	return &wire.Patch{Ops: []*wire.PatchOp{{Kind: wire.PatchKind_PATCH_APPEND, Value: b, Most: math.MaxUint32}}}
}

// Set is the patch that replaces a value.
func Set(b []byte) *wire.Patch {
	return &wire.Patch{Ops: []*wire.PatchOp{{Kind: wire.PatchKind_PATCH_SET, Value: b}}}
}

// Apply evaluates a patch over a value, which it does not change. ok says whether the patch is
// defined over it.
func Apply(p *wire.Patch, value []byte) (out []byte, ok bool) {
	if p.Format == 0 {
		out, ok = whole(p, value)
	} else {
		out, ok = columns(p, value)
	}
	return out, ok && len(out) > 0 && !bytes.Equal(out, value)
}

func whole(p *wire.Patch, value []byte) ([]byte, bool) {
	out := bytes.Clone(value)
	for _, o := range p.Ops {
		switch {
		case o.Column != 0:
			return nil, false
		case o.Kind == wire.PatchKind_PATCH_SET && !o.Null:
			out = bytes.Clone(o.Value)
		case o.Kind == wire.PatchKind_PATCH_APPEND && uint64(len(out)+len(o.Value)) <= o.Most:
			out = append(out, o.Value...)
		default:
			return nil, false
		}
	}
	return out, true
}

func columns(p *wire.Patch, value []byte) ([]byte, bool) {
	if len(value) == 0 || uint32(value[0]) != p.Format || len(p.Ids) != len(p.Classes) {
		return nil, false
	}
	out := append(make([]byte, 0, len(value)+16), value[0])
	rest, ops := value[1:], p.Ops
	id, next := uint32(0), 0
	for len(rest) > 0 {
		head, n := binary.Uvarint(rest)
		if n <= 0 {
			return nil, false
		}
		rest = rest[n:]
		id += uint32(head >> 1)
		var known bool
		if next, known = seek(p.Ids, next, id); !known || len(ops) > 0 && ops[0].Column < id {
			// a column that the patch does not know, or one that the value does not have
			return nil, false
		}
		payload, after, ok := takePayload(rowfmt.Class(p.Classes[next]), rest, head&1 != 0)
		if !ok {
			return nil, false
		}
		rest = after
		null := head&1 != 0
		if len(ops) > 0 && ops[0].Column == id {
			if payload, null, ok = change(ops[0], payload, null); !ok {
				return nil, false
			}
			ops = ops[1:]
		}
		head &^= 1
		if null {
			head |= 1
		}
		out = append(binary.AppendUvarint(out, head), payload...)
	}
	return out, len(ops) == 0
}

// seek goes on to a column in sorted ids.
func seek(ids []uint32, from int, id uint32) (at int, known bool) {
	for from < len(ids) && ids[from] < id {
		from++
	}
	return from, from < len(ids) && ids[from] == id
}

// takePayload splits the payload of a column from what follows; NULL has none.
func takePayload(c rowfmt.Class, rest []byte, null bool) (payload, after []byte, ok bool) {
	if null {
		return nil, rest, true
	}
	n, ok := c.Len(rest)
	if !ok {
		return nil, nil, false
	}
	return rest[:n], rest[n:], true
}

// change evaluates an operation over a payload.
func change(o *wire.PatchOp, payload []byte, null bool) (_ []byte, isNull, ok bool) {
	if o.Kind == wire.PatchKind_PATCH_SET {
		return o.Value, o.Null, true
	}
	if null {
		return nil, false, false
	}
	switch o.Kind {
	case wire.PatchKind_PATCH_ADD:
		v, n := binary.Varint(payload)
		sum := v + o.Add
		if n <= 0 || (sum > v) != (o.Add > 0) || sum < o.Least || sum > 0 && uint64(sum) > o.Most {
			return nil, false, false
		}
		return binary.AppendVarint(nil, sum), false, true
	case wire.PatchKind_PATCH_ADD_UNSIGNED:
		v, n := binary.Uvarint(payload)
		sum := v + uint64(o.Add)
		if n <= 0 || (sum > v) != (o.Add > 0) || sum > o.Most {
			return nil, false, false
		}
		return binary.AppendUvarint(nil, sum), false, true
	case wire.PatchKind_PATCH_ADD_DECIMAL:
		sum, ok := addDecimal(payload, o.Value, o.Most)
		return sum, false, ok
	}
	return nil, false, false
}
