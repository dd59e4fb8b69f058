package patch

import (
	"math/big"

	"github.com/godwitdb/godwit/sql/schema/rowfmt"
)

// takeDecimal decodes exactly what rowfmt.AppendDecimal encodes.
func takeDecimal(payload []byte) (coefficient *big.Int, exponent int64, ok bool) {
	v, rest, ok := rowfmt.TakeBlob(payload)
	if !ok || len(rest) > 0 {
		return nil, 0, false
	}
	coefficient, exponent, ok = rowfmt.Decimal(v)
	return coefficient, exponent, ok && int64(int32(exponent)) == exponent
}

// mostDigits is more than any column has.
const mostDigits = 65

// addDecimal adds two payloads of one scale; false if the sum has too many digits.
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
	return rowfmt.AppendDecimal(nil, a, int32(scale)), true
}
