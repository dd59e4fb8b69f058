// Package uca has the weights of texts in MySQL's collations.
//
// The engine's tables have one weight for each character. In the collations that follow the Unicode
// Collation Algorithm (UTS 10) without a language's own rules, a character may have several, as
// 'ß' has those of "ss", or none, as accents that stand for themselves, and some pairs have others
// than their parts (contractions). Files of this package say so, by characters that have one weight
// each; these are the engine's, which agree with the algorithm's: the same order, and equal for the
// same characters.
package uca

import (
	"bufio"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
)

//go:embed 400.txt
var version400 string

//go:embed 520.txt
var version520 string

//go:embed 900.txt
var version900 string

// Table has the weights of one collation.
type Table struct {
	one     sql.CollationSorter
	ascii   [utf8.RuneSelf][1]int32 // by themselves, as [Table.Alone] has them
	plain   [utf8.RuneSelf]bool     // has one weight, unless it begins a contraction with what is not of ASCII
	more    map[rune]*more          // characters that have not one weight, or begin contractions
	open    map[int32]bool          // numbers of those that begin contractions, by themselves
	hangul  bool                    // syllables have the weights of their parts
	expands bool
	pages   [(utf8.MaxRune + 1) / pageSize]atomic.Pointer[page]
}

const pageSize = 256

type page [pageSize]entry

// entry is a character. Its weights are a slice of one, unless more says otherwise.
type entry struct {
	weight [1]int32
	more   *more
}

type more struct {
	weights      []int32
	contractions []contraction // longer ones first
}

type contraction struct {
	rest    string // behind the character that it begins with
	weights []int32
}

var tables sync.Map // of *Table, by collation

// Of returns the weights of a collation. Without a sorter characters are their own.
func Of(id sql.CollationID) *Table {
	if t, ok := tables.Load(id); ok {
		return t.(*Table)
	}
	t := &Table{one: id.Sorter()}
	if t.one == nil {
		t.one = func(r rune) int32 { return r }
	}
	if data := dataOf(id); data != "" {
		t.expands, t.hangul = true, data == version900
		t.more = make(map[rune]*more)
		t.read(data)
		t.open = make(map[int32]bool)
		for r, m := range t.more {
			if len(m.contractions) > 0 {
				t.open[t.Alone(r)] = true
			}
		}
	}
	for r := range rune(utf8.RuneSelf) {
		m := t.more[r]
		t.plain[r] = m == nil || len(m.weights) == 1
		t.ascii[r][0] = t.Alone(r)
	}
	got, _ := tables.LoadOrStore(id, t)
	return got.(*Table)
}

// Expands reports whether characters of the collation may have several weights, or none.
func Expands(id sql.CollationID) bool { return dataOf(id) != "" }

func dataOf(id sql.CollationID) string {
	switch id {
	case sql.Collation_utf8mb4_0900_ai_ci:
		return version900
	case sql.Collation_utf8mb4_unicode_520_ci, sql.Collation_utf8mb3_unicode_520_ci:
		return version520
	case sql.Collation_utf8mb4_unicode_ci, sql.Collation_utf8mb3_unicode_ci:
		return version400
	}
	return ""
}

// read takes lines like "df = 53 53", "300-34e =" and "438 306 = 419": characters and those whose
// weights they have.
func (t *Table) read(data string) {
	for in := bufio.NewScanner(strings.NewReader(data)); in.Scan(); {
		left, right, _ := strings.Cut(in.Text(), " =")
		var weights []int32
		for _, r := range runes(right) {
			weights = append(weights, t.one(r))
		}
		if from, to, ok := strings.Cut(left, "-"); ok {
			for r := runes(from)[0]; r <= runes(to)[0]; r++ {
				t.at(r).weights = weights
			}
			continue
		}
		text := runes(left)
		m := t.at(text[0])
		if len(text) == 1 {
			m.weights = weights
			continue
		}
		c := contraction{string(text[1:]), weights}
		if len(m.contractions) > 0 && len(c.rest) > len(m.contractions[0].rest) {
			m.contractions = append([]contraction{c}, m.contractions...)
		} else {
			m.contractions = append(m.contractions, c)
		}
	}
}

