package base

import (
	"encoding/binary"
	"errors"
	"math"
)

// Order-preserving encodings: for values a, b of one kind, a < b iff
// enc(a) < enc(b) as bytes, also when more is appended after them. A leading
// tag byte orders NULL first.

const (
	tagNull  byte = 0x01
	tagValue byte = 0x02

	escByte byte = 0x00
	escEnd  byte = 0x01
	escZero byte = 0xff
)

// ErrKeyCorrupt is returned when bytes are not an encoding made here.
var ErrKeyCorrupt = errors.New("corrupt key encoding")

// AppendNull encodes NULL, which sorts before every value.
func AppendNull(k []byte) []byte { return append(k, tagNull) }

// AppendUint64 encodes an unsigned number.
func AppendUint64(k []byte, v uint64) []byte {
	return binary.BigEndian.AppendUint64(append(k, tagValue), v)
}

// AppendInt64 encodes a signed number.
func AppendInt64(k []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(append(k, tagValue), uint64(v)^1<<63)
}

// AppendFloat64 encodes a float; -0 is stored as 0, NaN sorts first.
func AppendFloat64(k []byte, v float64) []byte {
	if v == 0 {
		v = 0
	}
	b := math.Float64bits(v)
	switch {
	case v != v:
		b = 0
	case b>>63 != 0:
		b = ^b
	default:
		b |= 1 << 63
	}
	return binary.BigEndian.AppendUint64(append(k, tagValue), b)
}

// AppendBytes encodes a byte string of any content: 0x00 becomes 0x00 0xff and
// the end is marked by 0x00 0x01.
func AppendBytes(k, v []byte) []byte { return append(AppendBegin(k, v), escByte, escEnd) }

// AppendBegin is [AppendBytes] without the end: what the encodings of all strings begin with that
// begin with v.
func AppendBegin(k, v []byte) []byte {
	k = append(k, tagValue)
	for _, c := range v {
		k = append(k, c)
		if c == escByte {
			k = append(k, escZero)
		}
	}
	return k
}

// TakeNull reports whether the next element is NULL and, if so, skips it.
func TakeNull(k []byte) (isNull bool, rest []byte, err error) {
	if len(k) == 0 {
		return false, nil, ErrKeyCorrupt
	}
	if k[0] == tagNull {
		return true, k[1:], nil
	}
	return false, k, nil
}

// TakeUint64 decodes what [AppendUint64] made.
func TakeUint64(k []byte) (uint64, []byte, error) {
	if len(k) < 9 || k[0] != tagValue {
		return 0, nil, ErrKeyCorrupt
	}
	return binary.BigEndian.Uint64(k[1:]), k[9:], nil
}

// TakeInt64 decodes what [AppendInt64] made.
func TakeInt64(k []byte) (int64, []byte, error) {
	v, rest, err := TakeUint64(k)
	return int64(v ^ 1<<63), rest, err
}

// TakeFloat64 decodes what [AppendFloat64] made.
func TakeFloat64(k []byte) (float64, []byte, error) {
	b, rest, err := TakeUint64(k)
	switch {
	case b == 0:
		return math.NaN(), rest, err
	case b>>63 != 0:
		b &^= 1 << 63
	default:
		b = ^b
	}
	return math.Float64frombits(b), rest, err
}

// TakeBytes decodes what [AppendBytes] made; the result is a copy.
func TakeBytes(k []byte) ([]byte, []byte, error) {
	if len(k) == 0 || k[0] != tagValue {
		return nil, nil, ErrKeyCorrupt
	}
	k = k[1:]
	out := make([]byte, 0, len(k))
	for i := 0; i < len(k); i++ {
		if k[i] != escByte {
			out = append(out, k[i])
			continue
		}
		if i+1 >= len(k) {
			break
		}
		switch k[i+1] {
		case escEnd:
			return out, k[i+2:], nil
		case escZero:
			out = append(out, escByte)
			i++
		default:
			return nil, nil, ErrKeyCorrupt
		}
	}
	return nil, nil, ErrKeyCorrupt
}
