package jsondoc

import (
	"math"
)

// StorageSize is how many bytes a document has in MySQL's binary form (JSON_STORAGE_SIZE): that of
// dumps of its tables and of its replication. Documents lie here as texts.
func StorageSize(v any) int { return 1 + size(v, true) } // a byte for the type

const (
	smallMost = 1<<16 - 1 // offsets of a small array or object have two bytes, of a large one four
	inlined   = -1        // of a value that stands in place of its offset
)

// size is how many bytes a value has beside its type; inlined: none. At the top nothing is.
func size(v any, top bool) int {
	switch v := v.(type) {
	case nil, bool:
		if top {
			return 1
		}
		return inlined
	case int64:
		return whole(v >= math.MinInt16 && v <= math.MaxInt16, v >= math.MinInt32 && v <= math.MaxInt32, top)
	case uint64:
		return whole(v <= math.MaxUint16, v <= math.MaxUint32, top)
	case Num:
		return 8
	case string:
		return lengthBytes(len(v)) + len(v)
	case []any:
		return container(v, nil)
	case *Object:
		return container(v.Vals, v.Keys)
	}
	return 8
}

// whole is the size of a whole number that fits two or four bytes.
func whole(two, four, top bool) int {
	switch {
	case two && !top:
		return inlined
	case two:
		return 2
	case four:
		return 4
	}
	return 8
}

// lengthBytes is how many bytes the length of a string has: seven bits each.
func lengthBytes(n int) int {
	bytes := 1
	for n >>= 7; n > 0; n >>= 7 {
		bytes++
	}
	return bytes
}

// container is the size of an array, or of an object if it has keys.
func container(vals []any, keys []string) int {
	for _, width := range []int{2, 4} {
		n := 2*width + len(vals)*(1+width) + len(keys)*(width+2)
		for _, k := range keys {
			n += len(k)
		}
		for _, v := range vals {
			if k := size(v, false); k > 0 && !(width == 4 && k == 4 && isWhole(v)) {
				n += k // a large container has room for numbers of four bytes
			}
		}
		if width == 4 || n <= smallMost {
			return n
		}
	}
	return 0
}

func isWhole(v any) bool {
	switch v.(type) {
	case int64, uint64:
		return true
	}
	return false
}
