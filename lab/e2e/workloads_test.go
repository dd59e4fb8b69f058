package e2e

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/lab/workload"
)

// TestWorkloads: each workload of `godwit workload` loads, runs and finds its invariants.
func TestWorkloads(t *testing.T) {
	c := startCluster(t, t.TempDir(), 2, 1)
	t.Cleanup(c.kill)
	c.logOnFailure(t)
	for _, name := range workload.Names() {
		t.Run(name, func(t *testing.T) {
			o := workload.DefaultOptions()
			o.Loaders = 1
			o.TPCC.Warehouses, o.TPCC.Scale = 2, 0.01
			o.YCSB.Records, o.YCSBT.Records, o.Bank.Accounts = 300, 300, 100
			o.YCSB.Mix, o.YCSB.Remote = "D", 0.2 // its keys grow
			o.Travel.Users, o.Travel.Stay, o.Travel.Settle = 10, time.Second, 300*time.Millisecond
			w, err := workload.New(name, o)
			if err != nil {
				t.Fatal(err)
			}
			targets := c.targets(name)
			if err := w.Init(t.Context(), targets); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second run finds what the first one has left
				rep, err := w.Run(t.Context(), targets, workload.RunOptions{Duration: time.Second, ClientsPerTarget: 1})
				if err != nil {
					t.Fatal(err)
				}
				if rep.Total.Count == 0 || rep.Total.Errors > 0 {
					t.Errorf("%d transactions, %d errors: %v", rep.Total.Count, rep.Total.Errors, rep.Errors)
				}
			}
			results, err := w.Check(t.Context(), targets[1])
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				if !r.OK {
					t.Errorf("%s: %s: %s", r.Name, r.Description, r.Detail)
				}
			}
		})
	}
}
