package access

import (
	"fmt"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/calendar"
	"github.com/godwitdb/godwit/sql/schema"
)

// valueOf converts a value of go-mysql-server to one of the type.
func valueOf(ctx *sql.Context, v any, t expr.Type) (expr.Value, error) {
	v, err := sql.UnwrapAny(ctx, v)
	if err != nil || v == nil {
		return expr.Value{}, err
	}
	if v, _, err = t.SQL.Convert(ctx, v); err != nil || v == nil {
		return expr.Value{}, err
	}
	out := expr.Value{Kind: t.Kind}
	switch t.Kind {
	case expr.Float:
		out.F, err = float(v)
	case expr.Text, expr.Bytes:
		if raw, ok := v.([]byte); ok {
			out.S = string(raw)
			break
		}
		out.S, err = types.ConvertToString(ctx, v, types.LongText, nil)
	case expr.JSON:
		if j, ok := v.(sql.JSONWrapper); ok {
			out.S, err = types.JsonToMySqlString(ctx, j)
		}
	case expr.Opaque:
		out.A = v
	case expr.Decimal:
		d, ok := v.(decimal.Decimal)
		if !ok {
			return out, fmt.Errorf("%T is no decimal", v)
		}
		out.D, _, err = apd.NewFromString(d.StringFixed(int32(t.Scale)))
	default:
		out.I, err = whole(v)
	}
	return out, err
}

// whole converts a value of a kind that vectors hold as integers.
func whole(v any) (int64, error) {
	switch n := v.(type) {
	case time.Time:
		if n.UnixMicro() == zeroDate {
			return 0, nil
		}
		return calendar.FromGo(n.UTC()), nil
	case types.Timespan:
		return int64(n), nil
	case bool:
		if n {
			return 1, nil
		}
		return 0, nil
	case uint64:
		return int64(n), nil
	}
	n, ok := schema.ToInt64(v)
	if !ok {
		return 0, fmt.Errorf("%T is no whole number", v)
	}
	return n, nil
}

func float(v any) (float64, error) {
	switch f := v.(type) {
	case float64:
		return f, nil
	case float32:
		return float64(f), nil
	}
	return 0, fmt.Errorf("%T is no double", v)
}
