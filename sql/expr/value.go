package expr

import "strconv"

// Text is a value as MySQL shows it.
func (x Value) Text(t Type) string {
	switch x.Kind {
	case Null:
		return "NULL"
	case Uint:
		return strconv.FormatUint(uint64(x.I), 10)
	case Decimal:
		return x.D.Text('f')
	case Float:
		return strconv.FormatFloat(x.F, 'g', -1, 64)
	case Text, Bytes, JSON:
		return x.S
	}
	return strconv.FormatInt(x.I, 10)
}
