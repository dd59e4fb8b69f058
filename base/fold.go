package base

import "strings"

// ContainsFold reports whether a text has a word, an ASCII letter first, in any case, perhaps as a
// part of another word. It is for every statement that arrives: it allocates nothing.
func ContainsFold(text, word string) bool {
	lower := word[0] | 0x20
	for i := 0; i+len(word) <= len(text); i++ {
		if text[i]|0x20 == lower && strings.EqualFold(text[i:i+len(word)], word) {
			return true
		}
	}
	return false
}
