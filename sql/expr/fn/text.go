package fn

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/collate"
)

// ascii text that functions make of numbers.
var typeWord = expr.TextType(0, sql.Collation_Default, expr.CoerceNumeric)

// chars is the number of characters of a string, or of bytes.
func chars(v *expr.Vec, s string) int {
	if v.T.Kind == expr.Bytes {
		return len(s)
	}
	return utf8.RuneCountInString(s)
}

// cut is the part of a string from one character to another.
func cut(v *expr.Vec, s string, from, to int) string {
	if v.T.Kind == expr.Bytes {
		return s[min(from, len(s)):min(to, len(s))]
	}
	start, n := len(s), 0
	for at := range s {
		if n == from {
			start = at
		}
		if n == to {
			return s[start:at]
		}
		n++
	}
	return s[start:]
}

// textFunc registers a function that makes a string no longer than a few times its arguments.
func textFunc(names, args string, minArgs, maxArgs int, ret func(*expr.Call) (expr.Type, error),
	f func(a []*expr.Vec, i int32) (string, bool)) {
	growFunc(names, args, minArgs, maxArgs, ret, nil, f)
}

// growFunc registers a function that makes a string, which may be long. size says how long, before
// the string is made: what is too long for max_allowed_packet is NULL.
func growFunc(names, args string, minArgs, maxArgs int, ret func(*expr.Call) (expr.Type, error),
	size func(a []*expr.Vec, i int32) int, f func(a []*expr.Vec, i int32) (string, bool)) {
	sig{names: names, min: minArgs, max: maxArgs, args: args, ret: ret,
		make: func(_ *expr.Call, k *expr.Compiler) (rowEval, error) {
			return func(a []*expr.Vec, i int32, v *expr.Vec) error {
				if size != nil && !k.Env.Fits(names, size(a, i)) {
					v.SetNull(int(i))
					return nil
				}
				s, ok := f(a, i)
				if !ok || !k.Env.Fits(names, len(s)) {
					v.SetNull(int(i))
					return nil
				}
				v.S[i] = s
				return nil
			}, nil
		}}.register()
}

// together is the length of all arguments.
func together(a []*expr.Vec, i int32) int {
	n := 0
	for _, v := range a {
		if v.T.Kind.Form() == expr.FormS && !v.IsNull(i) {
			n += len(v.S[i])
		}
	}
	return n
}

func intFunc(names, args string, minArgs, maxArgs int, f func(a []*expr.Vec, i int32) int64) {
	sig{names: names, min: minArgs, max: maxArgs, args: args, ret: returns(expr.TypeInt),
		make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
			v.I[i] = f(a, i)
			return nil
		})}.register()
}

func total(c *expr.Call) int {
	n := 0
	for _, a := range c.Args {
		if a.Type().Length == 0 {
			return 0
		}
		n += a.Type().Length
	}
	return n
}

