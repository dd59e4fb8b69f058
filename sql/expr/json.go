package expr

import (
	"cmp"
	"math"

	"github.com/cockroachdb/apd/v3"

	"github.com/godwitdb/godwit/sql/expr/jsondoc"
)

// jsonText is a JSON value without its quotation marks, if it is a string.
func jsonText(s string) string {
	if len(s) > 0 && s[0] == '"' {
		if v, err := jsondoc.Read(s); err == nil {
			return v.(string)
		}
	}
	return s
}

// jsonNumber is a JSON value as a number.
func jsonNumber(s string) (*apd.Decimal, error) {
	switch s {
	case "true":
		return apd.New(1, 0), nil
	case "false":
		return apd.New(0, 0), nil
	}
	d, ok := decOf(jsonText(s))
	if !ok {
		return d, errInvalidJSON("no number")
	}
	return d, nil
}

func (c *Caster) jsonToInt(x *Vec, i int32, v *Vec) error {
	d, err := jsonNumber(x.S[i])
	if err != nil {
		c.incorrect("INTEGER", x, i)
	}
	if c.To.Kind == Uint {
		u, _ := UintOfDec(d)
		v.I[i] = int64(u)
		return nil
	}
	v.I[i], _ = IntOfDec(d)
	return nil
}

func (c *Caster) jsonToFloat(x *Vec, i int32, v *Vec) error {
	d, err := jsonNumber(x.S[i])
	if err != nil {
		c.incorrect("DOUBLE", x, i)
	}
	if v.F[i] = floatOfDec(d); math.IsInf(v.F[i], 0) {
		return ErrRange("DOUBLE", x.S[i])
	}
	return nil
}

// toJSON makes a document: of a string by reading it if the cast is explicit, else a JSON string.
func (c *Caster) toJSON(x *Vec, i int32, v *Vec) error {
	if c.From.Stringy() && c.Explicit {
		d, err := jsondoc.Parse(x.S[i], c.Env.Err)
		if err != nil {
			return cmp.Or(c.Env.Err(), errInvalidJSON(err.Error()))
		}
		v.S[i] = jsondoc.Text(d)
		return nil
	}
	v.S[i] = jsondoc.Text(JsonScalar(x, i, c.Env))
	return nil
}

// JsonScalar is an SQL value as a JSON document.
func JsonScalar(x *Vec, i int32, env *Env) any {
	if x.IsNull(i) {
		return nil
	}
	switch x.T.Kind {
	case Int:
		return x.I[i]
	case Uint, Year:
		if x.I[i] >= 0 {
			return x.I[i]
		}
		return uint64(x.I[i])
	case Decimal:
		return jsondoc.Num(x.AppendText(nil, i))
	case Float:
		return jsondoc.FloatNum(x.F[i])
	case JSON:
		d, err := jsondoc.Read(x.S[i])
		if err != nil {
			return x.S[i]
		}
		return d
	case Date, Datetime, Timestamp, Duration:
		// A time in a document has all six digits of a second.
		t := x.T
		if t.Kind != Date {
			t.Scale = 6
		}
		c := &Caster{From: x.T, Env: env}
		p := x.I[i]
		if t.Kind == Timestamp {
			p = c.local(p)
		}
		return string(appendInt(nil, p, t))
	}
	return string(x.AppendText(nil, i))
}
