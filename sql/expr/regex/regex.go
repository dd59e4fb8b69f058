// Package regex looks for regular expressions in long texts, and can be interrupted.
//
// The matching is that of package regexp: its time grows with the length of the text times that of
// the pattern, for each match. It reads texts through a reader here that says the text has ended
// when the search is to end.
package regex

import (
	"errors"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// Bounds of a pattern.
const (
	// mostSteps is how many instructions its program has: as many are looked at for each character
	// of a text.
	mostSteps = 64 << 10
	// mostKept bounds instructions times groups: a search keeps a place of each group for each.
	mostKept = 4 << 20
	// direct is how many instructions times characters are looked at without asking.
	direct = 1 << 18
)

// The errors of Compile.
var (
	ErrEmpty   = errors.New("the pattern is empty")
	ErrTooBig  = errors.New("the pattern is too large")
	ErrParen   = errors.New("a parenthesis has no counterpart")
	ErrBracket = errors.New("a bracket is not closed")
	ErrSyntax  = errors.New("the pattern is not understood")
)

// Pattern is a compiled pattern. It may be used by one goroutine at a time.
type Pattern struct {
	// Ask is asked now and then whether a search may go on; nil: it may.
	Ask func() error

	first *regexp.Regexp // for a search from the beginning of a text
	later *regexp.Regexp // for one behind a character, which is before the match of group 1
	looks bool           // it matters what is before a match
	size  int            // instructions
	steps int            // that were looked at since Ask was asked, at most
}

// Compile compiles a pattern. flags are those of package regexp: i, m and s. groups says whether
// somebody asks for what the groups have matched.
func Compile(pattern, flags string, groups bool) (*Pattern, error) {
	if pattern == "" {
		return nil, ErrEmpty
	}
	if flags != "" {
		flags = "(?" + flags + ")"
	}
	tree, err := syntax.Parse(flags+pattern, syntax.Perl)
	if err != nil {
		return nil, reason(err)
	}
	n := tree.MaxCap()
	if !groups {
		tree, n = uncaptured(tree), 0
	}
	text := tree.String()
	size := sizeOf(tree)
	if size > mostSteps || size*(n+2) > mostKept {
		return nil, ErrTooBig
	}
	p := &Pattern{size: size}
	if p.first, err = regexp.Compile(text); err != nil {
		return nil, reason(err)
	}
	if p.looks = looksBack(tree); p.looks {
		if p.later, err = regexp.Compile(`\A(?s:.)(?s:.*?)(` + text + `)`); err != nil {
			return nil, reason(err)
		}
	}
	return p, nil
}

func reason(err error) error {
	var e *syntax.Error
	if !errors.As(err, &e) {
		return ErrSyntax
	}
	switch e.Code {
	case syntax.ErrMissingParen, syntax.ErrUnexpectedParen:
		return ErrParen
	case syntax.ErrMissingBracket:
		return ErrBracket
	case syntax.ErrLarge, syntax.ErrNestingDepth, syntax.ErrInvalidRepeatSize:
		return ErrTooBig
	}
	return ErrSyntax
}

// uncaptured is a pattern without its groups.
func uncaptured(r *syntax.Regexp) *syntax.Regexp {
	for r.Op == syntax.OpCapture {
		r = r.Sub[0]
	}
	for i, s := range r.Sub {
		r.Sub[i] = uncaptured(s)
	}
	return r
}

// sizeOf is how many instructions a pattern has, about.
func sizeOf(r *syntax.Regexp) int {
	n := 1 + len(r.Rune)/2
	if r.Op == syntax.OpLiteral {
		n = 1 + len(r.Rune)
	}
	for _, s := range r.Sub {
		n = min(n+sizeOf(s), mostKept)
	}
	if r.Op == syntax.OpRepeat {
		n = min(n*max(r.Min+1, r.Max, 1), mostKept)
	}
	return n
}

// looksBack reports whether it matters what is before a match.
func looksBack(r *syntax.Regexp) bool {
	switch r.Op {
	case syntax.OpBeginLine, syntax.OpBeginText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	}
	for _, s := range r.Sub {
		if looksBack(s) {
			return true
		}
	}
	return false
}

// Groups is how many groups the pattern has; 0 if nobody asks for them.
func (p *Pattern) Groups() int { return p.first.NumSubexp() }

// Find is the first match that begins at byte from of a text or behind it, as pairs of offsets of
// bytes: of the match, then of its groups, -1 where one has not matched. It is nil if there is
// none.
func (p *Pattern) Find(text string, from int) ([]int, error) {
	re, at := p.first, from
	if p.looks && from > 0 {
		_, n := utf8.DecodeLastRuneInString(text[:from])
		re, at = p.later, from-n
	}
	m, err := p.search(re, text[at:])
	if m == nil || err != nil {
		return nil, err
	}
	if re == p.later {
		m = m[2:]
	}
	for i := range m {
		if m[i] >= 0 {
			m[i] += at
		}
	}
	return m, nil
}

func (p *Pattern) search(re *regexp.Regexp, text string) ([]int, error) {
	n := len(text) * p.size
	if p.steps += n; p.Ask != nil && p.steps > direct {
		p.steps = 0
		if err := p.Ask(); err != nil {
			return nil, err
		}
	}
	if p.Ask == nil || n <= direct {
		if re.NumSubexp() == 0 {
			return re.FindStringIndex(text), nil
		}
		return re.FindStringSubmatchIndex(text), nil
	}
	r := &reader{r: strings.NewReader(text), p: p}
	var m []int
	if re.NumSubexp() == 0 {
		m = re.FindReaderIndex(r)
	} else {
		m = re.FindReaderSubmatchIndex(r)
	}
	return m, r.err
}

// reader reads a text until the search is to end.
type reader struct {
	r     *strings.Reader
	p     *Pattern
	steps int
	err   error
}

// ReadRune implements io.RuneReader.
func (r *reader) ReadRune() (rune, int, error) {
	if r.err != nil {
		return 0, 0, io.EOF
	}
	if r.steps += r.p.size; r.steps > direct {
		r.steps = 0
		if r.err = r.p.Ask(); r.err != nil {
			return 0, 0, io.EOF
		}
	}
	return r.r.ReadRune()
}

// After is where the search for the next match begins, behind a match. ok is false at the end.
func After(text string, m []int) (from int, ok bool) {
	if m[1] > m[0] {
		return m[1], true
	}
	if m[1] >= len(text) {
		return 0, false
	}
	_, n := utf8.DecodeRuneInString(text[m[1]:])
	return m[1] + n, true
}
