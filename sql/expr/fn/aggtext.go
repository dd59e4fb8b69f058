package fn

import (
	"cmp"
	"fmt"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/jsondoc"
	"github.com/godwitdb/godwit/sql/order"
)

// joined is the text of a group so far.
type joined struct {
	b    []byte
	rows int
	cut  int // the row at which it became too long; 0: it is not
}

// plainConcat is GROUP_CONCAT without an order: it keeps no more than the result.
type plainConcat struct {
	states[joined]
	t    expr.Type
	sep  string
	max  int
	env  *expr.Env
	size int64
}

// Add implements Acc.
func (c *plainConcat) Add(groups []int32, in []*expr.Vec, sel []int32) error {
rows:
	for k, i := range sel {
		for _, v := range in {
			if v.IsNull(i) {
				continue rows
			}
		}
		j := &c.s[groups[k]]
		if j.rows++; j.cut > 0 {
			continue
		}
		before := cap(j.b)
		if j.rows > 1 {
			j.b = append(j.b, c.sep...)
		}
		for _, v := range in {
			j.b = append(j.b, v.S[i]...)
		}
		if len(j.b) > c.max {
			j.b, j.cut = cutText(j.b, c.max, c.t), j.rows
		}
		c.size += int64(cap(j.b) - before)
	}
	return nil
}

// Result implements Acc.
func (c *plainConcat) Result(v *expr.Vec, from, to int) error {
	for g := from; g < to; g++ {
		j := &c.s[g]
		if j.rows == 0 {
			v.SetNull(g - from)
			continue
		}
		if j.cut > 0 {
			noteCut(c.env, j.cut)
		}
		v.S[g-from] = string(j.b)
	}
	return nil
}

// Bytes implements Acc.
func (c *plainConcat) Bytes() int64 { return c.states.Bytes() + c.size }

// Reset implements Acc.
func (c *plainConcat) Reset() {
	clear(c.s)
	c.states.Reset()
	c.size = 0
}

// cutText is the beginning of a text, without half a character at its end.
func cutText(b []byte, n int, t expr.Type) []byte {
	b = b[:n]
	if t.Kind != expr.Text {
		return b
	}
	for k := n - 1; k >= 0 && k >= n-utf8.UTFMax; k-- {
		if utf8.RuneStart(b[k]) {
			if !utf8.FullRune(b[k:]) {
				return b[:k]
			}
			break
		}
	}
	return b
}

func noteCut(env *expr.Env, row int) {
	env.Note(1260, fmt.Sprintf("Row %d was cut by GROUP_CONCAT()", row))
}

// concatAcc is GROUP_CONCAT with an order: all texts in one vector, and for each group the places
// of its own.
type concatAcc struct {
	rows  [][]int32
	texts expr.Vec
	keys  []expr.Vec
	cmps  []expr.Comparer
	desc  []bool
	sep   string
	max   int
	env   *expr.Env
	args  int
	size  int64
	buf   []byte
	done  int   // bytes of keys that were compared since it was asked whether to go on
	ended error // why nothing is compared any more
}

func newConcat(a *expr.Agg, env *expr.Env) (expr.Acc, error) {
	limit := env.GroupConcatMax
	if limit == 0 {
		limit = 1024
	}
	if len(a.Order) == 0 {
		return &plainConcat{states: states[joined]{each: 48}, t: a.T, sep: a.Sep, max: limit, env: env}, nil
	}
	c := &concatAcc{sep: a.Sep, max: limit, env: env, args: len(a.Args)}
	c.texts.Reset(a.T, 0)
	for _, k := range a.Order {
		c.cmps = append(c.cmps, expr.NewComparer(k.Expr.Type()))
		c.desc = append(c.desc, k.Desc)
		v := expr.Vec{}
		v.Reset(k.Expr.Type(), 0)
		c.keys = append(c.keys, v)
	}
	return c, nil
}

func (c *concatAcc) Grow(n int) {
	for len(c.rows) < n {
		c.rows = append(c.rows, nil)
	}
}

func (c *concatAcc) Add(groups []int32, in []*expr.Vec, sel []int32) error {
	one := make([]int32, 1)
rows:
	for k, i := range sel {
		c.buf = c.buf[:0]
		for _, v := range in[:c.args] {
			if v.IsNull(i) {
				continue rows
			}
			c.buf = append(c.buf, v.S[i]...)
		}
		at := int32(len(c.texts.S))
		c.texts.S = append(c.texts.S, string(c.buf))
		one[0] = i
		for x := range c.keys {
			c.keys[x].Append(in[c.args+x], one)
		}
		g := groups[k]
		c.rows[g] = append(c.rows[g], at)
		c.size += int64(len(c.buf)) + 20 + 24*int64(len(c.keys))
	}
	return nil
}

// ask is asked by who sorts.
func (c *concatAcc) ask() error {
	if c.ended == nil {
		c.ended = c.env.Err()
	}
	return c.ended
}

func (c *concatAcc) less(a, b int32) int {
	for x := range c.keys {
		k := &c.keys[x]
		if k.S != nil {
			if c.done += min(len(k.S[a]), len(k.S[b])); c.done >= bytesBetween {
				if c.ask() != nil {
					return 0
				}
				c.done = 0
			}
		}
		if s := compareNulls(k, a, b, c.cmps[x]); s != 0 {
			if c.desc[x] {
				return -s
			}
			return s
		}
	}
	return 0
}