func init() {
	growFunc("concat", "b", 1, -1, textFrom(total), together, func(a []*expr.Vec, i int32) (string, bool) {
		var b strings.Builder
		for _, v := range a {
			b.WriteString(v.S[i])
		}
		return b.String(), true
	})
	sig{names: "concat_ws", min: 2, max: -1, args: "b", nulls: true, ret: orNull(textFrom(nil)), make: concatWS}.register()
	textFunc("lower lcase", "b", 1, 1, textFrom(lengthOf(0)), caseOf(strings.ToLower))
	textFunc("upper ucase", "b", 1, 1, textFrom(lengthOf(0)), caseOf(strings.ToUpper))
	textFunc("left", "bi", 2, 2, textFrom(lengthOf(0), 0), func(a []*expr.Vec, i int32) (string, bool) {
		return cut(a[0], a[0].S[i], 0, clip(a[1], i)), true
	})
	textFunc("right", "bi", 2, 2, textFrom(lengthOf(0), 0), func(a []*expr.Vec, i int32) (string, bool) {
		n := chars(a[0], a[0].S[i])
		return cut(a[0], a[0].S[i], max(n-clip(a[1], i), 0), n), true
	})
	textFunc("substring substr mid", "bii", 2, 3, textFrom(lengthOf(0), 0), substring)
	textFunc("substring_index", "bbi", 3, 3, definite(2, textFrom(lengthOf(0), 0, 1)), substringIndex)
	growFunc("repeat", "bi", 2, 2, orNull(textFrom(nil, 0)), func(a []*expr.Vec, i int32) int {
		return len(a[0].S[i]) * clip(a[1], i)
	}, func(a []*expr.Vec, i int32) (string, bool) { return strings.Repeat(a[0].S[i], clip(a[1], i)), true })
	growFunc("space", "i", 1, 1, orNull(returns(typeWord)), func(a []*expr.Vec, i int32) int { return clip(a[0], i) },
		func(a []*expr.Vec, i int32) (string, bool) { return strings.Repeat(" ", clip(a[0], i)), true })
	textFunc("reverse", "b", 1, 1, textFrom(lengthOf(0)), reverse)
	growFunc("replace", "bbb", 3, 3, definite(3, textFrom(nil)), replacedSize, func(a []*expr.Vec, i int32) (string, bool) {
		if a[1].S[i] == "" {
			return a[0].S[i], true
		}
		return strings.ReplaceAll(a[0].S[i], a[1].S[i], a[2].S[i]), true
	})
	textFunc("ltrim", "b", 1, 1, textFrom(lengthOf(0)), func(a []*expr.Vec, i int32) (string, bool) {
		return strings.TrimLeft(a[0].S[i], " "), true
	})
	textFunc("rtrim", "b", 1, 1, textFrom(lengthOf(0)), func(a []*expr.Vec, i int32) (string, bool) {
		return strings.TrimRight(a[0].S[i], " "), true
	})
	registerTrim("trim", true, true)
	registerTrim("trim_leading", true, false)
	registerTrim("trim_trailing", false, true)
	growFunc("lpad", "bib", 3, 3, orNull(textFrom(nil, 0, 2)), paddedSize, padding(true))
	growFunc("rpad", "bib", 3, 3, orNull(textFrom(nil, 0, 2)), paddedSize, padding(false))
	growFunc("insert", "biib", 4, 4, textFrom(nil, 0, 3), together, insertText)
	sig{names: "quote", min: 1, max: 1, args: "b", nulls: true, ret: textFrom(nil),
		make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
			if v.S[i] = "NULL"; !a[0].IsNull(i) {
				v.S[i] = "'" + quoter.Replace(a[0].S[i]) + "'"
			}
			return nil
		})}.register()
	sig{names: "elt", min: 2, max: -1, args: "ib", nulls: true, ret: func(c *expr.Call) (expr.Type, error) {
		m, err := expr.MergeCollations("elt", false, c.Args[1:]...)
		return stringResult(m, 0), err
	}, make: plain(elt)}.register()
	intFunc("length octet_length", "b", 1, 1, func(a []*expr.Vec, i int32) int64 { return int64(len(expr.BytesOf(a[0], i))) })
	intFunc("char_length character_length", "b", 1, 1, func(a []*expr.Vec, i int32) int64 {
		return int64(chars(a[0], a[0].S[i]))
	})
	intFunc("bit_length", "b", 1, 1, func(a []*expr.Vec, i int32) int64 { return 8 * int64(len(expr.BytesOf(a[0], i))) })
	intFunc("ascii", "b", 1, 1, func(a []*expr.Vec, i int32) int64 {
		if s := expr.BytesOf(a[0], i); s != "" {
			return int64(s[0])
		}
		return 0
	})
	intFunc("ord", "b", 1, 1, ord)
	registerPosition()
	registerSets()
	registerDigests()
	registerHex()
}

func clip(v *expr.Vec, i int32) int {
	n := v.I[i]
	if n < 0 && !v.T.Unsigned() {
		return 0
	}
	if n < 0 || n > 1<<31 {
		return 1 << 31
	}
	return int(n)
}

