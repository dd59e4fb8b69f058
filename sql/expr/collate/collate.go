// Package collate compares strings by MySQL's collations: order, keys that are equal exactly for
// equal strings, LIKE, and the search for one string in another.
//
// Strings are UTF-8, whatever the character set of the collation; those of the collation binary
// are bytes. The weights of characters are those of the engine's tables, one for each character.
// Collations with the attribute PAD SPACE compare as if the shorter string had spaces at its
// end.
package collate

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
)

// Collator is a collation, made ready for use.
type Collator struct {
	ID sql.CollationID
	// Binary collations compare as bytes do: binary, and those of UTF-8 by code point.
	Binary bool
	// Pad is the attribute PAD SPACE.
	Pad    bool
	bytes  bool // strings are bytes, not characters
	ascii  [utf8.RuneSelf]int32
	weight sql.CollationSorter
	space  int32
}

var cache sync.Map

// Of returns the collator of a collation.
func Of(id sql.CollationID) *Collator {
	if c, ok := cache.Load(id); ok {
		return c.(*Collator)
	}
	c := &Collator{ID: id, weight: id.Sorter(), Pad: id.PadAttribute() == "PAD SPACE"}
	switch id {
	case sql.Collation_binary:
		c.Binary, c.bytes, c.Pad = true, true, false
	case sql.Collation_utf8mb4_0900_bin, sql.Collation_utf8mb4_bin, sql.Collation_utf8mb3_bin, sql.Collation_Unspecified:
		c.Binary = true
	}
	if c.weight == nil {
		c.Binary = true
		c.weight = func(r rune) int32 { return r }
	}
	for i := range c.ascii {
		c.ascii[i] = c.weight(rune(i))
	}
	c.space = c.ascii[' ']
	got, _ := cache.LoadOrStore(id, c)
	return got.(*Collator)
}

// next is the weight of the first character and the rest of the string, which must not be empty.
func (c *Collator) next(s string) (int32, string) {
	if b := s[0]; b < utf8.RuneSelf && !c.bytes {
		return c.ascii[b], s[1:]
	}
	if c.bytes {
		return int32(s[0]), s[1:]
	}
	r, n := utf8.DecodeRuneInString(s)
	return c.weight(r), s[n:]
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
	for len(a) > 0 && len(b) > 0 {
		var x, y int32
		x, a = c.next(a)
		y, b = c.next(b)
		if x != y {
			return order(x, y)
		}
	}
	return c.rest(a, b)
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
	return at
}

// within reports whether a place in a string is within a character.
func within(s string, at int) bool { return at < len(s) && !utf8.RuneStart(s[at]) }

func order(x, y int32) int {
	if x < y {
		return -1
	}
	return 1
}

// rest compares what is left of the longer string.
func (c *Collator) rest(a, b string) int {
	sign := 1
	if a == "" {
		a, sign = b, -1
	}
	if a == "" {
		return 0
	}
	if !c.Pad {
		return sign
	}
	for len(a) > 0 {
		var x int32
		if x, a = c.next(a); x != c.space {
			return sign * order(x, c.space)
		}
	}
	return 0
}

func (c *Collator) comparePadded(a, b string) int {
	n := min(len(a), len(b))
	if x := strings.Compare(a[:n], b[:n]); x != 0 {
		return x
	}
	return c.rest(a[n:], b[n:])
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
	n, err := c.prefix(a, b, &asking{})
	return n == len(a) && err == nil
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
