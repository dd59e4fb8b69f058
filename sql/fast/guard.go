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
// Where it does not, the statement finds no row, which no program answers.

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

// planGuards finds the columns of the guards: signed integers to which the statement adds.
func (f *Template) planGuards(p *boundPlan) bool {
	for _, g := range f.guards {
		pos := p.t.Desc.ColByName(g.col)
		if pos < 0 || !slices.ContainsFunc(p.sets, func(s boundAssignment) bool { return s.pos == pos && s.op != 0 }) {
			return false
		}
		if _, _, signed := p.t.Cols[pos].Bounds(); !signed {
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
		if !ok || op.Kind != wire.PatchKind_PATCH_ADD {
			return false
		}
		switch g.op {
		case sqlparser.GreaterThanStr:
			if v == math.MaxInt64 {
				return false
			}
			v++
		case sqlparser.LessThanStr:
			if v == math.MinInt64 {
				return false
			}
			v--
		}
		sum := v + op.Add // of the smallest or largest number that the guard lets through
		if (sum > v) != (op.Add > 0) && op.Add != 0 {
			return false
		}
		if g.op[0] == '>' {
			op.Least = max(op.Least, sum)
		} else if sum < 0 {
			return false // Most is not negative
		} else {
			op.Most = min(op.Most, uint64(sum))
		}
	}
	return true
}