func concatWS(_ *expr.Call, k *expr.Compiler) (rowEval, error) {
	return func(a []*expr.Vec, i int32, v *expr.Vec) error {
		if a[0].IsNull(i) || a[0].T.Kind == expr.Null {
			v.SetNull(int(i))
			return nil
		}
		if between := len(a[0].S[i]) * (len(a) - 1); between+together(a[1:], i) > k.Env.PacketLimit() {
			// Not all of them are used if there are NULLs, so that this looks again.
			if !k.Env.Fits("concat_ws", separated(a, i)) {
				v.SetNull(int(i))
				return nil
			}
		}
		var b strings.Builder
		first := true
		for _, x := range a[1:] {
			if x.IsNull(i) {
				continue
			}
			if !first {
				b.WriteString(a[0].S[i])
			}
			first = false
			b.WriteString(x.S[i])
		}
		v.S[i] = b.String()
		return nil
	}, nil
}

// separated is the length of what CONCAT_WS makes.
func separated(a []*expr.Vec, i int32) int {
	n := 0
	for _, x := range a[1:] {
		if !x.IsNull(i) {
			n++
		}
	}
	return len(a[0].S[i])*max(n-1, 0) + together(a[1:], i)
}

// replacedSize is the length of what REPLACE makes.
func replacedSize(a []*expr.Vec, i int32) int {
	s, from, to := a[0].S[i], a[1].S[i], a[2].S[i]
	if from == "" || len(to) <= len(from) {
		return len(s)
	}
	if len(s)/len(from)*len(to) < 1<<20 {
		return len(s) // short in any case, and measured when it is made
	}
	return len(s) + strings.Count(s, from)*(len(to)-len(from))
}

// paddedSize is about the length of what LPAD and RPAD make.
func paddedSize(a []*expr.Vec, i int32) int {
	s, p, want := a[0].S[i], a[2].S[i], clip(a[1], i)
	if a[1].I[i] < 0 || p == "" {
		return 0
	}
	more := max(want-chars(a[0], s), 0)
	return len(s) + more*len(p)/max(chars(a[2], p), 1)
}

func caseOf(f func(string) string) func(a []*expr.Vec, i int32) (string, bool) {
	return func(a []*expr.Vec, i int32) (string, bool) {
		if a[0].T.Kind == expr.Bytes {
			return a[0].S[i], true
		}
		return f(a[0].S[i]), true
	}
}

func substring(a []*expr.Vec, i int32) (string, bool) {
	s := a[0].S[i]
	n := int64(chars(a[0], s))
	pos := a[1].I[i]
	if a[1].T.Unsigned() && pos < 0 {
		return "", true
	}
	if pos < 0 {
		pos += n + 1
		if pos <= 0 {
			return "", true
		}
	}
	if pos == 0 || pos > n {
		return "", true
	}
	count := n
	if len(a) == 3 {
		count = int64(clip(a[2], i))
	}
	if count <= 0 {
		return "", true
	}
	return cut(a[0], s, int(pos-1), int(min(pos-1+count, n))), true
}

func substringIndex(a []*expr.Vec, i int32) (string, bool) {
	s, d, n := a[0].S[i], a[1].S[i], a[2].I[i]
	if d == "" || n == 0 {
		return "", true
	}
	if n > 0 {
		at := 0
		for ; n > 0; n-- {
			k := strings.Index(s[at:], d)
			if k < 0 {
				return s, true
			}
			at += k + len(d)
		}
		return s[:at-len(d)], true
	}
	if a[0].T.Kind == expr.Bytes {
		at := len(s)
		for ; n < 0; n++ {
			k := strings.LastIndex(s[:at], d)
			if k < 0 {
				return s, true
			}
			at = k
		}
		return s[at+len(d):], true
	}
	// Of characters, the delimiters are counted from the left here, too.
	if n += int64(strings.Count(s, d)); n < 0 {
		return s, true
	}
	for ; n >= 0; n-- {
		_, s, _ = strings.Cut(s, d)
	}
	return s, true
}

func reverse(a []*expr.Vec, i int32) (string, bool) {
	s := a[0].S[i]
	var b strings.Builder
	b.Grow(len(s))
	for len(s) > 0 {
		n := 1
		if c := s[len(s)-1]; c < utf8.RuneSelf || a[0].T.Kind == expr.Bytes {
			b.WriteByte(c)
		} else {
			_, n = utf8.DecodeLastRuneInString(s)
			b.WriteString(s[len(s)-n:])
		}
		s = s[:len(s)-n]
	}
	return b.String(), true
}

