package schema

import (
	"context"
	"slices"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/base"
)

// KeyRange is a range of an index within one shard prefix: [lo, hi) of what follows the prefix.
type KeyRange struct {
	Lo, Hi []byte
	// First is the encoded first column if an equality binds it.
	First []byte
	// Point is set if equalities bind all columns, none of them NULL or cut; the key is lo.
	Point bool
	// Loose is set if rows of the range must be checked against the condition.
	Loose bool
	Empty bool
	// Parts are the positions of the placements in which the rows may lie (Table.Places); nil: all.
	Parts []int
}

// In restricts the range to placements; nil: all.
func (k KeyRange) In(places []int) KeyRange {
	switch {
	case places == nil:
	case k.Parts == nil:
		k.Parts = places
	default:
		k.Parts = slices.DeleteFunc(slices.Clone(k.Parts), func(at int) bool { return !slices.Contains(places, at) })
	}
	return k
}

// part notes that an equality binds the column by which rows have their placements to one value.
func (t *Table) bind(k *KeyRange, key []byte) {
	at := t.parts.placeOf(key)
	if at < 0 {
		k.Empty = true // no row has the value
		return
	}
	k.Parts = []int{at}
}

// Bind notes that an equality binds a column, at a position, to one value as keys have it.
func (t *Table) Bind(k *KeyRange, pos int, key []byte) {
	if t.parts != nil && t.parts.pos == pos {
		t.bind(k, key)
	}
}

// KeyRangeOf translates one range of the engine.
func (i *EngineIndex) KeyRangeOf(ctx context.Context, r sql.MySQLRange) (KeyRange, error) {
	var k KeyRange
	n := len(i.Positions) // columns that keys are made of
	if i.joined {
		n = len(i.Extended)
	}
	pre, j, bound, err := i.equalities(ctx, &k, r, n)
	if err != nil || k.Empty {
		return k, err
	}
	k.Lo = pre
	if j >= len(i.Positions) {
		k.Point = bound
	}
	if j == n {
		k.Hi = base.Key(pre).PrefixEnd()
		k.Loose = k.Loose || len(r) > n
		return k, nil
	}
	k.Hi = base.Key(pre).PrefixEnd() // nil if pre is empty: to the end of the section
	if j == len(r) {
		return k, nil
	}
	if err := i.bounds(ctx, &k, pre, j, r[j]); err != nil {
		return k, err
	}
	for _, rest := range r[j+1:] {
		if rest.Type() != sql.RangeType_All {
			k.Loose = true
		}
	}
	if k.Hi != nil && base.Key(k.Lo).Compare(k.Hi) >= 0 {
		k.Empty = true
	}
	return k, nil
}

// equalities encodes the values of the first of n columns that the range binds to one value each: j
// of them. bound says that none of the values is NULL or cut to a prefix.
func (i *EngineIndex) equalities(ctx context.Context, k *KeyRange, r sql.MySQLRange, n int) (pre []byte, j int,
	bound bool, err error) {
	bound = true
	for ; j < len(r) && j < n; j++ {
		c := i.Def.Cols[i.Extended[j]]
		v, isNull, ok := equality(ctx, r[j], c)
		if !ok {
			break
		}
		if isNull {
			bound = false
		} else {
			conv, cmp, in := c.Fit(ctx, v)
			if in != sql.InRange || cmp != 0 {
				k.Empty = true // no value of the column equals it
				return nil, j, false, nil
			}
			v = conv
		}
		cut := i.PrefixLength(j)
		if cut > 0 {
			k.Loose, bound = true, false
		}
		if i.Def.PartCol() == i.Extended[j] {
			key, err := c.AppendKey(ctx, nil, v, 0)
			if err != nil {
				return nil, 0, false, err
			}
			if i.Def.bind(k, key); k.Empty {
				return nil, j, false, nil
			}
		}
		if pre, err = c.AppendKey(ctx, pre, v, cut); err != nil {
			return nil, j, false, err
		}
		if j == 0 {
			k.First = pre[:len(pre):len(pre)]
		}
	}
	return pre, j, bound, nil
}

// bounds sets Lo and Hi by the cuts of the first column that no equality binds.
func (i *EngineIndex) bounds(ctx context.Context, k *KeyRange, pre []byte, j int, rc sql.MySQLRangeColumnExpr) error {
	if i.PrefixLength(j) > 0 && rc.Type() != sql.RangeType_All {
		k.Loose = true
	}
	lo, loEnd, err := i.cutKey(ctx, pre, j, rc.LowerBound, true)
	if err != nil {
		return err
	}
	hi, hiEnd, err := i.cutKey(ctx, pre, j, rc.UpperBound, false)
	if err != nil {
		return err
	}
	if loEnd {
		k.Empty = true
		return nil
	}
	k.Lo = lo
	if !hiEnd {
		k.Hi = hi
		if len(hi) == 0 {
			k.Empty = true
		}
	}
	return nil
}

