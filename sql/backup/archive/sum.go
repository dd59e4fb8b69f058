package archive

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
)

// Sum is a checksum of rows that does not ask for their order: a sum of 128 bits.
type Sum struct{ Hi, Lo uint64 }

// Sum is the checksum of a row as it is restored: its key, where it is at home, and its value.
func (r *Record) Sum() Sum {
	h := sha256.New()
	head := binary.AppendUvarint(nil, uint64(len(r.PK)))
	head = binary.AppendUvarint(head, uint64(r.Home))
	if r.Pinned {
		head = append(head, 1)
	} else {
		head = append(head, 0)
	}
	h.Write(head) // it never fails
	h.Write(r.PK)
	h.Write(r.Value)
	b := h.Sum(nil)
	return Sum{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
}

// Add adds another sum.
func (s *Sum) Add(o Sum) {
	var carry uint64
	s.Lo, carry = bits.Add64(s.Lo, o.Lo, 0)
	s.Hi, _ = bits.Add64(s.Hi, o.Hi, carry)
}

// Sub takes another sum away.
func (s *Sum) Sub(o Sum) {
	var borrow uint64
	s.Lo, borrow = bits.Sub64(s.Lo, o.Lo, 0)
	s.Hi, _ = bits.Sub64(s.Hi, o.Hi, borrow)
}

// String is the sum in digits.
func (s Sum) String() string { return fmt.Sprintf("%016x%016x", s.Hi, s.Lo) }

// MarshalText implements [encoding.TextMarshaler].
func (s Sum) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Sum) UnmarshalText(b []byte) error {
	raw, err := hex.DecodeString(string(b))
	if err != nil || len(raw) != 16 {
		return fmt.Errorf("%q is no checksum of rows", b)
	}
	s.Hi, s.Lo = binary.BigEndian.Uint64(raw), binary.BigEndian.Uint64(raw[8:])
	return nil
}
