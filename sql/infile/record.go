package infile

import (
	"encoding/binary"
	"errors"
)

// A record is a batch as a tape keeps it: how many lines it has, what lies before its end, and for
// each line the number of its fields and where they are; then the text.

var errRecord = errors.New("what LOAD DATA keeps of its file cannot be read")

// record makes that of a batch whose fields lie at the places given.
func (b *batch) record(at []int, text []byte) []byte {
	out := make([]byte, 0, len(text)+2*len(at)+2*b.n+32)
	out = binary.AppendUvarint(out, uint64(b.n))
	out = binary.AppendVarint(out, int64(b.end.Lines))
	out = binary.AppendVarint(out, b.end.Bytes)
	for i, n := range b.fields {
		n <<= 1
		if b.cut[i] {
			n |= 1
		}
		out = binary.AppendUvarint(out, uint64(n))
	}
	last := 0 // fields follow each other
	for _, x := range at {
		if x < 0 {
			out = append(out, byte(-x))
			continue
		}
		out = binary.AppendUvarint(out, uint64(x-last)+3)
		last = x
	}
	return append(out, text...)
}

// played is the batch of a record, whose lines have up to n fields of which some are wanted.
func played(record []byte, n int, wants []int) (*batch, error) {
	b, bad := &batch{}, false
	next := func() (v uint64) {
		v, k := binary.Uvarint(record)
		if bad = bad || k <= 0; bad {
			return 0
		}
		record = record[k:]
		return v
	}
	signed := func() int64 {
		v, k := binary.Varint(record)
		if bad = bad || k <= 0; bad {
			return 0
		}
		record = record[k:]
		return v
	}
	b.n = int(next())
	b.end = Place{Lines: int(signed())}
	b.end.Bytes = signed()
	for range b.n {
		k := int(next())
		b.fields, b.cut = append(b.fields, k>>1), append(b.cut, k&1 > 0)
	}
	at, last := make([]int, 2*n*b.n), 0
	for i := range at {
		if v := int(next()); v < 3 {
			at[i] = -v
		} else {
			last += v - 3
			at[i] = last
		}
	}
	if bad || last > len(record) {
		return nil, errRecord
	}
	b.take(at, string(record), n, wants)
	return b, nil
}
