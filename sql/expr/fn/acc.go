package fn

import "github.com/godwitdb/godwit/sql/expr"

// NewWindowAcc makes the accumulator of an aggregate over a window, a Remover if there is one.
func NewWindowAcc(a *expr.Agg, env *expr.Env) (expr.Acc, error) {
	if a.Fn.Sliding == nil {
		return NewAcc(a, env)
	}
	return a.Fn.Sliding(a, env)
}

// NewAcc makes the accumulator of an aggregate.
func NewAcc(a *expr.Agg, env *expr.Env) (expr.Acc, error) {
	if env == nil {
		env = &expr.Env{}
	}
	acc, err := a.Fn.Acc(a, env)
	if err != nil || !a.Distinct {
		return acc, err
	}
	switch a.Fn.Name {
	case "min", "max", "bit_and", "bit_or", "any_value":
		return acc, nil
	}
	d := &distinctAcc{Acc: acc, env: env, seen: map[string]struct{}{}}
	for _, x := range a.Args {
		d.enc = append(d.enc, expr.NewEncoder(x.Type()))
	}
	return d, nil
}

// distinctAcc passes each combination of arguments on once for each group.
type distinctAcc struct {
	expr.Acc
	env    *expr.Env
	enc    []*expr.Encoder
	seen   map[string]struct{}
	size   int64
	buf    []byte
	done   int // bytes since it was asked whether to go on
	groups []int32
	sel    []int32
}

// Add implements expr.Acc.
func (d *distinctAcc) Add(groups []int32, in []*expr.Vec, sel []int32) error {
	d.groups, d.sel = d.groups[:0], d.sel[:0]
	for k, i := range sel {
		g := groups[k]
		b := append(d.buf[:0], byte(g), byte(g>>8), byte(g>>16), byte(g>>24))
		for x, e := range d.enc {
			var err error
			if b, err = e.Append(b, in[x], i, d.env.Err); err != nil {
				return err
			}
		}
		d.buf = b
		if d.done += 64 + len(b); d.done >= bytesBetween {
			d.done = 0
			if err := d.env.Err(); err != nil {
				return err
			}
		}
		if _, ok := d.seen[string(b)]; ok {
			continue
		}
		d.seen[string(b)] = struct{}{}
		d.size += int64(len(b)) + 48
		d.groups, d.sel = append(d.groups, g), append(d.sel, i)
	}
	return d.Acc.Add(d.groups, in, d.sel)
}

// Passed are the rows of the last Add that were new.
func (d *distinctAcc) Passed() []int32 { return d.sel }

// Bytes implements expr.Acc.
func (d *distinctAcc) Bytes() int64 { return d.Acc.Bytes() + d.size }

// Reset implements expr.Acc.
func (d *distinctAcc) Reset() {
	d.Acc.Reset()
	d.seen = map[string]struct{}{} // to clear a large one takes long
	d.size = 0
}
