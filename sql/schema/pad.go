package schema

import (
	"encoding/binary"
	"slices"
	"unicode/utf8"

	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/base"
)

// In collations with the attribute PAD SPACE a text compares as if it went on with spaces for ever.
// A key of it has its weights without the spaces at its end, and behind each run of spaces a byte
// that says what comes next, so that keys have that order:
//
//	0x01..0x3f, 0x40 and 4 bytes   so many spaces, and then something below a space: the fewer, the less
//	0x80                           spaces for ever: the end
//	0xbf and 4 bytes, 0xc0..0xfe   the complement of so many, and something above: the fewer, the more
const (
	padShort = 0x3f // as many spaces are counted in one byte
	padEnd   = 0x80
)

// pads reports whether the collation of a column has the attribute PAD SPACE.
func (d *ColumnDesc) pads() bool {
	t, err := typeOf(d)
	if err != nil {
		return false
	}
	switch t.Type() {
	case sqltypes.Char, sqltypes.VarChar, sqltypes.Text:
		return d.Collation.PadAttribute() == "PAD SPACE"
	}
	return false
}

// Unpadded reports whether keys of the column have the spaces at the end of texts, which its
// collation disregards: it is of an older store.
func (d *ColumnDesc) Unpadded() bool { return !d.Padded && d.pads() }

// Pad has keys of the column disregard spaces at the end, if its collation does. None may have been
// written.
func (d *ColumnDesc) Pad() { d.Padded = d.pads() }

// Unpad has keys of the columns that old has not, or has without that, keep spaces at the end of
// texts: for clusters with nodes that know no other keys.
func (d *TableDesc) Unpad(old *TableDesc) {
	for i := range d.Cols {
		c := &d.Cols[i]
		if old != nil {
			if j := old.Col(c.ID); j >= 0 && old.Cols[j].Padded {
				continue
			}
		}
		c.Padded = false
	}
}

// Pads reports whether keys of a column disregard spaces at the end of texts.
func (d *TableDesc) Pads() bool {
	return slices.ContainsFunc(d.Cols, func(c ColumnDesc) bool { return c.Padded })
}

// padded is a text in the order of a collation with the attribute PAD SPACE.
func (c *Column) padded(s []byte) []byte {
	unit, put := c.units()
	space, _ := unit([]byte(" "))
	out := make([]byte, 0, 2*len(s)+2)
	spaces := uint32(0)
	for len(s) > 0 {
		x, n := unit(s)
		if s = s[n:]; x == space {
			spaces++
			continue
		}
		if spaces > 0 {
			out = appendSpaces(put(out, space), spaces, x < space)
			spaces = 0
		}
		out = put(out, x)
	}
	return append(put(out, space), padEnd)
}

// units are how a text is taken apart: into bytes where these are the order, else into the weights
// of its characters.
func (c *Column) units() (unit func(s []byte) (x uint32, n int), put func(b []byte, x uint32) []byte) {
	if c.Binary {
		return func(s []byte) (uint32, int) { return uint32(s[0]), 1 },
			func(b []byte, x uint32) []byte { return append(b, byte(x)) }
	}
	w := weightsOf(c.Collation)
	return func(s []byte) (uint32, int) {
		if s[0] < utf8.RuneSelf {
			return w.ascii[s[0]], 1
		}
		r, n := utf8.DecodeRune(s)
		return uint32(w.of(r)), n
	}, appendWeight
}

func appendSpaces(b []byte, n uint32, below bool) []byte {
	switch {
	case n <= padShort && below:
		return append(b, byte(n))
	case n <= padShort:
		return append(b, ^byte(n))
	case below:
		return binary.BigEndian.AppendUint32(append(b, padShort+1), n)
	}
	return binary.BigEndian.AppendUint32(append(b, ^byte(padShort+1)), ^n)
}

// unpad is the text of a key of bytes, without spaces at its end.
func unpad(b []byte) (out []byte, err error) {
	for len(b) > 0 {
		if out = append(out, b[0]); b[0] != ' ' {
			b = b[1:]
			continue
		}
		if len(b) < 2 {
			break
		}
		k := b[1]
		if b = b[2:]; k == padEnd {
			return out[:len(out)-1], nil
		}
		n := uint32(min(k, ^k))
		if n > padShort {
			if len(b) < 4 {
				break
			}
			if n, b = binary.BigEndian.Uint32(b), b[4:]; k > padEnd {
				n = ^n
			}
		}
		for ; n > 1; n-- {
			out = append(out, ' ')
		}
	}
	return nil, base.ErrKeyCorrupt
}
