package schema

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/uca"
)

// TestPaddedKeys: in collations with PAD SPACE keys have the order of texts that go on with spaces
// for ever, whatever follows in the key, and those of equal texts are the same.
func TestPaddedKeys(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	letters := []string{" ", " ", " ", "a", "A", "b", "\t", "\x00", "~", "é", "\u00a0", "日"}
	texts := []string{"", " ", strings.Repeat(" ", 100), "a" + strings.Repeat(" ", 62) + "b", "a" + strings.Repeat(" ", 63) + "b",
		"a" + strings.Repeat(" ", 64) + "b", "a" + strings.Repeat(" ", 300) + "b", "a" + strings.Repeat(" ", 63) + "\t",
		"a" + strings.Repeat(" ", 64) + "\t", "a" + strings.Repeat(" ", 300) + "\t"}
	for range 200 {
		s := ""
		for range rnd.IntN(6) {
			s += letters[rnd.IntN(len(letters))]
		}
		texts = append(texts, s)
	}
	for _, coll := range []sql.CollationID{sql.Collation_utf8mb4_general_ci, sql.Collation_utf8mb4_unicode_ci,
		sql.Collation_utf8mb4_bin, sql.Collation_latin1_swedish_ci} {
		typ, err := types.CreateString(sqltypes.VarChar, 400, coll)
		if err != nil {
			t.Fatal(err)
		}
		var d TableDesc
		if err := d.AddColumn(&sql.Column{Name: "s", Type: typ, Nullable: true}, 0); err != nil || !d.Cols[0].Padded {
			t.Fatal(coll.Name(), err, d.Cols)
		}
		c, err := NewColumn(&d.Cols[0])
		if err != nil || !c.Sortable() {
			t.Fatal(err)
		}
		weights := func(s string) (out []int32) {
			for s += " "; s != ""; {
				var ws []int32
				var one [1]int32
				ws, s = c.take(s, &one)
				out = append(out, ws...)
			}
			return append(out, slices.Repeat(out[len(out)-1:], 400-len(out))...)
		}
		var all [][]int32
		for _, x := range texts {
			all = append(all, weights(x))
		}
		for i, x := range texts {
			a, null := append(keyOf(t, c, x), 0xff), keyOf(t, c, nil)
			if bytes.Compare(null, a) >= 0 {
				t.Errorf("%s: NULL is not below %q", coll.Name(), x)
			}
			if text, rest, ok := c.TakeKey(a); ok != c.Binary || ok && (text != "'"+strings.TrimRight(x, " ")+"'" || len(rest) != 1) {
				t.Errorf("%s: %q is read as %q, %x, %v", coll.Name(), x, text, rest, ok)
			}
			for j, y := range texts {
				b := append(keyOf(t, c, y), 0x00)
				want := slices.Compare(all[i], all[j])
				if want == 0 {
					b = append(keyOf(t, c, y), 0xff)
				}
				if got := bytes.Compare(a, b); got != want {
					t.Fatalf("%s: %q and %q compare as %d, their keys as %d", coll.Name(), x, y, want, got)
				}
			}
		}
	}
}

