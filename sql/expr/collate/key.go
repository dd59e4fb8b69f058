package collate

import (
	"crypto/sha256"
	"hash"
	"strings"
)

// mostKey is how long the key of a text is at most, in bytes. A longer one is replaced by its
// SHA-256.
const mostKey = 128 << 10

// widest is how many bytes of a key a byte of a text takes at most: U+FDFA, three bytes, has 18
// weights.
const widest = 18 * 7 / 3

// digested begins a key that is a digest. No weights begin so, and no length does.
const digested = "\xff\xff\xff\x00\x00\x00\x00"

const beyondLengths = 1 << 62

// AppendKey appends bytes that are the same for equal strings and for no others, and are no
// prefix of those of others. They have no order. ask is called now and then while a long string is
// read, and its error is returned; a nil one is not.
func (c *Collator) AppendKey(b []byte, s string, ask func() error) ([]byte, error) {
	if c.Binary {
		if c.Pad {
			s = strings.TrimRight(s, " ")
		}
		if len(s) > mostKey {
			sum, err := sumOf(s, ask)
			return append(appendLen(b, beyondLengths), sum...), err
		}
		return append(appendLen(b, len(s)), s...), nil
	}
	if widest*len(s) > mostKey {
		return c.appendLong(b, s, ask)
	}
	return append(c.AppendWeights(b, s), 0, 0, 0), nil
}

// AppendWeights appends the weights of a string, without those of spaces at the end that do not
// count.
func (c *Collator) AppendWeights(b []byte, s string) []byte {
	end := len(b)
	var ws []int32
	var one [1]int32
	for len(s) > 0 {
		ws, s = c.take(s, &one)
		for _, w := range ws {
			b = appendWeight(b, w)
			if !c.Pad || w != c.space {
				end = len(b)
			}
		}
	}
	return b[:end]
}

// AppendAlone appends a number for each character by itself, as LIKE compares them: the same for
// strings that are equal so.
func (c *Collator) AppendAlone(b []byte, s string) []byte {
	for len(s) > 0 {
		var w int32
		w, s = c.next(s)
		b = appendWeight(b, w)
	}
	return b
}

func appendWeight(b []byte, w int32) []byte {
	if u := uint32(w) + 1; u < 1<<24-1 {
		return append(b, byte(u), byte(u>>8), byte(u>>16))
	} else {
		return append(b, 0xff, 0xff, 0xff, byte(u), byte(u>>8), byte(u>>16), byte(u>>24))
	}
}

// appendLong is AppendKey for strings whose keys may be too long.
func (c *Collator) appendLong(b []byte, s string, ask func() error) ([]byte, error) {
	l := longKey{b: b, start: len(b)}
	spaces := 0 // that do not count yet
	var ws []int32
	var one [1]int32
	for a := (asking{ask, stepsBetween}); len(s) > 0; {
		if err := a.step(); err != nil {
			return b, err
		}
		ws, s = c.take(s, &one)
		for _, w := range ws {
			if c.Pad && w == c.space {
				spaces++
				continue
			}
			for ; spaces > 0; spaces-- {
				if l.add(c.space); spaces%stepsBetween == 0 && ask != nil {
					if err := ask(); err != nil {
						return b, err
					}
				}
			}
			l.add(w)
		}
	}
	return l.end(), nil
}

// longKey is the key of a string, or its digest if that is longer than mostKey.
type longKey struct {
	b     []byte
	start int
	sum   hash.Hash // of the key, without what b has; nil: b has all
}

func (l *longKey) add(w int32) {
	if l.b = appendWeight(l.b, w); len(l.b)-l.start <= mostKey {
		return
	}
	if l.sum == nil {
		l.sum = sha256.New()
	}
	l.sum.Write(l.b[l.start:])
	l.b = l.b[:l.start]
}

func (l *longKey) end() []byte {
	if l.sum == nil {
		return append(l.b, 0, 0, 0)
	}
	l.sum.Write(l.b[l.start:])
	return l.sum.Sum(append(l.b[:l.start], digested...))
}

// sumOf is the SHA-256 of a string.
func sumOf(s string, ask func() error) ([]byte, error) {
	const piece = 1 << 20
	sum := sha256.New()
	for len(s) > 0 {
		n := min(piece, len(s))
		sum.Write([]byte(s[:n]))
		if s = s[n:]; ask != nil {
			if err := ask(); err != nil {
				return nil, err
			}
		}
	}
	return sum.Sum(nil), nil
}
