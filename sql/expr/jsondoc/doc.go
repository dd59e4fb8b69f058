// Package jsondoc reads, writes and compares JSON documents as MySQL does, and finds parts of
// them by paths.
//
// A document is one of nil, bool, int64, uint64, Num, string, []any and *Object.
package jsondoc

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/godwitdb/godwit/sql/order"
)

// Num is a number that is not a whole one of 64 bits, as it is written.
type Num string

// Object has its members in MySQL's order: shorter keys first, then by bytes.
type Object struct {
	Keys []string
	Vals []any
}

func compareKeys(a, b string) int {
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

// find is where a key is, or belongs.
func (o *Object) find(key string) (i int, ok bool) {
	return slices.BinarySearchFunc(o.Keys, key, compareKeys)
}

// Get finds a member.
func (o *Object) Get(key string) (any, bool) {
	i, ok := o.find(key)
	if !ok {
		return nil, false
	}
	return o.Vals[i], true
}

// Set adds or replaces a member.
func (o *Object) Set(key string, v any) {
	i, ok := o.find(key)
	if ok {
		o.Vals[i] = v
		return
	}
	o.Keys = slices.Insert(o.Keys, i, key)
	o.Vals = slices.Insert(o.Vals, i, v)
}

// NewObject makes an object of members, which it brings to their order. Of those with one name the
// last one stays. ask is called now and then, and its error ends that.
func NewObject(keys []string, vals []any, ask func() error) (*Object, error) {
	o := &Object{Keys: keys, Vals: vals}
	return o, o.order(ask)
}

// order brings members that were appended to their order. Of those with one name the last one
// stays. [Object.Set] would take time that grows with the square of their number.
func (o *Object) order(ask func() error) error {
	inOrder := true
	for i := 1; i < len(o.Keys) && inOrder; i++ {
		inOrder = compareKeys(o.Keys[i-1], o.Keys[i]) < 0
	}
	if inOrder {
		return nil
	}
	at := make([]int, len(o.Keys))
	for i := range at {
		at[i] = i
	}
	if err := order.Stable(at, func(a, b int) int { return compareKeys(o.Keys[a], o.Keys[b]) }, ask); err != nil {
		return err
	}
	keys, vals := make([]string, 0, len(at)), make([]any, 0, len(at))
	for k, i := range at {
		if k+1 < len(at) && o.Keys[at[k+1]] == o.Keys[i] {
			continue
		}
		keys, vals = append(keys, o.Keys[i]), append(vals, o.Vals[i])
	}
	o.Keys, o.Vals = keys, vals
	return nil
}

// Delete removes a member.
func (o *Object) Delete(key string) {
	if i, ok := o.find(key); ok {
		o.Keys = slices.Delete(o.Keys, i, i+1)
		o.Vals = slices.Delete(o.Vals, i, i+1)
	}
}

// MaxDepth is how deep documents may be nested.
const MaxDepth = 100

type parser struct {
	s     string
	pos   int
	depth int
	plain bool
	// ask, if there is one, is called after each askEvery values: its error ends the reading.
	ask    func() error
	values int
}

// askEvery is how many values are read between two questions. One takes some hundred nanoseconds.
const askEvery = 10_000

// Parse reads a document from a text of any form. Numbers take MySQL's form, so that 1.50 becomes
// 1.5. Of members with one name the last one stays. ask, if it is not nil, is called now and then,
// and its error is returned.
func Parse(s string, ask func() error) (any, error) { return parse(s, false, ask) }

// Read reads a document in MySQL's own form.
func Read(s string) (any, error) { return parse(s, true, nil) }

// ReadAsking is Read that may be told to end, as Parse may.
func ReadAsking(s string, ask func() error) (any, error) { return parse(s, true, ask) }

func parse(s string, plain bool, ask func() error) (any, error) {
	p := &parser{s: s, plain: plain, ask: ask}
	v, err := p.value()
	if err != nil {
		return nil, err
	}
	p.space()
	if p.pos < len(s) {
		return nil, p.fail("The document root must not be followed by other values.")
	}
	return v, nil
}

func (p *parser) fail(text string) error {
	return fmt.Errorf("%q at position %d", text, p.pos)
}

func (p *parser) space() {
	for p.pos < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.pos]) >= 0 {
		p.pos++
	}
}

