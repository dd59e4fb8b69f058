package expr

import (
	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
)

// BatchSize is the number of rows that operators put into a batch. Tests set it to 1.
var BatchSize = 1024

// Vec is a column of a batch. Which slice holds the values follows from T.Kind; a DECIMAL is in D
// if D is not nil, else in I.
//
// Values of positions that are NULL or not selected are unspecified, and must not be looked at.
type Vec struct {
	T    Type
	I    []int64
	F    []float64
	S    []string
	D    []apd.Decimal
	A    []any
	Null []bool // nil: no value is NULL
}

// form says which slice of a Vec is used.
type form uint8

const (
	FormI form = iota // Vec.I, for all kinds that the others are not for
	FormF             // Vec.F
	FormS             // Vec.S
	FormA             // Vec.A
)

// Form is the slice of a Vec for the kind.
func (k Kind) Form() form {
	switch k {
	case Float:
		return FormF
	case Text, Bytes, JSON:
		return FormS
	case Opaque:
		return FormA
	}
	return FormI
}

// sized returns a slice of length n that reuses s. It does not clear values.
func sized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, max(n, 16))
	}
	return s[:n]
}

// Reset makes room for n values of a type, none of them NULL. DECIMALs go to I until Widen.
func (v *Vec) Reset(t Type, n int) {
	v.T = t
	v.Null = nil
	v.D = nil
	switch t.Kind.Form() {
	case FormF:
		v.F = sized(v.F, n)
	case FormS:
		v.S = sized(v.S, n)
	case FormA:
		v.A = sized(v.A, n)
	default:
		v.I = sized(v.I, n)
	}
}

// Len is the number of positions.
func (v *Vec) Len() int {
	switch v.T.Kind.Form() {
	case FormF:
		return len(v.F)
	case FormS:
		return len(v.S)
	case FormA:
		return len(v.A)
	}
	if v.D != nil {
		return len(v.D)
	}
	return len(v.I)
}

// IsNull reports whether the value at i is NULL.
func (v *Vec) IsNull(i int32) bool { return v.Null != nil && v.Null[i] }

// SetNull makes the value at i NULL.
func (v *Vec) SetNull(i int) {
	if v.Null == nil {
		v.Null = make([]bool, v.Len())
	}
	v.Null[i] = true
}

// Widen moves the values of a DECIMAL to D. All positions are converted, so that it does not
// matter which ones are selected.
func (v *Vec) Widen() {
	if v.D != nil || v.T.Kind != Decimal {
		return
	}
	v.D = make([]apd.Decimal, len(v.I))
	for i, x := range v.I {
		v.D[i].SetFinite(x, int32(-v.T.Scale))
	}
}

// SetDecimal stores a DECIMAL that has the scale of the vector's type already.
func (v *Vec) SetDecimal(i int, d *apd.Decimal) {
	if v.D == nil {
		if x, ok := unscaled(d); ok {
			v.I[i] = x
			return
		}
		v.Widen()
	}
	v.D[i] = *d
}

// Dec is the DECIMAL at i. The result shares memory with the vector, or with tmp.
func (v *Vec) Dec(i int32, tmp *apd.Decimal) *apd.Decimal {
	if v.D != nil {
		return &v.D[i]
	}
	tmp.SetFinite(v.I[i], int32(-v.T.Scale))
	return tmp
}

// unscaled is the coefficient of a decimal if it fits 64 bits.
func unscaled(d *apd.Decimal) (int64, bool) {
	if !d.Coeff.IsInt64() {
		return 0, false
	}
	x := d.Coeff.Int64()
	if d.Negative {
		x = -x
	}
	return x, true
}

// Append adds the selected values of another vector of the same type.
func (v *Vec) Append(o *Vec, sel []int32) {
	n := v.Len()
	if o.D != nil && v.D == nil && v.T.Kind == Decimal {
		v.Widen()
		if v.D == nil {
			v.D = []apd.Decimal{}
		}
	}
	switch v.T.Kind.Form() {
	case FormF:
		v.F = appendSel(v.F, o.F, sel)
	case FormS:
		v.S = appendSel(v.S, o.S, sel)
	case FormA:
		v.A = appendSel(v.A, o.A, sel)
	default:
		switch {
		case v.D == nil:
			v.I = appendSel(v.I, o.I, sel)
		case o.D != nil:
			v.D = appendSel(v.D, o.D, sel)
		default:
			for _, i := range sel {
				var d apd.Decimal
				d.SetFinite(o.I[i], int32(-o.T.Scale))
				v.D = append(v.D, d)
			}
		}
	}
	if o.Null == nil && v.Null == nil {
		return
	}
	if v.Null == nil {
		v.Null = make([]bool, n, n+len(sel))
	}
	for _, i := range sel {
		v.Null = append(v.Null, o.Null != nil && o.Null[i])
	}
}

