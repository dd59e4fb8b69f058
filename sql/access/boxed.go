package access

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/calendar"
	"github.com/godwitdb/godwit/sql/schema"
)

// boxed reads a table through the engine's iterators.
func (t *Table) boxed(read exec.Read) (exec.Rows, error) {
	if read.Keys != nil || read.Spans != nil || read.Ordered || read.Reverse {
		return nil, base.Errorf(base.CodeInvalid, "table %s can only be scanned", t.Name())
	}
	return &boxed{t: t, read: read, left: read.Limit}, nil
}

// boxed are the rows of a table that the engine's iterators read.
type boxed struct {
	t    *Table
	read exec.Read
	it   sql.RowIter
	left int64
	end  bool
}

// Next implements exec.Rows.
func (x *boxed) Next(b *expr.Batch) (bool, error) {
	ctx := x.t.s.ctx
	if x.it == nil {
		parts, err := x.t.engine.Partitions(ctx)
		if err != nil {
			return false, err
		}
		x.it = sql.NewTableRowIter(ctx, x.t.engine, parts)
	}
	most := expr.BatchSize
	if x.read.Limit > 0 {
		most = int(min(int64(most), x.left))
	}
	var got []sql.Row
	for len(got) < most && !x.end {
		row, err := x.it.Next(ctx)
		if errors.Is(err, io.EOF) {
			x.end = true
			break
		}
		if err != nil {
			return false, err
		}
		got = append(got, row)
	}
	x.left -= int64(len(got))
	if len(got) == 0 {
		return false, nil
	}
	return true, x.fill(b, got)
}

func (x *boxed) fill(b *expr.Batch, got []sql.Row) error {
	for len(b.Cols) < len(x.read.Cols) {
		b.Cols = append(b.Cols, &expr.Vec{})
	}
	b.N, b.Sel = len(got), expr.All(len(got))
	for i, c := range x.read.Cols {
		t := x.t.cols[c].Type
		b.Cols[i].Reset(t, len(got))
		for r, row := range got {
			v, err := x.value(row[c], t)
			if err != nil {
				return fmt.Errorf("column %s of %s: %w", x.t.cols[c].Name, x.t.Name(), err)
			}
			b.Cols[i].Put(r, v)
		}
	}
	return nil
}

// Close implements exec.Rows.
func (x *boxed) Close() error {
	if x.it == nil {
		return nil
	}
	it := x.it
	x.it, x.end = nil, true
	return it.Close(x.t.s.ctx)
}

// value is the engine's value as one of the type.
func (x *boxed) value(v any, t expr.Type) (expr.Value, error) {
	ctx := x.t.s.ctx
	v, err := sql.UnwrapAny(ctx, v)
	if err != nil || v == nil {
		return expr.Value{}, err
	}
	// System tables are not exact about the Go types of their values.
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

// whole is a value of the kinds that vectors hold as integers.
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
