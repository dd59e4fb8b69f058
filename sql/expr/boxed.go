package expr

import (
	"fmt"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/sql/expr/calendar"
)

// Boxed is the value at i as the engine holds it; a TIMESTAMP is in UTC.
func (v *Vec) Boxed(i int32) any {
	if v.IsNull(i) || v.T.Kind == Null {
		return nil
	}
	switch v.T.Kind {
	case Int:
		return v.I[i]
	case Uint, Bit, Set:
		return uint64(v.I[i])
	case Enum:
		return uint16(v.I[i])
	case Year:
		return int16(v.I[i])
	case Decimal:
		var t apd.Decimal
		d, err := decimal.NewFromString(v.Dec(i, &t).Text('f'))
		if err != nil {
			return nil
		}
		return d
	case Float:
		if v.T.Precision == 24 {
			return float32(v.F[i])
		}
		return v.F[i]
	case Text:
		return v.S[i]
	case Bytes:
		return []byte(v.S[i])
	case JSON:
		return types.NewLazyJSONDocument([]byte(v.S[i]))
	case Date, Datetime, Timestamp:
		return calendar.ToGo(v.I[i], time.UTC)
	case Duration:
		return types.Timespan(v.I[i])
	}
	return v.A[i]
}

// Unbox stores a value of the engine at i, converted to the vector's type.
func (v *Vec) Unbox(ctx *sql.Context, i int, x any) error {
	x, err := sql.UnwrapAny(ctx, x)
	if err != nil {
		return err
	}
	if x == nil {
		v.SetNull(i)
		return nil
	}
	if v.T.Kind == Opaque {
		v.A[i] = x
		return nil
	}
	k, t, err := Unboxed(ctx, x)
	if err != nil {
		return err
	}
	c := &Caster{From: t, To: v.T, Env: &Env{}}
	var one Vec
	one.Reset(t, i+1)
	one.Put(i, k)
	return c.Function()(&one, int32(i), v)
}

// Unboxed is a value of the engine with the type that suits it.
func Unboxed(ctx *sql.Context, x any) (Value, Type, error) {
	switch x := x.(type) {
	case bool:
		return Value{Kind: Int, I: TruthInt(x)}, TypeInt, nil
	case int8, int16, int32, int64, int:
		n, _, err := types.Int64.Convert(ctx, x)
		if err != nil {
			return Value{}, TypeNull, err
		}
		return Value{Kind: Int, I: n.(int64)}, TypeInt, nil
	case uint8, uint16, uint32, uint64, uint:
		n, _, err := types.Uint64.Convert(ctx, x)
		if err != nil {
			return Value{}, TypeNull, err
		}
		return Value{Kind: Uint, I: int64(n.(uint64))}, TypeUint, nil
	case float32:
		return Value{Kind: Float, F: float64(x)}, TypeFloat, nil
	case float64:
		return Value{Kind: Float, F: x}, TypeFloat, nil
	case decimal.Decimal:
		d, _, err := apd.NewFromString(x.String())
		if err != nil {
			return Value{}, TypeNull, err
		}
		return Value{Kind: Decimal, D: d}, DecimalType(MaxPrecision, max(int(-d.Exponent), 0)), nil
	case string:
		return Value{Kind: Text, S: x}, TextType(0, sql.Collation_Default, CoerceImplicit), nil
	case []byte:
		return Value{Kind: Bytes, S: string(x)}, TypeBinary, nil
	case time.Time:
		return Value{Kind: Datetime, I: calendar.FromGo(x)}, DatetimeType(6), nil
	case types.Timespan:
		return Value{Kind: Duration, I: int64(x)}, TimeType(6), nil
	case sql.JSONWrapper:
		s, err := types.JsonToMySqlString(ctx, x)
		return Value{Kind: JSON, S: s}, TypeJSON, err
	}
	return Value{}, TypeNull, fmt.Errorf("expr: a value %T of the engine", x)
}