func appendSel[T any](dst, src []T, sel []int32) []T {
	n := len(dst)
	if cap(dst)-n < len(sel) {
		grown := make([]T, n, max(2*cap(dst), n+len(sel)))
		copy(grown, dst)
		dst = grown
	}
	dst = dst[:n+len(sel)]
	for j, i := range sel {
		dst[n+j] = src[i]
	}
	return dst
}

// Gather makes v the values of o at the positions idx; a position below 0 gives NULL.
func (v *Vec) Gather(o *Vec, idx []int32) {
	v.Reset(o.T, len(idx))
	if o.Len() == 0 {
		v.allNull(len(idx))
		return
	}
	switch o.T.Kind.Form() {
	case FormF:
		gather(v.F, o.F, idx)
	case FormS:
		gather(v.S, o.S, idx)
	case FormA:
		gather(v.A, o.A, idx)
	default:
		if o.D != nil {
			v.D = make([]apd.Decimal, len(idx))
			gather(v.D, o.D, idx)
		} else {
			gather(v.I, o.I, idx)
		}
	}
	for j, i := range idx {
		if i < 0 || o.Null != nil && o.Null[i] {
			v.SetNull(j)
		}
	}
}

func gather[T any](dst, src []T, idx []int32) {
	for j, i := range idx {
		if i >= 0 {
			dst[j] = src[i]
		}
	}
}

func (v *Vec) allNull(n int) {
	v.Null = make([]bool, n)
	for i := range v.Null {
		v.Null[i] = true
	}
}

// Bytes estimates the memory that the values at the selected positions hold.
func (v *Vec) Bytes(sel []int32) int64 {
	n := int64(len(sel))
	size := int64(0)
	switch v.T.Kind.Form() {
	case FormS:
		size = 16 * n
		for _, i := range sel {
			if !v.IsNull(i) {
				size += int64(len(v.S[i]))
			}
		}
	case FormA:
		size = 64 * n
	default:
		size = 8 * n
		if v.D != nil {
			size = 40 * n
		}
	}
	if v.Null != nil {
		size += n
	}
	return size
}

// Batch is some rows. Sel lists the rows that count, in order; it is never nil if N > 0.
//
// A batch and its vectors belong to the operator or expression that made them, and are valid
// until its next call. Whoever gets a batch may replace Sel, but changes neither the vectors nor
// the numbers in Sel.
type Batch struct {
	N    int
	Cols []*Vec
	Sel  []int32
}

var ident = func() []int32 {
	s := make([]int32, 1<<14)
	for i := range s {
		s[i] = int32(i)
	}
	return s
}()

// All is the selection of the first n rows. It must not be changed.
func All(n int) []int32 {
	if n <= len(ident) {
		return ident[:n:n]
	}
	s := make([]int32, n)
	for i := range s {
		s[i] = int32(i)
	}
	return s
}

// Value is one value outside of a vector. Kind Null is NULL; otherwise the field for Kind's form
// holds it.
type Value struct {
	Kind Kind
	I    int64
	F    float64
	S    string
	D    *apd.Decimal // DECIMAL; I is not used
	A    any
}

// IsNull reports whether the value is NULL.
func (x Value) IsNull() bool { return x.Kind == Null }

// At is the value at i.
func (v *Vec) At(i int32) Value {
	if v.IsNull(i) || v.T.Kind == Null {
		return Value{}
	}
	x := Value{Kind: v.T.Kind}
	switch v.T.Kind.Form() {
	case FormF:
		x.F = v.F[i]
	case FormS:
		x.S = v.S[i]
	case FormA:
		x.A = v.A[i]
	default:
		if v.T.Kind == Decimal {
			x.D = new(apd.Decimal)
			*x.D = *v.Dec(i, new(apd.Decimal))
			return x
		}
		x.I = v.I[i]
	}
	return x
}

// Put stores a value of the vector's own type at i.
func (v *Vec) Put(i int, x Value) {
	if x.Kind == Null {
		v.SetNull(i)
		return
	}
	if v.Null != nil {
		v.Null[i] = false
	}
	switch v.T.Kind.Form() {
	case FormF:
		v.F[i] = x.F
	case FormS:
		v.S[i] = x.S
	case FormA:
		v.A[i] = x.A
	default:
		if v.T.Kind == Decimal {
			v.SetDecimal(i, x.D)
			return
		}
		v.I[i] = x.I
	}
}

// BytesOf is a string in the bytes of its character set.
func BytesOf(v *Vec, i int32) string {
	s := v.S[i]
	if v.T.Kind != Text {
		return s
	}
	switch cs := v.T.Coll.CharacterSet(); cs {
	case sql.CharacterSet_utf8mb4, sql.CharacterSet_utf8mb3, sql.CharacterSet_binary, sql.CharacterSet_ascii:
		return s
	default:
		if enc := cs.Encoder(); enc != nil {
			return string(enc.EncodeReplaceUnknown([]byte(s)))
		}
	}
	return s
}
