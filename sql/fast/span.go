package fast

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/big"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/table"
)

// maxFastSpan is how many primary keys a range may have; what could return more is
// left to the engine, which sends rows as it reads them.
const maxFastSpan = 1024

// keySpan is the rest of a SELECT whose condition is primary key BETWEEN two constants.
type keySpan struct {
	col      string
	lo, hi   int
	sum      string // the column of SELECT SUM(column)
	order    string // ORDER BY column
	desc     bool
	distinct bool
}

// boundSpan is a keySpan bound to one version of a table; -1 stands for no column.
type boundSpan struct {
	lo, hi     int
	sum, order int
	desc       bool
	distinct   bool
	index      *schema.EngineIndex
}

// sumSchema is what SUM of integers yields.
var sumSchema = sql.Schema{{Name: "sum", Type: types.MustCreateDecimalType(types.DecimalTypeMaxPrecision, 0), Nullable: true}}

// between takes column BETWEEN constant AND constant as the whole condition of a SELECT.
func (f *Template) between(e *sqlparser.RangeCond) bool {
	c, ok := PlainColumn(e.Left, f.table)
	lo, lok := f.arg(e.From)
	hi, hok := f.arg(e.To)
	if !ok || !lok || !hok || f.kind != Select || f.span != nil || e.Operator != sqlparser.BetweenStr {
		return false
	}
	f.span = &keySpan{col: c, lo: lo, hi: hi}
	return true
}

// spanOptions reads SUM, ORDER BY and DISTINCT; false if they are not for the fast path.
func (f *Template) spanOptions(s *sqlparser.Select) bool {
	f.span.distinct = s.QueryOpts.Distinct
	if len(s.SelectExprs) == 1 {
		if a, ok := s.SelectExprs[0].(*sqlparser.AliasedExpr); ok {
			if fn, ok := a.Expr.(*sqlparser.FuncExpr); ok {
				return !f.span.distinct && len(s.OrderBy) == 0 && f.sumOf(fn)
			}
		}
	}
	if len(s.OrderBy) == 0 {
		return true
	}
	if len(s.OrderBy) > 1 {
		return false
	}
	for _, e := range s.SelectExprs {
		// An alias may be what ORDER BY means.
		if a, ok := e.(*sqlparser.AliasedExpr); ok && !a.As.IsEmpty() {
			return false
		}
	}
	o := s.OrderBy[0]
	c, ok := PlainColumn(o.Expr, f.table)
	f.span.order, f.span.desc = c, o.Direction == sqlparser.DescScr
	return ok
}

func (f *Template) sumOf(fn *sqlparser.FuncExpr) bool {
	if !fn.Name.EqualString("sum") || !fn.Qualifier.IsEmpty() || fn.Distinct || fn.Over != nil || len(fn.Exprs) != 1 {
		return false
	}
	a, ok := fn.Exprs[0].(*sqlparser.AliasedExpr)
	if !ok || !a.As.IsEmpty() {
		return false
	}
	c, ok := PlainColumn(a.Expr, f.table)
	f.span.sum = c
	return ok
}

// bind finds the columns of the range in a table; nil if the engine has to read it.
func (s *keySpan) bind(f *Template, t *schema.Table) *boundSpan {
	if len(f.where) > 0 || len(t.PK) != 1 || !strings.EqualFold(t.Cols[t.PK[0]].Desc.Name, s.col) || !t.Cols[t.PK[0]].Integer() {
		return nil
	}
	b := &boundSpan{lo: s.lo, hi: s.hi, sum: -1, order: -1, desc: s.desc, distinct: s.distinct,
		index: &schema.EngineIndex{Def: t}}
	if s.sum != "" {
		if b.sum = t.Desc.ColByName(s.sum); b.sum < 0 || !t.Cols[b.sum].Integer() {
			return nil
		}
	}
	if s.order != "" {
		if b.order = t.Desc.ColByName(s.order); b.order < 0 || !t.Cols[b.order].Sortable() {
			return nil
		}
	}
	return b
}

// narrow reports whether the range is narrow enough to be read at once.
func (p *boundPlan) narrow(vals values) bool {
	if p.t.Cols[p.t.PK[0]].Kind == schema.KindUint {
		lo, lok := schema.ToUint64(vals.at(p.lo))
		hi, hok := schema.ToUint64(vals.at(p.hi))
		return lok && hok && (hi < lo || hi-lo < maxFastSpan)
	}
	lo, lok := schema.ToInt64(vals.at(p.lo))
	hi, hok := schema.ToInt64(vals.at(p.hi))
	return lok && hok && (hi < lo || uint64(hi)-uint64(lo) < maxFastSpan)
}

