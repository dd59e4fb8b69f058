package patch

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/godwitdb/godwit/wire"
)

// Class is how long a payload is.
type Class byte

// The classes.
const (
	Varint Class = iota // ends by itself
	Fixed8              // eight bytes
	Blob                // uvarint length and so many bytes
)

// Append is the patch that puts bytes behind a value.
func Append(b []byte) *wire.Patch {
	return &wire.Patch{Ops: []*wire.PatchOp{{Kind: wire.PatchKind_PATCH_APPEND, Value: b, Most: math.MaxUint32}}}
}

// Set is the patch that replaces a value.
func Set(b []byte) *wire.Patch {
	return &wire.Patch{Ops: []*wire.PatchOp{{Kind: wire.PatchKind_PATCH_SET, Value: b}}}
}

// Apply is what a patch makes of a value, which it leaves alone. ok: it is defined there.
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
		for next < len(p.Ids) && p.Ids[next] < id {
			next++
		}
		if next == len(p.Ids) || p.Ids[next] != id || len(ops) > 0 && ops[0].Column < id {
			return nil, false // a column that the patch does not know, or one that the value does not have
		}
		var payload []byte
		null := head&1 != 0
		if !null {
			k, ok := length(Class(p.Classes[next]), rest)
			if !ok {
				return nil, false
			}
			payload, rest = rest[:k], rest[k:]
		}
		if len(ops) > 0 && ops[0].Column == id {
			var ok bool
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

// length is that of the payload at the beginning of b.
func length(c Class, b []byte) (int, bool) {
	switch c {
	case Varint:
		_, n := binary.Uvarint(b)
		return n, n > 0
	case Fixed8:
		return 8, len(b) >= 8
	case Blob:
		if l, n := binary.Uvarint(b); n > 0 && l <= uint64(len(b)-n) {
			return n + int(l), true
		}
	}
	return 0, false
}

// change is what an operation makes of a payload.
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