func registerTrim(name string, left, right bool) {
	textFunc(name, "b", 1, 2, definite(2, textFrom(lengthOf(0))), func(a []*expr.Vec, i int32) (string, bool) {
		s, r := a[0].S[i], " "
		if len(a) == 2 {
			r = a[1].S[i]
		}
		if r == "" {
			return s, true
		}
		for left && strings.HasPrefix(s, r) {
			s = s[len(r):]
		}
		for right && strings.HasSuffix(s, r) {
			s = s[:len(s)-len(r)]
		}
		return s, true
	})
}

func padding(left bool) func(a []*expr.Vec, i int32) (string, bool) {
	return func(a []*expr.Vec, i int32) (string, bool) {
		s, p := a[0].S[i], a[2].S[i]
		if a[1].I[i] < 0 {
			return "", false
		}
		want, have, unit := clip(a[1], i), chars(a[0], s), chars(a[2], p)
		if want <= have {
			return cut(a[0], s, 0, want), true
		}
		if unit == 0 {
			return "", true
		}
		n := want - have
		fill := strings.Repeat(p, n/unit) + cut(a[2], p, 0, n%unit)
		if left {
			return fill + s, true
		}
		return s + fill, true
	}
}

func insertText(a []*expr.Vec, i int32) (string, bool) {
	s := a[0].S[i]
	n := int64(chars(a[0], s))
	pos, count := a[1].I[i], a[2].I[i]
	if pos < 1 || pos > n {
		return s, true
	}
	if count < 0 || count > n-pos+1 {
		count = n - pos + 1
	}
	return cut(a[0], s, 0, int(pos-1)) + a[3].S[i] + cut(a[0], s, int(pos-1+count), int(n)), true
}

var quoter = strings.NewReplacer("\\", "\\\\", "'", "\\'", "\x00", "\\0", "\x1a", "\\Z")

func elt(a []*expr.Vec, i int32, v *expr.Vec) error {
	n := int64(0)
	if !a[0].IsNull(i) {
		n = a[0].I[i]
	}
	if n < 1 || n >= int64(len(a)) || a[n].IsNull(i) {
		v.SetNull(int(i))
		return nil
	}
	v.S[i] = a[n].S[i]
	return nil
}

func ord(a []*expr.Vec, i int32) int64 {
	s := a[0].S[i]
	if s == "" {
		return 0
	}
	n := 1
	if a[0].T.Kind == expr.Text {
		_, n = utf8.DecodeRuneInString(s)
	}
	x := int64(0)
	for k := range n {
		x = x<<8 | int64(s[k])
	}
	return x
}

// registerPosition: INSTR, LOCATE and POSITION search by collation and count characters.
func registerPosition() {
	find := func(names string, text, sub int) {
		sig{names: names, min: 2, max: 3, args: "bbi", ret: compares(expr.TypeInt),
			make: func(c *expr.Call, k *expr.Compiler) (rowEval, error) {
				m, err := expr.MergeCollations(c.Fn.Name, true, c.Args[0], c.Args[1])
				if err != nil {
					return nil, err
				}
				coll := collate.Of(m.Id)
				return func(a []*expr.Vec, i int32, v *expr.Vec) (err error) {
					start := int64(1)
					if len(a) == 3 {
						start = a[2].I[i]
					}
					v.I[i], err = locate(coll, a[text], a[text].S[i], a[sub].S[i], start, k.Env.Err)
					return err
				}, nil
			}}.register()
	}
	find("instr", 0, 1)
	find("locate position", 1, 0)
}

func locate(coll *collate.Collator, v *expr.Vec, s, sub string, start int64, ask func() error) (int64, error) {
	n := int64(chars(v, s))
	if start < 1 || start > n+1 {
		return 0, nil
	}
	from := len(cut(v, s, 0, int(start-1)))
	at, _, err := coll.Index(s, sub, from, ask)
	if at < 0 || err != nil {
		return 0, err
	}
	return int64(chars(v, s[:at])) + 1, nil
}