func (p *parser) value() (any, error) {
	if p.values++; p.values%askEvery == 0 && p.ask != nil {
		if err := p.ask(); err != nil {
			return nil, err
		}
	}
	p.space()
	if p.pos == len(p.s) {
		return nil, p.fail("The document is empty.")
	}
	switch c := p.s[p.pos]; {
	case c == '{':
		return p.nested(p.object)
	case c == '[':
		return p.nested(p.array)
	case c == '"':
		return p.text()
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	for word, v := range map[string]any{"null": nil, "true": true, "false": false} {
		if strings.HasPrefix(p.s[p.pos:], word) {
			p.pos += len(word)
			return v, nil
		}
	}
	return nil, p.fail("Invalid value.")
}

func (p *parser) nested(f func() (any, error)) (any, error) {
	if p.depth++; p.depth > MaxDepth {
		return nil, errors.New("the document exceeds the maximum depth")
	}
	p.pos++
	v, err := f()
	p.depth--
	return v, err
}

// more reads what follows an element: a comma or the end.
func (p *parser) more(end byte) (bool, error) {
	p.space()
	if p.pos < len(p.s) {
		switch p.s[p.pos] {
		case ',':
			p.pos++
			return true, nil
		case end:
			p.pos++
			return false, nil
		}
	}
	if end == '}' {
		return false, p.fail("Missing a comma or '}' after an object member.")
	}
	return false, p.fail("Missing a comma or ']' after an array element.")
}

func (p *parser) empty(end byte) bool {
	p.space()
	if p.pos < len(p.s) && p.s[p.pos] == end {
		p.pos++
		return true
	}
	return false
}

func (p *parser) array() (any, error) {
	out := []any{}
	if p.empty(']') {
		return out, nil
	}
	for {
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		out = append(out, v)
		if more, err := p.more(']'); !more {
			return out, err
		}
	}
}

func (p *parser) object() (any, error) {
	o := &Object{}
	if p.empty('}') {
		return o, nil
	}
	for {
		p.space()
		if p.pos == len(p.s) || p.s[p.pos] != '"' {
			return nil, p.fail("Missing a name for object member.")
		}
		k, err := p.text()
		if err != nil {
			return nil, err
		}
		p.space()
		if p.pos == len(p.s) || p.s[p.pos] != ':' {
			return nil, p.fail("Missing a colon after a name of object member.")
		}
		p.pos++
		v, err := p.value()
		if err != nil {
			return nil, err
		}
		o.Keys, o.Vals = append(o.Keys, k.(string)), append(o.Vals, v)
		if more, err := p.more('}'); !more {
			_ = o.order(func() error { return nil }) // it cannot fail then
			return o, err
		}
	}
}

func (p *parser) text() (any, error) {
	p.pos++
	start := p.pos
	for p.pos < len(p.s) && p.s[p.pos] != '"' && p.s[p.pos] != '\\' && p.s[p.pos] >= 0x20 {
		p.pos++
	}
	if p.pos < len(p.s) && p.s[p.pos] == '"' {
		p.pos++
		return p.s[start : p.pos-1], nil
	}
	b := []byte(p.s[start:p.pos])
	for p.pos < len(p.s) {
		c := p.s[p.pos]
		p.pos++
		switch {
		case c == '"':
			return string(b), nil
		case c < 0x20:
			return nil, p.fail("Invalid encoding in string.")
		case c != '\\':
			b = append(b, c)
		default:
			var ok bool
			if b, ok = p.escape(b); !ok {
				return nil, p.fail("Invalid escape character in string.")
			}
		}
	}
	return nil, p.fail("Missing a closing quotation mark in string.")
}

func (p *parser) escape(b []byte) ([]byte, bool) {
	if p.pos == len(p.s) {
		return b, false
	}
	c := p.s[p.pos]
	p.pos++
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		return append(b, "\"\\/\b\f\n\r\t"[i]), true
	}
	if c != 'u' {
		return b, false
	}
	r, ok := p.hex()
	if !ok {
		return b, false
	}
	if r >= 0xd800 && r < 0xdc00 && strings.HasPrefix(p.s[p.pos:], `\u`) {
		p.pos += 2
		low, ok := p.hex()
		if !ok || low < 0xdc00 || low > 0xdfff {
			return b, false
		}
		r = (r-0xd800)<<10 + (low - 0xdc00) + 0x10000
	}
	return utf8.AppendRune(b, r), true
}

