package expr

import (
	"encoding/binary"
	"math"

	"github.com/cockroachdb/apd/v3"

	"github.com/godwitdb/godwit/sql/expr/collate"
	"github.com/godwitdb/godwit/sql/expr/jsondoc"
)

// Encoder makes keys of values of one type: bytes that are the same exactly if the values are
// equal, and are no prefix of those of other values. A NULL has a key of its own.
type Encoder struct {
	t    Type
	coll *collate.Collator
}

// NewEncoder makes an encoder.
func NewEncoder(t Type) *Encoder {
	return &Encoder{t: t, coll: collator(t)}
}

// Append writes the key of the value at i. ask is called now and then while a long one is read, and
// its error is returned.
func (e *Encoder) Append(b []byte, v *Vec, i int32, ask func() error) ([]byte, error) {
	if v.IsNull(i) {
		return append(b, 0), nil
	}
	b = append(b, 1)
	switch e.t.Kind {
	case Text, Bytes:
		return e.coll.AppendKey(b, v.S[i], ask)
	case Float:
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(v.F[i]+0)), nil // -0 + 0 is 0
	case Decimal:
		return appendDecimalKey(b, v, i), nil
	case JSON:
		d, err := jsondoc.ReadAsking(v.S[i], ask)
		if err == nil {
			return append(jsondoc.Key(b, d), 0), nil
		}
		return append(append(b, v.S[i]...), 0), ask()
	case Opaque, Null:
		return b, nil
	}
	return binary.LittleEndian.AppendUint64(b, uint64(v.I[i])), nil
}

// appendDecimalKey writes 8 bytes for what fits 64 bits in the scale of the type, in either form
// of the vector, and digits for what does not.
func appendDecimalKey(b []byte, v *Vec, i int32) []byte {
	x, ok := int64(0), true
	if v.D == nil {
		x = v.I[i]
	} else {
		d := &v.D[i]
		if int(-d.Exponent) != v.T.Scale {
			d = new(apd.Decimal)
			Rescale(d, &v.D[i], v.T.Scale)
		}
		if x, ok = unscaled(d); !ok {
			return append(d.Append(append(b, 1), 'f'), 0)
		}
	}
	return binary.LittleEndian.AppendUint64(append(b, 0), uint64(x))
}

// Ints reports whether equality of values is that of the int64s in I, so that a table may be
// keyed by them. DECIMALs are not: one vector may hold them wide.
func (t Type) Ints() bool { return t.Kind.Form() == FormI && t.Kind != Decimal && t.Kind != Null }
