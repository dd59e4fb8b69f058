package sorted

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
)

// chunk is entries that are sorted at once.
type chunk struct {
	entries []entry
	bytes   int
	prefix  base.Key // that all keys have in common
}

// entry is one of them. Most comparisons need no more than head, what is behind the common prefix.
type entry struct {
	head uint64
	schema.Write
}

// overhead is what an entry takes beside its key and value.
const overhead = 64

func (c *chunk) add(w schema.Write) {
	if len(c.entries) == 0 {
		c.prefix = w.Key
	}
	n := 0
	for n < len(c.prefix) && n < len(w.Key) && c.prefix[n] == w.Key[n] {
		n++
	}
	c.prefix = c.prefix[:n]
	c.entries = append(c.entries, entry{Write: w})
	c.bytes += len(w.Key) + len(w.Value) + overhead
}

func (c *chunk) sort() {
	for i := range c.entries {
		e := &c.entries[i]
		var head [8]byte
		copy(head[:], e.Key[len(c.prefix):])
		e.head = binary.BigEndian.Uint64(head[:])
	}
	slices.SortFunc(c.entries, func(x, y entry) int {
		if x.head != y.head {
			return cmp.Compare(x.head, y.head)
		}
		return bytes.Compare(x.Key, y.Key)
	})
}

// take takes up to so many of the first entries off, of one section.
func (c *chunk) take(most int) []schema.Write {
	section := c.entries[0].Key.Section()
	var out []schema.Write
	for i := range c.entries {
		k := c.entries[i].Key
		if i == most || !bytes.HasPrefix(k, section) {
			break
		}
		out = append(out, c.entries[i].Write)
	}
	c.entries = c.entries[len(out):]
	return out
}