func (p *parser) hex() (rune, bool) {
	if p.pos+4 > len(p.s) {
		return 0, false
	}
	n, err := strconv.ParseUint(p.s[p.pos:p.pos+4], 16, 32)
	p.pos += 4
	return rune(n), err == nil
}

func (p *parser) number() (any, error) {
	start := p.pos
	if p.s[p.pos] == '-' {
		p.pos++
	}
	lead := p.pos
	p.digits()
	if p.pos == lead || p.pos-lead > 1 && p.s[lead] == '0' {
		p.pos = lead
		return nil, p.fail("Invalid value.")
	}
	whole := true
	if p.pos < len(p.s) && p.s[p.pos] == '.' {
		whole = false
		p.pos++
		if !p.digits() {
			return nil, p.fail("Miss fraction part in number.")
		}
	}
	if p.pos < len(p.s) && p.s[p.pos]|0x20 == 'e' {
		whole = false
		p.pos++
		if p.pos < len(p.s) && (p.s[p.pos] == '-' || p.s[p.pos] == '+') {
			p.pos++
		}
		if !p.digits() {
			return nil, p.fail("Miss exponent in number.")
		}
	}
	return p.numberOf(p.s[start:p.pos], whole)
}

func (p *parser) digits() bool {
	start := p.pos
	for p.pos < len(p.s) && p.s[p.pos] >= '0' && p.s[p.pos] <= '9' {
		p.pos++
	}
	return p.pos > start
}

// Whole numbers of more characters are in no 64 bits, or in no double. To find that out otherwise
// takes time and memory where there are millions of digits.
const (
	most64     = 20
	mostDouble = 311
)

func (p *parser) numberOf(s string, whole bool) (any, error) {
	if whole && len(s) <= most64 {
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return i, nil
		}
		if u, err := strconv.ParseUint(s, 10, 64); err == nil {
			return u, nil
		}
	}
	if p.plain {
		return Num(s), nil
	}
	if whole && len(s) > mostDouble {
		return nil, p.fail("Number too big to be stored in double.")
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, p.fail("Number too big to be stored in double.")
	}
	return FloatNum(f), nil
}

// FloatNum is a double as JSON shows it: with a point or an exponent.
func FloatNum(f float64) Num {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return Num(strconv.FormatFloat(f, 'f', 1, 64))
	}
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if a := math.Abs(f); a >= 1e-15 && a < 1e15 {
		s = strconv.FormatFloat(f, 'f', -1, 64)
	}
	s = strings.Replace(s, "e+", "e", 1)
	s = strings.Replace(s, "e0", "e", 1)
	return Num(strings.Replace(s, "e-0", "e-", 1))
}

// Append writes a document in MySQL's form.
func Append(b []byte, v any) []byte {
	b, _ = appendWhile(b, v, func(int) bool { return true })
	return b
}

// Within is Text of at most most bytes; fits is false if it would be longer. ask is called now and
// then, and its error ends the writing.
func Within(v any, most int, ask func() error) (text string, fits bool, err error) {
	values := 0
	b, whole := appendWhile(nil, v, func(n int) bool {
		if values++; values%askEvery == 0 {
			err = ask()
		}
		return err == nil && n <= most
	})
	if !whole || len(b) > most {
		return "", false, err
	}
	return string(b), true, nil
}

