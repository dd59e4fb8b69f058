package sim

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"
)

var (
	flagSeed  = flag.Int64("seed", -1, "TestSeed: the seed to run")
	flagSeeds = flag.Int("seeds", 20, "TestSoak: how many seeds to run, from -first")
	flagFirst = flag.Uint64("first", 1000, "TestSoak: the first seed")
	flagKeep  = flag.Bool("keep", false, "keep the history and journal of runs that pass, too")
	flagDebug = flag.Bool("debug", false, "nodes log at debug level into the journal")
	// Config.Backlog
	flagBacklog = flag.Bool("backlog", false, "in runs by seed, one-way messages outlast cuts, as they do on TCP")
)

// hangAfter is the real time for which the virtual time of a run may stand still. Longer means that
// a goroutine waits for something that virtual time does not know. A busy machine makes a run slow,
// but its time goes on.
const hangAfter = 2 * time.Minute

// runSeed runs one configuration in a bubble and judges it.
func runSeed(t *testing.T, cfg Config) (*Outcome, error) {
	t.Helper()
	if *flagDebug {
		LogLevel = slog.LevelDebug
	}
	var seconds atomic.Int64 // of virtual time
	cfg.Backlog = cfg.Backlog || *flagBacklog
	defer endHang(&seconds, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("sim: hangs: %s\n%s", cfg.String(), newest.Load().tail(60)))
	})()
	var o *Outcome
	bubble(t, cfg.Seed, func(*testing.T) {
		defer countSeconds(&seconds)()
		o = Run(cfg)
	})
	return o, o.Check()
}

// endHang calls hangs, on a goroutine of its own, when a count has stood still for hangAfter.
func endHang(count *atomic.Int64, hangs func()) (stop func()) {
	done := make(chan struct{})
	go func() {
		for last := int64(-1); ; {
			select {
			case <-done:
				return
			case <-time.After(hangAfter):
			}
			now := count.Load()
			if now == last {
				hangs()
			}
			last = now
		}
	}()
	return func() { close(done) }
}

// countSeconds counts the seconds of virtual time of the bubble that it is called in. The caller
// stops it there.
func countSeconds(n *atomic.Int64) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Second):
				n.Add(1)
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// bubble runs f in virtual time, with the same random numbers each time.
func bubble(t *testing.T, seed uint64, f func(t *testing.T)) {
	t.Helper()
	cryptotest.SetGlobalRandom(t, seed)
	// Pebble keeps channels in pools; two collections empty them, so that none goes from one bubble
	// to another.
	runtime.GC()
	runtime.GC()
	synctest.Test(t, f)
}

// save writes history and journal and returns where.
func save(t *testing.T, o *Outcome) string {
	dir, err := os.MkdirTemp("", fmt.Sprintf("godwit-sim-%d-", o.Config.Seed))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "history.jsonl"))
	if err == nil {
		_, err = o.History.WriteTo(f)
		f.Close()
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "journal.txt"), []byte(o.Journal), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
	return dir
}

// soaked tells how far the runs of a soak are from the goal: that no row waits longer than
// serveBound.
type soaked struct {
	runs, over int
	longest    time.Duration
	seed       uint64 // of the longest
}

func (p *soaked) add(o *Outcome) {
	p.runs++
	d := max(o.Served, o.Paused, o.PausedLost)
	if d > serveBound {
		p.over++
	}
	if d > p.longest {
		p.longest, p.seed = d, o.Config.Seed
	}
}

func (p *soaked) String() string {
	return fmt.Sprintf("%d runs, in %d of them a row was not written for more than %v; the longest pause is %v, seed %d",
		p.runs, p.over, serveBound, p.longest.Round(time.Millisecond), p.seed)
}

// seen are the pauses of all seeds that a test process has run.
var seen soaked

func seed(t *testing.T, cfg Config) {
	t.Helper()
	began := time.Now()
	// A region that is being added is not served; nodes that are upgraded start again after the
	// faults.
	cfg.Lively = cfg.Late+int(cfg.Leave) == 0 && !cfg.Upgrade
	o, err := runSeed(t, cfg)
	seen.add(o)
	if err != nil {
		again := "TestSeed"
		switch {
		case cfg.Upgrade:
			again = "TestUpgradeSeeds"
		case cfg.Restarts:
			again = "TestRestartSeeds"
		case cfg.Gray:
			again = "TestGraySeeds"
		case cfg.Epochs:
			again = "TestEpochSeeds"
		case cfg.SQL:
			again = "TestSQLSeed"
		}
		t.Errorf("%s\nfaults:\n%s%s\n%s%v\nhistory and journal: %s\nrun it again: go test ./lab/sim -run %s -args -seed %d",
			cfg.String(), o.Faults, o.Summary(), o.Kinds(), err, save(t, o), again, cfg.Seed)
		return
	}
	t.Logf("%s\n%s, served after %v, longest pause %v, after a lost majority %v, real %v\n%s", cfg.String(), o.Summary(),
		o.Served.Round(time.Millisecond), o.Paused.Round(time.Millisecond), o.PausedLost.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), o.Kinds())
	if *flagKeep {
		t.Logf("history and journal: %s", save(t, o))
	}
}

