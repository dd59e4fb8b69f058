package server

import (
	"os"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	epochs "github.com/godwitdb/godwit/txn/multimaster"
)

// epochDB is memkv with the epochs of one node beside it.
func epochDB(t *testing.T) (kv.DB, func()) {
	dir, err := os.MkdirTemp("", "epochs-")
	if err != nil {
		t.Fatal(err)
	}
	mem := memkv.New(3, "eu", "us")
	st, err := store.Open(store.Options{Dir: dir, NoSync: true, Simulation: true})
	if err != nil {
		t.Fatal(err)
	}
	net := wan.NewNetwork(wan.NetOptions{})
	tr := net.Join(mem.Node(), mem.Region())
	voters := []base.NodeID{mem.Node()}
	e, err := epochs.New(epochs.Config{Self: mem.Node(), Store: st, Transport: tr, Registry: &epochs.Memory{},
		Voters:   func() []base.NodeID { return voters },
		Interval: func() time.Duration { return 0 }})
	if err == nil {
		err = tr.Start()
	}
	if err == nil {
		e.Start()
		err = e.Begin(t.Context(), voters)
	}
	if err != nil {
		t.Fatal(err)
	}
	return epochs.NewDB(mem, e), func() {
		e.Close()
		_, _, _ = net.Close(), st.Close(), os.RemoveAll(dir) // it is thrown away
	}
}

// TestIntegratorSuiteMultiMaster runs the suite on MULTI MASTER tables: all of it that is not about
// the plans of queries.
func TestIntegratorSuiteMultiMaster(t *testing.T) {
	if os.Getenv(suiteEnv) != "" {
		t.Skip("this process is one that it has made, and runs TestGMS")
	}
	if os.Getenv("GODWIT_LONG") == "" {
		t.Skip("set GODWIT_LONG=1: it takes minutes")
	}
	plans := map[string]bool{"JoinPlanning": true, "QueryPlanScripts": true, "IntegrationQueryPlans": true,
		"ImdbQueryPlans": true, "TpccQueryPlans": true, "TpchQueryPlans": true,
		"IndexQueryPlans": true, "GeneratedColumnPlans": true, "SysbenchPlans": true, "QueryPlans": true,
		"SpatialIndexPlans": true, "JoinStats": true, "Statistics": true, "StatisticIndexFilters": true}
	res := runSuite(t, "epochs", func(group string) bool { return !plans[group] })
	judgeSuite(t, res, "testdata/enginetest_multi_failures.txt", "", "")
}
