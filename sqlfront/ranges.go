package sqlfront

import (
	"context"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/base"
)

// keyRange is a range of an index within one shard prefix: [lo, hi) of what follows the prefix.
type keyRange struct {
	lo, hi []byte
	// first is the encoded first column if an equality binds it.
	first []byte
	// point is set if equalities bind all columns, none of them NULL or cut; the key is lo.
	point bool
	// loose is set if rows of the range must be checked against the condition.
	loose bool
	empty bool
}

// keyRangeOf translates one range of the engine.
func (i *sqlIndex) keyRangeOf(ctx context.Context, r sql.MySQLRange) (keyRange, error) {
	var k keyRange
	var pre []byte
	bound := true
	n := len(i.pos) // columns that keys are made of
	if i.joined {
		n = len(i.ext)
	}
	j := 0
	for ; j < len(r) && j < n; j++ {
		c := i.t.cols[i.ext[j]]
		v, isNull, ok := equality(ctx, r[j], c)
		if !ok {
			break
		}
		if isNull {
			bound = false
		} else if conv, cmp, in := c.convert(ctx, v); in != sql.InRange || cmp != 0 {
			k.empty = true
			return k, nil
		} else {
			v = conv
		}
		cut := i.length(j)
		if cut > 0 {
			k.loose, bound = true, false
		}
		var err error
		if pre, err = c.appendKey(ctx, pre, v, cut); err != nil {
			return k, err
		}
		if j == 0 {
			k.first = pre[:len(pre):len(pre)]
		}
	}
	k.lo = pre
	if j >= len(i.pos) {
		k.point = bound
	}
	if j == n {
		k.hi = base.Key(pre).PrefixEnd()
		k.loose = k.loose || len(r) > n
		return k, nil
	}
	k.hi = base.Key(pre).PrefixEnd() // nil if pre is empty: to the end of the section
	if j == len(r) {
		return k, nil
	}
	if err := i.bounds(ctx, &k, pre, j, r[j]); err != nil {
		return k, err
	}
	for _, rest := range r[j+1:] {
		if rest.Type() != sql.RangeType_All {
			k.loose = true
		}
	}
	if k.hi != nil && base.Key(k.lo).Compare(k.hi) >= 0 {
		k.empty = true
	}
	return k, nil
}

// bounds sets lo and hi by the cuts of the first column that no equality binds.
func (i *sqlIndex) bounds(ctx context.Context, k *keyRange, pre []byte, j int, rc sql.MySQLRangeColumnExpr) error {
	c, n := i.t.cols[i.ext[j]], i.length(j)
	if n > 0 && rc.Type() != sql.RangeType_All {
		k.loose = true
	}
	at := func(cut sql.MySQLRangeCut, lower bool) (key []byte, end bool, err error) {
		clone := append([]byte(nil), pre...)
		nulls := base.Key(base.AppendNull(clone)).PrefixEnd()
		var v any
		above := false
		switch b := cut.(type) {
		case sql.BelowNull:
			return pre, false, nil
		case sql.AboveNull:
			return nulls, false, nil
		case sql.AboveAll:
			return nil, true, nil
		case sql.Below:
			v = b.Key
		case sql.Above:
			v, above = b.Key, true
		}
		conv, cmp, in := c.convert(ctx, v)
		switch {
		case in == sql.Overflow:
			return nil, true, nil
		case in == sql.Underflow || conv == nil:
			return nulls, false, nil
		case cmp < 0:
			above = true // the value kept is below the value asked for
		case cmp > 0:
			above = false
		}
		if n > 0 {
			above = !lower // a cut value stands for many
		}
		enc, err := c.appendKey(ctx, clone, conv, n)
		if err != nil {
			return nil, false, err
		}
		if above {
			return base.Key(enc).PrefixEnd(), false, nil
		}
		return enc, false, nil
	}
	lo, loEnd, err := at(rc.LowerBound, true)
	if err != nil {
		return err
	}
	hi, hiEnd, err := at(rc.UpperBound, false)
	if err != nil {
		return err
	}
	if loEnd {
		k.empty = true
		return nil
	}
	k.lo = lo
	if !hiEnd {
		k.hi = hi
		if len(hi) == 0 {
			k.empty = true
		}
	}
	return nil
}

// equality is the single value a range column allows, if it is one.
func equality(ctx context.Context, rc sql.MySQLRangeColumnExpr, c *column) (v any, isNull, ok bool) {
	switch lo := rc.LowerBound.(type) {
	case sql.BelowNull:
		_, ok = rc.UpperBound.(sql.AboveNull)
		return nil, true, ok
	case sql.Below:
		hi, isAbove := rc.UpperBound.(sql.Above)
		if !isAbove || lo.Key == nil || hi.Key == nil {
			return nil, false, false
		}
		cmp, err := rc.Typ.Compare(ctx, lo.Key, hi.Key)
		return lo.Key, false, err == nil && cmp == 0
	}
	return nil, false, false
}

// convert brings a value of a condition to the type of the column. cmp tells
// how the result compares with the value if it is not the same.
func (c *column) convert(ctx context.Context, v any) (conv any, cmp int, in sql.ConvertInRange) {
	v, err := sql.UnwrapAny(ctx, v)
	if err != nil {
		return nil, 0, sql.Underflow
	}
	var t sql.Type = c.typ
	if c.kind == kindString || c.kind == kindBytes {
		// The length of the column does not bound what it is compared with.
		if t = types.LongText; c.kind == kindBytes {
			t = types.LongBlob
		}
	}
	conv, in, err = t.Convert(ctx, v)
	if err != nil || in != sql.InRange {
		if in == sql.InRange {
			in = sql.Underflow
		}
		return nil, 0, in
	}
	switch c.kind {
	case kindInt, kindUint, kindDecimal, kindFloat:
		a, aok := asDecimal(conv)
		b, bok := asDecimal(v)
		if aok && bok && !(c.kind == kindFloat && c.bits == 32) {
			cmp = a.Cmp(b)
		}
	}
	return conv, cmp, sql.InRange
}

func asDecimal(v any) (decimal.Decimal, bool) {
	switch n := v.(type) {
	case decimal.Decimal:
		return n, true
	case float64:
		return decimal.NewFromFloat(n), true
	case float32:
		return decimal.NewFromFloat32(n), true
	case uint64:
		return decimal.NewFromUint64(n), true
	}
	if n, ok := toInt64(v); ok {
		return decimal.NewFromInt(n), true
	}
	return decimal.Decimal{}, false
}

// spans are the places where the rows of a range may be.
func (i *sqlIndex) spans(regions []base.Region, k keyRange) []base.Span {
	var out []base.Span
	add := func(prefix base.Key) {
		start := append(prefix[:len(prefix):len(prefix)], k.lo...)
		end := prefix.PrefixEnd()
		if k.hi != nil {
			end = append(prefix[:len(prefix):len(prefix)], k.hi...)
		}
		out = append(out, base.Span{Start: start, End: end})
	}
	var ix base.IndexID
	if i.x != nil {
		ix = i.x.desc.key()
	}
	shards := i.t.shards()
	if k.first != nil && (i.x == nil || i.x.desc.Class == classLocal || i.x.desc.Class == classUnique) {
		shards = []base.ShardID{i.t.shardOf(k.first)}
	}
	for _, s := range shards {
		if i.x != nil && i.x.desc.Class == classByHome {
			for _, r := range regions {
				add(base.IndexPrefix(s, i.t.desc.ID, ix, r.ID))
			}
			continue
		}
		add(base.IndexPrefix(s, i.t.desc.ID, ix, 0))
	}
	return out
}
