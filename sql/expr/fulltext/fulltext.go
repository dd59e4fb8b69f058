// Package fulltext says which texts a MATCH ... AGAINST finds, and how well they fit: in natural
// language and in boolean mode, as InnoDB has it. It knows no tables: the caller counts in how many
// rows a word stands.
//
// A text is words of letters, digits, underscores and single apostrophes inside. Words of less than
// three letters and stop words are not found. An index WITH PARSER ngram takes texts apart in
// another way: see [Parser].
package fulltext

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dolthub/vitess/go/mysql"
)

// minLetters is innodb_ft_min_token_size.
const minLetters = 3

// stopwords are InnoDB's.
var stopwords = func() map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields("a about an are as at be by com de en for from how i in is it la of on or that the this " +
		"to was what when where who will with und the www") {
		out[w] = true
	}
	return out
}()

// firstWords are the first words of a text, most of them at most.
func firstWords(text string, most int) (out []string) {
	start := -1
	end := func(i int) {
		if start >= 0 {
			out = append(out, strings.TrimRight(text[start:i], "'"))
		}
		start = -1
	}
	last := rune(0)
	for i, r := range text {
		letter := (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.Mn, r)) && !unicode.IsPunct(r) || r == '_'
		switch {
		case letter && start < 0:
			start = i
		case !letter && (r != '\'' || last == '\''):
			end(i)
		}
		if last = r; len(out) >= most {
			return out
		}
	}
	end(len(text))
	return out
}

// Term is a part of a search: a word, the beginning of one (Prefix), a phrase, or a group.
type Term struct {
	Word   string
	Prefix bool
	Phrase []string
	Group  []Term
	// Must and Not are + and -. Weight is 1 with >, -1 with <. Ignored (~): it adds nothing to the
	// rank.
	Must, Not, Ignored bool
	Weight             float64
}

// Search is a text that is searched for, in an index whose texts Parser takes apart.
type Search struct {
	Terms  []Term
	Parser Parser
}

const (
	// mostWords is how many words a search may have: each is looked up in the index.
	mostWords = 1000
	// mostDeep is how deep parentheses may nest, as in InnoDB: each is a step deeper on the stack.
	mostDeep = 31
)

var (
	errWords = mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support 'a full-text search for more than "+
		"%d words': search for fewer", mostWords)
	errDeep = mysql.NewSQLError(1436, "HY000", "Thread stack overrun: parentheses of a full-text search nest more than %d deep: "+
		"search for less", mostDeep)
)

// Mode is how a text behind AGAINST is read: in boolean or in natural language mode, for an index
// that has the parser with this name.
type Mode struct {
	Boolean bool
	Parser  string
}

// String is the mode as a text, which [ModeOf] reads.
func (m Mode) String() string {
	name := "natural"
	if m.Boolean {
		name = "boolean"
	}
	return strings.TrimSuffix(name+" "+m.Parser, " ")
}

// ModeOf reads a mode.
func ModeOf(text string) Mode {
	name, parser, _ := strings.Cut(text, " ")
	return Mode{name == "boolean", parser}
}

// Parse reads the text behind AGAINST. It refuses a search with too many words (1235), or whose
// parentheses nest too deep (1436).
func Parse(text string, mode Mode) (Search, error) {
	by, _ := ParserNamed(mode.Parser)
	p := &parser{s: text, by: by}
	if mode.Boolean {
		terms := p.list()
		return Search{terms, by}, p.err
	}
	s := Search{Parser: by}
	seen := map[string]bool{}
	for _, w := range p.take(func(most int) []string { return by.tokens(text, most) }) {
		if !seen[w] {
			seen[w] = true
			s.Terms = append(s.Terms, Term{Word: w})
		}
	}
	return s, p.err
}

// parser reads a search in boolean mode.
type parser struct {
	s     string
	by    Parser
	at    int
	deep  int // parentheses that are open
	count int // words so far
	err   error
}

// fail ends the text at the first error.
func (p *parser) fail(err error) {
	p.err, p.at = cmp.Or(p.err, err), len(p.s)
}

// take counts the first words of a part of the text, as many as it is asked for; none if there are
// too many in all.
func (p *parser) take(first func(most int) []string) []string {
	ws := first(mostWords + 1 - p.count)
	if p.count += len(ws); p.count > mostWords {
		p.fail(errWords)
		return nil
	}
	return ws
}