// cutKey is the key of a cut of the j-th column, behind the encoded columns pre: where a range
// begins (lower) or ends. end says that it lies behind all keys.
func (i *EngineIndex) cutKey(ctx context.Context, pre []byte, j int, cut sql.MySQLRangeCut, lower bool) (key []byte,
	end bool, err error) {
	c, n := i.Def.Cols[i.Extended[j]], i.PrefixLength(j)
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
	conv, cmp, in := c.Fit(ctx, v)
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
	enc, err := c.AppendKey(ctx, clone, conv, n)
	if err != nil {
		return nil, false, err
	}
	if above {
		return base.Key(enc).PrefixEnd(), false, nil
	}
	return enc, false, nil
}

// equality is the single value a range column allows, if it is one.
func equality(ctx context.Context, rc sql.MySQLRangeColumnExpr, c *Column) (v any, isNull, ok bool) {
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

// Fit brings a value of a condition to the type of the column. cmp tells
// how the result compares with the value if it is not the same.
func (c *Column) Fit(ctx context.Context, v any) (conv any, cmp int, in sql.ConvertInRange) {
	v, err := sql.UnwrapAny(ctx, v)
	if err != nil {
		return nil, 0, sql.Underflow
	}
	var t sql.Type = c.Type
	if c.Kind == KindString || c.Kind == KindBytes {
		// The length of the column does not bound what it is compared with.
		if t = types.LongText; c.Kind == KindBytes {
			t = types.LongBlob
		}
	}
	conv, in, err = t.Convert(ctx, v)
	switch {
	case err == nil && in == sql.InRange && (conv != nil || v == nil):
	case in == sql.InRange:
		return nil, 0, beyond(v)
	default:
		return nil, 0, in
	}
	switch c.Kind {
	case KindInt, KindUint, KindDecimal, KindFloat:
		a, aok := asDecimal(conv)
		b, bok := asDecimal(v)
		if aok && bok && !(c.Kind == KindFloat && c.bits == 32) {
			cmp = a.Cmp(b)
		}
	default:
		// A column without fractions of a second rounds, as one of dates does.
		a, aok := conv.(time.Time)
		b, bok := v.(time.Time)
		if aok && bok {
			cmp = a.Compare(b)
		}
	}
	return conv, cmp, sql.InRange
}

// beyond says on which side of a column's values one lies that its type cannot have. The type does
// not say that of DECIMALs and dates.
func beyond(v any) sql.ConvertInRange {
	switch n, ok := asDecimal(v); {
	case ok && n.IsPositive():
		return sql.Overflow
	case ok:
		return sql.Underflow
	}
	// TIMESTAMPs end in 2038, and begin in 1970. Others end with the year 9999.
	if t, ok := v.(time.Time); ok && t.Year() >= 2000 {
		return sql.Overflow
	}
	return sql.Underflow
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
	if n, ok := ToInt64(v); ok {
		return decimal.NewFromInt(n), true
	}
	return decimal.Decimal{}, false
}

// Spans are the places where the rows of a range may be.
func (i *EngineIndex) Spans(regions []base.Region, k KeyRange) []base.Span {
	var out []base.Span
	add := func(prefix base.Key) {
		start := append(prefix[:len(prefix):len(prefix)], k.Lo...)
		end := prefix.PrefixEnd()
		if k.Hi != nil {
			end = append(prefix[:len(prefix):len(prefix)], k.Hi...)
		}
		out = append(out, base.Span{Start: start, End: end})
	}
	var ix base.IndexID
	if i.Index != nil {
		ix = i.Index.Desc.Key()
	}
	one := k.First != nil && (i.Index == nil || i.Index.Desc.Class == ClassLocal || i.Index.Desc.Class == ClassUnique)
	for at := range i.Def.Places() {
		if k.Parts != nil && !slices.Contains(k.Parts, at) {
			continue
		}
		shards := i.Def.shardsIn(at)
		if one {
			shards = []base.ShardID{i.Def.shardOf(at, k.First)}
		}
		for _, s := range shards {
			if i.Index != nil && i.Index.Desc.Class == ClassByHome {
				for _, r := range regions {
					if i.Def.PlacedAt(s).Allows(r.ID) {
						add(i.Def.Prefix(s, ix, r.ID))
					}
				}
				continue
			}
			add(i.Def.Prefix(s, ix, 0))
		}
	}
	return out
}

// RowSpans are the places where the rows of a table are in some of its placements; nil: all.
func (t *Table) RowSpans(places []int) (out []base.Span) {
	for at := range t.Places() {
		if places != nil && !slices.Contains(places, at) {
			continue
		}
		for _, s := range t.shardsIn(at) {
			p := t.Prefix(s, 0, 0)
			out = append(out, base.Span{Start: p, End: p.PrefixEnd()})
		}
	}
	return out
}

// LookupName names a range of an index in the cache of fetched lookups.
func LookupName(i *EngineIndex, k KeyRange) string {
	return i.ID() + "\x00" + string(k.Lo) + "\x00\x00" + string(k.Hi)
}

// PointKey is the key of a point in a unique index or the primary key.
func (i *EngineIndex) PointKey(k KeyRange) base.Key {
	at := 0
	if len(k.Parts) > 0 { // a unique key has the column of PLACEMENT BY
		at = k.Parts[0]
	}
	var ix base.IndexID
	if i.Index != nil {
		ix = i.Index.Desc.Key()
	}
	return append(i.Def.Prefix(i.Def.shardOf(at, k.First), ix, 0), k.Lo...)
}