func registerSets() {
	sig{names: "find_in_set", min: 2, max: 2, args: "b", ret: compares(expr.TypeInt),
		make: func(c *expr.Call, _ *expr.Compiler) (rowEval, error) {
			m, err := expr.MergeCollations("find_in_set", true, c.Args...)
			if err != nil {
				return nil, err
			}
			coll := collate.Of(m.Id)
			return func(a []*expr.Vec, i int32, v *expr.Vec) error {
				v.I[i] = 0
				if a[1].S[i] == "" {
					return nil
				}
				for k, x := range strings.Split(a[1].S[i], ",") {
					if coll.Matches(x, a[0].S[i]) {
						v.I[i] = int64(k + 1)
						return nil
					}
				}
				return nil
			}, nil
		}}.register()
	expr.Register(&expr.Func{Name: "interval", Min: 2, Max: -1, Derive: deriveInterval, Eval: evalInterval})
	expr.Register(&expr.Func{Name: "field", Min: 2, Max: -1, Derive: deriveField, Eval: evalField})
	sig{names: "strcmp", min: 2, max: 2, args: "b", ret: compares(expr.TypeInt),
		make: func(c *expr.Call, _ *expr.Compiler) (rowEval, error) {
			m, err := expr.MergeCollations("strcmp", true, c.Args...)
			if err != nil {
				return nil, err
			}
			coll := collate.Of(m.Id)
			return func(a []*expr.Vec, i int32, v *expr.Vec) error {
				v.I[i] = int64(coll.Compare(a[0].S[i], a[1].S[i]))
				return nil
			}, nil
		}}.register()
}

// deriveInterval: INTERVAL compares exact numbers as such, and others as doubles.
func deriveInterval(c *expr.Call) error {
	c.Cmp = expr.TypeFloat
	exact := true
	for _, a := range c.Args {
		k := a.Type().Kind
		exact = exact && (k == expr.Int || k == expr.Uint || k == expr.Decimal)
	}
	if exact {
		var err error
		if c.Cmp, err = expr.Merge("interval", c.Args...); err != nil {
			return err
		}
	}
	for i, a := range c.Args {
		c.Args[i] = expr.CastTo(a, c.Cmp)
	}
	c.T = expr.TypeInt
	c.T.NotNull = true
	return nil
}

// evalInterval: INTERVAL counts the bounds, from the first one, that are not above the value; NULLs
// among them count.
func evalInterval(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
	es, err := k.Exprs(c.Args)
	if err != nil {
		return nil, err
	}
	cmp := expr.NewComparer(c.Cmp)
	r := expr.NewRowFunc(c.T, es, func(a []*expr.Vec, i int32, v *expr.Vec) error {
		if a[0].IsNull(i) {
			v.I[i] = -1
			return nil
		}
		v.I[i] = int64(len(a) - 1)
		for k, x := range a[1:] {
			if !x.IsNull(i) && cmp(a[0], i, x, i) < 0 {
				v.I[i] = int64(k)
				return nil
			}
		}
		return nil
	})
	r.Nulls = true
	return r, nil
}

// deriveField: FIELD compares strings if all are strings, whole numbers if all are, else doubles.
func deriveField(c *expr.Call) error {
	text, whole := true, true
	for _, a := range c.Args {
		k := a.Type().Kind
		text = text && (a.Type().Stringy() || a.Type().Temporal() || k == expr.Null || k == expr.Enum || k == expr.Set)
		whole = whole && (a.Type().Kind == expr.Int || a.Type().Kind == expr.Null)
	}
	switch {
	case text:
		m, err := expr.MergeCollations("field", true, c.Args...)
		if err != nil {
			return err
		}
		c.Cmp = stringResult(m, 0)
	case whole:
		c.Cmp = expr.TypeInt
	default:
		c.Cmp = expr.TypeFloat
	}
	for i, a := range c.Args {
		c.Args[i] = expr.CastTo(a, c.Cmp)
	}
	c.T = expr.TypeInt
	c.T.NotNull = true
	return nil
}

