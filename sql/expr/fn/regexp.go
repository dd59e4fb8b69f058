package fn

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/regex"
)

// REGEXP_LIKE, REGEXP_INSTR, REGEXP_SUBSTR and REGEXP_REPLACE.

func init() {
	for _, f := range []struct {
		name, args string
		min, max   int
		ret        expr.Type
		eval       func(m *matcher, a []*expr.Vec, i int32, v *expr.Vec) error
	}{
		{"regexp_like", "bbs", 2, 3, expr.TypeBool, regexpLike},
		{"regexp_instr", "bbiiis", 2, 6, expr.TypeInt, regexpInstr},
		{"regexp_substr", "bbiis", 2, 5, expr.Type{Kind: expr.Text}, regexpSubstr},
		{"regexp_replace", "bbbiis", 3, 6, expr.Type{Kind: expr.Text}, regexpReplace},
	} {
		flags := len(f.args) - 1
		sig{names: f.name, min: f.min, max: f.max, args: f.args,
			ret: func(c *expr.Call) (expr.Type, error) {
				if err := collateBoth(c); err != nil {
					return expr.Type{}, err
				}
				if f.ret.Kind != expr.Text {
					return f.ret, nil
				}
				return orNull(textFrom(nil, 0, 1, flags-3))(c)
			},
			make: func(c *expr.Call, k *expr.Compiler) (rowEval, error) {
				m := &matcher{name: f.name, env: k.Env, flags: flags, folds: foldsCase(c.Args[0])}
				return func(a []*expr.Vec, i int32, v *expr.Vec) error { return f.eval(m, a, i, v) }, nil
			}}.register()
	}
}

func foldsCase(n expr.Node) bool {
	t := n.Type()
	return t.Kind == expr.Text && strings.HasSuffix(t.Coll.String(), "_ci")
}

// matcher is a call.
type matcher struct {
	name  string
	env   *expr.Env
	flags int  // which argument has the match type
	folds bool // case does not matter unless the match type says so

	// The pattern of the last row.
	p              *regex.Pattern
	pattern, given string
	groups         bool
}

// compile is the pattern of a row.
func (m *matcher) compile(a []*expr.Vec, i int32, groups bool) (*regex.Pattern, error) {
	pattern, given := a[1].S[i], ""
	if len(a) > m.flags {
		given = a[m.flags].S[i]
	}
	if m.p != nil && pattern == m.pattern && given == m.given && groups == m.groups {
		return m.p, nil
	}
	if err := short(m.name, 1, pattern); err != nil {
		return nil, err
	}
	flags, err := m.matchType(given)
	if err != nil {
		return nil, err
	}
	p, err := regex.Compile(pattern, flags, groups)
	if err != nil {
		return nil, wordedRegexp(err)
	}
	p.Ask = m.env.Err
	m.p, m.pattern, m.given, m.groups = p, pattern, given, groups
	return p, nil
}

// matchType are the flags of package regex.
func (m *matcher) matchType(given string) (string, error) {
	folds, lines, dot := m.folds, "", ""
	for _, c := range given {
		switch c {
		case 'c':
			folds = false
		case 'i':
			folds = true
		case 'm':
			lines = "m"
		case 'n':
			dot = "s"
		case 'u': // only \n ends a line, always
		default:
			return "", mysql.NewSQLError(1210, "HY000", "Incorrect arguments to %s", m.name)
		}
	}
	if folds {
		return "i" + lines + dot, nil
	}
	return lines + dot, nil
}

func wordedRegexp(err error) error {
	number, text := 3688, "Syntax error in regular expression."
	switch {
	case errors.Is(err, regex.ErrEmpty):
		number, text = 3685, "Illegal argument to a regular expression."
	case errors.Is(err, regex.ErrTooBig):
		number, text = 3700, "The regular expression pattern exceeds limits on size or complexity."
	case errors.Is(err, regex.ErrParen):
		number, text = 3691, "Mismatched parenthesis in regular expression."
	case errors.Is(err, regex.ErrBracket):
		number, text = 3696, "The regular expression contains an unclosed bracket expression."
	}
	return mysql.NewSQLError(number, "HY000", "%s", text)
}

// number is a whole number that is the argument k, or what it is if it is not given.
func number(a []*expr.Vec, k int, i int32, other int64) int64 {
	if k >= len(a) {
		return other
	}
	return a[k].I[i]
}

// nth is the match that the arguments from position on, and occurrence behind it, name; nil: there
// is none. text is the one that is searched.
func (m *matcher) nth(p *regex.Pattern, a []*expr.Vec, i int32, position int) ([]int, error) {
	text := a[0].S[i]
	from, err := m.position(a, i, position)
	if err != nil {
		return nil, err
	}
	for n := number(a, position+1, i, 1); ; n-- {
		at, err := p.Find(text, from)
		if at == nil || err != nil || n <= 1 {
			return at, err
		}
		next, ok := regex.After(text, at)
		if !ok {
			return nil, nil
		}
		from = next
	}
}

// position is where a search begins, as an offset of bytes.
func (m *matcher) position(a []*expr.Vec, i int32, k int) (int, error) {
	text, n := a[0].S[i], number(a, k, i, 1)
	at, ok := 0, n >= 1
	if m.counts(a[0]) {
		for n--; ok && n > 0; n-- {
			_, w := utf8.DecodeRuneInString(text[at:])
			at, ok = at+w, w > 0
		}
	} else {
		ok = ok && n <= int64(len(text))+1
		at = int(n - 1)
	}
	if !ok {
		return 0, mysql.NewSQLError(3686, "HY000", "Index out of bounds in regular expression search.")
	}
	return at, nil
}

