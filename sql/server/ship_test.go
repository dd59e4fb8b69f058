package server

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/kv/patch"
	"github.com/godwitdb/godwit/sql/fast"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/schema/rowfmt"
	"github.com/godwitdb/godwit/wire"
)

// TestDecimalPatches: what the owner makes of a shipped sum of a DECIMAL column is what the engine
// makes of the statement, to the byte; where that would round or overflow there is no patch, or it
// is not defined.
func TestDecimalPatches(t *testing.T) {
	ctx := sql.NewEmptyContext()
	rng := rand.New(rand.NewPCG(5, 9))
	digits := func(n int) string {
		if n == 0 {
			return ""
		}
		b := make([]byte, rng.IntN(n)+1)
		for i := range b {
			b[i] = "0099123456789"[rng.IntN(13)]
		}
		return string(b)
	}
	number := func(whole, part int) decimal.Decimal {
		text := "0" + digits(whole)
		if p := digits(part); p != "" {
			text += "." + p
		}
		if rng.IntN(2) == 0 {
			text = "-" + text
		}
		d, err := decimal.NewFromString(text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	told, defined := 0, 0
	for range 4000 {
		precision := 1 + rng.IntN(65)
		scale := rng.IntN(min(precision, 30) + 1)
		c, err := schema.NewColumn(&schema.ColumnDesc{Name: "c", ID: 3, Type: fmt.Sprintf("decimal(%d,%d)", precision, scale)})
		if err != nil {
			t.Fatal(err)
		}
		v, _, err := c.Type.Convert(ctx, number(precision-scale, scale))
		if err != nil {
			t.Fatal(err)
		}
		old := v.(decimal.Decimal)
		x := number(precision-scale, scale+rng.IntN(2))
		minus := rng.IntN(2) == 0
		op := &wire.PatchOp{Column: 3}
		ok := fast.Addition(c, ctx, op, x, minus)
		if !ok {
			if c2, _, err := c.Type.Convert(ctx, x); err == nil && c2.(decimal.Decimal).Equal(x) {
				t.Errorf("%s: ± %s cannot be told", c.Desc.Type, x)
			}
			continue
		}
		told++
		payload, err := c.AppendPayload(ctx, nil, old)
		if err != nil {
			t.Fatal(err)
		}
		row := append([]byte{rowfmt.Version, 3 << 1}, payload...)
		p := &wire.Patch{Format: uint32(rowfmt.Version), Ids: []uint32{3}, Classes: []byte{byte(c.Kind.Class())},
			Ops: []*wire.PatchOp{op}}
		got, ok := patch.Apply(p, row)

		sum := expression.NewPlus
		if minus {
			sum = expression.NewMinus
		}
		res, err := sum(expression.NewGetField(0, c.Type, "c", true),
			expression.NewLiteral(x, c.Type.Promote())).Eval(ctx, sql.Row{old})
		if err != nil {
			t.Fatal(err)
		}
		want, in, err := c.Type.Convert(ctx, res)
		fits := err == nil && in == sql.InRange && !x.IsZero()
		if ok != fits {
			t.Errorf("%s: %s ± %s (minus %v): defined %v, the engine: %v %v", c.Desc.Type, old, x, minus, ok, want, err)
			continue
		}
		if !ok {
			continue
		}
		defined++
		if payload, err = c.AppendPayload(ctx, nil, want); err != nil {
			t.Fatal(err)
		}
		if w := append([]byte{rowfmt.Version, 3 << 1}, payload...); string(got) != string(w) {
			t.Errorf("%s: %s ± %s (minus %v) is %x, not %x", c.Desc.Type, old, x, minus, got, w)
		}
	}
	if told < 1500 || defined < 1000 || told-defined < 100 {
		t.Errorf("%d told, %d defined: the test shows little", told, defined)
	}
}
