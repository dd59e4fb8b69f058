// Package collate compares strings by MySQL's collations: order, keys that are equal exactly for
// equal strings, LIKE, and the search for one string in another.
//
// Strings are UTF-8, whatever the character set of the collation; those of the collation binary
// are bytes. The weights of characters are those of package uca. Collations with the attribute PAD
// SPACE compare as if the shorter string had spaces at its end.
package collate

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/uca"
)

// Collator is a collation, made ready for use.
type Collator struct {
	ID sql.CollationID
	// Binary collations compare as bytes do: binary, and those of UTF-8 by code point.
	Binary bool
	// Pad is the attribute PAD SPACE.
	Pad   bool
	bytes bool       // strings are bytes, not characters
	t     *uca.Table // nil: characters, or bytes, are their weights
	ascii [utf8.RuneSelf]int32
	space int32
}

var cache sync.Map

// Of returns the collator of a collation.
func Of(id sql.CollationID) *Collator {
	if c, ok := cache.Load(id); ok {
		return c.(*Collator)
	}
	c := &Collator{ID: id, Pad: id.PadAttribute() == "PAD SPACE"}
	switch id {
	case sql.Collation_binary:
		c.Binary, c.bytes, c.Pad = true, true, false
	case sql.Collation_utf8mb4_0900_bin, sql.Collation_utf8mb4_bin, sql.Collation_utf8mb3_bin, sql.Collation_Unspecified:
		c.Binary = true
	}
	if id.Sorter() == nil {
		c.Binary = true
	}
	if !c.Binary {
		c.t = uca.Of(id)
	}
	for r := range rune(utf8.RuneSelf) {
		c.ascii[r] = c.alone(r)
	}
	c.space = c.ascii[' ']
	got, _ := cache.LoadOrStore(id, c)
	return got.(*Collator)
}

// alone is a number for a character by itself.
func (c *Collator) alone(r rune) int32 {
	if c.t == nil {
		return r
	}
	return c.t.Alone(r)
}

// next is such a number for the first character, and the rest of the string, which must not be
// empty.
func (c *Collator) next(s string) (int32, string) {
	if b := s[0]; b < utf8.RuneSelf && !c.bytes {
		return c.ascii[b], s[1:]
	}
	if c.bytes {
		return int32(s[0]), s[1:]
	}
	r, n := utf8.DecodeRuneInString(s)
	return c.alone(r), s[n:]
}

// take is the weights of the first character, or of several, and the rest of the string, which must
// not be empty. one is room for a weight.
func (c *Collator) take(s string, one *[1]int32) (weights []int32, rest string) {
	if c.t != nil {
		return c.t.Next(s)
	}
	one[0], rest = c.next(s)
	return one[:], rest
}

// Compare is -1, 0 or 1 as a sorts before, with or after b.
func (c *Collator) Compare(a, b string) int {
	if a == b {
		return 0
	}
	if c.Binary && !c.Pad {
		return strings.Compare(a, b)
	}
	if c.Binary {
		return c.comparePadded(a, b)
	}
	n := c.alike(a, b)
	a, b = a[n:], b[n:]
	var x, y []int32
	var oneX, oneY [1]int32
	for {
		for len(x) == 0 && a != "" {
			x, a = c.take(a, &oneX)
		}
		for len(y) == 0 && b != "" {
			y, b = c.take(b, &oneY)
		}
		switch {
		case len(x) == 0:
			return -c.rest(y, b)
		case len(y) == 0:
			return c.rest(x, a)
		case x[0] != y[0]:
			return order(x[0], y[0])
		}
		x, y = x[1:], y[1:]
	}
}

// alike is how many bytes at the beginning of two strings are equal as they are, or letters of
// ASCII that are equal. It ends where a character does, and takes a fraction of the time of next.
func (c *Collator) alike(a, b string) int {
	const block = 64
	at := 0
	for at+block <= min(len(a), len(b)) && a[at:at+block] == b[at:at+block] {
		at += block
	}
	for at > 0 && !c.bytes && (within(a, at) || within(b, at)) {
		at--
	}
	for at < len(a) && at < len(b) && a[at]|b[at] < utf8.RuneSelf && c.ascii[a[at]] == c.ascii[b[at]] {
		at++
	}
	if c.t != nil && c.t.Expands() {
		for range longestContraction - 1 {
			_, n := utf8.DecodeLastRuneInString(a[:at])
			at -= n
		}
	}
	return at
}

// longestContraction is how many characters have weights together. What is alike must not end
// within them.
const longestContraction = 3

// within reports whether a place in a string is within a character.
func within(s string, at int) bool { return at < len(s) && !utf8.RuneStart(s[at]) }

func order(x, y int32) int {
	if x < y {
		return -1
	}
	return 1
}

// rest compares what is left of the longer string, weights and a text behind them, with the end of
// the other one, which comes first unless there are only spaces that do not count.
func (c *Collator) rest(x []int32, a string) int {
	var one [1]int32
	for {
		for _, w := range x {
			if !c.Pad {
				return 1
			}
			if w != c.space {
				return order(w, c.space)
			}
		}
		if a == "" {
			return 0
		}
		x, a = c.take(a, &one)
	}
}

