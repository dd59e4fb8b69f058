package access

import (
	"bytes"
	"context"
	"slices"
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

// keyer makes keys of an index from values.
type keyer struct {
	ctx context.Context
	i   *schema.EngineIndex
}

// engineValue is a value as the engine holds one of the column; nil is NULL.
func (k keyer) engineValue(c *schema.Column, x expr.Value) any {
	switch x.Kind {
	case expr.Null:
		return nil
	case expr.Uint, expr.Enum, expr.Set, expr.Bit:
		return uint64(x.I)
	case expr.Decimal:
		return decimal.NewFromBigInt(x.D.Coeff.MathBigInt(), x.D.Exponent).Mul(sign(x.D))
	case expr.Float:
		return x.F
	case expr.Text, expr.JSON:
		return x.S
	case expr.Bytes:
		return []byte(x.S)
	case expr.Date, expr.Datetime, expr.Timestamp:
		return engineTime(x.I)
	case expr.Duration:
		return types.Timespan(x.I)
	case expr.Opaque:
		return x.A
	}
	return x.I
}

func sign(d *apd.Decimal) decimal.Decimal {
	if d.Negative {
		return decimal.NewFromInt(-1)
	}
	return decimal.NewFromInt(1)
}

// zeroDate is how the store has MySQL's zero date, in microseconds.
var zeroDate = types.ZeroTime.UnixMicro()

func engineTime(packed int64) time.Time {
	if packed == 0 {
		return types.ZeroTime
	}
	return calendar.ToGo(packed, time.UTC)
}

// bound is a key that begins or ends a range. none says that nothing is on its inner side, open
// that it lies behind everything.
type bound struct {
	key        []byte
	none, open bool
}

// lower is the key of the first row at or behind a lower bound, above it if left is set.
func (k keyer) lower(vals []expr.Value, left bool) (bound, error) {
	var pre []byte
	for j, v := range vals {
		c, cut := k.i.Def.Cols[k.i.Positions[j]], k.i.PrefixLength(j)
		conv, cmp, in, err := k.fit(c, v)
		if err != nil {
			return bound{}, err
		}
		nulls := base.AppendNull(slices.Clone(pre))
		switch {
		case in == sql.Overflow:
			end := base.Key(pre).PrefixEnd()
			return bound{key: end, none: end == nil || len(pre) == 0}, nil
		case in == sql.Underflow:
			return bound{key: base.Key(nulls).PrefixEnd()}, nil
		}
		if pre, err = c.AppendKey(k.ctx, pre, conv, cut); err != nil {
			return bound{}, err
		}
		switch {
		case cmp < 0: // what is kept is below what was asked for
			return bound{key: base.Key(pre).PrefixEnd()}, nil
		case cmp > 0 || cut > 0:
			return bound{key: pre}, nil
		}
	}
	if left && len(vals) > 0 {
		return bound{key: base.Key(pre).PrefixEnd()}, nil
	}
	return bound{key: pre}, nil
}

// upper is the key behind the last row at or before an upper bound, before it if left is set.
func (k keyer) upper(vals []expr.Value, left bool) (bound, error) {
	if len(vals) == 0 {
		return bound{open: true}, nil
	}
	var pre []byte
	for j, v := range vals {
		c, cut := k.i.Def.Cols[k.i.Positions[j]], k.i.PrefixLength(j)
		conv, cmp, in, err := k.fit(c, v)
		if err != nil {
			return bound{}, err
		}
		nulls := base.AppendNull(slices.Clone(pre))
		switch {
		case in == sql.Overflow:
			return bound{key: base.Key(pre).PrefixEnd(), open: len(pre) == 0}, nil
		case in == sql.Underflow:
			return bound{key: base.Key(nulls).PrefixEnd()}, nil
		}
		if pre, err = c.AppendKey(k.ctx, pre, conv, cut); err != nil {
			return bound{}, err
		}
		switch {
		case cmp > 0: // what is kept is above what was asked for
			return bound{key: pre}, nil
		case cmp < 0 || cut > 0:
			return bound{key: base.Key(pre).PrefixEnd()}, nil
		}
	}
	if left {
		return bound{key: pre}, nil
	}
	return bound{key: base.Key(pre).PrefixEnd()}, nil
}

// fit brings a value to the type of the column; cmp tells how the result compares with it.
func (k keyer) fit(c *schema.Column, v expr.Value) (conv any, cmp int, in sql.ConvertInRange, err error) {
	x := k.engineValue(c, v)
	if x == nil {
		return nil, 0, sql.InRange, nil
	}
	conv, cmp, in = c.Fit(k.ctx, x)
	if in == sql.InRange && conv == nil {
		in = sql.Underflow
	}
	return conv, cmp, in, nil
}

// span is the range of keys of a span.
func (k keyer) span(s exec.Span) (schema.KeyRange, error) {
	if s.Begins {
		return k.beginning(s)
	}
	lo, err := k.lower(s.Lo, s.LoOpen)
	if err != nil {
		return schema.KeyRange{}, err
	}
	hi, err := k.upper(s.Hi, s.HiOpen)
	if err != nil {
		return schema.KeyRange{}, err
	}
	r := schema.KeyRange{Lo: lo.key, Hi: hi.key}
	if hi.open {
		r.Hi = nil
	}
	r.Empty = lo.none || r.Hi != nil && bytes.Compare(r.Lo, r.Hi) >= 0
	if r.Empty || len(s.Lo) == 0 || len(s.Hi) == 0 {
		return r, nil
	}
	if r.First, err = k.same(0, s.Lo[0], s.Hi[0]); err != nil {
		return r, err
	}
	if err := k.bind(&r, s); err != nil || r.Empty {
		return r, err
	}
	r.Point = k.point(s, r)
	return r, nil
}

// beginning is the range of keys of a span of texts that begin with one.
func (k keyer) beginning(s exec.Span) (r schema.KeyRange, err error) {
	j := len(s.Lo) - 1
	var pre []byte
	for i, v := range s.Lo[:j] {
		key, err := k.same(i, v, v)
		if err != nil || key == nil { // what none has, or no key holds: the condition above finds out
			return schema.KeyRange{Empty: true}, err
		}
		pre = append(pre, key...)
	}
	if j > 0 {
		if r.First, err = k.same(0, s.Lo[0], s.Lo[0]); err != nil {
			return r, err
		}
	}
	r.Lo = k.i.Def.Cols[k.i.Positions[j]].AppendBegin(pre, s.Lo[j].S, k.i.PrefixLength(j))
	r.Hi = base.Key(r.Lo).PrefixEnd()
	return r, k.bind(&r, exec.Span{Lo: s.Lo[:j], Hi: s.Lo[:j]})
}

// bind notes the placement of the rows of a span that has one value of the column of PLACEMENT BY.
func (k keyer) bind(r *schema.KeyRange, s exec.Span) error {
	col := k.i.Def.PartCol()
	if col < 0 {
		return nil
	}
	for j := range min(len(s.Lo), len(s.Hi)) {
		key, err := k.same(j, s.Lo[j], s.Hi[j])
		if err != nil || key == nil {
			return err
		}
		if k.i.Positions[j] == col {
			k.i.Def.Bind(r, col, key)
			return nil
		}
	}
	return nil
}

// same is an encoded column of the index if both bounds have the same value there.
func (k keyer) same(j int, lo, hi expr.Value) ([]byte, error) {
	c, cut := k.i.Def.Cols[k.i.Positions[j]], k.i.PrefixLength(j)
	a, cmpA, inA, err := k.fit(c, lo)
	if err != nil || inA != sql.InRange || cmpA != 0 {
		return nil, err
	}
	b, cmpB, inB, err := k.fit(c, hi)
	if err != nil || inB != sql.InRange || cmpB != 0 {
		return nil, err
	}
	x, err := c.AppendKey(k.ctx, nil, a, cut)
	if err != nil {
		return nil, err
	}
	y, err := c.AppendKey(k.ctx, nil, b, cut)
	if err != nil || !bytes.Equal(x, y) {
		return nil, err
	}
	return x, nil
}

// point reports whether a range is one key that one row has at most.
func (k keyer) point(s exec.Span, r schema.KeyRange) bool {
	n := len(k.i.Positions)
	if k.i.Def.PartCol() >= 0 && r.Parts == nil {
		return false // its placement is not known
	}
	if !k.i.IsUnique() || s.LoOpen || s.HiOpen || len(s.Lo) != n || len(s.Hi) != n || r.First == nil {
		return false
	}
	for j := range n {
		if s.Lo[j].IsNull() || k.i.PrefixLength(j) > 0 {
			return false
		}
	}
	return bytes.Equal(base.Key(r.Lo).PrefixEnd(), r.Hi)
}

// joined are ranges in order, those that meet made one.
func joined(rs []schema.KeyRange) []schema.KeyRange {
	slices.SortStableFunc(rs, func(a, b schema.KeyRange) int { return bytes.Compare(a.Lo, b.Lo) })
	out := rs[:min(len(rs), 1)]
	for _, r := range rs[len(out):] {
		last := &out[len(out)-1]
		if last.Hi != nil && bytes.Compare(last.Hi, r.Lo) <= 0 {
			out = append(out, r)
			continue
		}
		if last.Hi != nil && (r.Hi == nil || bytes.Compare(r.Hi, last.Hi) > 0) {
			last.Hi = r.Hi
			last.Point = false
		}
		if !bytes.Equal(last.First, r.First) {
			last.First = nil
		}
		if !slices.Equal(last.Parts, r.Parts) {
			last.Parts = nil
		}
	}
	return out
}
