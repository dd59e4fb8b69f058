package txn

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// TestManySpans: look-ups of hundreds of ranges and keys, whose shards alternate, have the rows
// that each alone has, in their order, whatever the limits, and whether replicas or owners answer.
func TestManySpans(t *testing.T) {
	for _, shards := range []int{1, 3} {
		t.Run(fmt.Sprint(shards, " shards"), func(t *testing.T) {
			bubble(t, 1, 3, func(t *testing.T, c *cluster) { manySpans(t, c, shards) })
		})
	}
}

func manySpans(t *testing.T, c *cluster, shards int) {
	rnd := rand.New(rand.NewPCG(5, uint64(shards)))
	at := func(i int) base.Key { return key(1+i%shards, 1, 1, fmt.Sprintf("%03d", i)) }
	want := map[int][]string{}
	_, err := do(ctx(t), c.db(1), kv.Options{}, func(x kv.Txn) error {
		clear(want)
		for i := range 300 {
			for j := range rnd.IntN(4) {
				v := fmt.Sprint(i, "-", j, "-", rnd.IntN(1<<30))
				x.Put(append(at(i), byte('a'+j)), []byte(v), 0)
				want[i] = append(want[i], v)
			}
		}
		return nil
	})
	must(t, err)
	time.Sleep(2 * time.Second)
	closed := c.db(1).Clock()
	time.Sleep(2 * time.Second)
	for round := range 40 {
		var opts kv.Options
		if round%2 == 0 {
			opts.ReadTS = closed
		}
		x := c.db(1).Begin(opts)
		n := []int{10, 40, 150, 300}[round/2%4]
		req := &kv.ScanRequest{Reverse: rnd.IntN(2) == 0}
		if rnd.IntN(2) == 0 {
			req.Limit = 1 + rnd.IntN(50)
		}
		if rnd.IntN(2) == 0 {
			req.MaxBytes = 100 + rnd.IntN(5000)
		}
		var rows []string
		for i := range n {
			req.Spans = append(req.Spans, base.Span{Start: at(i), End: at(i).PrefixEnd()})
			vs := slices.Clone(want[i])
			if req.Reverse {
				slices.Reverse(vs)
			}
			rows = append(rows, vs...)
		}
		var got []string
		for next := req; next != nil; {
			res, err := x.Scan(ctx(t), *next)
			must(t, err)
			if req.Limit > 0 && len(res.Rows) > req.Limit {
				t.Fatalf("%d rows, at most %d", len(res.Rows), req.Limit)
			}
			for _, r := range res.Rows {
				got = append(got, string(r.Value))
			}
			next = res.Next
		}
		if !slices.Equal(got, rows) {
			t.Fatalf("round %d, %d spans: %d rows instead of %d:\n%v\n%v", round, n, len(got), len(rows), got, rows)
		}
		var keys []base.Key
		for i := range n {
			keys = append(keys, append(at(i), 'a'))
		}
		rows2, err := x.Get(ctx(t), keys, kv.LockNone)
		must(t, err)
		for i, r := range rows2 {
			if len(want[i]) > 0 != (r.Value != nil) || r.Value != nil && string(r.Value) != want[i][0] {
				t.Fatalf("key %d: %q", i, r.Value)
			}
		}
		x.Rollback(ctx(t))
	}
}
