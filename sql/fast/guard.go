package fast

import (
	"math"
	"slices"
	"strings"

	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/wire"
)

// A guard is a condition besides the key: `SET n = n - 5 WHERE id = 1 AND n >= 5`. One on a number
// to which the statement adds says within which bounds the sum has to be, and a patch has bounds.
// So the guard is not read: the patch is defined where the guard holds (docs/protocol.md, REL-15).
// Where it does not, the statement finds no row, which no program answers. (The other way round it
// need not be so: where an UNSIGNED number is less than what is taken away, the patch is not
// defined and the statement is an error, whatever the guard says.)

// guard is column op constant.
type guard struct {
	col string
	op  string
	arg int
}

type boundGuard struct {
	pos int
	op  string
	arg int
}

// guard takes column op constant.
func (f *Template) guard(col, op string, arg int) bool {
	switch op {
	case sqlparser.LessThanStr, sqlparser.LessEqualStr, sqlparser.GreaterThanStr, sqlparser.GreaterEqualStr:
	default:
		return false
	}
	if f.kind != Update {
		return false
	}
	f.guards = append(f.guards, guard{strings.ToLower(col), op, arg})
	return true
}

// planGuards finds the columns of the guards: integers to which the statement adds.
func (f *Template) planGuards(p *boundPlan) bool {
	for _, g := range f.guards {
		pos := p.t.Desc.ColByName(g.col)
		if pos < 0 || !slices.ContainsFunc(p.sets, func(s boundAssignment) bool { return s.pos == pos && s.op != 0 }) {
			return false
		}
		_, _, signed := p.t.Cols[pos].Bounds()
		if _, unsigned := mostUnsigned(p.t.Cols[pos]); !signed && !unsigned {
			return false
		}
		p.guards = append(p.guards, boundGuard{pos, g.op, g.arg})
	}
	return true
}

// guardValues converts the constants of the guards.
func (f *Call) guardValues(p *boundPlan, vals values) bool {
	for _, g := range p.guards {
		l, ok := f.literal(g.arg)
		if !ok || l.Kind != LitInt {
			return false
		}
		v, ok := operand(p.t.Cols[g.pos], l)
		if !ok {
			return false
		}
		vals.set(g.arg, v)
	}
	return true
}

// guarded narrows the bounds of an addition to what the guards of its column allow; false if that
// cannot be told.
func (p *boundPlan) guarded(op *wire.PatchOp, pos int, vals values) bool {
	for _, g := range p.guards {
		if g.pos != pos {
			continue
		}
		v, ok := vals.at(g.arg).(int64)
		if !ok || !narrowed(op, g.op, v) {
			return false
		}
	}
	return true
}

// narrowed narrows the bounds of an addition to what a guard with a constant lets through.
func narrowed(op *wire.PatchOp, guard string, v int64) bool {
	switch { // at least or at most v
	case guard == sqlparser.GreaterThanStr && v < math.MaxInt64:
		v++
	case guard == sqlparser.LessThanStr && v > math.MinInt64:
		v--
	case guard != sqlparser.GreaterEqualStr && guard != sqlparser.LessEqualStr:
		return false
	}
	sum := v + op.Add // of the smallest or largest number that the guard lets through
	if (sum > v) != (op.Add > 0) && op.Add != 0 {
		return false
	}
	switch {
	case guard[0] == '<' && sum < 0:
		return false // Most is not negative
	case guard[0] == '<':
		op.Most = min(op.Most, uint64(sum))
	case op.Kind == wire.PatchKind_PATCH_ADD:
		op.Least = max(op.Least, sum)
	default:
		// The sum is at least 0 in any case, and has no other least value.
		return sum <= 0 || v <= 0
	}
	return true
}
