// Package result makes what clients get of the batches of our own engine.
package result

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/sql/assign"
	"github.com/godwitdb/godwit/sql/expr"
)

// Encoder makes values of the protocol, or of the engine, of batches.
type Encoder struct {
	Ctx   *sql.Context
	At    []int // of the columns of the result in the batches
	Types []expr.Type
	Wire  []querypb.Type
}

// Rows encodes a batch. The values lie in one arena.
func (e *Encoder) Rows(b *expr.Batch) ([][]sqltypes.Value, error) {
	out := make([][]sqltypes.Value, len(b.Sel))
	flat := make([]sqltypes.Value, len(b.Sel)*len(e.At))
	arena := make([]byte, 0, 16*len(flat))
	for r, i := range b.Sel {
		row := flat[r*len(e.At) : (r+1)*len(e.At) : (r+1)*len(e.At)]
		for k, at := range e.At {
			v := b.Cols[at]
			if v.T.Kind == expr.Null || v.IsNull(i) {
				row[k] = sqltypes.NULL
				continue
			}
			n := len(arena)
			var err error
			if arena, err = e.value(arena, v, i, e.Types[k]); err != nil {
				return nil, err
			}
			row[k] = sqltypes.MakeTrusted(e.Wire[k], arena[n:len(arena):len(arena)])
		}
		out[r] = row
	}
	return out, nil
}

func (e *Encoder) value(arena []byte, v *expr.Vec, i int32, t expr.Type) ([]byte, error) {
	switch v.T.Kind {
	case expr.Opaque, expr.Bit:
		var x any = uint64(0)
		if v.T.Kind == expr.Opaque {
			x = v.A[i]
		} else {
			x = uint64(v.I[i])
		}
		val, err := t.ClientType().SQL(e.Ctx, nil, x)
		if err != nil {
			return nil, err
		}
		return append(arena, val.Raw()...), nil
	}
	return v.AppendText(arena, i), nil
}

// Box is a value in the engine's form.
func (e *Encoder) Box(v *expr.Vec, i int32, t expr.Type) (any, error) {
	if v.T.Kind == expr.Null || v.IsNull(i) {
		return nil, nil
	}
	var x any
	switch v.T.Kind {
	case expr.Opaque:
		return v.A[i], nil
	case expr.Year:
		x = v.I[i]
	case expr.Bit, expr.Set:
		x = uint64(v.I[i])
	case expr.Enum:
		return uint16(v.I[i]), nil
	case expr.Float:
		x = v.F[i]
	case expr.JSON:
		return assign.Document(v.S[i])
	default:
		x = string(v.AppendText(nil, i))
	}
	out, _, err := t.ClientType().Convert(e.Ctx, x)
	return out, err
}

// Portion is how many rows are encoded at once, at least one, and the bytes of their strings: no
// more than most, but for a single row.
func Portion(b *expr.Batch, sel []int32, most int64) (rows int, size int64) {
	for _, v := range b.Cols {
		if v.T.Kind.Form() == expr.FormS {
			size += v.Bytes(sel)
		}
	}
	if size <= most {
		return len(sel), size
	}
	size = 0
	for k, i := range sel {
		n := int64(0)
		for _, v := range b.Cols {
			if v.T.Kind.Form() == expr.FormS && !v.IsNull(i) {
				n += int64(len(v.S[i]))
			}
		}
		if k > 0 && size+n > most {
			return k, size
		}
		size += n
	}
	return len(sel), size
}
