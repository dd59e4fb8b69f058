package collate

import (
	"errors"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
)

// TestKeys: keys agree with Compare, in collations with and without padding.
func TestKeys(t *testing.T) {
	rnd := rand.New(rand.NewSource(1))
	alphabet := []string{"a", "A", "á", "b", "B", " ", "  ", "ß", "s", "\t", "é", "0", "字"}
	word := func() string {
		var b strings.Builder
		for range rnd.Intn(4) {
			b.WriteString(alphabet[rnd.Intn(len(alphabet))])
		}
		return b.String()
	}
	for _, id := range []sql.CollationID{
		sql.Collation_binary, sql.Collation_utf8mb4_0900_bin, sql.Collation_utf8mb4_bin,
		sql.Collation_utf8mb4_0900_ai_ci, sql.Collation_utf8mb4_general_ci, sql.Collation_latin1_swedish_ci,
	} {
		c := Of(id)
		equal := 0
		for range 20000 {
			a, b := word(), word()
			eq := c.Compare(a, b) == 0
			if eq {
				equal++
			}
			if k := key(t, c, a) == key(t, c, b); k != eq {
				t.Fatalf("%s: %q and %q: equal %v, keys equal %v", id, a, b, eq, k)
			}
			if c.Compare(a, b) != -c.Compare(b, a) {
				t.Fatalf("%s: %q and %q: no order", id, a, b)
			}
			if c.Equal(a, b) != eq {
				t.Fatalf("%s: %q and %q: Equal", id, a, b)
			}
		}
		if equal == 0 {
			t.Fatalf("%s: no equal strings tried", id)
		}
	}
}

func key(t *testing.T, c *Collator, s string) string {
	t.Helper()
	k, err := c.AppendKey(nil, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(k)
}

// TestLongKeys: so do those of long strings, which are short. Where they begin to be digests, equal
// strings of different lengths have the same keys.
func TestLongKeys(t *testing.T) {
	near := strings.Repeat("b", mostKey/3)
	texts := []string{"", "b", near, near[:len(near)-1], near + "B", near + "b ", strings.ToUpper(near), near + strings.Repeat(" ", mostKey),
		near + strings.Repeat(" ", mostKey) + "x", near + strings.Repeat(" ", mostKey) + "X", strings.Repeat(" ", 2*mostKey), strings.Repeat(" ", 2*mostKey) + "é",
		strings.Repeat(" ", 2*mostKey) + "É", strings.Repeat("字", mostKey), strings.Repeat("字", mostKey) + "a", strings.Repeat("é", mostKey), strings.Repeat("e", mostKey),
		strings.Repeat("b", mostKey) + "a", strings.Repeat("b", mostKey) + "A", strings.Repeat("b", 8*mostKey)}
	for _, id := range []sql.CollationID{sql.Collation_binary, sql.Collation_utf8mb4_bin, sql.Collation_utf8mb4_0900_ai_ci,
		sql.Collation_utf8mb4_general_ci, sql.Collation_latin1_swedish_ci} {
		c := Of(id)
		keys := make([]string, len(texts))
		for i, a := range texts {
			keys[i] = key(t, c, a)
		}
		for i, a := range texts {
			for j, b := range texts {
				k, l := keys[i], keys[j]
				if eq := c.Compare(a, b) == 0; (k == l) != eq {
					t.Fatalf("%s: texts %d and %d: equal %v, keys equal %v", id, i, j, eq, k == l)
				}
				if k != l && strings.HasPrefix(k, l) {
					t.Fatalf("%s: texts %d and %d: a key is the beginning of the other", id, i, j)
				}
			}
			if n := len(keys[i]); n > mostKey+10 {
				t.Errorf("%s: text %d: a key of %d bytes", id, i, n)
			}
		}
	}
}

// TestLongKeysAsk: while the key of a long string is made, it is asked whether to go on.
func TestLongKeysAsk(t *testing.T) {
	stop := errors.New("stop")
	for _, id := range []sql.CollationID{sql.Collation_utf8mb4_0900_bin, sql.Collation_utf8mb4_bin, sql.Collation_utf8mb4_0900_ai_ci,
		sql.Collation_utf8mb4_general_ci} {
		for _, s := range []string{strings.Repeat("a", 10<<20), strings.Repeat(" ", 10<<20) + "a", strings.Repeat("é", 5<<20)} {
			n := 0
			if _, err := Of(id).AppendKey(nil, s, func() error { n++; return nil }); err != nil || n < 5 {
				t.Errorf("%s: %v, asked %d times", id, err, n)
			}
			if _, err := Of(id).AppendKey(nil, s, func() error { return stop }); !errors.Is(err, stop) {
				t.Errorf("%s: %v", id, err)
			}
		}
	}
}

// TestAlike: strings that begin alike compare as if each character were looked at.
func TestAlike(t *testing.T) {
	rnd := rand.New(rand.NewSource(1))
	weights := func(c *Collator, s string) (out []int32) {
		for s != "" {
			var one [1]int32
			var ws []int32
			ws, s = c.take(s, &one)
			out = append(out, ws...)
		}
		return out
	}
	tails := []string{"a", "A", "é", "e\u0301", "É", "字", "", " ", "b", "\xc3", "ß", "ss", "sS", "\u200b", "\u0300", "\x01", "l", "L", "·", "l·", "й", "и", "\u0306",
		"가", "\u1100\u1161", "\u11a8", "각", "\u0fb2", "\u0f71", "\u0f80", "ไ", "ก", "ﷺ"}
	for range 100000 {
		c := Of([]sql.CollationID{sql.Collation_binary, sql.Collation_utf8mb4_0900_ai_ci, sql.Collation_utf8mb4_general_ci,
			sql.Collation_utf8mb4_unicode_520_ci, sql.Collation_utf8mb4_0900_as_cs}[rnd.Intn(5)])
		begin := strings.Repeat("x", rnd.Intn(70)) + tails[rnd.Intn(len(tails))] + strings.Repeat(tails[rnd.Intn(len(tails))], rnd.Intn(70))
		tail := func() (s string) {
			for range rnd.Intn(4) {
				s += tails[rnd.Intn(len(tails))]
			}
			return s
		}
		a, b := begin+tail(), begin+tail()
		x, y := weights(c, a), weights(c, b)
		for c.Pad && len(x) < len(y) {
			x = append(x, c.space)
		}
		for c.Pad && len(y) < len(x) {
			y = append(y, c.space)
		}
		want := slices.Compare(x, y)
		if got := c.Compare(a, b); got != want {
			t.Fatalf("%s: %q and %q: %d, want %d", c.ID, a, b, got, want)
		}
		if same := key(t, c, a) == key(t, c, b); same != (want == 0) {
			t.Fatalf("%s: %q and %q: keys are equal: %v", c.ID, a, b, same)
		}
	}
}

// TestPad: old collations ignore spaces at the end, new ones do not.
func TestPad(t *testing.T) {
	for _, c := range []struct {
		id   sql.CollationID
		a, b string
		want int
	}{
		{sql.Collation_utf8mb4_general_ci, "a", "A  ", 0},
		{sql.Collation_utf8mb4_bin, "a", "a ", 0},
		{sql.Collation_utf8mb4_bin, "a", "a\t", 1},
		{sql.Collation_utf8mb4_0900_ai_ci, "a", "a ", -1},
		{sql.Collation_utf8mb4_0900_ai_ci, "jose", "José", 0},
		{sql.Collation_binary, "a", "a ", -1},
	} {
		if got := Of(c.id).Compare(c.a, c.b); got != c.want {
			t.Errorf("%s: %q and %q: %d, want %d", c.id, c.a, c.b, got, c.want)
		}
	}
}

// slow is LIKE by recursion.
func slow(c *Collator, s, p string) bool {
	if p == "" {
		return s == ""
	}
	switch p[0] {
	case '%':
		return slow(c, s, p[1:]) || s != "" && slow(c, s[1:], p)
	case '\\':
		if len(p) > 1 {
			p = p[1:]
		}
	case '_':
		return s != "" && slow(c, s[1:], p[1:])
	}
	return s != "" && c.Compare(s[:1]+"x", p[:1]+"x") == 0 && slow(c, s[1:], p[1:])
}

// TestLike compares the matcher with one that is plain.
func TestLike(t *testing.T) {
	rnd := rand.New(rand.NewSource(2))
	word := func(alphabet string, n int) string {
		var b strings.Builder
		for range rnd.Intn(n) {
			b.WriteByte(alphabet[rnd.Intn(len(alphabet))])
		}
		return b.String()
	}
	yes := 0
	for _, id := range []sql.CollationID{sql.Collation_utf8mb4_0900_bin, sql.Collation_utf8mb4_0900_ai_ci, sql.Collation_binary} {
		c := Of(id)
		for range 30000 {
			s, p := word("abA%_\\", 7), word("abB%%_\\", 6)
			got, err := c.NewLike(p, '\\').Match(s, nil)
			want := slow(c, s, p)
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Fatalf("%s: %q LIKE %q: %v, want %v", id, s, p, got, want)
			}
			if got {
				yes++
			}
		}
	}
	if yes < 1000 {
		t.Fatalf("only %d matches", yes)
	}
}