// appendWhile writes a document. goOn is asked before each member with how much there is then. If
// it says no, the rest is left out, and whole is false.
func appendWhile(b []byte, v any, goOn func(n int) bool) (_ []byte, whole bool) {
	switch v := v.(type) {
	case nil:
		b = append(b, "null"...)
	case bool:
		b = strconv.AppendBool(b, v)
	case int64:
		b = strconv.AppendInt(b, v, 10)
	case uint64:
		b = strconv.AppendUint(b, v, 10)
	case Num:
		b = append(b, v...)
	case string:
		b = AppendQuoted(b, v)
	case []any:
		b = append(b, '[')
		for i, x := range v {
			if !goOn(len(b)) {
				return b, false
			}
			if i > 0 {
				b = append(b, ", "...)
			}
			if b, whole = appendWhile(b, x, goOn); !whole {
				return b, false
			}
		}
		b = append(b, ']')
	case *Object:
		b = append(b, '{')
		for i, k := range v.Keys {
			if !goOn(len(b)) {
				return b, false
			}
			if i > 0 {
				b = append(b, ", "...)
			}
			b = append(AppendQuoted(b, k), ": "...)
			if b, whole = appendWhile(b, v.Vals[i], goOn); !whole {
				return b, false
			}
		}
		b = append(b, '}')
	}
	return b, true
}

// Text is a document in MySQL's form.
func Text(v any) string { return string(Append(nil, v)) }

// AppendQuoted writes a string in quotation marks.
func AppendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		plain := i
		for plain < len(s) && s[plain] >= 0x20 && s[plain] != '"' && s[plain] != '\\' {
			plain++
		}
		if b, i = append(b, s[i:plain]...), plain; i == len(s) {
			break
		}
		c := s[i]
		if at := strings.IndexByte("\"\\\b\f\n\r\t", c); at >= 0 {
			b = append(b, '\\', `"\bfnrt`[at])
			continue
		}
		b = fmt.Appendf(b, "\\u%04x", c)
	}
	return append(b, '"')
}

// rank is the precedence of a type in comparisons.
func rank(v any) int {
	switch v.(type) {
	case nil:
		return 0
	case int64, uint64, Num:
		return 1
	case string:
		return 2
	case *Object:
		return 3
	case []any:
		return 4
	}
	return 5
}

// Compare orders documents as MySQL does: by type, then by value.
func Compare(a, b any) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch x := a.(type) {
	case nil:
		return 0
	case string:
		return strings.Compare(x, b.(string))
	case bool:
		return cmp.Compare(truth(x), truth(b.(bool)))
	case []any:
		return slices.CompareFunc(x, b.([]any), Compare)
	case *Object:
		return compareObjects(x, b.(*Object))
	}
	return compareNumbers(a, b)
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

func compareObjects(x, y *Object) int {
	if c := cmp.Compare(len(x.Keys), len(y.Keys)); c != 0 {
		return c
	}
	for i := range x.Keys {
		if c := compareKeys(x.Keys[i], y.Keys[i]); c != 0 {
			return c
		}
		if c := Compare(x.Vals[i], y.Vals[i]); c != 0 {
			return c
		}
	}
	return 0
}

func compareNumbers(a, b any) int {
	x, ok := a.(int64)
	y, ok2 := b.(int64)
	if ok && ok2 {
		return cmp.Compare(x, y)
	}
	return rat(a).Cmp(rat(b))
}

func rat(v any) *big.Rat {
	r := new(big.Rat)
	switch v := v.(type) {
	case int64:
		r.SetInt64(v)
	case uint64:
		r.SetUint64(v)
	case Num:
		r.SetString(string(v))
	}
	return r
}

// Type is the answer of JSON_TYPE.
func Type(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case bool:
		return "BOOLEAN"
	case int64:
		return "INTEGER"
	case uint64:
		return "UNSIGNED INTEGER"
	case Num:
		if f, err := strconv.ParseFloat(string(v), 64); err == nil && FloatNum(f) != v && !strings.ContainsAny(string(v), "eE") {
			return "DECIMAL" // a double is not shown like that
		}
		return "DOUBLE"
	case string:
		return "STRING"
	case []any:
		return "ARRAY"
	default:
		_ = v
		return "OBJECT"
	}
}

// Key is a text that is the same for documents that are equal, and for no others.
func Key(b []byte, v any) []byte {
	switch v := v.(type) {
	case int64, uint64, Num:
		return append(append(b, 'n'), rat(v).RatString()...)
	case []any:
		b = append(b, '[')
		for _, x := range v {
			b = append(Key(b, x), ',')
		}
		return append(b, ']')
	case *Object:
		b = append(b, '{')
		for i, k := range v.Keys {
			b = append(Key(append(AppendQuoted(b, k), ':'), v.Vals[i]), ',')
		}
		return append(b, '}')
	}
	return Append(b, v)
}