func (c *Collator) comparePadded(a, b string) int {
	n := min(len(a), len(b))
	if x := strings.Compare(a[:n], b[:n]); x != 0 {
		return x
	}
	if len(b) > n {
		return -c.rest(nil, b[n:])
	}
	return c.rest(nil, a[n:])
}

// Equal reports whether two strings are equal.
func (c *Collator) Equal(a, b string) bool {
	return a == b || !(c.Binary && !c.Pad) && c.Compare(a, b) == 0
}

// Matches reports whether two strings are equal character by character: spaces at the end of one of
// them count, whatever the collation says of them.
func (c *Collator) Matches(a, b string) bool {
	if c.Binary {
		return a == b
	}
	if c.t == nil || !c.t.Expands() {
		n, err := c.prefix(a, b, &asking{})
		return n == len(a) && err == nil
	}
	w := weightsBegin{c: c, s: a}
	for b != "" {
		var ws []int32
		if ws, b = c.t.Next(b); !w.take(ws) {
			return false
		}
	}
	return w.end() && c.weightless(w.s)
}

// weightsBegin compares the beginning of a text with weights, one after the other.
type weightsBegin struct {
	c       *Collator
	s       string // what is left
	pending []int32
}

func (w *weightsBegin) take(ws []int32) bool {
	for len(ws) > 0 {
		if len(w.pending) == 0 {
			if w.s == "" {
				return false
			}
			w.pending, w.s = w.c.t.Next(w.s)
			continue
		}
		if w.pending[0] != ws[0] {
			return false
		}
		w.pending, ws = w.pending[1:], ws[1:]
	}
	return true
}

// end reports whether what was compared ends with a character.
func (w *weightsBegin) end() bool { return len(w.pending) == 0 }

func (c *Collator) weightless(s string) bool {
	for s != "" {
		var ws []int32
		if ws, s = c.t.Next(s); len(ws) > 0 {
			return false
		}
	}
	return true
}

func appendLen(b []byte, n int) []byte {
	for n >= 0x80 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}

// asking calls ask after many steps: its error ends what takes them.
type asking struct {
	ask  func() error // nil: nobody is asked
	left int
}

// stepsBetween is how many steps there are between two questions. One takes some nanoseconds.
const stepsBetween = 1 << 16

func (a *asking) step() error {
	if a.left--; a.left > 0 || a.ask == nil {
		return nil
	}
	a.left = stepsBetween
	return a.ask()
}

// Index is the byte offset of the first place at or after from where sub is found, and the
// length of what is found there; -1 if there is none. By a collation that takes time that grows
// with the product of the lengths: ask is called now and then, and its error is returned.
func (c *Collator) Index(s, sub string, from int, ask func() error) (at, n int, err error) {
	if c.Binary {
		i := strings.Index(s[from:], sub)
		if i < 0 {
			return -1, 0, nil
		}
		return from + i, len(sub), nil
	}
	if c.t.Expands() && !c.weightless(sub) {
		return c.indexWeights(s, sub, from, &asking{ask, stepsBetween})
	}
	return c.indexAlone(s, sub, from, ask)
}

// indexAlone is Index where characters are compared one by one, as LIKE does.
func (c *Collator) indexAlone(s, sub string, from int, ask func() error) (at, n int, err error) {
	for i, a := from, (&asking{ask, stepsBetween}); ; {
		if n, err := c.prefix(s[i:], sub, a); n >= 0 || err != nil {
			return i, n, err
		}
		if i >= len(s) {
			return -1, 0, nil
		}
		_, w := utf8.DecodeRuneInString(s[i:])
		i += w
	}
}

// indexWeights is Index by weights, of which sub has some: "ss" is found in 'ß'. What is found
// begins with a character that has weights, and ends as soon as it has all of them.
func (c *Collator) indexWeights(s, sub string, from int, a *asking) (at, n int, err error) {
	for i := from; i < len(s); {
		w := weightsBegin{c: c, s: s[i:]}
		same := true
		if first, _ := c.t.Next(w.s); len(first) == 0 {
			same = false
		}
		for rest := sub; same && rest != ""; {
			if err := a.step(); err != nil {
				return -1, 0, err
			}
			var ws []int32
			ws, rest = c.t.Next(rest)
			same = w.take(ws)
		}
		if same && w.end() {
			return i, len(s) - i - len(w.s), nil
		}
		if err := a.step(); err != nil {
			return -1, 0, err
		}
		_, k := utf8.DecodeRuneInString(s[i:])
		i += k
	}
	return -1, 0, nil
}

// prefix is the length of the beginning of s that equals sub; -1 if there is none.
func (c *Collator) prefix(s, sub string, a *asking) (int, error) {
	t := s
	for len(sub) > 0 {
		if t == "" {
			return -1, nil
		}
		if err := a.step(); err != nil {
			return -1, err
		}
		var x, y int32
		x, t = c.next(t)
		y, sub = c.next(sub)
		if x != y {
			return -1, nil
		}
	}
	return len(s) - len(t), nil
}
