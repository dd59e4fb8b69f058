package home

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/godwitdb/godwit/base"
)

// TestScripts replays testdata. Commands (region r, row k):
//
//	new {params as JSON}
//	set {params as JSON}
//	use k=1 by=r2 [at=r1] [times=3] [every=1s] [write] [pinned] [txn=5] [changes=1] times
//	    transactions by r2 on a row that lives in r1 (where it last moved to); prints what is
//	    answered. A move is made. The time passes before each.
//	explain k=1 by=r2
//	heat k=1
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var p *Policy
		now := start
		homes := map[int]base.RegionID{}
		changes := map[int]uint16{}
		region := func(s string) (r base.RegionID) {
			if _, err := fmt.Sscanf(s, "r%d", &r); err != nil {
				t.Fatalf("%q is no region", s)
			}
			return r
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var k, times, txn int
			var by, at string
			times, every := 1, "1s"
			d.MaybeScanArgs(t, "k", &k)
			d.MaybeScanArgs(t, "by", &by)
			d.MaybeScanArgs(t, "at", &at)
			d.MaybeScanArgs(t, "times", &times)
			d.MaybeScanArgs(t, "every", &every)
			d.MaybeScanArgs(t, "txn", &txn)
			if d.HasArg("changes") {
				var n int
				d.ScanArgs(t, "changes", &n)
				changes[k] = uint16(n)
			}
			switch d.Cmd {
			case "new", "set":
				var x Params
				if err := json.Unmarshal([]byte(d.Input), &x); err != nil {
					return err.Error()
				}
				var err error
				if d.Cmd == "set" {
					err = p.SetParams(x, now)
				} else {
					p, err = New(x, 1)
				}
				if err != nil {
					return err.Error()
				}
				return "ok"
			case "use", "explain":
				if at != "" {
					homes[k] = region(at)
				}
				a := Access{Key: key(k), From: region(by), Write: d.HasArg("write"), Pinned: d.HasArg("pinned")}
				if txn != 0 {
					a.Txn = txnID(uint64(txn))
				}
				step, err := time.ParseDuration(every)
				if err != nil {
					t.Fatal(err)
				}
				if d.Cmd == "explain" {
					a.Home, a.At = homes[k], now
					return p.Explain(a).String()
				}
				var out strings.Builder
				for i := range times {
					now = now.Add(step)
					a.Home, a.Changes, a.At = homes[k], changes[k], now
					dec := p.Record(a)
					if dec.Reason.Rule != "" {
						fmt.Fprintf(&out, "%d: %v\n", i+1, dec.Reason)
					}
					if dec.Move {
						p.Moved(a.Key, dec.To, now)
						homes[k] = dec.To
						changes[k] = (changes[k] + 1) & 1023
					}
				}
				if out.Len() == 0 {
					return "stays"
				}
				return strings.TrimSpace(out.String())
			case "heat":
				h, ok := p.Heat(key(k), now)
				if !ok {
					return "unknown"
				}
				b, err := json.Marshal(h)
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			t.Fatalf("unknown command %q", d.Cmd)
			return ""
		})
	})
}
