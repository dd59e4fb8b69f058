package digest

import (
	"slices"
	"strings"
)

// Mode is what of a session's sql_mode says how its texts are to be read.
type Mode uint8

// The modes that matter.
const (
	// AnsiQuotes: what stands in double quotes is a name.
	AnsiQuotes Mode = 1 << iota
	// NoBackslashEscapes: a backslash in a literal is one.
	NoBackslashEscapes
)

// MaxText bounds the length of a digest text, in bytes. Of longer statements the beginning counts:
// those that are equal so far have one digest.
const MaxText = 4096

// kind is what kind of token stands in a digest text. Symbols of one character are their own kind.
type kind uint8

const (
	plain kind = 128 + iota // a keyword or an operator of several characters
	name
	value    // ?
	values   // ?, ...
	row      // (?)
	rows     // (?) /* , ... */
	wideRow  // (...)
	wideRows // (...) /* , ... */
	inValues // IN (...)
	hintEnd  // */
	in       // keywords that are looked at, from here on
	null
	not
	set
	by
	identified
	password
	create
	routine
	hinted
)

var texts = [...]string{value: "?", values: "?, ...", row: "(?)", rows: "(?) /* , ... */", wideRow: "(...)",
	wideRows: "(...) /* , ... */", inValues: "IN (...)", hintEnd: "*/"}

// follow is what may follow a token.
type follow uint8

const (
	expr   follow = 1 << iota // an expression: NULL is a literal there
	signed                    // a literal, to which a sign belongs then; MySQL's list of these tokens lacks =
)

// token is one of a digest text.
type token struct {
	kind   kind
	follow follow
	at     int // where its text begins
}

// scanner makes the digest text of the first statement of a text. It is used again, so that it
// allocates nothing.
type scanner struct {
	q    string
	at   int
	mode Mode
	out  []byte
	base int // where the digest text begins in out
	toks []token
	// body: the statement is the definition of a routine, in which semicolons stand.
	body bool
	// version: a comment with a version is open, whose content is executed; hint: one with hints.
	version, hint bool
	// account: a password may follow BY, or =.
	account bool
	cut     bool // the text is too long
	// hides and skips: what next has passed was a literal, or a comment.
	hides, skips bool
}

// Text is the digest text of the first statement of a text, as MySQL 8 makes it: literals are ?,
// lists and rows of them ..., keywords in upper case, names in backticks, one space between.
func Text(q string, mode Mode) string {
	s := scanner{}
	s.scan(q, mode)
	return string(s.out)
}

// Redact is the first statement of a text with ? for its literals, without comments; of long ones
// the beginning.
func Redact(q string, mode Mode) string {
	s := scanner{}
	s.begin(q, mode)
	var b strings.Builder
	for b.Len() < MaxSample {
		start := s.at
		s.hides, s.skips = false, false
		if !s.next() {
			break
		}
		switch {
		case s.hides:
			b.WriteByte('?')
		case s.skips:
			b.WriteByte(' ')
		default:
			b.WriteString(q[start:s.at])
		}
	}
	return shorten(strings.TrimSpace(b.String()))
}

// begin sets the scanner on a text.
func (s *scanner) begin(q string, mode Mode) {
	s.q, s.at, s.mode, s.base, s.toks = q, 0, mode, len(s.out), s.toks[:0]
	s.body, s.version, s.hint, s.account, s.cut = false, false, false, false, false
}

// scan appends the digest text to out.
func (s *scanner) scan(q string, mode Mode) {
	s.begin(q, mode)
	for s.next() {
		if len(s.out)-s.base > MaxText {
			s.cut = true
			break
		}
	}
	s.finish()
}

// finish ends the text without the space behind the last token, and within its bound.
func (s *scanner) finish() {
	if n := len(s.out); n > s.base && s.out[n-1] == ' ' {
		s.out = s.out[:n-1]
	}
	if s.cut {
		end := min(s.base+MaxText, len(s.out)-1)
		for end > s.base && s.out[end]&0xc0 == 0x80 { // within a character
			end--
		}
		s.out = append(s.out[:end], "..."...)
	}
}

