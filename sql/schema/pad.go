package schema

import (
	"encoding/binary"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql/fulltext"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/uca"
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

// flags are the properties of keys of texts that came with versions.
func (d *ColumnDesc) flags() [2]keyFlag {
	return [...]keyFlag{{base.VersionPadded, &d.Padded, d.Collation.PadAttribute() == "PAD SPACE"}, {base.VersionExpanded, &d.Expanded, uca.Expands(d.Collation)}}
}

type keyFlag struct {
	since base.ClusterVersion
	set   *bool
	may   bool // the collation of the column asks for it
}

func (d *ColumnDesc) text() bool {
	t, err := typeOf(d)
	if err != nil {
		return false
	}
	switch t.Type() {
	case sqltypes.Char, sqltypes.VarChar, sqltypes.Text:
		return true
	}
	return false
}

// OldKeys reports whether keys of the column are those of an older store: they have the spaces at
// the end of texts, which the collation disregards, or one weight for each character, where it has
// several or none. A cluster of version v could have others.
func (d *ColumnDesc) OldKeys(v base.ClusterVersion) bool {
	return d.oldKeys(v) && d.text()
}

// oldKeys is that of a column of texts.
func (d *ColumnDesc) oldKeys(v base.ClusterVersion) bool {
	for _, f := range d.flags() {
		if f.may && !*f.set && v >= f.since {
			return true
		}
	}
	return false
}

// NewKeys has keys of the column be as the collation says. None may have been written.
func (d *ColumnDesc) NewKeys() {
	text := d.text()
	for _, f := range d.flags() {
		*f.set = text && f.may
	}
}

// Fit takes from columns the properties of keys that not all nodes of a cluster of version v know,
// unless old has the column with them. The engine tells words of full-text indexes apart by one
// weight for each character, so keys of the tables that it has for them have no more.
func (d *TableDesc) Fit(old *TableDesc, v base.ClusterVersion) {
	words := d.ofWords()
	for i := range d.Cols {
		c := &d.Cols[i]
		c.Expanded = c.Expanded && !words
		for k, f := range c.flags() {
			if v >= f.since {
				continue
			}
			if old != nil {
				if j := old.Col(c.ID); j >= 0 && *old.Cols[j].flags()[k].set {
					continue
				}
			}
			*f.set = false
		}
	}
}

// ofWords reports whether the engine has made the table for the words of a full-text index.
func (d *TableDesc) ofWords() bool {
	return len(d.Cols) > 0 && d.Cols[0].Name == fulltext.SchemaDocCount[0].Name && slices.ContainsFunc(
		[]string{"_FTS_POSITION", "_FTS_DOC_COUNT", "_FTS_GLOBAL_COUNT"}, func(end string) bool { return strings.HasSuffix(d.Name, end) })
}

// KeysSince is the version since which keys may be as those of the table are.
func (d *TableDesc) KeysSince() (v base.ClusterVersion) {
	for i := range d.Cols {
		for _, f := range d.Cols[i].flags() {
			if *f.set {
				v = max(v, f.since)
			}
		}
	}
	return v
}

// padded is a text, of length weights at most, in the order of a collation with the attribute PAD
// SPACE. begin leaves out the end.
func (c *Column) padded(s string, length int64, begin bool) []byte {
	put := appendWeight
	if c.Binary {
		put = func(b []byte, x uint32) []byte { return append(b, byte(x)) }
	}
	var ws []int32
	var one [1]int32
	ws, _ = c.take(" ", &one)
	space := uint32(ws[0])
	out := make([]byte, 0, 2*len(s)+2)
	spaces := uint32(0)
	for len(s) > 0 && length > 0 {
		ws, s = c.take(s, &one)
		for _, w := range ws[:min(int64(len(ws)), length)] {
			x := uint32(w)
			if x == space {
				spaces++
				continue
			}
			if spaces > 0 {
				out = appendSpaces(put(out, space), spaces, x < space)
				spaces = 0
			}
			out = put(out, x)
		}
		length -= int64(len(ws))
	}
	if begin {
		return out
	}
	return append(put(out, space), padEnd)
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
