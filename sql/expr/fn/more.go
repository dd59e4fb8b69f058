package fn

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/digest"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/collate"
	"github.com/godwitdb/godwit/sql/expr/jsondoc"
	"github.com/godwitdb/godwit/sql/uca"
)

func init() {
	registerUnits()
	registerGTIDs()
	registerStatementDigests()
	expr.Register(&expr.Func{Name: "benchmark", Min: 2, Max: 2, Volatile: true, Derive: deriveBenchmark, Eval: evalBenchmark})
	sig{names: "weight_string", min: 1, max: 1, args: "*", ret: maybe(expr.TypeBinary), make: weightString}.register()
	jsonNumber("json_storage_size", 1, 1, func(c *jsonCall) (int, bool) { return jsondoc.StorageSize(c.doc(0)), true })
	jsonNumber("json_storage_free", 1, 1, func(c *jsonCall) (int, bool) {
		c.doc(0)
		return 0, true // documents are always written as a whole
	})
}

// registerUnits registers FORMAT_BYTES and FORMAT_PICO_TIME.
func registerUnits() {
	words := func(name string, base string, units []string, sizes func(n int) float64) {
		sig{names: name, min: 1, max: 1, args: "f", ret: returns(typeWord), make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
			x, at := a[0].F[i], 0
			abs := max(x, -x)
			for at < len(units) && abs >= sizes(at) {
				at++
			}
			switch {
			case at == 0:
				v.S[i] = fmt.Sprintf("%4d %s", int64(x), base)
			case abs/sizes(at-1) >= 100_000:
				v.S[i] = fmt.Sprintf("%4.2e %s", x/sizes(at-1), units[at-1])
			default:
				v.S[i] = fmt.Sprintf("%4.2f %s", x/sizes(at-1), units[at-1])
			}
			return nil
		})}.register()
	}
	words("format_bytes", "bytes", strings.Fields("KiB MiB GiB TiB PiB EiB"),
		func(n int) float64 { return float64(uint64(1) << (10 * (n + 1))) })
	picos := []float64{1e3, 1e6, 1e9, 1e12, 60e12, 3600e12, 86400e12}
	words("format_pico_time", "ps", strings.Fields("ns us ms s min h d"), func(n int) float64 { return picos[n] })
}

// registerGTIDs registers GTID_SUBSET and GTID_SUBTRACT.
func registerGTIDs() {
	sets := func(a []*expr.Vec, i int32) (x, y mysql.GTIDSet, err error) {
		if x, err = gtids(a[0].S[i]); err == nil {
			y, err = gtids(a[1].S[i])
		}
		return x, y, err
	}
	sig{names: "gtid_subset", min: 2, max: 2, args: "s", ret: returns(expr.TypeBool),
		make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
			x, y, err := sets(a, i)
			if v.I[i] = 0; err == nil && y.Contains(x) {
				v.I[i] = 1
			}
			return err
		})}.register()
	sig{names: "gtid_subtract", min: 2, max: 2, args: "s", ret: returns(typeWord),
		make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
			x, y, err := sets(a, i)
			if err == nil {
				v.S[i] = strings.ReplaceAll(x.(mysql.Mysql56GTIDSet).Subtract(y.(mysql.Mysql56GTIDSet)).String(), ",", ",\n")
			}
			return err
		})}.register()
}

// gtids reads a set of GTIDs; "" is the empty one.
func gtids(text string) (mysql.GTIDSet, error) {
	text = strings.Join(strings.Fields(text), "")
	if text = strings.Trim(text, ","); text == "" {
		return mysql.Mysql56GTIDSet{}, nil
	}
	set, err := mysql.ParseMysql56GTIDSet(strings.ToLower(text))
	if err != nil {
		return nil, mysql.NewSQLError(1772, "HY000", "Malformed GTID set specification '%.200s'.", text)
	}
	return set, nil
}

// registerStatementDigests registers STATEMENT_DIGEST and STATEMENT_DIGEST_TEXT.
func registerStatementDigests() {
	textFunc("statement_digest_text", "s", 1, 1, maybe(typeWord), func(a []*expr.Vec, i int32) (string, bool) {
		return digest.Text(a[0].S[i], 0), true
	})
	textFunc("statement_digest", "s", 1, 1, maybe(expr.TextType(64, typeWord.Coll, expr.CoerceNumeric)),
		func(a []*expr.Vec, i int32) (string, bool) {
			return digest.Hash(digest.Text(a[0].S[i], 0)), true
		})
}

// weightString is what a text is compared by: the weights of its characters in four bytes each, the
// highest first, or the bytes of the text where the collation compares these. Texts that are equal
// have one, and its bytes are in the order of the texts. MySQL's weights are other numbers.
func weightString(c *expr.Call, k *expr.Compiler) (rowEval, error) {
	t := c.Args[0].Type()
	coll, weights := collate.Of(t.Coll), uca.Of(t.Coll)
	return func(a []*expr.Vec, i int32, v *expr.Vec) error {
		if t.Kind != expr.Bytes && t.Kind != expr.Text {
			v.SetNull(int(i)) // as in MySQL
			return nil
		}
		s := a[0].S[i]
		if coll.Pad {
			s = strings.TrimRight(s, " ")
		}
		if coll.Binary || t.Kind == expr.Bytes {
			v.S[i] = s
			return nil
		}
		if !k.Env.Fits("weight_string", 4*utf8.RuneCountInString(s)) {
			v.SetNull(int(i))
			return nil
		}
		var b []byte
		for s != "" {
			var of []int32
			of, s = weights.Next(s)
			for _, w := range of {
				b = binary.BigEndian.AppendUint32(b, uint32(w))
			}
		}
		v.S[i] = string(b)
		return nil
	}, nil
}

func deriveBenchmark(c *expr.Call) error {
	c.T = expr.TypeInt.AsNull()
	c.Args[0] = rounded(c.Args[0])
	return nil
}

func evalBenchmark(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
	es, err := k.Exprs(c.Args)
	if err != nil {
		return nil, err
	}
	return &benchmark{t: c.T, times: es[0], what: es[1], env: k.Env}, nil
}

// benchmark computes an expression as often as it is told, for each row.
type benchmark struct {
	t           expr.Type
	times, what expr.Expr
	env         *expr.Env
	v           expr.Vec
}

// Type implements expr.Expr.
func (f *benchmark) Type() expr.Type { return f.t }

// Eval implements expr.Expr.
func (f *benchmark) Eval(b *expr.Batch, sel []int32) (*expr.Vec, error) {
	times, err := f.times.Eval(b, sel)
	if err != nil {
		return nil, err
	}
	f.v.Reset(f.t, b.N)
	for _, i := range sel {
		n := int64(0)
		if !times.IsNull(i) {
			n = times.I[i]
		}
		if times.IsNull(i) || n < 0 {
			if n < 0 {
				f.env.Note(1411, fmt.Sprintf("Incorrect count value: '%d' for function benchmark", n))
			}
			f.v.SetNull(int(i))
			continue
		}
		one := []int32{i}
		for round := range n {
			if _, err := f.what.Eval(b, one); err != nil {
				return nil, err
			}
			if round%1024 == 0 {
				if err := f.env.Err(); err != nil {
					return nil, err
				}
			}
		}
		f.v.I[i] = 0
	}
	return &f.v, nil
}