// last is the kind of the i-th token from the end, from 0 on; 0 if there is none.
func (s *scanner) last(i int) kind {
	if n := len(s.toks); n > i {
		return s.toks[n-1-i].kind
	}
	return 0
}

// pop drops the last n tokens.
func (s *scanner) pop(n int) {
	left := len(s.toks) - n
	s.out = s.out[:s.toks[left].at]
	s.toks = s.toks[:left]
}

func (s *scanner) put(k kind, text string, f follow) {
	s.toks = append(s.toks, token{k, f, len(s.out)})
	s.out = append(s.out, text...)
	if k != '@' {
		s.out = append(s.out, ' ')
	}
}

// next takes a token, or what stands between two; false at the end of the statement.
func (s *scanner) next() bool {
	if s.at >= len(s.q) {
		return false
	}
	switch c := s.q[s.at]; class[c] {
	case space:
		s.at++
	case letter:
		s.word()
	case digit:
		s.number()
	case quote:
		s.quoted(c)
	default:
		return s.symbol(c)
	}
	return true
}

// number takes a number, or a name that begins with a digit.
func (s *scanner) number() {
	start := s.at
	if s.last(0) == '.' && s.q[start-1] == '.' {
		s.name(s.run(start)) // behind a point is a name, whatever it looks like
		return
	}
	i := start
	for i < len(s.q) && class[s.q[i]] == digit {
		i++
	}
	end := s.run(i)
	switch {
	case end == i:
		i = s.fraction(i)
	case radix(s.q[start:end]):
		i = end
	case s.exponent(i) > i:
		i = s.exponent(i)
	default:
		s.name(end)
		return
	}
	s.at = i
	s.literal()
}

// run is the end of the letters and digits from i on.
func (s *scanner) run(i int) int {
	for i < len(s.q) && (class[s.q[i]] == letter || class[s.q[i]] == digit) {
		i++
	}
	return i
}

// fraction is the end of what follows the digits of a number: a fraction, an exponent.
func (s *scanner) fraction(i int) int {
	if i < len(s.q) && s.q[i] == '.' {
		for i++; i < len(s.q) && class[s.q[i]] == digit; i++ {
		}
	}
	return s.exponent(i)
}

// exponent is the end of the exponent that begins at i; i if there is none.
func (s *scanner) exponent(i int) int {
	if i >= len(s.q) || s.q[i]|0x20 != 'e' {
		return i
	}
	j := i + 1
	if j < len(s.q) && (s.q[j] == '+' || s.q[j] == '-') {
		j++
	}
	from := j
	for j < len(s.q) && class[s.q[j]] == digit {
		j++
	}
	if j == from || s.run(j) > j && s.q[j] != '.' {
		return i
	}
	return j
}

// radix reports whether a text is a number such as 0x1F or 0b01.
func radix(t string) bool {
	if len(t) < 3 || t[0] != '0' {
		return false
	}
	digits := "01"
	switch t[1] {
	case 'x':
		digits = "0123456789abcdefABCDEF"
	case 'b':
	default:
		return false
	}
	for i := 2; i < len(t); i++ {
		if strings.IndexByte(digits, t[i]) < 0 {
			return false
		}
	}
	return true
}

// literal puts one, together with a sign and with the list in which it stands.
func (s *scanner) literal() {
	for n := len(s.toks); n > 1 && (s.last(0) == '-' || s.last(0) == '+') && s.toks[n-2].follow&signed != 0; n-- {
		s.pop(1)
	}
	s.value()
}

// value puts a literal without a look at signs.
func (s *scanner) value() {
	s.hides = true
	k := value
	if s.last(0) == ',' && (s.last(1) == value || s.last(1) == values) {
		s.pop(2)
		k = values
	}
	s.put(k, texts[k], 0)
}

// close takes a closing parenthesis: around literals alone it makes a row of them.
func (s *scanner) close() {
	k := kind(')')
	if s.last(1) == '(' {
		switch s.last(0) {
		case value:
			k = row
		case values:
			k = wideRow
		}
	}
	if k == ')' {
		s.put(k, ")", 0)
		return
	}
	s.pop(2)
	switch before := s.last(0); {
	case before == in:
		s.pop(1)
		k = inValues
	case before == ',' && (s.last(1) == k || s.last(1) == k+1):
		s.pop(2)
		k++
	}
	s.put(k, texts[k], 0)
}

