package fast

import (
	"math"
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/patch"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/schema/rowfmt"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
	"github.com/godwitdb/godwit/wire"
)

// Updates of one row by its primary key, whose result depends on nothing but the row, are shipped
// to its owner in a transaction that crosses regions without locks: package patch, docs/protocol.md
// REL-9. Which statements these are is told in docs/sql.md.

// ships reports whether an UPDATE of the plan can be told as a patch: columns that no index has
// become constants, or numbers grow by some.
func (p *boundPlan) ships(f *Template) bool {
	return len(p.own) == 0 && p.tells(f)
}

// tells reports whether a patch can say what an UPDATE assigns, but for what the table gives.
func (p *boundPlan) tells(f *Template) bool {
	if f.kind != Update || p.t.Next != nil || p.t.Desc.Locality.Kind == schema.MultiMaster {
		return false
	}
	for i, s := range p.sets {
		if slices.ContainsFunc(p.sets[:i], func(o boundAssignment) bool { return o.pos == s.pos }) ||
			p.t.InIndex(s.pos) || p.t.Cols[s.pos].Desc.Virtual {
			return false
		}
		if c := p.t.Cols[s.pos]; s.op != 0 && c.Kind != schema.KindDecimal {
			_, _, signed := c.Bounds()
			if _, unsigned := mostUnsigned(c); !signed && !unsigned {
				return false
			}
		}
	}
	return len(p.sets) > 0
}

// patch is the patch of an UPDATE; nil if it cannot be told so, or is not defined over the row as
// it is.
func (p *boundPlan) patch(ctx *sql.Context, f *Template, vals values, raw []byte) *wire.Patch {
	if !p.ships(f) {
		return nil
	}
	out := p.patchOf(ctx, vals)
	if out == nil {
		return nil
	}
	if _, ok := patch.Apply(out, raw); !ok {
		return nil
	}
	return out
}

// patchOf is the patch of an UPDATE that it tells; nil if a constant cannot be told.
func (p *boundPlan) patchOf(ctx *sql.Context, vals values) *wire.Patch {
	out := &wire.Patch{Format: uint32(rowfmt.Version)}
	for _, pos := range p.t.StoredOrder {
		c := p.t.Cols[pos]
		out.Ids, out.Classes = append(out.Ids, c.Desc.ID), append(out.Classes, byte(c.Kind.Class()))
	}
	for id, k := range p.t.Desc.Dropped {
		i, _ := slices.BinarySearch(out.Ids, id)
		out.Ids, out.Classes = slices.Insert(out.Ids, i, id), slices.Insert(out.Classes, i, byte(k.Class()))
	}
	for _, s := range p.sets {
		c := p.t.Cols[s.pos]
		op := &wire.PatchOp{Column: c.Desc.ID}
		switch v := vals.at(s.arg); {
		case s.op != 0:
			if !Addition(c, ctx, op, v, s.op == '-') || !p.guarded(op, s.pos, vals) {
				return nil
			}
		case v == nil:
			op.Null = true
		default:
			var err error
			if op.Value, err = c.AppendPayload(ctx, nil, v); err != nil {
				return nil
			}
		}
		out.Ops = append(out.Ops, op)
	}
	for i, o := range p.own {
		op := &wire.PatchOp{Column: p.t.Cols[o.pos].Desc.ID, Null: vals.own[i] == nil}
		if !op.Null {
			var err error
			if op.Value, err = p.t.Cols[o.pos].AppendPayload(ctx, nil, vals.own[i]); err != nil {
				return nil
			}
		}
		out.Ops = append(out.Ops, op)
	}
	slices.SortFunc(out.Ops, func(a, b *wire.PatchOp) int { return int(a.Column) - int(b.Column) })
	return out
}

// Addition makes op the addition of a constant, or of its negative, to the column; false if that
// cannot be told.
func Addition(c *schema.Column, ctx *sql.Context, op *wire.PatchOp, v any, minus bool) bool {
	switch x := v.(type) {
	case int64:
		if x == math.MinInt64 {
			return false
		}
		if minus {
			x = -x
		}
		if most, unsigned := mostUnsigned(c); unsigned {
			op.Kind, op.Add, op.Most = wire.PatchKind_PATCH_ADD_UNSIGNED, x, most
			return true
		}
		op.Kind, op.Add = wire.PatchKind_PATCH_ADD, x
		op.Least, op.Most, _ = c.Bounds()
		return true
	case decimal.Decimal:
		if minus {
			x = x.Neg()
		}
		// As the column has it: a constant with more digits would have sums rounded.
		add, in, err := c.Type.Convert(ctx, x)
		d, ok := add.(decimal.Decimal)
		t, isDecimal := c.Type.(sql.DecimalType)
		if err != nil || in != sql.InRange || !ok || !isDecimal || !d.Equal(x) {
			return false
		}
		op.Kind, op.Most = wire.PatchKind_PATCH_ADD_DECIMAL, uint64(t.Precision())
		op.Value = rowfmt.AppendDecimal(nil, d.Coefficient(), d.Exponent())
		return true
	}
	return false
}

// draft is a row of which this node knows enough to ship the update of it; none if it has to be
// read.
func (f *Call) draft(ctx *sql.Context, p *boundPlan, src *table.Source, vals values, key base.Key) ([]kv.Row, error) {
	if !f.s.Crosses() || !p.ships(f.template) {
		return nil, nil
	}
	row, ok, err := src.KV.Draft(src.Kvctx(ctx), key)
	switch {
	case err != nil:
		return nil, src.Txn.Fail(err)
	case !ok || p.patch(ctx, f.template, vals, row.Value) == nil:
		return nil, nil
	}
	return []kv.Row{row}, nil
}

// Shipped adds to EXPLAIN that an UPDATE is evaluated by the owner of the row.
func (r *Runner) Shipped(ctx *sql.Context, s *session.Session, query string) string {
	text, _, plain := Normalize(query)
	if !plain || !s.Crosses() {
		return ""
	}
	stmt, err := sqlparser.ParseWithOptions(ctx, text, sql.LoadSqlMode(ctx).ParserOptions())
	if err != nil {
		return ""
	}
	f := templateOf(stmt)
	if f == nil || f.kind != Update || f.list != nil || len(f.guards) > 0 {
		return ""
	}
	db := f.db
	if db == "" {
		db = s.GetCurrentDatabase()
	}
	snap, err := s.Snapshot(ctx)
	if err != nil {
		return ""
	}
	t := snap.Table(db, f.table)
	if t == nil {
		return ""
	}
	if p := f.bind(snap, t); p == nil || !p.ships(f) {
		return ""
	}
	return "; shipped where its transaction crosses regions: evaluated by the owner at the commit, so that it holds nobody up"
}