// at is what is known of a character, from the beginning its one weight.
func (t *Table) at(r rune) *more {
	m := t.more[r]
	if m == nil {
		m = &more{weights: []int32{t.one(r)}}
		t.more[r] = m
	}
	return m
}

func runes(hex string) (out []rune) {
	for _, x := range strings.Fields(hex) {
		n, err := strconv.ParseInt(x, 16, 32)
		if err != nil {
			panic(fmt.Sprintf("uca: %q in the data: %v", x, err))
		}
		out = append(out, rune(n))
	}
	return out
}

// Next takes the first character of a text that is not empty, or more of them where they are a
// contraction: their weights, none if they do not count, and the rest of the text. Bytes that are
// no UTF-8 are taken one by one, for U+FFFD.
func (t *Table) Next(s string) (weights []int32, rest string) {
	if b := s[0]; b < utf8.RuneSelf && t.plain[b] && (len(s) == 1 || s[1] < utf8.RuneSelf) {
		return t.ascii[b][:], s[1:]
	}
	r, n := utf8.DecodeRuneInString(s)
	rest = s[n:]
	e := t.entry(r)
	if e.more == nil {
		return e.weight[:], rest
	}
	for _, c := range e.more.contractions {
		if strings.HasPrefix(rest, c.rest) {
			return c.weights, rest[len(c.rest):]
		}
	}
	return e.more.weights, rest
}

// entry makes a page of characters when one of them is first asked for.
func (t *Table) entry(r rune) *entry {
	p := &t.pages[r/pageSize]
	if have := p.Load(); have != nil {
		return &have[r%pageSize]
	}
	made := new(page)
	for i := range made {
		r := r/pageSize*pageSize + rune(i)
		made[i].weight[0] = t.one(r)
		if made[i].more = t.more[r]; t.hangul && r >= hangulFirst && r <= hangulLast {
			made[i].more = &more{weights: t.syllable(r)}
		}
	}
	p.Store(made)
	return &made[r%pageSize]
}

// Syllables of Hangul are numbered by their parts (the Unicode Standard, section 3.12).
const (
	hangulFirst, hangulLast    = 0xac00, 0xd7a3
	leading, vowel, trailing   = 0x1100, 0x1161, 0x11a7
	vowels, trailings          = 21, 28
	syllablesOfOneLeadingSound = vowels * trailings
)

func (t *Table) syllable(r rune) []int32 {
	i := r - hangulFirst
	out := []int32{t.one(leading + i/syllablesOfOneLeadingSound), t.one(vowel + i%syllablesOfOneLeadingSound/trailings)}
	if i%trailings > 0 {
		out = append(out, t.one(trailing+i%trailings))
	}
	return out
}

// Alone is a number for a character by itself, the same for those that have the same weights. It is
// for comparisons character by character, as LIKE makes them.
func (t *Table) Alone(r rune) int32 {
	e := t.entry(r)
	if e.more != nil && len(e.more.weights) == 0 {
		return nothing
	}
	return e.weight[0]
}

// nothing is the number of characters that do not count. No weight is negative.
const nothing = -3

// One is the engine's weight of a character, by which keys of older stores are made.
func (t *Table) One(r rune) int32 { return t.entry(r).weight[0] }

// Closed is a text without characters at its end whose weights depend on what comes next: all texts
// that begin with the whole one, character by character as LIKE compares them, have the weights of
// the closed one first.
func (t *Table) Closed(s string) string {
	for len(s) > 0 && t.expands {
		r, n := utf8.DecodeLastRuneInString(s)
		if !t.open[t.Alone(r)] {
			break
		}
		s = s[:len(s)-n]
	}
	return s
}

// Expands reports whether characters may have several weights, or none.
func (t *Table) Expands() bool { return t.expands }
