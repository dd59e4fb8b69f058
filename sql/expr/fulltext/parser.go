package fulltext

import (
	"math"
	"strings"
	"unicode/utf8"
)

// Ngram is the name of the parser that takes texts apart into n-grams.
const Ngram = "ngram"

// gramSize is ngram_token_size.
const gramSize = 2

// Parser takes texts apart into what an index has of them. The zero Parser does by words.
//
// The parser ngram of MySQL takes so many characters at a time, each time one further on, of what
// stands between blanks and other single-byte characters that are in no word. It is for languages
// that put no blanks between words. A token that contains a stop word is not found, whatever
// innodb_ft_min_token_size says of its length. In natural language mode any token of the search is
// looked for, in boolean mode the tokens of a word in their order, as those of a phrase.
type Parser struct {
	gram int // characters; 0: words
}

// ParserNamed is the parser with a name, in any case; empty: that of words. ok is false if there is
// none.
func ParserNamed(name string) (p Parser, ok bool) {
	if strings.EqualFold(name, Ngram) {
		return Parser{gramSize}, true
	}
	return Parser{}, name == ""
}

// tokens are the first tokens of a text, in order, most of them at most.
func (p Parser) tokens(text string, most int) []string {
	if p.gram > 0 {
		return grams(text, p.gram, most, false)
	}
	return firstWords(text, most)
}

// phrase are the first tokens of a phrase that is searched for. What is shorter than an n-gram
// counts here, and is never found.
func (p Parser) phrase(text string, most int) []string {
	if p.gram > 0 {
		return grams(text, p.gram, most, true)
	}
	return firstWords(text, most)
}

// found reports whether a token may be found.
func (p Parser) found(w string) bool {
	n, lower := utf8.RuneCountInString(w), strings.ToLower(w)
	if p.gram == 0 {
		return n >= minLetters && !stopwords[lower]
	}
	if n != p.gram {
		return false
	}
	for stop := range stopwords {
		if strings.Contains(lower, stop) {
			return false
		}
	}
	return true
}

// findable reports whether a word or prefix may be found.
func (p Parser) findable(t Term) bool { return t.Word != "" && (t.Prefix || p.found(t.Word)) }

// Forms are the words of the index that stand for a term; a beginning ends with %. What takes texts
// apart by words leaves an apostrophe at the end of one.
func (s Search) Forms(t Term) []string {
	switch {
	case t.Prefix:
		return []string{t.Word + "%"}
	case s.Parser.gram > 0:
		return []string{t.Word}
	}
	return []string{t.Word, t.Word + "'"}
}

// Count is how often a token stands in a text.
type Count struct {
	Token string
	Key   string // by which it equals others
	N     uint64
}

// Counts are the different tokens of a text that may be found, in the order in which they come
// first. key makes equal strings of tokens that are equal.
func (p Parser) Counts(text string, key func(string) string) (out []Count) {
	at := map[string]int{}
	for _, w := range p.tokens(text, math.MaxInt) {
		if !p.found(w) {
			continue
		}
		k := key(w)
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, Count{Token: w, Key: k})
		}
		out[i].N++
	}
	return out
}

// grams are the first n-grams of a text, most of them at most. With short, a piece of less than n
// characters is one of them, too.
func grams(text string, n, most int, short bool) (out []string) {
	starts := make([]int, 0, n) // of the last characters of the piece
	whole := false              // the piece has an n-gram
	end := func(at int) {
		if short && !whole && len(starts) > 0 {
			out = append(out, text[starts[0]:at])
		}
		starts, whole = starts[:0], false
	}
	for at := 0; at < len(text) && len(out) < most; {
		r, size := utf8.DecodeRuneInString(text[at:])
		if r < utf8.RuneSelf && !wordByte(byte(r)) {
			end(at)
		} else if starts = append(starts, at); len(starts) == n {
			out, whole = append(out, text[starts[0]:at+size]), true
			starts = starts[:copy(starts, starts[1:])]
		}
		at += size
	}
	if len(out) < most {
		end(len(text))
	}
	return out
}

func wordByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'z'
}
