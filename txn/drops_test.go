package txn

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// TestDrops: a scan that drops rows has all rows that are wanted, whoever owns them and whatever
// the transaction itself has written; and rows that are not wanted are left out here. Reads under
// locks drop none.
func TestDrops(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		spans := manyRows(t, c)
		time.Sleep(2 * time.Second)
		at := c.db(1).Clock()
		time.Sleep(2 * time.Second)
		drops := func(v []byte) bool { return bytes.ContainsAny(v, "13579") }
		rnd := rand.New(rand.NewPCG(2, 1))
		left := 0
		for round := range 60 {
			var opts kv.Options
			if round%3 == 0 {
				opts.ReadTS = at // from replicas
			}
			x := c.db(1 + round%2).Begin(opts)
			for range rnd.IntN(8) {
				i := rnd.IntN(70)
				k := key(1+i%2, 1, 1, fmt.Sprintf("%03d", i))
				if rnd.IntN(2) == 0 {
					x.Delete(k)
				} else {
					x.Put(k, fmt.Append(nil, "own", i), 0)
				}
			}
			scan := func(req kv.ScanRequest) (s string, all int) {
				for next := &req; next != nil; {
					res, err := x.Scan(ctx(t), *next)
					must(t, err)
					for _, r := range res.Rows {
						if all++; !drops(r.Value) {
							s += string(r.Key) + string(r.Value) + " "
						}
					}
					next = res.Next
				}
				return s, all
			}
			req := kv.ScanRequest{Spans: spans, Limit: 1 + rnd.IntN(9), Reverse: rnd.IntN(2) == 0, Merge: rnd.IntN(2) == 0}
			if rnd.IntN(2) == 0 {
				req.Next = req.Limit
			}
			if opts.ReadTS == 0 && rnd.IntN(4) == 0 {
				req.Lock = kv.LockShared
			}
			want, all := scan(req)
			req.Drops = drops
			got, most := scan(req)
			if got != want {
				t.Fatalf("round %d, %+v:\n%s\nwithout:\n%s", round, req, got, want)
			}
			if req.Lock != kv.LockNone && most != all {
				t.Fatalf("round %d: of %d rows under locks %d come", round, all, most)
			}
			left += all - most
			x.Rollback(ctx(t))
		}
		if left == 0 {
			t.Error("no row was left out")
		}
	})
}

// TestScanEnds: a scan that finds nothing, step after step, ends with the request.
func TestScanEnds(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		put(t, c.db(1), key(1, 1, 1, "z"), "v")
		time.Sleep(2 * time.Second)
		at := c.db(1).Clock()
		time.Sleep(2 * time.Second)
		var spans []base.Span
		for i := range 3 * scanWindow {
			p := key(1, 1, 1, fmt.Sprintf("%05d", i))
			spans = append(spans, base.Span{Start: p, End: p.PrefixEnd()})
		}
		x := c.db(1).Begin(kv.Options{ReadTS: at})
		defer x.Rollback(ctx(t))
		over, cancel := context.WithCancel(ctx(t))
		cancel()
		if _, err := x.Scan(over, kv.ScanRequest{Spans: spans}); base.CodeOf(err) != base.CodeCanceled {
			t.Errorf("a scan whose request has ended: %v", err)
		}
	})
}
