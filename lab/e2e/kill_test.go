package e2e

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/lab/workload"
)

// load runs a workload beside a test and judges it afterwards.
type load struct {
	w       workload.Workload
	targets []workload.Target
	stop    context.CancelFunc
	done    chan struct{}
	report  *workload.Report
	err     error
}

// startLoad loads a small workload and runs it until finish.
func startLoad(t *testing.T, c *processes, name string) *load {
	t.Helper()
	o := workload.DefaultOptions()
	o.Loaders = 2
	o.TPCC.Warehouses, o.TPCC.Scale = len(c.regions), 0.01
	o.Bank.Accounts, o.Bank.Cross, o.Bank.Audits = 300, 0.3, 0.02
	w, err := workload.New(name, o)
	if err != nil {
		t.Fatal(err)
	}
	l := &load{w: w, targets: c.targets(name), done: make(chan struct{})}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := w.Init(ctx, l.targets); err != nil {
		t.Fatalf("load %s: %v", name, err)
	}
	run, stop := context.WithCancel(context.Background())
	l.stop = stop
	go func() {
		defer close(l.done)
		l.report, l.err = w.Run(run, l.targets, workload.RunOptions{ClientsPerTarget: 2, TolerateErrors: true})
	}()
	t.Cleanup(func() {
		stop()
		<-l.done
	})
	return l
}

// finish ends the run and checks the invariants through every region.
func (l *load) finish(t *testing.T) {
	t.Helper()
	l.stop()
	<-l.done
	if l.err != nil {
		t.Errorf("the load ended with %v", l.err)
	}
	if l.report == nil || l.report.Total.Count == 0 {
		t.Errorf("no transaction of %s committed: %+v", l.w.Name(), l.report)
		return
	}
	t.Logf("%s: %d transactions, %d retries, %d errors seen by clients of killed nodes", l.w.Name(), l.report.Total.Count,
		l.report.Total.Retries, l.report.Total.Errors)
	for _, e := range l.report.Errors {
		// a wrong total is never excused by a killed node
		if strings.Contains(e.Text, "total") || strings.Contains(e.Text, "sum") {
			t.Errorf("an audit failed: %s", e.Text)
		}
	}
	for _, target := range l.targets {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		checks, err := l.w.Check(ctx, target)
		cancel()
		if err != nil {
			t.Errorf("check through %s: %v", target.Region, err)
		}
		for _, c := range checks {
			if !c.OK {
				t.Errorf("check %s through %s: %s (%s)", c.Name, target.Region, c.Description, c.Detail)
			}
		}
	}
}

// strike kills nodes under load, waits until the others serve all rows, starts
// the nodes again and waits until they serve too.
func strike(t *testing.T, c *processes, l *ledger, victims ...*node) {
	t.Helper()
	l.advances(t, 20, c.regions...) // the load is running
	var names, left []string
	for _, v := range victims {
		_ = v.cmd.Process.Kill() // all at once
	}
	begin := time.Now()
	for _, v := range victims {
		v.kill()
		names = append(names, v.region)
	}
	for _, n := range c.nodes {
		if !slices.Contains(victims, n) {
			left = append(left, n.region)
		}
	}
	l.advances(t, 20, left...)
	load := time.Since(begin)
	for _, n := range c.nodes {
		if slices.Contains(victims, n) {
			continue
		}
		for r := range c.regions {
			l.serves(t, "ledger", n, r)
		}
	}
	t.Logf("killed %v: the other nodes' clients had committed 20 more transactions each after %s, "+
		"and written rows homed in every region through every node after %s",
		names, load.Round(10*time.Millisecond), time.Since(begin).Round(10*time.Millisecond))
	for _, v := range victims {
		v.start(t)
	}
	begin = time.Now()
	for _, v := range victims {
		v.awaitSQL(t)
		for r := range c.regions {
			l.serves(t, "ledger", v, r)
		}
	}
	t.Logf("started %v again: served after %s", names, time.Since(begin).Round(10*time.Millisecond))
}

func needTime(t *testing.T) {
	t.Helper()
	if os.Getenv("GODWIT_LONG") == "" {
		t.Skip("it takes a minute or more: GODWIT_LONG=1, as make e2e sets")
	}
}

// underLoad is a cluster with a workload and a ledger running.
func underLoad(t *testing.T, regions, perRegion int, workload string) (*processes, *load, *ledger) {
	t.Helper()
	needTime(t)
	c := startCluster(t, t.TempDir(), regions, perRegion)
	t.Cleanup(c.kill)
	c.logOnFailure(t)
	return c, startLoad(t, c, workload), openLedger(t, c, "ledger")
}

// survivesAnyNode strikes each node of a cluster in turn.
func survivesAnyNode(t *testing.T, regions, perRegion int) {
	t.Helper()
	c, bank, l := underLoad(t, regions, perRegion, "bank")
	for _, n := range c.nodes {
		strike(t, c, l, n)
	}
	bank.finish(t)
	l.compare(t, "ledger")
}

func TestKillAnyNodeOfThree(t *testing.T) { survivesAnyNode(t, 3, 1) }

func TestKillARegionOfTwoNodesEach(t *testing.T) {
	c, tpcc, l := underLoad(t, 3, 2, "tpcc")
	strike(t, c, l, c.nodes[1]) // one of two: its region serves on
	for _, r := range c.regions {
		strike(t, c, l, c.of(r)...)
	}
	tpcc.finish(t)
	l.compare(t, "ledger")
}

// Everything dies at once, under load.
func TestKillAllAndStartAgain(t *testing.T) {
	c, bank, l := underLoad(t, 3, 1, "bank")
	for range 2 {
		l.advances(t, 50, c.regions...)
		for _, n := range c.nodes {
			_ = n.cmd.Process.Kill() // all before any is waited for
		}
		c.kill()
		for _, n := range c.nodes {
			n.start(t)
		}
		for _, n := range c.nodes {
			n.awaitSQL(t)
		}
	}
	l.advances(t, 20, c.regions...)
	bank.finish(t)
	l.compare(t, "ledger")
}

// SIGTERM drains: exit status 0, and the data is there when the nodes start again.
func TestEndCleanlyAndStartAgain(t *testing.T) {
	needTime(t)
	c := startCluster(t, t.TempDir(), 3, 1)
	t.Cleanup(c.kill)
	c.logOnFailure(t)
	l := openLedger(t, c, "ledger")
	for r := range c.regions {
		l.serves(t, "ledger", c.nodes[0], r)
	}
	for _, n := range c.nodes {
		if code := n.end(t); code != 0 {
			t.Errorf("node of %s ended with status %d:\n%s", n.region, code, n.log())
		}
		if out := n.out.String() + n.errs.String(); strings.Contains(out, "goroutine ") {
			t.Errorf("node of %s ended with a stack trace:\n%s", n.region, n.log())
		}
		n.start(t)
		n.awaitSQL(t)
	}
	l.compare(t, "ledger")
}
