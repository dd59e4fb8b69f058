package sqlfront

import (
	"math"
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/patch"
	"github.com/godwitdb/godwit/wire"
)

// Updates of one row by its primary key, whose result depends on nothing but the row, are shipped to its owner in a transaction that crosses
// regions without locks: package patch, docs/protocol.md S9. Which statements these are is told in docs/sql.md.

// ships reports whether an UPDATE of the plan can be told as a patch: columns that no index has become constants, or integers grow by some.
func (p *fastPlan) ships(f *fastShape) bool {
	if f.kind != fastUpdate || p.t.next != nil || p.t.desc.Locality.Kind == multi {
		return false
	}
	for i, s := range p.sets {
		if slices.ContainsFunc(p.sets[:i], func(o boundSet) bool { return o.pos == s.pos }) || p.t.indexed(s.pos) || p.t.cols[s.pos].desc.Virtual {
			return false
		}
		if _, _, ok := p.t.cols[s.pos].bounds(); s.op != 0 && !ok {
			return false
		}
	}
	return len(p.sets) > 0
}

// indexed reports whether entries of some index depend on a column.
func (t *table) indexed(pos int) bool {
	return slices.ContainsFunc(t.indexes, func(x *index) bool {
		return slices.ContainsFunc(x.cols, func(c indexPos) bool { return c.pos == pos })
	})
}

// bounds are those of an integer column.
func (c *column) bounds() (least int64, most uint64, ok bool) {
	bits := 0
	switch c.typ.Type() {
	case sqltypes.Int8:
		bits = 8
	case sqltypes.Int16:
		bits = 16
	case sqltypes.Int24:
		bits = 24
	case sqltypes.Int32:
		bits = 32
	case sqltypes.Int64:
		bits = 64
	default:
		return 0, 0, false
	}
	return math.MinInt64 >> (64 - bits), 1<<(bits-1) - 1, c.kind == kindInt
}

// patch is the patch of an UPDATE; nil if it cannot be told so, or is not defined over the row as it is.
func (p *fastPlan) patch(ctx *sql.Context, f *fastShape, vals map[int]any, raw []byte) *wire.Patch {
	if !p.ships(f) {
		return nil
	}
	out := &wire.Patch{Format: uint32(rowFormat)}
	for _, pos := range p.t.storedOrder {
		c := p.t.cols[pos]
		out.Ids, out.Classes = append(out.Ids, c.desc.ID), append(out.Classes, byte(c.kind.class()))
	}
	for id, k := range p.t.desc.Dropped {
		i, _ := slices.BinarySearch(out.Ids, id)
		out.Ids, out.Classes = slices.Insert(out.Ids, i, id), slices.Insert(out.Classes, i, byte(k.class()))
	}
	for _, s := range p.sets {
		c := p.t.cols[s.pos]
		op := &wire.PatchOp{Column: c.desc.ID}
		switch v := vals[s.arg]; {
		case s.op != 0:
			n, ok := v.(int64)
			if !ok || n == math.MinInt64 {
				return nil
			}
			if s.op == '-' {
				n = -n
			}
			op.Kind, op.Add = wire.PatchKind_PATCH_ADD, n
			op.Least, op.Most, _ = c.bounds()
		case v == nil:
			op.Null = true
		default:
			var err error
			if op.Value, err = c.appendPayload(ctx, nil, v); err != nil {
				return nil
			}
		}
		out.Ops = append(out.Ops, op)
	}
	slices.SortFunc(out.Ops, func(a, b *wire.PatchOp) int { return int(a.Column) - int(b.Column) })
	if _, ok := patch.Apply(out, raw); !ok {
		return nil
	}
	return out
}

// draft is a row of which this node knows enough to ship the update of it; none if it has to be read.
func (f *fastCall) draft(ctx *sql.Context, p *fastPlan, src *rowSource, vals map[int]any, key base.Key) ([]kv.Row, error) {
	if !f.s.crosses() || !p.ships(f.shape) {
		return nil, nil
	}
	row, ok, err := src.kv.Draft(src.kvctx(ctx), key)
	switch {
	case err != nil:
		return nil, src.tx.fail(err)
	case !ok || p.patch(ctx, f.shape, vals, row.Value) == nil:
		return nil, nil
	}
	return []kv.Row{row}, nil
}

// class is how long payloads of a kind are; it goes with table.skip.
func (k kind) class() patch.Class {
	switch k {
	case kindInt, kindUint, kindDatetime, kindTimespan:
		return patch.Varint
	case kindFloat:
		return patch.Fixed8
	}
	return patch.Blob
}

// shipped adds to EXPLAIN that an UPDATE is evaluated by the owner of the row.
func (g *gateway) shipped(ctx *sql.Context, s *Session, query string) string {
	text, _, plain := normalize(query)
	if !plain || !s.crosses() {
		return ""
	}
	stmt, err := sqlparser.ParseWithOptions(ctx, text, sql.LoadSqlMode(ctx).ParserOptions())
	if err != nil {
		return ""
	}
	f := shapeOf(stmt)
	if f == nil || f.kind != fastUpdate {
		return ""
	}
	db := f.db
	if db == "" {
		db = s.GetCurrentDatabase()
	}
	snap, err := s.snapshot(ctx)
	if err != nil {
		return ""
	}
	t := snap.table(db, f.table)
	if t == nil {
		return ""
	}
	if p := f.bind(snap, t); p == nil || !p.ships(f) {
		return ""
	}
	return "; shipped where its transaction crosses regions: evaluated by the owner at the commit, so that it holds nobody up"
}