const operators = "+-><~"

// list reads terms up to the end, or to a closing parenthesis.
func (p *parser) list() (out []Term) {
	for p.at < len(p.s) {
		if p.s[p.at] == ')' {
			p.at++
			return out
		}
		var t Term
		for p.at < len(p.s) && strings.IndexByte(operators, p.s[p.at]) >= 0 {
			t.operator(p.s[p.at])
			p.at++
		}
		out = append(out, p.term(t)...)
	}
	return out
}

func (t *Term) operator(c byte) {
	switch c {
	case '+':
		t.Must, t.Not = true, false
	case '-':
		t.Must, t.Not = false, true
	case '>':
		t.Weight = 1
	case '<':
		t.Weight = -1
	case '~':
		t.Ignored = true
	}
}

// term reads what the operators in t are in front of.
func (p *parser) term(t Term) (out []Term) {
	if p.at >= len(p.s) {
		return nil
	}
	switch p.s[p.at] {
	case '(':
		p.at++
		if p.deep++; p.deep > mostDeep {
			p.fail(errDeep)
			return nil
		}
		t.Group = p.list()
		p.deep--
		return []Term{t}
	case '"':
		p.at++
		n := strings.IndexByte(p.s[p.at:], '"')
		if n < 0 {
			n = len(p.s) - p.at
		}
		text := p.s[p.at : p.at+n]
		t.Phrase = p.take(func(most int) []string { return p.by.phrase(text, most) })
		p.at = min(p.at+n+1, len(p.s))
		p.distance()
		return []Term{t}
	}
	n := strings.IndexAny(p.s[p.at:], " \t\r\n()\"*"+operators)
	if n < 0 {
		n = len(p.s) - p.at
	}
	text := p.s[p.at : p.at+n]
	for _, w := range p.take(func(most int) []string { return firstWords(text, most) }) {
		t.Word = w
		out = append(out, t)
	}
	if p.at = min(p.at+n, len(p.s)); p.at < len(p.s) && p.s[p.at] == '*' {
		if p.at++; len(out) > 0 {
			out[len(out)-1].Prefix = true
		}
	} else if n == 0 {
		p.at++ // a blank
	}
	for i := range out {
		out[i] = p.inGrams(out[i])
	}
	return out
}

// inGrams is the term that a word stands for where the index has n-grams: a phrase of them. Only
// the beginning of one stays what it is.
func (p *parser) inGrams(t Term) Term {
	n := p.by.gram
	if n == 0 || t.Prefix && utf8.RuneCountInString(t.Word) < n {
		return t
	}
	t.Phrase = p.take(func(most int) []string { return grams(t.Word, n, most, true) })
	if t.Word, t.Prefix = "", false; len(t.Phrase) == 1 {
		t.Word, t.Phrase = t.Phrase[0], nil
	}
	return t
}

// distance skips @n behind a phrase.
func (p *parser) distance() {
	if p.at >= len(p.s) || p.s[p.at] != '@' {
		return
	}
	for p.at++; p.at < len(p.s) && p.s[p.at] >= '0' && p.s[p.at] <= '9'; p.at++ {
	}
}

// Leaves are the terms without operators below them that have one word: those of which it is to be
// known in how many rows they stand.
func (s Search) Leaves() []Term {
	var out []Term
	var walk func([]Term)
	walk = func(ts []Term) {
		for _, t := range ts {
			switch {
			case t.Not:
			case t.Group != nil:
				walk(t.Group)
			case t.Phrase != nil:
				for _, w := range t.Phrase {
					if s.Parser.found(w) {
						out = append(out, Term{Word: w, Ignored: t.Ignored})
					}
				}
			case s.Findable(t):
				out = append(out, t)
			}
		}
	}
	walk(s.Terms)
	return out
}

// Findable reports whether a word or prefix may be found.
func (s Search) Findable(t Term) bool { return s.Parser.findable(t) }

// Doc is a text that is searched.
type Doc struct {
	parser Parser
	words  []string // as keys
	count  map[string]int
	key    func(string) string
}

// NewDoc takes a text apart that is searched. key makes equal strings of words that are equal, and
// keeps beginnings.
func (s Search) NewDoc(text string, key func(string) string) *Doc {
	d := &Doc{parser: s.Parser, count: map[string]int{}, key: key}
	for _, w := range d.parser.tokens(text, math.MaxInt) {
		k := key(w)
		d.words = append(d.words, k)
		if d.parser.found(w) {
			d.count[k]++
		}
	}
	return d
}