// TestIndex finds by collation.
func TestIndex(t *testing.T) {
	if at, n, _ := Of(sql.Collation_utf8mb4_0900_ai_ci).Index("xÉy", "e", 0, nil); at != 1 || n != 2 {
		t.Errorf("found at %d, %d bytes", at, n)
	}
	if at, _, _ := Of(sql.Collation_utf8mb4_0900_bin).Index("xÉy", "e", 0, nil); at != -1 {
		t.Errorf("found at %d", at)
	}
	if at, _, _ := Of(sql.Collation_utf8mb4_0900_ai_ci).Index("aaa", "", 1, nil); at != 1 {
		t.Errorf("empty string at %d", at)
	}
}

// TestSearchesAsk: a search that takes time which grows with the product of the lengths asks as
// often, and ends when it is told to.
func TestSearchesAsk(t *testing.T) {
	const long, short = 4_000, 2_000
	s, sub := strings.Repeat("a", long), strings.Repeat("a", short)+"b"
	c := Of(sql.Collation_utf8mb4_0900_ai_ci)
	stop := errors.New("stop")
	for name, search := range map[string]func(ask func() error) error{
		"index":    func(ask func() error) error { _, _, err := c.Index(s, sub, 0, ask); return err },
		"contains": func(ask func() error) error { _, err := c.NewLike("%"+sub+"%", 0).Match(s, ask); return err },
		"general":  func(ask func() error) error { _, err := c.NewLike("%"+sub+"%c%", 0).Match(s, ask); return err },
	} {
		asked := 0
		if err := search(func() error { asked++; return nil }); err != nil {
			t.Fatal(err)
		}
		if least := long / 2 * short / stepsBetween; asked < least {
			t.Errorf("%s asked %d times, want %d at least", name, asked, least)
		}
		asked = 0
		if err := search(func() error {
			if asked++; asked == 3 {
				return stop
			}
			return nil
		}); err != stop || asked != 3 {
			t.Errorf("%s: %v, asked %d times", name, err, asked)
		}
	}
}
