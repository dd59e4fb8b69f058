package opt

import (
	"math"
	"time"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/calendar"
)

// Bounds of TIMESTAMPs: what they are compared with is a time of the session's clock, and an index
// has moments. Where the clock was set back, a time is two moments; bounds take in both, and the
// conditions are checked again.

// firstInstant and lastInstant are the moments that TIMESTAMP has, at its ends.
var (
	firstInstant = time.Unix(1, 0)
	lastInstant  = time.Unix(math.MaxInt32, 999_999_000)
)

// instantBound takes a bound of a TIMESTAMP that is compared as a DATETIME.
func (o *optimizer) instantBound(b *bounds, n *expr.Call, id expr.ColID, t expr.Type) bool {
	if t.Kind != expr.Timestamp {
		return false
	}
	op, l, r := n.Fn.Name, n.Args[0], n.Args[1]
	if _, ok := l.(*expr.Const); ok {
		op, l, r = flipped[op], r, l
	}
	if !castOf(l, id) {
		return false
	}
	vals := o.instants(r, t)
	if vals == nil {
		return false
	}
	switch op {
	case "=":
		b.eq = vals
	case ">", ">=":
		b.take(">=", vals[0])
	default:
		b.take("<=", vals[len(vals)-1])
	}
	return true
}

// instantsBetween takes the bounds of BETWEEN.
func (o *optimizer) instantsBetween(b *bounds, n *expr.Call, id expr.ColID, t expr.Type) bool {
	if t.Kind != expr.Timestamp || !castOf(n.Args[0], id) {
		return false
	}
	lo, hi := o.instants(n.Args[1], t), o.instants(n.Args[2], t)
	if lo == nil || hi == nil {
		return false
	}
	b.take(">=", lo[0])
	b.take("<=", hi[len(hi)-1])
	return true
}

// instantsIn are the moments of a list.
func (o *optimizer) instantsIn(n *expr.In, id expr.ColID, t expr.Type) (out []expr.Node, ok bool) {
	if t.Kind != expr.Timestamp || n.Not || !castOf(n.Left, id) {
		return nil, false
	}
	seen := map[int64]bool{}
	for i, x := range n.List {
		o.atValue(i)
		if k, ok := x.(*expr.Const); ok && k.V.IsNull() {
			continue
		}
		vals := o.instants(x, t)
		if vals == nil {
			return nil, false
		}
		for _, v := range vals {
			if p := v.(*expr.Const).V.I; !seen[p] {
				seen[p] = true
				out = append(out, v)
			}
		}
	}
	return out, len(out) > 0
}

// castOf reports whether an expression is the column by the session's clock.
func castOf(n expr.Node, id expr.ColID) bool {
	c, ok := n.(*expr.Cast)
	if !ok || c.T.Kind != expr.Datetime {
		return false
	}
	col, ok := c.Arg.(*expr.Col)
	return ok && col.ID == id
}

// instants are the moments, one or two in order, that a constant time of the session's clock stands
// for. nil: it is none, or has a month or day 0.
func (o *optimizer) instants(n expr.Node, t expr.Type) (out []expr.Node) {
	k, ok := n.(*expr.Const)
	if !ok || k.V.Kind != expr.Datetime && k.V.Kind != expr.Date || !calendar.Complete(k.V.I) {
		return nil
	}
	t.NotNull = true
	first, _ := calendar.Moment(k.V.I, o.env.Zone())
	last := calendar.Last(k.V.I, o.env.Zone())
	for _, at := range []time.Time{first, last} {
		if at.Before(firstInstant) {
			at = firstInstant
		} else if at.After(lastInstant) {
			at = lastInstant
		}
		v := expr.Value{Kind: expr.Timestamp, I: calendar.FromGo(at.UTC())}
		out = append(out, &expr.Const{V: v, T: t})
		if last.Equal(first) {
			break
		}
	}
	return out
}