// times is how often a word, or one with a beginning, stands in the text.
func (d *Doc) times(t Term) (n int) {
	if !d.parser.findable(t) {
		return 0
	}
	k := d.key(t.Word)
	if !t.Prefix {
		return d.count[k]
	}
	for w, c := range d.count {
		if strings.HasPrefix(w, k) {
			n += c
		}
	}
	return n
}

// has reports whether the text has a term.
func (d *Doc) has(t Term) bool {
	switch {
	case t.Group != nil:
		return d.matches(t.Group)
	case t.Phrase != nil:
		return d.phrase(t.Phrase)
	}
	return d.times(t) > 0
}

func (d *Doc) phrase(ws []string) bool {
	if len(ws) == 0 || d.parser.gram > 0 && !slices.ContainsFunc(ws, d.parser.found) {
		return false
	}
	keys := make([]string, len(ws))
	for i, w := range ws {
		keys[i] = d.key(w)
	}
	for i := 0; i+len(keys) <= len(d.words); i++ {
		ok := true
		for j, k := range keys {
			ok = ok && d.words[i+j] == k
		}
		if ok {
			return true
		}
	}
	return false
}

// matches reports whether the text has all that it must have, and nothing that it must not; without
// the former, one of the terms.
func (d *Doc) matches(ts []Term) bool {
	must, some := false, false
	for _, t := range ts {
		has := d.has(t)
		if t.Not && has || t.Must && !has {
			return false
		}
		must = must || t.Must
		some = some || has && !t.Not
	}
	return must || some
}

// Matches reports whether a text is found.
func (s Search) Matches(d *Doc) bool { return d.matches(s.Terms) }

// Rank is how well a text fits, 0 if it is not found. rows is the number of all rows, in how many
// of them the leaves stand.
func (s Search) Rank(d *Doc, rows float64, in []float64) float64 {
	if !s.Matches(d) {
		return 0
	}
	rank := max(-1, min(1, d.weight(s.Terms)))
	seen := map[string]bool{}
	for i, t := range s.Leaves() {
		name := d.key(t.Word)
		if t.Prefix {
			name += "*"
		}
		if n := d.times(t); n > 0 && !t.Ignored && !seen[name] {
			seen[name] = true
			idf := math.Log10(1.0001)
			if df := max(in[i], 1); rows > df {
				idf = math.Log10(rows / df)
			}
			rank += float64(n) * idf * idf
		}
	}
	return rank
}

// weight is what > and < say of the terms that the text has.
func (d *Doc) weight(ts []Term) (w float64) {
	for _, t := range ts {
		if t.Not || !d.has(t) {
			continue
		}
		w += t.Weight
		if t.Group != nil {
			w += d.weight(t.Group)
		}
	}
	return w
}

// Needed are sets of words: a row that is found has a word of each set. whole says that the text of
// the row is to be looked at, too.
func (s Search) Needed() (sets [][]Term, whole bool) { return s.needed(s.Terms) }

func (s Search) needed(terms []Term) (sets [][]Term, whole bool) {
	var some []Term
	must, known := false, true
	for _, t := range terms {
		plain := t.Group == nil && t.Phrase == nil
		if whole = whole || t.Not || !plain; t.Not {
			continue
		}
		if t.Must {
			must = true
			sets = append(sets, s.every(t)...)
			continue
		}
		// A row may be found by any of these: one set of each will do.
		if of := s.every(t); len(of) > 0 {
			some = append(some, of[0]...)
		} else {
			known = false
		}
	}
	if !must && known {
		sets = [][]Term{some}
	}
	return sets, whole
}

// every are the sets of words of which a row that has a term has one each; none if nothing is known
// of it.
func (s Search) every(t Term) (sets [][]Term) {
	switch {
	case t.Group != nil:
		sets, _ = s.needed(t.Group)
	case t.Phrase != nil:
		for _, l := range (Search{[]Term{{Phrase: t.Phrase}}, s.Parser}).Leaves() {
			sets = append(sets, []Term{l})
		}
		if len(sets) == 0 && s.Parser.gram > 0 {
			sets = [][]Term{nil} // it is not found
		}
	default:
		sets = [][]Term{{t}}
	}
	return sets
}
