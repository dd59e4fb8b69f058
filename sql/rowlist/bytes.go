package rowlist

import "encoding/binary"

func appendNumber(b []byte, n int) []byte { return binary.AppendUvarint(b, uint64(n)) }

func appendText(b []byte, s string) []byte { return append(appendNumber(b, len(s)), s...) }

func takeNumber(b []byte) (n int, rest []byte, ok bool) {
	x, k := binary.Uvarint(b)
	if k <= 0 || x > 1<<40 {
		return 0, nil, false
	}
	return int(x), b[k:], true
}

func takeText(b []byte) (s string, rest []byte, ok bool) {
	n, b, ok := takeNumber(b)
	if !ok || n > len(b) {
		return "", nil, false
	}
	return string(b[:n]), b[n:], true
}