// scanSpan reads the rows of the range and answers the SELECT.
func (f *Call) scanSpan(ctx *sql.Context, p *boundPlan, st *table.Table, vals values) (*sqltypes.Result, error) {
	src, err := st.Open(ctx)
	if err != nil {
		return nil, err
	}
	pk := p.t.Cols[p.t.PK[0]]
	lo, err := pk.AppendKey(ctx, nil, vals.at(p.lo), 0)
	if err != nil {
		return nil, schema.ClientError(err)
	}
	hi, err := pk.AppendKey(ctx, nil, vals.at(p.hi), 0)
	if err != nil {
		return nil, schema.ClientError(err)
	}
	if bytes.Compare(lo, hi) <= 0 {
		spans := p.index.Spans(nil, schema.KeyRange{Lo: lo, Hi: base.Key(hi).PrefixEnd()})
		src.Scan(spans, len(spans) > 1, false)
		// All of it is wanted: without a limit the owner need not find out first how far to lock.
		src.Whole, src.Limit, src.Want = true, 0, p.want
		if err := src.Fill(ctx); err != nil {
			return nil, err
		}
	}
	res := &sqltypes.Result{Fields: p.described(f.s)}
	if p.sum >= 0 {
		res.Rows, err = sumRows(ctx, src.Buf, p.sum)
	} else {
		rows := src.Buf
		if p.order >= 0 || p.distinct {
			if rows, err = p.arrange(ctx, rows); err != nil {
				return nil, schema.ClientError(err)
			}
		}
		res.Rows, err = encodeRows(ctx, p, vals.loc, rows)
	}
	res.RowsAffected = uint64(len(res.Rows))
	return res, err
}

// arrange applies DISTINCT and ORDER BY. Equal rows keep the order of the primary
// key, and the first of them is the one that DISTINCT keeps.
func (p *boundPlan) arrange(ctx *sql.Context, rows []sql.Row) ([]sql.Row, error) {
	type keyed struct {
		head uint64 // the first bytes of key
		key  []byte
		at   int
	}
	pos := p.order
	if pos < 0 {
		pos = p.out[0]
	}
	list := make([]keyed, len(rows))
	var arena []byte
	for i, r := range rows {
		n := len(arena)
		var err error
		if arena, err = p.t.Cols[pos].AppendKey(ctx, arena, r[pos], 0); err != nil {
			return nil, err
		}
		if i == 0 {
			arena = slices.Grow(arena, len(arena)*(len(rows)-1))
		}
		k := arena[n:len(arena):len(arena)]
		var head [8]byte
		copy(head[:], k)
		list[i] = keyed{binary.BigEndian.Uint64(head[:]), k, i}
	}
	byKey := func(a, b keyed) int {
		if a.head != b.head {
			return cmp.Compare(a.head, b.head)
		}
		return bytes.Compare(a.key, b.key)
	}
	sorted := func(desc bool) {
		slices.SortFunc(list, func(a, b keyed) int {
			c := byKey(a, b)
			if desc {
				c = -c
			}
			if c == 0 {
				c = cmp.Compare(a.at, b.at)
			}
			return c
		})
	}
	if p.distinct || p.order >= 0 {
		sorted(p.order >= 0 && p.desc)
	}
	if p.distinct {
		list = slices.CompactFunc(list, func(a, b keyed) bool { return byKey(a, b) == 0 })
	}
	if p.order < 0 {
		slices.SortFunc(list, func(a, b keyed) int { return cmp.Compare(a.at, b.at) })
	}
	out := make([]sql.Row, len(list))
	for i, k := range list {
		out[i] = rows[k.at]
	}
	return out, nil
}

// sumRows is the one row of SELECT SUM(column), which is exact.
func sumRows(ctx *sql.Context, rows []sql.Row, pos int) ([][]sqltypes.Value, error) {
	var sum any
	total, n := new(big.Int), new(big.Int)
	for _, r := range rows {
		switch v := r[pos].(type) {
		case nil:
			continue
		case uint64:
			n.SetUint64(v)
		default:
			i, _ := schema.ToInt64(v)
			n.SetInt64(i)
		}
		sum = decimal.NewFromBigInt(total.Add(total, n), 0)
	}
	vals, err := encodeRow(ctx, sumSchema, sql.Row{sum}, sql.NewByteBuffer(32), new([]byte))
	return [][]sqltypes.Value{vals}, err
}
