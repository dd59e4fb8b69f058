package txn

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// manyRows are rows of two shards and two homes.
func manyRows(t *testing.T, c *cluster) (spans []base.Span) {
	for i := range 60 {
		put(t, c.db(1+i%3/2), key(1+i%2, 1, 1, fmt.Sprintf("%03d", i)), fmt.Sprint("v", i))
	}
	for sh := 1; sh <= 2; sh++ {
		p := key(sh, 1, 1, "")
		spans = append(spans, base.Span{Start: p, End: p.PrefixEnd()})
	}
	return spans
}

// TestNextBatch: a scan whose next batch is read beside its caller has the rows that it would have
// without, whatever the caller does meanwhile.
func TestNextBatch(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		spans := manyRows(t, c)
		rnd := rand.New(rand.NewPCG(1, 1))
		for round := range 60 {
			x := c.db(1 + round%2).Begin(kv.Options{})
			for range rnd.IntN(8) { // before the scan: it sees these
				i := rnd.IntN(70)
				k := key(1+i%2, 1, 1, fmt.Sprintf("%03d", i))
				if rnd.IntN(2) == 0 {
					x.Delete(k)
				} else {
					x.Put(k, []byte("own"), 0)
				}
			}
			scan := func(req kv.ScanRequest, meanwhile func(n int, req *kv.ScanRequest)) (s string) {
				for next, n := &req, 0; next != nil; n++ {
					res, err := x.Scan(ctx(t), *next)
					must(t, err)
					for _, r := range res.Rows {
						s += string(r.Key) + string(r.Value) + " "
					}
					if next = res.Next; next != nil {
						meanwhile(n, next)
					}
				}
				return s
			}
			req := kv.ScanRequest{Spans: spans, Limit: 1 + rnd.IntN(9), Reverse: rnd.IntN(2) == 0, Merge: rnd.IntN(2) == 0}
			want := scan(req, func(int, *kv.ScanRequest) {})
			req.Next = req.Limit
			got := scan(req, func(n int, next *kv.ScanRequest) {
				switch rnd.IntN(6) {
				case 0: // what others write is no part of the snapshot
					put(t, c.db(1+n%2), key(1+n%2, 1, 1, fmt.Sprintf("%03d", 100+round+n)), "later")
				case 1: // and what the transaction writes now is no part of the scan
					x.Put(key(1, 1, 1, fmt.Sprintf("%03d", 65+n)), []byte("behind"), 0)
				case 2:
					next.Limit++ // another batch than the one that is read
				case 3:
					time.Sleep(time.Duration(rnd.IntN(200)) * time.Millisecond)
				case 4:
					next.Next = 0
				}
			})
			if got != want {
				t.Fatalf("round %d, %+v:\n%s\nwithout:\n%s", round, req, got, want)
			}
			x.Rollback(ctx(t))
		}
	})
}

// TestNextBatchMeanwhile: trips for the next batch overlap with what the caller does with the one
// before; and a batch that nobody asks for holds nothing up.
func TestNextBatchMeanwhile(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		spans := manyRows(t, c)
		took := func(next int) time.Duration {
			began := time.Now()
			x := c.db(2).Begin(kv.Options{})
			req := &kv.ScanRequest{Spans: spans[:1], Limit: 10, Next: next}
			for batches := 0; req != nil && batches < 2; batches++ {
				res, err := x.Scan(ctx(t), *req)
				must(t, err)
				time.Sleep(3 * oneWay)
				req = res.Next
			}
			x.Rollback(ctx(t))
			return time.Since(began)
		}
		without, with := took(0), took(10)
		if with > without-oneWay {
			t.Errorf("two batches take %v, and %v one after the other", with, without)
		}
	}, func(c *cluster) { c.tc = func(cfg *Config) { cfg.Reads.OwnersOnly = true } })
}

// TestEach: where one row of each span is enough, the first one comes, whoever owns it, and few
// others; what was deleted, also by the transaction itself, is none.
func TestEach(t *testing.T) {
	bubble(t, 2, 2, func(t *testing.T, c *cluster) {
		var spans []base.Span
		for i, name := range []string{"a", "b", "c", "d"} {
			for j := range 20 {
				put(t, c.db(1+(i+j/7)%2), key(1+i%2, 1, 1, fmt.Sprint(name, 10+j)), fmt.Sprint(name, 10+j))
			}
			p := key(1+i%2, 1, 1, name)
			spans = append(spans, base.Span{Start: p, End: p.PrefixEnd()})
		}
		e := key(1, 1, 1, "e")
		spans = append(spans, base.Span{Start: e, End: e.PrefixEnd()}) // empty
		_, err := do(ctx(t), c.db(2), kv.Options{}, func(x kv.Txn) error {
			x.Delete(key(1, 1, 1, "a10"))
			x.Delete(key(1, 1, 1, "a11"))
			return nil
		})
		must(t, err)
		at := c.db(1).Clock()
		for _, most := range []int{3, 1} { // from owners, by their parts of a span, and from a replica
			opts := kv.Options{}
			if most == 1 {
				time.Sleep(2 * time.Second)
				opts.ReadTS = at
			}
			for _, own := range []bool{false, true} {
				x := c.db(1).Begin(opts)
				first := map[string]string{"a": "a12", "b": "b10", "c": "c10", "d": "d10"}
				if own {
					for j := range 19 {
						x.Delete(key(2, 1, 1, fmt.Sprint("b", 10+j)))
					}
					x.Put(key(1, 1, 1, "c05"), []byte("c05"), 0)
					first["b"], first["c"] = "b29", "c05"
				}
				got, n := map[string]string{}, 0
				for req := (&kv.ScanRequest{Spans: spans, Each: 1}); req != nil; {
					res, err := x.Scan(ctx(t), *req)
					must(t, err)
					for _, r := range res.Rows {
						n++
						if name := string(r.Value[:1]); got[name] == "" {
							got[name] = string(r.Value)
						}
					}
					req = res.Next
				}
				if !maps.Equal(got, first) {
					t.Errorf("own writes %v: %v, want %v", own, got, first)
				}
				if !own && n > 4*most {
					t.Errorf("%d rows of 4 spans, want %d of each at most", n, most)
				}
				x.Rollback(ctx(t))
			}
		}
	})
}
