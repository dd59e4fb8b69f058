package patch

import (
	"encoding/binary"
	"math/big"
)

// AppendDecimal encodes a decimal, coefficient times ten to the exponent, as the payload of a column.
func AppendDecimal(b []byte, coefficient *big.Int, exponent int32) []byte {
	var tmp [40]byte
	p := append(binary.AppendVarint(tmp[:0], int64(exponent)), 0)
	if coefficient.Sign() < 0 {
		p[len(p)-1] = 1
	}
	p = append(p, coefficient.Bytes()...)
	return append(binary.AppendUvarint(b, uint64(len(p))), p...)
}

// takeDecimal reads what AppendDecimal has written, and nothing else.
func takeDecimal(payload []byte) (coefficient *big.Int, exponent int64, ok bool) {
	l, n := binary.Uvarint(payload)
	if n <= 0 || l != uint64(len(payload)-n) {
		return nil, 0, false
	}
	p := payload[n:]
	exponent, n = binary.Varint(p)
	if n <= 0 || len(p) == n || p[n] > 1 {
		return nil, 0, false
	}
	coefficient = new(big.Int).SetBytes(p[n+1:])
	if p[n] == 1 {
		coefficient.Neg(coefficient)
	}
	return coefficient, exponent, int64(int32(exponent)) == exponent
}

// mostDigits is more than any column has.
const mostDigits = 65

// addDecimal is the sum of two payloads of one scale, which has at most so many digits.
func addDecimal(payload, add []byte, digits uint64) ([]byte, bool) {
	a, scale, ok := takeDecimal(payload)
	if !ok || digits > mostDigits {
		return nil, false
	}
	b, s, ok := takeDecimal(add)
	if !ok || s != scale || b.Sign() == 0 {
		return nil, false
	}
	limit := new(big.Int).Exp(big.NewInt(10), new(big.Int).SetUint64(digits), nil)
	if a.Add(a, b); a.CmpAbs(limit) >= 0 {
		return nil, false
	}
	return AppendDecimal(nil, a, int32(scale)), true
}