// compareNulls orders two values of a vector, NULLs first.
func compareNulls(v *expr.Vec, a, b int32, cmp expr.Comparer) int {
	switch x, y := v.IsNull(a), v.IsNull(b); {
	case x && y:
		return 0
	case x:
		return -1
	case y:
		return 1
	}
	return cmp(v, a, v, b)
}

func (c *concatAcc) Result(v *expr.Vec, from, to int) error {
	for g := from; g < to; g++ {
		rows := c.rows[g]
		if len(rows) == 0 {
			v.SetNull(g - from)
			continue
		}
		err := order.Stable(rows, c.less, c.ask)
		if err = cmp.Or(err, c.ended); err != nil {
			return err
		}
		v.S[g-from] = c.join(rows)
	}
	return nil
}

func (c *concatAcc) join(rows []int32) string {
	b := c.buf[:0]
	for k, r := range rows {
		if k > 0 {
			b = append(b, c.sep...)
		}
		if b = append(b, c.texts.S[r]...); len(b) > c.max {
			noteCut(c.env, k+1)
			break
		}
	}
	c.buf = b
	return string(cutText(b, min(c.max, len(b)), c.texts.T))
}

func (c *concatAcc) Bytes() int64 { return c.size + 24*int64(len(c.rows)) }

func (c *concatAcc) Reset() {
	c.rows, c.size = c.rows[:0], 0
	c.texts.Reset(c.texts.T, 0)
	for x := range c.keys {
		c.keys[x].Reset(c.keys[x].T, 0)
	}
}

func deriveConcatAgg(a *expr.Agg) error {
	m, err := expr.MergeCollations("group_concat", false, a.Args...)
	if err != nil {
		return err
	}
	a.T = stringResult(m, 0)
	for i, x := range a.Args {
		a.Args[i] = expr.CastTo(x, a.T)
	}
	a.T.NotNull = false
	return nil
}

// stringResult is the type of a string that functions make of others.
func stringResult(m expr.Collation, length int) expr.Type {
	if m.Coerce == expr.CoerceNumeric || m.Coerce == expr.CoerceIgnorable && m.Id == sql.Collation_binary {
		// It takes the collation of a literal beside it: in MySQL both have that of the connection.
		m.Id, m.Coerce = sql.Collation_Default, expr.CoerceNumeric
	}
	return expr.TextType(length, m.Id, m.Coerce)
}

// docAcc is JSON_ARRAYAGG and JSON_OBJECTAGG.
type docAcc struct {
	lists  []docList
	object bool
	env    *expr.Env
	size   int64
}

// docList is the values of a group, with the names of an object's.
type docList struct {
	names []string
	vals  []any
}

func (d *docAcc) Grow(n int) {
	for len(d.lists) < n {
		d.lists = append(d.lists, docList{})
	}
}

func (d *docAcc) Add(groups []int32, in []*expr.Vec, sel []int32) error {
	for k, i := range sel {
		l := &d.lists[groups[k]]
		if !d.object {
			l.vals = append(l.vals, expr.JsonScalar(in[0], i, d.env))
			d.size += in[0].Bytes(sel[k:k+1]) + 32
			continue
		}
		if in[0].IsNull(i) {
			return mysql.NewSQLError(3158, "22032", "JSON documents may not contain NULL member names.")
		}
		l.names, l.vals = append(l.names, in[0].S[i]), append(l.vals, expr.JsonScalar(in[1], i, d.env))
		d.size += int64(len(in[0].S[i])) + in[1].Bytes(sel[k:k+1]) + 64
	}
	return nil
}

func (d *docAcc) Result(v *expr.Vec, from, to int) error {
	for g := from; g < to; g++ {
		l := &d.lists[g]
		if len(l.vals) == 0 {
			v.SetNull(g - from)
			continue
		}
		doc, name := any(l.vals), "json_arrayagg"
		if d.object {
			o, err := jsondoc.NewObject(l.names, l.vals, d.env.Err)
			if err != nil {
				return err
			}
			l.names, l.vals, doc, name = o.Keys, o.Vals, o, "json_objectagg"
		}
		limit := d.env.PacketLimit()
		text, fits, err := jsondoc.Within(doc, limit, d.env.Err)
		if err != nil {
			return err
		}
		if v.S[g-from] = text; !fits && !d.env.Fits(name, limit+1) {
			v.SetNull(g - from)
		}
	}
	return nil
}

func (d *docAcc) Bytes() int64 { return d.size + 48*int64(len(d.lists)) }

func (d *docAcc) Reset() {
	clear(d.lists)
	d.lists, d.size = d.lists[:0], 0
}

func init() {
	expr.RegisterAgg(&expr.AggFunc{Min: 1, Max: -1, Derive: deriveConcatAgg, Acc: newConcat}, "group_concat")
	doc := func(object bool) func(*expr.Agg, *expr.Env) (expr.Acc, error) {
		return func(_ *expr.Agg, env *expr.Env) (expr.Acc, error) { return &docAcc{object: object, env: env}, nil }
	}
	expr.RegisterAgg(&expr.AggFunc{Min: 1, Max: 1, Acc: doc(false), Derive: func(a *expr.Agg) error {
		a.T = expr.TypeJSON
		return nil
	}}, "json_arrayagg")
	expr.RegisterAgg(&expr.AggFunc{Min: 2, Max: 2, Acc: doc(true), Derive: func(a *expr.Agg) error {
		a.T = expr.TypeJSON
		if !a.Args[0].Type().Stringy() {
			a.Args[0] = expr.CastTo(a.Args[0], expr.TextType(0, sql.Collation_Default, expr.CoerceNumeric))
		}
		return nil
	}}, "json_objectagg")
}