// counts reports whether positions count characters, not bytes.
func (m *matcher) counts(v *expr.Vec) bool { return v.T.Coll != sql.Collation_binary }

func regexpLike(m *matcher, a []*expr.Vec, i int32, v *expr.Vec) error {
	p, err := m.compile(a, i, false)
	if err != nil {
		return err
	}
	at, err := p.Find(a[0].S[i], 0)
	v.I[i] = expr.TruthInt(at != nil)
	return err
}

func regexpInstr(m *matcher, a []*expr.Vec, i int32, v *expr.Vec) error {
	p, err := m.compile(a, i, false)
	if err != nil {
		return err
	}
	end := number(a, 4, i, 0)
	if end != 0 && end != 1 {
		return mysql.NewSQLError(1210, "HY000", "Incorrect arguments to regexp_instr: return_option must be 1 or 0.")
	}
	at, err := m.nth(p, a, i, 2)
	if at == nil || err != nil {
		v.I[i] = 0
		return err
	}
	before := a[0].S[i][:at[end]]
	n := len(before)
	if m.counts(a[0]) {
		n = utf8.RuneCountInString(before)
	}
	v.I[i] = int64(n) + 1
	return nil
}

func regexpSubstr(m *matcher, a []*expr.Vec, i int32, v *expr.Vec) error {
	p, err := m.compile(a, i, false)
	if err != nil {
		return err
	}
	at, err := m.nth(p, a, i, 2)
	if at == nil || err != nil {
		v.SetNull(int(i))
		return err
	}
	v.S[i] = a[0].S[i][at[0]:at[1]]
	return nil
}

func regexpReplace(m *matcher, a []*expr.Vec, i int32, v *expr.Vec) error {
	text, with := a[0].S[i], a[2].S[i]
	p, err := m.compile(a, i, strings.ContainsAny(with, `$`))
	if err != nil {
		return err
	}
	parts, err := replacement(with, p.Groups())
	if err != nil {
		return err
	}
	from, err := m.position(a, i, 3)
	if err != nil {
		return err
	}
	out := &replacing{env: m.env, text: text, out: append([]byte(nil), text[:from]...), done: from}
	for n := number(a, 4, i, 0); ; n-- {
		at, err := p.Find(text, from)
		if err != nil {
			return err
		}
		if at == nil {
			break
		}
		if n <= 1 && !out.put(parts, at) {
			v.SetNull(int(i))
			return nil
		}
		if n == 1 {
			break
		}
		next, ok := regex.After(text, at)
		if !ok {
			break
		}
		from = next
	}
	if !m.env.Fits(m.name, len(out.out)+len(text)-out.done) {
		v.SetNull(int(i))
		return nil
	}
	v.S[i] = string(append(out.out, text[out.done:]...))
	return nil
}

// replacementPart is a text of a replacement, or the number of a group.
type replacementPart struct {
	text  string
	group int // -1: it is a text
}

// replacement takes a replacement apart: $1 is what the first group has matched, and \ takes the
// meaning of the character behind it away. It has no group that the pattern does not have: then as
// many digits belong to the number as name one.
func replacement(s string, groups int) ([]replacementPart, error) {
	var out []replacementPart
	var text []byte
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
			text = append(text, s[i])
			continue
		}
		if s[i] != '$' {
			text = append(text, s[i])
			continue
		}
		n, digits := 0, 0
		for j := i + 1; j < len(s) && s[j] >= '0' && s[j] <= '9' && n*10+int(s[j]-'0') <= groups; j++ {
			n, digits = n*10+int(s[j]-'0'), digits+1
		}
		if digits == 0 {
			return nil, mysql.NewSQLError(3887, "HY000", "A capture group has an invalid name.")
		}
		out = append(out, replacementPart{string(text), -1}, replacementPart{"", n})
		text, i = nil, i+digits
	}
	return append(out, replacementPart{string(text), -1}), nil
}

// replacing is a text that is made.
type replacing struct {
	env  *expr.Env
	text string
	out  []byte
	done int // bytes of text that are in out
}

// put replaces a match; ok is false if the text is too long then.
func (r *replacing) put(parts []replacementPart, at []int) bool {
	r.out = append(r.out, r.text[r.done:at[0]]...)
	r.done = at[1]
	for _, p := range parts {
		if p.group >= 0 {
			if from := at[2*p.group]; from >= 0 {
				r.out = append(r.out, r.text[from:at[2*p.group+1]]...)
			}
			continue
		}
		r.out = append(r.out, p.text...)
	}
	return len(r.out) <= r.env.PacketLimit() || r.env.Fits("regexp_replace", len(r.out))
}

// collateBoth gives the text and the pattern of a regular expression one collation: it says whether
// case matters.
func collateBoth(c *expr.Call) error {
	m, err := expr.MergeCollations("regexp", true, c.Args[:2]...)
	if err != nil {
		return err
	}
	for i, a := range c.Args[:2] {
		t := a.Type()
		if t.Kind != expr.Text || t.Coll == m.Id && t.Coercibility == m.Coerce {
			continue
		}
		t.Coll, t.Coercibility = m.Id, m.Coerce
		c.Args[i] = expr.CastTo(a, t)
	}
	return nil
}