// TestSeed runs the seed given by -seed.
func TestSeed(t *testing.T) {
	if *flagSeed < 0 {
		t.Skip("no -seed given")
	}
	seed(t, Pick(uint64(*flagSeed)))
}

// TestSeeds runs a few seeds of mixed configuration. (158: a locking reader on both sides of a
// slot. 200: a commit of one group behind a slot. 7024: an owner that has just started and does not
// know the time yet.)
func TestSeeds(t *testing.T) {
	for _, s := range seeds([]uint64{158, 200, 7024}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15) {
		t.Run(fmt.Sprint(s), func(t *testing.T) { seed(t, Pick(s)) })
	}
}

// TestSQLSeed runs the seed given by -seed through SQL.
func TestSQLSeed(t *testing.T) {
	if *flagSeed < 0 {
		t.Skip("no -seed given")
	}
	seed(t, PickSQL(uint64(*flagSeed)))
}

// TestSQLSeeds runs a few seeds through SQL. (101: a schema change, and then nothing but the
// collection of old versions.)
func TestSQLSeeds(t *testing.T) {
	for _, s := range seeds([]uint64{101}, 0, 1, 2, 3) {
		t.Run(fmt.Sprint(s), func(t *testing.T) { seed(t, PickSQL(s)) })
	}
}

// TestImpatientSeeds runs a few seeds of a bank in which most transfers first read without waiting
// for locks. Such a read fails or skips an account, and its transaction goes on.
func TestImpatientSeeds(t *testing.T) {
	var locked int64
	for _, s := range seeds([]uint64{1, 2}, 3, 4, 5, 6, 7, 8, 9, 10) {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			cfg := Pick(s)
			cfg.Workload, cfg.Keys, cfg.Clients, cfg.Impatient, cfg.Lively = "bank", 4, 3, 60, true
			o, err := runSeed(t, cfg)
			if err != nil {
				t.Errorf("%s\nfaults:\n%s%s\n%v\nhistory and journal: %s", cfg.String(), o.Faults, o.Summary(), err, save(t, o))
			}
			t.Logf("%s: %d reads met a lock", o.Summary(), o.Locked)
			locked += o.Locked
		})
	}
	if locked == 0 {
		t.Error("no transfer met a lock")
	}
}

// TestEpochSeeds runs a few seeds with MULTI MASTER tables beside the others.
func TestEpochSeeds(t *testing.T) {
	if *flagSeed >= 0 {
		seed(t, PickEpochs(uint64(*flagSeed)))
		return
	}
	// 749: what the goroutines of a dead process still do does not count. 891: a process that stops
	// in good order submits to the end.
	for _, s := range seeds([]uint64{749, 891}, 0, 1, 2, 3) {
		t.Run(fmt.Sprint(s), func(t *testing.T) { seed(t, PickEpochs(s)) })
	}
}

// TestEpochSoak runs as many seeds with MULTI MASTER tables as asked for.
func TestEpochSoak(t *testing.T) {
	needsSeeds(t)
	for i := range uint64(*flagSeeds) {
		t.Run(fmt.Sprint(*flagFirst+i), func(t *testing.T) { seed(t, PickEpochs(*flagFirst+i)) })
	}
}

// TestGraySeeds runs a few seeds with parts that are half broken, or the one given by -seed.
func TestGraySeeds(t *testing.T) {
	if *flagSeed >= 0 {
		seed(t, PickGray(uint64(*flagSeed)))
		return
	}
	for _, s := range seeds([]uint64{2}, 0, 1, 3, 4, 5, 6, 7, 8, 9) {
		t.Run(fmt.Sprint(s), func(t *testing.T) { seed(t, PickGray(s)) })
	}
}

// TestGraySoak runs as many seeds with parts that are half broken as asked for.
func TestGraySoak(t *testing.T) {
	needsSeeds(t)
	for i := range uint64(*flagSeeds) {
		t.Run(fmt.Sprint(*flagFirst+i), func(t *testing.T) { seed(t, PickGray(*flagFirst+i)) })
	}
}

// TestSoak runs as many seeds as asked for; every fourth through SQL, too.
func TestSoak(t *testing.T) {
	needsSeeds(t)
	for i := range uint64(*flagSeeds) {
		t.Run(fmt.Sprint(*flagFirst+i), func(t *testing.T) { seed(t, Pick(*flagFirst+i)) })
		if i%4 == 1 {
			t.Run(fmt.Sprint("epochs/", *flagFirst+i), func(t *testing.T) { seed(t, PickEpochs(*flagFirst+i)) })
		}
		if i%4 == 0 {
			t.Run(fmt.Sprint("sql/", *flagFirst+i), func(t *testing.T) { seed(t, PickSQL(*flagFirst+i)) })
		}
	}
	fmt.Println(&seen) // also without -v
}

// needsSeeds skips a soak unless -seeds says for how many seeds it runs.
func needsSeeds(t *testing.T) {
	t.Helper()
	if !flagGiven("seeds") {
		t.Skip("no -seeds given")
	}
}

func flagGiven(name string) (given bool) {
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	return given
}

// PickEpochs draws a configuration for the workload through SQL with MULTI MASTER tables beside the
// others.
func PickEpochs(seed uint64) Config {
	c := PickSQL(seed)
	c.Epochs, c.Clients = true, 2
	return c
}