// TestUnpaddedKeys: a column of an older store keeps its keys with a definition of the same
// collation, and gets those of new ones with another.
func TestUnpaddedKeys(t *testing.T) {
	d := ColumnDesc{ID: 1, Name: "s", Type: "varchar(10)", Collation: sql.Collation_utf8mb4_general_ci}
	redefined := func(coll sql.CollationID) ColumnDesc {
		n := d
		typ, err := types.CreateString(sqltypes.VarChar, 20, coll)
		if err == nil {
			err = n.Redefine(&sql.Column{Name: "s", Type: typ})
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	c, err := NewColumn(&d)
	if err != nil || !d.OldKeys(base.VersionNewest) || c.Sortable() || bytes.Equal(keyOf(t, c, "a"), keyOf(t, c, "a ")) {
		t.Fatal(err, d)
	}
	if n := redefined(d.Collation); n.Padded {
		t.Error("written keys are taken for others")
	}
	if n := redefined(sql.Collation_utf8mb4_unicode_ci); !n.Padded || n.OldKeys(base.VersionNewest) {
		t.Error("new keys have spaces")
	}
	if n := redefined(sql.Collation_utf8mb4_0900_ai_ci); n.Padded || n.OldKeys(base.VersionNewest) {
		t.Error("keys of a collation without PAD SPACE have none")
	}
}

// TestExpandedKeys: where characters have several weights, or none, keys have the order of all
// weights, those of a prefix that of so many, and texts that begin alike have keys that do.
func TestExpandedKeys(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	letters := []string{" ", "a", "A", "ß", "s", "S", "e\u0301", "é", "\u0301", "\x00", "\t", "l", "l·", "ｌ", "й", "И", "\u0306", "가", "\u1100", "각", "ไ", "ก", "日", "ﷺ", "~", "\u00a0"}
	var texts []string
	for range 120 {
		s := ""
		for range rnd.IntN(6) {
			s += letters[rnd.IntN(len(letters))]
		}
		texts = append(texts, s)
	}
	for _, coll := range []sql.CollationID{sql.Collation_utf8mb4_0900_ai_ci, sql.Collation_utf8mb4_unicode_ci, sql.Collation_utf8mb4_unicode_520_ci,
		sql.Collation_utf8mb4_general_ci, sql.Collation_utf8mb4_bin, sql.Collation_utf8mb4_0900_bin} {
		typ, err := types.CreateString(sqltypes.VarChar, 400, coll)
		if err != nil {
			t.Fatal(err)
		}
		var d TableDesc
		if err := d.AddColumn(&sql.Column{Name: "s", Type: typ, Nullable: true}, 0); err != nil || d.Cols[0].Expanded != uca.Expands(coll) {
			t.Fatal(coll.Name(), err, d.Cols)
		}
		c, err := NewColumn(&d.Cols[0])
		if err != nil || !c.Sortable() {
			t.Fatal(err)
		}
		weights := func(s string, n int) []int32 {
			var out, ws []int32
			var one [1]int32
			if d.Cols[0].Padded {
				s += strings.Repeat(" ", 400)
			}
			for ; s != ""; out = append(out, ws...) {
				ws, s = c.take(s, &one)
			}
			return out[:min(n, len(out), 400)]
		}
		alike := func(long, begin string) bool { // as LIKE does
			for ; begin != ""; begin, long = begin[1:], long[1:] {
				if long == "" {
					return false
				}
				a, n := utf8.DecodeRuneInString(begin)
				b, m := utf8.DecodeRuneInString(long)
				if c.Binary && a != b || !c.Binary && c.uca.Alone(a) != c.uca.Alone(b) {
					return false
				}
				begin, long = begin[n-1:], long[m-1:]
			}
			return true
		}
		begins := 0
		for _, length := range []int64{0, 1, 3} {
			key := func(s string) []byte {
				k, err := c.AppendKey(t.Context(), nil, s, length)
				if err != nil {
					t.Fatal(err)
				}
				return k
			}
			for _, x := range texts {
				for _, y := range texts {
					a, b := key(x), key(y)
					if d.Cols[0].Expanded || length == 0 {
						n := 1000
						if length > 0 {
							n = int(length)
						}
						if want, got := slices.Compare(weights(x, n), weights(y, n)), bytes.Compare(a, b); c.Binary && length > 0 || got != want {
							t.Fatalf("%s: %q and %q compare as %d, %d characters of their keys as %d", coll.Name(), x, y, want, length, got)
						}
					}
					if alike(y, x) {
						begins++
						if k := c.AppendBegin(nil, x, length); !bytes.HasPrefix(b, k) {
							t.Fatalf("%s: %q begins with %q, its key %x not with %x", coll.Name(), y, x, b, k)
						}
					}
				}
			}
		}
		if begins < 3*len(texts)+30 {
			t.Errorf("%s: %d texts begin alike", coll.Name(), begins)
		}
	}
}
