package expr

import (
	"strconv"
	"strings"
)

// Member is the number of a member of an ENUM by its text, from 1. A text that is no member, but a
// number, stands for the member of this number. It reports false if there is none.
func (t Type) Member(text string) (uint64, bool) {
	if n := t.named(text); n > 0 {
		return n, true
	}
	if n, ok := ordinal(text); ok && n > 0 && n <= uint64(len(t.Values)) {
		return n, true
	}
	return 0, false
}

// Members are the bits of the members of a SET by their texts, with commas between them. A text in
// which there is none, but which is a number, stands for these bits. It reports false if a member
// is unknown.
func (t Type) Members(text string) (bits uint64, ok bool) {
	if text == "" {
		return 0, true
	}
	ok = true
	for m := range strings.SplitSeq(text, ",") {
		if n := t.named(m); n > 0 {
			bits |= 1 << (n - 1)
		} else {
			ok = false
		}
	}
	if ok || bits != 0 {
		return bits, ok
	}
	if n, number := ordinal(text); number && n>>len(t.Values) == 0 {
		return n, true // a text is no number of more members than there are
	}
	return 0, false
}

// named is the number of the member of a name; 0: there is none.
func (t Type) named(text string) uint64 {
	coll := collator(t)
	text = strings.TrimRight(text, " ")
	for k, m := range t.Values {
		if coll.Equal(m, text) {
			return uint64(k + 1)
		}
	}
	return 0
}

// ordinal is the number that a text names a member or members by: nothing but digits, or -0.
func ordinal(text string) (uint64, bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimLeft(text, " "), "-"), 10, 64)
	return n, err == nil && (n == 0 || !strings.Contains(text, "-"))
}