func evalField(c *expr.Call, k *expr.Compiler) (expr.Expr, error) {
	es, err := k.Exprs(c.Args)
	if err != nil {
		return nil, err
	}
	cmp := expr.NewComparer(c.Cmp)
	r := expr.NewRowFunc(c.T, es, func(a []*expr.Vec, i int32, v *expr.Vec) error {
		v.I[i] = 0
		if a[0].IsNull(i) {
			return nil
		}
		for k, x := range a[1:] {
			if !x.IsNull(i) && cmp(a[0], i, x, i) == 0 {
				v.I[i] = int64(k + 1)
				return nil
			}
		}
		return nil
	})
	r.Nulls = true
	return r, nil
}

func registerDigests() {
	digest := func(names string, n int, f func(b []byte) []byte) {
		typ := expr.TextType(n, sql.Collation_Default, expr.CoerceNumeric)
		textFunc(names, "b", 1, 1, returns(typ), func(a []*expr.Vec, i int32) (string, bool) {
			return hex.EncodeToString(f([]byte(expr.BytesOf(a[0], i)))), true
		})
	}
	digest("md5", 32, func(b []byte) []byte { s := md5.Sum(b); return s[:] })
	digest("sha1 sha", 40, func(b []byte) []byte { s := sha1.Sum(b); return s[:] })
	textFunc("sha2", "bi", 2, 2, orNull(returns(typeWord)), func(a []*expr.Vec, i int32) (string, bool) {
		b := []byte(expr.BytesOf(a[0], i))
		switch a[1].I[i] {
		case 0, 256:
			s := sha256.Sum256(b)
			return hex.EncodeToString(s[:]), true
		case 224:
			s := sha256.Sum224(b)
			return hex.EncodeToString(s[:]), true
		case 384:
			s := sha512.Sum384(b)
			return hex.EncodeToString(s[:]), true
		case 512:
			s := sha512.Sum512(b)
			return hex.EncodeToString(s[:]), true
		}
		return "", false
	})
	textFunc("to_base64", "b", 1, 1, returns(typeWord), func(a []*expr.Vec, i int32) (string, bool) {
		s := base64.StdEncoding.EncodeToString([]byte(expr.BytesOf(a[0], i)))
		var b strings.Builder
		for len(s) > 76 {
			b.WriteString(s[:76] + "\n")
			s = s[76:]
		}
		return b.String() + s, true
	})
	textFunc("from_base64", "b", 1, 1, maybe(expr.TypeBinary), func(a []*expr.Vec, i int32) (string, bool) {
		s := strings.NewReplacer("\n", "", " ", "", "\t", "", "\r", "").Replace(a[0].S[i])
		b, err := base64.StdEncoding.DecodeString(s)
		return string(b), err == nil
	})
}

func registerHex() {
	sig{names: "hex", min: 1, max: 1, args: "*", ret: returns(typeWord), make: makeHex}.register()
	textFunc("unhex", "b", 1, 1, maybe(expr.TypeBinary), func(a []*expr.Vec, i int32) (string, bool) {
		s := a[0].S[i]
		if len(s)%2 == 1 {
			s = "0" + s
		}
		b, err := hex.DecodeString(s)
		return string(b), err == nil
	})
	// BIN and OCT are forms of CONV: they read the digits of a text, and do not round.
	base := func(name string, n int64) {
		sig{names: name, min: 1, max: 1, args: "s", ret: maybe(typeWord),
			make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
				rebase(a[0].S[i], 10, n, v, i)
				return nil
			})}.register()
	}
	base("bin", 2)
	base("oct", 8)
	sig{names: "char", min: 1, max: -1, args: "i", nulls: true, ret: returns(expr.TypeBinary),
		make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
			var b []byte
			for _, x := range a {
				if x.IsNull(i) {
					continue
				}
				u := uint32(x.I[i])
				for n := max((bits.Len32(u)+7)/8, 1) - 1; n >= 0; n-- {
					b = append(b, byte(u>>(8*n)))
				}
			}
			v.S[i] = string(b)
			return nil
		})}.register()
	sig{names: "soundex", min: 1, max: 1, args: "s", ret: textFrom(nil),
		make: plain(func(a []*expr.Vec, i int32, v *expr.Vec) error {
			v.S[i] = soundex(a[0].S[i])
			return nil
		})}.register()
	sig{names: "convert_using", min: 2, max: 2, args: "bs", ret: convertType, make: makeConvert}.register()
}

