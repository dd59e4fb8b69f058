package access

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/access/sieve"
	"github.com/godwitdb/godwit/sql/exec/bounds"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/schema"
)

// sieved are columns of a table of all types, and a table that has others since.
type sieved struct {
	t        *testing.T
	old, now *schema.Table
	cols     []int
	ids      []expr.ColID
	typs     []expr.Type
}

func newSieved(t *testing.T) *sieved {
	s := &sieved{t: t}
	s.old, s.now = everything(t)
	for p, c := range s.now.Cols {
		s.cols, s.ids, s.typs = append(s.cols, p), append(s.ids, expr.ColID(p+1)), append(s.typs, expr.FromSQL(c.Type))
	}
	return s
}

// row is a row as it is stored, of one of the two tables, and decoded.
func (s *sieved) row(r *rand.Rand) (enc []byte, b *expr.Batch) {
	ctx := context.Background()
	def := s.old
	if r.IntN(4) == 0 {
		def = s.now
	}
	row := make(sql.Row, len(def.Cols))
	for p, c := range def.Cols {
		if k := int(c.Desc.ID) - 1; k < len(columns) && r.IntN(8) > 0 {
			row[p] = columns[k].vals[r.IntN(len(columns[k].vals))]
		}
	}
	enc, err := def.AppendRow(ctx, nil, row)
	if err != nil {
		s.t.Fatal(err)
	}
	d := newDecoder(ctx, s.now, s.cols, s.typs)
	b = &expr.Batch{}
	d.begin(b, 1)
	if err := d.row(enc, b, 0); err != nil {
		s.t.Fatal(err)
	}
	return enc, b
}

// cond compares a column with the value that it has in another row.
func (s *sieved) cond(r *rand.Rand) expr.Node {
	p := r.IntN(len(s.cols))
	_, b := s.row(r)
	v := b.Cols[p].At(0)
	col, k := &expr.Col{ID: s.ids[p], T: s.typs[p]}, &expr.Const{V: v, T: s.typs[p]}
	op := []string{"=", "<", "<=", ">", ">=", "<>"}[r.IntN(6)]
	args := []expr.Node{col, k}
	if r.IntN(3) == 0 {
		args = []expr.Node{k, col}
	}
	n, err := expr.NewCall(expr.Lookup(op), args...)
	if err != nil {
		return s.cond(r)
	}
	return n
}

// TestSieve: no row of which a condition is TRUE is dropped, whatever the types, and whenever its
// columns were added or dropped. Most others are.
func TestSieve(t *testing.T) {
	s := newSieved(t)
	r := rand.New(rand.NewPCG(3, 1))
	fails, drops := 0, 0
	kinds := map[expr.Kind]int{}
	for range 4000 {
		var conds []expr.Node
		for range 1 + r.IntN(2) {
			conds = append(conds, s.cond(r))
		}
		bs := bounds.Of(conds, s.ids, nil)
		x := sieve.New(s.now, s.cols, bs, sieve.Epoch{Zero: epoch, NoDate: zeroDate})
		if x == nil {
			continue
		}
		pred, err := expr.CompilePreds(conds, s.ids, &expr.Env{})
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			enc, b := s.row(r)
			sel, err := pred.Filter(b, []int32{0}, true)
			if err != nil {
				t.Fatal(err)
			}
			dropped := x.Drops(enc)
			if dropped && len(sel) > 0 {
				t.Fatalf("%v: a row is dropped that passes", conds)
			}
			if len(sel) > 0 {
				continue
			}
			if fails++; dropped {
				drops++
				kinds[bs[0].T.Kind]++
			}
		}
	}
	if 4*drops < fails {
		t.Errorf("of %d rows that fail %d are dropped", fails, drops)
	}
	for _, k := range []expr.Kind{expr.Int, expr.Uint, expr.Decimal, expr.Date, expr.Datetime} {
		if kinds[k] == 0 {
			t.Errorf("no row is dropped by a %v", k)
		}
	}
}

// TestSieveOfFewLetsAllPass: a sieve that drops next to nothing stops.
func TestSieveOfFewLetsAllPass(t *testing.T) {
	s := newSieved(t)
	p := s.now.Desc.ColByName("bigint unsigned")
	r := rand.New(rand.NewPCG(4, 1))
	k := &expr.Const{V: expr.Value{Kind: expr.Uint, I: 1}, T: s.typs[p]}
	n, err := expr.NewCall(expr.Lookup("<"), &expr.Col{ID: s.ids[p], T: s.typs[p]}, k)
	if err != nil {
		t.Fatal(err)
	}
	x := sieve.New(s.now, s.cols, bounds.Of([]expr.Node{n}, s.ids, nil), sieve.Epoch{Zero: epoch, NoDate: zeroDate})
	var small, large []byte // the values of the column are 0 and 2^64-1
	for small == nil || large == nil {
		enc, b := s.row(r)
		switch v := b.Cols[p]; {
		case v.IsNull(0):
		case v.I[0] == 0:
			small = enc
		default:
			large = enc
		}
	}
	if !x.Drops(large) || x.Drops(small) {
		t.Fatal("the wrong rows are dropped")
	}
	for range 2000 {
		x.Drops(small)
	}
	if x.Drops(large) {
		t.Error("it goes on dropping")
	}
}
