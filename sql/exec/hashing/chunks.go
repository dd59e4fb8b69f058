package hashing

import "encoding/binary"

// chunks hold byte strings. None of them is moved when there are more: to copy hundreds of MiB
// would hold up a statement that is to end, and take twice the memory.
type chunks struct {
	list  [][]byte
	bytes int64 // their memory
}

const (
	firstChunk = 1 << 10
	chunkSize  = 1 << 20 // of those that hold many
)

// put keeps a copy of b. It returns where it is: the chunk in the upper 32 bits, the place of its
// length in the chunk in the lower ones.
func (c *chunks) put(b []byte) uint64 {
	need := len(b) + binary.MaxVarintLen32
	k := len(c.list) - 1
	if k < 0 || cap(c.list[k])-len(c.list[k]) < need {
		size := firstChunk
		if k >= 0 {
			size = min(2*cap(c.list[k]), chunkSize)
		}
		c.list = append(c.list, make([]byte, 0, max(size, need)))
		k++
		c.bytes += int64(cap(c.list[k]))
	}
	at := uint64(k)<<32 | uint64(len(c.list[k]))
	c.list[k] = append(binary.AppendUvarint(c.list[k], uint64(len(b))), b...)
	return at
}

// get is what put kept.
func (c *chunks) get(at uint64) []byte {
	b := c.list[at>>32][uint32(at):]
	n, w := binary.Uvarint(b)
	return b[w : w+int(n)]
}

// reset forgets all, and keeps one chunk for what comes.
func (c *chunks) reset() {
	k := len(c.list) - 1
	if k < 0 {
		return
	}
	last := c.list[k]
	if cap(last) > chunkSize {
		c.list, c.bytes = nil, 0
		return
	}
	clear(c.list)
	c.list = append(c.list[:0], last[:0])
	c.bytes = int64(cap(last))
}

// room makes room for one more number. A long list is copied in pieces, between which the statement
// is asked.
func room[T int64 | uint64](s []T, p *pace) ([]T, error) {
	if len(s) < cap(s) || 8*len(s) < chunkSize {
		return s, nil // append does it
	}
	more := make([]T, 0, len(s)+len(s)/2)
	for at := 0; at < len(s); {
		n := min(len(s)-at, chunkSize/8)
		more = append(more, s[at:at+n]...)
		at += n
		if err := p.ask(); err != nil {
			return s, err
		}
	}
	return more, nil
}