func makeHex(_ *expr.Call, k *expr.Compiler) (rowEval, error) {
	return func(a []*expr.Vec, i int32, v *expr.Vec) error {
		switch x := a[0]; {
		case x.T.Kind == expr.Decimal:
			var t apd.Decimal
			u, _ := expr.UintOfDec(x.Dec(i, &t))
			v.S[i] = strings.ToUpper(strconv.FormatUint(u, 16))
		case x.T.Kind == expr.Float:
			v.S[i] = strings.ToUpper(strconv.FormatUint(uint64(expr.FloatToInt(x.F[i])), 16))
		case x.T.Integer():
			v.S[i] = strings.ToUpper(strconv.FormatUint(uint64(x.I[i]), 16))
		case x.T.Kind.Form() == expr.FormS:
			s := expr.BytesOf(x, i)
			if !k.Env.Fits("hex", 2*len(s)) {
				v.SetNull(int(i))
				return nil
			}
			v.S[i] = upperHex(s)
		default:
			v.S[i] = upperHex(string(x.AppendText(nil, i)))
		}
		return nil
	}, nil
}

// upperHex writes bytes as pairs of capital digits.
func upperHex(s string) string {
	const digits = "0123456789ABCDEF"
	b := make([]byte, 2*len(s))
	for i := range len(s) {
		b[2*i], b[2*i+1] = digits[s[i]>>4], digits[s[i]&15]
	}
	return string(b)
}

func soundex(s string) string {
	const codes = "01230120022455012623010202"
	var b strings.Builder
	last := byte('0')
	for _, r := range s {
		if !unicode.IsLetter(r) {
			continue
		}
		r = unicode.ToUpper(r)
		code := byte('0')
		if r < 'A'+26 {
			code = codes[r-'A']
		}
		if b.Len() == 0 {
			b.WriteRune(r)
			last = code
			continue
		}
		if code != '0' && code != last {
			b.WriteByte(code)
		}
		if code != '0' || r != 'H' && r != 'W' {
			last = code
		}
	}
	out := b.String()
	for n := utf8.RuneCountInString(out); n > 0 && n < 4; n++ {
		out += "0"
	}
	return out
}

// convertType: CONVERT(x USING charset), the name as a constant.
func convertType(c *expr.Call) (expr.Type, error) {
	k, ok := c.Args[1].(*expr.Const)
	if !ok {
		return expr.Type{}, fmt.Errorf("expr: CONVERT needs the name of a character set")
	}
	cs, err := sql.ParseCharacterSet(k.V.S)
	if err != nil {
		return expr.Type{}, err
	}
	t := expr.TextType(c.Args[0].Type().Length, cs.DefaultCollation(), expr.CoerceImplicit)
	t.NotNull = c.Args[0].Type().Kind == expr.Text
	return t, nil
}

// makeConvert: what the character set does not have becomes a question mark. Strings stay UTF-8
// here; bytes are read in the character set.
func makeConvert(c *expr.Call, _ *expr.Compiler) (rowEval, error) {
	cs := c.T.Coll.CharacterSet()
	enc := cs.Encoder()
	raw := cs == sql.CharacterSet_utf8mb4 || cs == sql.CharacterSet_binary || enc == nil
	return func(a []*expr.Vec, i int32, v *expr.Vec) error {
		s := a[0].S[i]
		switch {
		case c.T.Kind == expr.Bytes:
			v.S[i] = expr.BytesOf(a[0], i)
		case a[0].T.Kind == expr.Bytes && raw:
			if v.S[i] = s; !utf8.ValidString(s) {
				v.SetNull(int(i))
			}
		case raw:
			v.S[i] = s
		case a[0].T.Kind == expr.Bytes:
			b, ok := enc.Decode([]byte(s))
			if v.S[i] = string(b); !ok {
				v.SetNull(int(i))
			}
		default:
			b, _ := enc.Decode(enc.EncodeReplaceUnknown([]byte(s)))
			v.S[i] = string(b)
		}
		return nil
	}, nil
}
