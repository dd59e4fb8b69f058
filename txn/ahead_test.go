package txn

import (
	"fmt"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
)

// TestAhead: what is read ahead costs one trip for rows of any number, and is read afterwards
// without any, with own writes, in either direction, in pieces; stronger locks and other keys ask
// the owners.
func TestAhead(t *testing.T) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		var keys []base.Key
		for i := range 30 {
			k := key(1, 2, 1, fmt.Sprintf("%02d", i))
			keys = append(keys, k)
			if i%3 != 2 {
				put(t, c.db(2+i%2), k, fmt.Sprint("v", i))
			}
		}
		time.Sleep(time.Second) // all replicas know where the rows are
		tr := new(obs.Trace)
		x := c.db(1).Begin(kv.Options{Trace: tr})
		defer x.Rollback(ctx(t))
		span := base.Span{Start: keys[1], End: keys[27]}
		trips := func(what string, want float64) {
			t.Helper()
			if n := tr.RTTs(); n != want {
				t.Errorf("%s: %v round trips, want %v", what, n, want)
			}
			tr.Reset()
		}
		if ok, err := x.Ahead(ctx(t), keys, []base.Span{span}, kv.LockShared); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if n := tr.RTTs(); n > 2 { // one more where an owner knows better than the replica here
			t.Errorf("reading ahead: %v round trips", n)
		}
		tr.Reset()
		rows, err := x.Get(ctx(t), keys, kv.LockShared)
		must(t, err)
		for i, r := range rows {
			want := fmt.Sprint("v", i)
			if i%3 == 2 {
				want = ""
			}
			if string(r.Value) != want || (r.Value == nil) != (want == "") {
				t.Errorf("key %d is %q, want %q", i, r.Value, want)
			}
		}
		trips("Get", 0)
		x.Put(keys[4], []byte("new"), 0)
		x.Delete(keys[6])
		must(t, x.Insert(keys[5], []byte("own"), 0))
		scan := func(reverse bool, limit int) (out []string) {
			for req := (&kv.ScanRequest{Spans: []base.Span{span}, Lock: kv.LockShared, Reverse: reverse,
				Limit: limit}); req != nil; {
				res, err := x.Scan(ctx(t), *req)
				must(t, err)
				for _, r := range res.Rows {
					out = append(out, string(r.Value))
				}
				req = res.Next
			}
			return out
		}
		for _, limit := range []int{0, 1, 4} {
			up, down := scan(false, limit), scan(true, limit)
			if len(up) != 17 || len(down) != 17 || up[0] != "v1" {
				t.Errorf("limit %d: %v, and backwards %v", limit, up, down)
			}
			for i := range up {
				if up[i] != down[len(down)-1-i] {
					t.Errorf("limit %d: %v, and backwards %v", limit, up, down)
					break
				}
			}
		}
		trips("Scan", 0)
		if ok, err := x.Ahead(ctx(t), keys[:3], nil, kv.LockShared); !ok || err != nil {
			t.Fatal(ok, err)
		}
		trips("Ahead again", 0)
		_, err = x.Get(ctx(t), keys[:1], kv.LockExclusive)
		must(t, err)
		trips("a stronger lock", 1)
		x.Forget()
		_, err = x.Get(ctx(t), keys[7:8], kv.LockShared)
		must(t, err)
		trips("after Forget", 1)
	})
}
