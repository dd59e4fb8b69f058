package returning

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/result"
	"github.com/godwitdb/godwit/sql/rowlist"
)

// TestSend has rows sent as they were packed, also those of a temporary file, and no memory kept.
func TestSend(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := []int{0, 1, 5000, 20_000}[seed%4]
		mem := exec.NewMem(nil, 16<<20)
		r := &Rows{mem: mem, exprs: make([]expr.Expr, 3)}
		r.enc = result.Encoder{Wire: []querypb.Type{sqltypes.Int64, sqltypes.VarChar, sqltypes.Blob}}
		r.out = rowlist.Waiting{Ctx: sql.NewContext(t.Context()), Dir: t.TempDir(), Mem: mem}
		var want []string
		for i := range n {
			row := []sqltypes.Value{sqltypes.NewInt64(int64(i)), sqltypes.NULL, sqltypes.MakeTrusted(sqltypes.Blob, nil)}
			if rng.IntN(3) > 0 {
				row[1] = sqltypes.NewVarChar(strings.Repeat("x", rng.IntN(2000)))
			}
			if rng.IntN(3) > 0 {
				row[2] = sqltypes.MakeTrusted(sqltypes.Blob, []byte{0, byte(i), 0xff})
			}
			want = append(want, text(row))
			if err := r.out.Add(rowlist.Row{Stored: pack(row)}); err != nil {
				t.Fatalf("seed %d: row %d: %v", seed, i, err)
			}
		}
		got, calls := 0, 0
		if err := r.Send(nil, func(res *sqltypes.Result) error {
			calls++
			for _, row := range res.Rows {
				if text(row) != want[got] {
					t.Fatalf("seed %d: row %d: %.60s, want %.60s", seed, got, text(row), want[got])
				}
				got++
			}
			return nil
		}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if got != n || calls == 0 {
			t.Errorf("seed %d: %d rows in %d answers, want %d", seed, got, calls, n)
		}
		r.End()
		if used := mem.Done(); n == 20_000 && used > 16<<20 {
			t.Errorf("seed %d: %d bytes of memory", seed, used)
		}
	}
}

func text(row []sqltypes.Value) string {
	var b strings.Builder
	for _, v := range row {
		b.WriteString(v.Type().String() + ":" + string(v.Raw()) + "|")
	}
	return b.String()
}

// TestUnpack refuses bytes that are no row.
func TestUnpack(t *testing.T) {
	r := &Rows{exprs: make([]expr.Expr, 1), enc: result.Encoder{Wire: []querypb.Type{sqltypes.VarChar}}}
	for _, s := range []string{"", "\x05ab", "\xff"} {
		if row, err := r.unpack(s); err == nil {
			t.Errorf("%q: %v", s, row)
		}
	}
}
