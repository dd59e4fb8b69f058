package rowfmt

import (
	"encoding/binary"
	"math/big"
)

// Version is the first byte of a row. History:
//
//	1: first
const Version byte = 1

// Class is how long a payload is.
type Class byte

// The classes. They are part of shipped updates: do not change their order.
const (
	Varint Class = iota // ends by itself
	Fixed8              // eight bytes
	Blob                // uvarint length and so many bytes
)

// Len is the length of the payload at the beginning of b; ok is false if b does not begin with one.
func (c Class) Len(b []byte) (n int, ok bool) {
	switch c {
	case Varint:
		_, n := binary.Uvarint(b)
		return n, n > 0
	case Fixed8:
		return 8, len(b) >= 8
	case Blob:
		if l, n := binary.Uvarint(b); n > 0 && l <= uint64(len(b)-n) {
			return n + int(l), true
		}
	}
	return 0, false
}

// AppendHead appends the head of a column, whose id is larger than that of the column before, last.
func AppendHead(b []byte, last, id uint32, null bool) []byte {
	head := uint64(id-last) << 1
	if null {
		head |= 1
	}
	return binary.AppendUvarint(b, head)
}

// TakeHead reads the head of a column behind the column last.
func TakeHead(b []byte, last uint32) (id uint32, null bool, rest []byte, ok bool) {
	head, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, false, nil, false
	}
	return last + uint32(head>>1), head&1 != 0, b[n:], true
}

// AppendBlob appends a payload of class Blob.
func AppendBlob(b, v []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(v))), v...) }

// TakeBlob reads a payload of class Blob; v is part of b.
func TakeBlob(b []byte) (v, rest []byte, ok bool) {
	n, k := binary.Uvarint(b)
	if k <= 0 || uint64(len(b)-k) < n {
		return nil, nil, false
	}
	return b[k : k+int(n)], b[k+int(n):], true
}

// AppendDecimal appends a decimal, coefficient times ten to the exponent, as a payload of class
// Blob: the exponent, zig-zag, the sign, 1 if negative, and the bytes of the coefficient, the first
// one first.
func AppendDecimal(b []byte, coefficient *big.Int, exponent int32) []byte {
	var tmp [40]byte
	p := append(binary.AppendVarint(tmp[:0], int64(exponent)), 0)
	if coefficient.Sign() < 0 {
		p[len(p)-1] = 1
	}
	return AppendBlob(b, append(p, coefficient.Bytes()...))
}

// Decimal is what AppendDecimal has written, without the length; ok is false for anything else.
func Decimal(v []byte) (coefficient *big.Int, exponent int64, ok bool) {
	exponent, n := binary.Varint(v)
	if n <= 0 || len(v) == n || v[n] > 1 {
		return nil, 0, false
	}
	coefficient = new(big.Int).SetBytes(v[n+1:])
	if v[n] == 1 {
		coefficient.Neg(coefficient)
	}
	return coefficient, exponent, true
}
