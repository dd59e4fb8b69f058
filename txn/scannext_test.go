package txn

import (
	"fmt"
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