// name takes the unquoted name that ends there.
func (s *scanner) name(end int) {
	if s.unquotedSecret() {
		return
	}
	t := s.q[s.at:end]
	s.at = end
	s.toks = append(s.toks, token{kind: name, at: len(s.out)})
	s.out = append(s.out, '`')
	s.out = append(s.out, t...)
	s.out = append(s.out, "` "...)
}

// unquotedSecret takes a password without its quotes, if one stands here: the statement is wrong,
// and its digest is shown all the same.
func (s *scanner) unquotedSecret() bool {
	if !s.account || s.last(0) != by && s.last(0) != '=' {
		return false
	}
	for s.at < len(s.q) && class[s.q[s.at]] != space && s.q[s.at] != ';' {
		s.at++
	}
	s.value()
	return true
}

// word takes a keyword, a name, or what stands in front of a literal: N'...', _utf8mb4'...'.
func (s *scanner) word() {
	start, end := s.at, s.run(s.at)
	after := byte(0)
	if end < len(s.q) {
		after = s.q[end]
	}
	if after == '\'' && end == start+1 && strings.IndexByte("nNxXbB", s.q[start]) >= 0 {
		s.at = end
		s.quoted('\'')
		return
	}
	if s.hint && s.called(end) {
		s.at = end
		s.put(plain, strings.ToUpper(s.q[start:end]), 0) // the name of a hint
		return
	}
	system := s.last(0) == '@' && s.last(1) == '@'
	if s.last(0) == '@' && !system {
		s.variable()
		return
	}
	if s.q[start] == '_' && s.introduces(end) {
		s.at = end
		s.put(plain, "(_charset)", expr)
		return
	}
	qualifies := after == '.' && end+1 < len(s.q) && (class[s.q[end+1]] == letter || class[s.q[end+1]] == digit)
	if s.last(0) == '.' || qualifies && !system {
		s.name(end)
		return
	}
	if w := lookup(s.q[start:end]); w != nil && (!w.call || after == '(') {
		if w.kind != password && s.unquotedSecret() {
			return
		}
		s.at = end
		s.keyword(w)
		return
	}
	s.name(end)
}

// called reports whether a parenthesis follows.
func (s *scanner) called(i int) bool {
	for i < len(s.q) && class[s.q[i]] == space {
		i++
	}
	return i < len(s.q) && s.q[i] == '('
}

// introduces reports whether a literal follows, in front of which its character set is named.
func (s *scanner) introduces(i int) bool {
	for i < len(s.q) && class[s.q[i]] == space {
		i++
	}
	return i < len(s.q) && (s.q[i] == '\'' || s.q[i] == '"' && s.mode&AnsiQuotes == 0)
}

// variable takes what follows an @: the name of a user's variable, or a host. Both are literals.
func (s *scanner) variable() {
	for s.at < len(s.q) {
		if c := s.q[s.at]; class[c] != letter && class[c] != digit && c != '.' {
			break
		}
		s.at++
	}
	s.value()
}

func (s *scanner) keyword(w *word) {
	switch w.kind {
	case null:
		if n := len(s.toks); n > 0 && s.toks[n-1].follow&expr != 0 && s.last(0) != not && s.last(0) != set {
			s.value()
			return
		}
	case routine:
		s.body = s.body || len(s.toks) < 12 && len(s.toks) > 0 && s.toks[0].kind == create
	case identified:
		s.account = true
	case password:
		s.account = s.account || s.last(0) == set
		s.put(plain, w.text, expr)
		return
	}
	k := w.kind
	if k == 0 {
		k = plain
	}
	s.put(k, w.text, w.follow)
}

// lookup finds a keyword, in upper or lower case.
func lookup(t string) *word {
	var buf [longest]byte
	if len(t) > len(buf) || len(t) < 2 {
		return nil
	}
	for i := range len(t) {
		c := t[i]
		if c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		buf[i] = c
	}
	return words[string(buf[:len(t)])]
}

