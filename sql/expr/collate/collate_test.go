package collate

import (
	"errors"
	"math/rand"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
)

// TestKeys: keys and hashes agree with Compare, in collations with and without padding.
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
			if k := string(c.AppendKey(nil, a)) == string(c.AppendKey(nil, b)); k != eq {
				t.Fatalf("%s: %q and %q: equal %v, keys equal %v", id, a, b, eq, k)
			}
			if eq && c.Hash(1, a) != c.Hash(1, b) {
				t.Fatalf("%s: %q and %q are equal, their hashes are not", id, a, b)
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
