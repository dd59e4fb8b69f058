package uca

import (
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"golang.org/x/text/unicode/norm"
)

func weights(t *Table, s string) (out []int32) {
	for s != "" {
		var ws []int32
		ws, s = t.Next(s)
		out = append(out, ws...)
	}
	return out
}

var expanding = []sql.CollationID{sql.Collation_utf8mb4_0900_ai_ci, sql.Collation_utf8mb4_unicode_520_ci, sql.Collation_utf8mb4_unicode_ci}

// TestSameCharacters: texts that are the same by the Unicode Standard, whose tables are another
// library's, have the same weights.
func TestSameCharacters(t *testing.T) {
	for _, id := range expanding {
		table := Of(id)
		differ := 0
		for r := rune(0); r <= utf8.MaxRune; r++ {
			s := string(r)
			if d := norm.NFD.String(s); d != s && !slices.Equal(weights(table, s), weights(table, d)) {
				differ++
			}
		}
		if want := map[sql.CollationID]int{
			sql.Collation_utf8mb4_0900_ai_ci: 1, // of Unicode 13
			// They know neither contractions nor the parts of syllables of Hangul: WEIGHT_STRING of
			// another server differs for as many.
			sql.Collation_utf8mb4_unicode_520_ci: 11380, sql.Collation_utf8mb4_unicode_ci: 11830,
		}[id]; differ != want {
			t.Errorf("%s: %d characters differ from what they are made of, want %d", id, differ, want)
		}
	}
}

// TestContractions: what a contraction begins with is not what another one ends with, so that two
// texts that are the same there may be taken up within one (package collate does so), and none has
// more than three characters.
func TestContractions(t *testing.T) {
	for _, id := range expanding {
		table := Of(id)
		n := 0
		for _, m := range table.more {
			for i, c := range m.contractions {
				n++
				if utf8.RuneCountInString(c.rest) > 2 || i > 0 && len(c.rest) > len(m.contractions[i-1].rest) {
					t.Errorf("%s: %q", id, c.rest)
				}
				last, _ := utf8.DecodeLastRuneInString(c.rest)
				if m := table.more[last]; m != nil && len(m.contractions) > 0 {
					t.Errorf("%s: %q", id, last)
				}
			}
		}
		if want := map[sql.CollationID]int{sql.Collation_utf8mb4_0900_ai_ci: 868}[id]; n != want {
			t.Errorf("%s: %d contractions", id, n)
		}
	}
}

// TestWeights names a few, as MySQL's manual (10.10.1) and the algorithm's table have them.
func TestWeights(t *testing.T) {
	newest, older := sql.Collation_utf8mb4_0900_ai_ci, sql.Collation_utf8mb4_unicode_ci
	for _, c := range []struct {
		id   sql.CollationID
		a, b string
		same bool
	}{
		{newest, "ß", "ss", true}, {older, "ß", "ss", true}, {newest, "ẞ", "SS", true}, {newest, "æ", "ae", true}, {older, "æ", "ae", false},
		{newest, "é", "e\u0301", true}, {older, "é", "e\u0301", true}, {newest, "ﬁ", "FI", true}, {newest, "❤\ufe0f", "❤", true},
		{newest, "й", "и\u0306", true}, {newest, "й", "и", false}, {newest, "l·", "l", true}, {newest, "l·a", "l\u200ba", true},
		{newest, "각", "\u1100\u1161\u11a8", true}, {newest, "가", "각", false}, {newest, "㍘", "0点", true}, {newest, "a\x00b", "ab", true},
		{newest, "ø", "o", true}, {newest, "ł", "l", true}, {newest, "o", "ə", false}, {newest, "ﷺ", "صلى الله عليه وسلم", true}, {newest, "a-b", "ab", false},
		{sql.Collation_utf8mb4_general_ci, "ß", "s", true}, {sql.Collation_utf8mb4_general_ci, "ß", "ss", false},
		{sql.Collation_utf8mb4_0900_as_cs, "ß", "ss", false},
	} {
		if got := slices.Equal(weights(Of(c.id), c.a), weights(Of(c.id), c.b)); got != c.same {
			t.Errorf("%s: %q and %q have the same weights: %v", c.id, c.a, c.b, got)
		}
	}
}

// TestClosed: what begins with a text begins with the weights of the closed one.
func TestClosed(t *testing.T) {
	table := Of(sql.Collation_utf8mb4_0900_ai_ci)
	for first, m := range table.more {
		for _, c := range m.contractions {
			for _, s := range []string{string(first), "x" + string(first), string(first) + c.rest} {
				whole := weights(table, s+c.rest+"x")
				if w := weights(table, table.Closed(s)); !slices.Equal(w, whole[:min(len(w), len(whole))]) {
					t.Fatalf("%q, closed %q, %q", s, table.Closed(s), s+c.rest)
				}
			}
		}
	}
	if s := "straße"; table.Closed(s) != s {
		t.Error(table.Closed(s))
	}
}

// FuzzNext takes any bytes apart.
func FuzzNext(f *testing.F) {
	f.Add("straße и\u0306\xff")
	f.Fuzz(func(t *testing.T, s string) {
		for _, id := range expanding {
			weights(Of(id), s)
			Of(id).Closed(s)
		}
	})
}
