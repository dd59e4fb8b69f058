package schema

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
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
		unit, _ := c.units()
		weights := func(s string) (out []uint32) {
			for b := []byte(s + strings.Repeat(" ", 400-len([]rune(s)))); len(b) > 0; {
				x, n := unit(b)
				out, b = append(out, x), b[n:]
			}
			return out
		}
		var all [][]uint32
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
	if err != nil || !d.Unpadded() || c.Sortable() || bytes.Equal(keyOf(t, c, "a"), keyOf(t, c, "a ")) {
		t.Fatal(err, d)
	}
	if n := redefined(d.Collation); n.Padded {
		t.Error("written keys are taken for others")
	}
	if n := redefined(sql.Collation_utf8mb4_unicode_ci); !n.Padded || n.Unpadded() {
		t.Error("new keys have spaces")
	}
	if n := redefined(sql.Collation_utf8mb4_0900_ai_ci); n.Padded || n.Unpadded() {
		t.Error("keys of a collation without PAD SPACE have none")
	}
}