// quoted takes a literal or a name in quotes.
func (s *scanner) quoted(q byte) {
	start := s.at + 1
	i := start
	escapes := q != '`' && s.mode&NoBackslashEscapes == 0
	end := len(s.q)
	for i < len(s.q) {
		c := s.q[i]
		i++
		if c == '\\' && escapes {
			i++
		} else if c == q {
			if i < len(s.q) && s.q[i] == q {
				i++
				continue
			}
			end = i - 1
			break
		}
	}
	s.at = min(i, len(s.q))
	if q == '`' || q == '"' && s.mode&AnsiQuotes != 0 {
		s.toks = append(s.toks, token{kind: name, at: len(s.out)})
		s.out = append(s.out, '`')
		s.out = append(s.out, s.q[start:max(start, end)]...)
		s.out = append(s.out, "` "...)
		return
	}
	s.value()
}

// operators are those of several characters, the longest first.
var operators = []string{"->>", "<=>", "<=", ">=", "<>", "!=", ":=", "&&", "||", "<<", ">>", "->"}

// symbol takes a comment, an operator or one character; false at the end of the statement.
func (s *scanner) symbol(c byte) bool {
	rest := s.q[s.at:]
	switch {
	case c == ';' && !s.body:
		return false
	case c == '#', c == '-' && dashes(rest):
		s.skips = true
		if i := strings.IndexByte(rest, '\n'); i >= 0 {
			s.at += i + 1
		} else {
			s.at = len(s.q)
		}
		return true
	case c == '/' && strings.HasPrefix(rest, "/*"):
		s.comment(rest)
		return true
	case c == '*' && strings.HasPrefix(rest, "*/") && (s.version || s.hint):
		s.at += 2
		if s.hint {
			s.put(hintEnd, texts[hintEnd], expr)
		}
		s.version, s.hint = false, false
		return true
	case c == '.' && len(rest) > 1 && class[rest[1]] == digit && s.last(0) != name:
		s.at = s.fraction(s.at)
		s.literal()
		return true
	case c == '?':
		s.at++
		s.value()
		return true
	case c == ')':
		s.at++
		s.close()
		return true
	}
	s.operator(c, rest)
	return true
}

func (s *scanner) operator(c byte, rest string) {
	if strings.IndexByte("-<>!:&|", c) >= 0 {
		if i := slices.IndexFunc(operators, func(o string) bool { return strings.HasPrefix(rest, o) }); i >= 0 {
			o := operators[i]
			s.at += len(o)
			if o == "<>" {
				o = "!="
			}
			f := expr
			if o == "&&" || o == "||" || o == "<<" || o == ">>" {
				f |= signed
			}
			s.put(plain, o, f)
			return
		}
	}
	s.at++
	f := follow(0)
	if strings.IndexByte("(,=<>+-*/%^|&~!", c) >= 0 {
		f = expr
	}
	if strings.IndexByte("(,+-*/%^|&", c) >= 0 {
		f |= signed
	}
	s.put(kind(c&0x7f), rest[:1], f)
}

// dashes reports whether -- begins a comment: a space follows, or nothing.
func dashes(rest string) bool {
	return strings.HasPrefix(rest, "--") && (len(rest) == 2 || class[rest[2]] == space || rest[2] < ' ')
}

// comment takes one, or the beginning of one whose content counts.
func (s *scanner) comment(rest string) {
	switch {
	case strings.HasPrefix(rest, "/*!"):
		s.version = true
		s.at += 3
		for n := 0; n < 6 && s.at < len(s.q) && class[s.q[s.at]] == digit; n++ {
			s.at++
		}
		return
	case strings.HasPrefix(rest, "/*+") && s.last(0) == hinted:
		s.hint = true
		s.at += 3
		s.put(plain, "/*+", expr)
		return
	}
	s.skips = true
	if i := strings.Index(rest[2:], "*/"); i >= 0 {
		s.at += i + 4
	} else {
		s.at = len(s.q)
	}
}

// Classes of characters.
const (
	other = iota
	space
	letter
	digit
	quote
)

var class = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c >= '0' && c <= '9':
			t[c] = digit
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', c == '$', c >= 0x80:
			t[c] = letter
		case c == ' ' || c >= '\t' && c <= '\r':
			t[c] = space
		case c == '\'' || c == '"' || c == '`':
			t[c] = quote
		}
	}
	return t
}()
