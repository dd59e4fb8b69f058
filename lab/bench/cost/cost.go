package cost

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/godwitdb/godwit/lab/bench/rig"
)

// Bench makes the budgets.
func Bench() rig.Bench {
	var figures []string
	for _, k := range kinds {
		figures = append(figures, "cost/"+k.name)
	}
	return rig.Bench{
		Name: "cost", Title: "where the server's CPU time of a statement goes, by stage, beside the floor (needs sysbench)",
		Figures: append(figures, "cost/"+floorName),
		Parts:   true, Sized: true,
		Run: run,
	}
}

// kind is a kind of statement: one of sysbench's tests.
type kind struct {
	name, test string
	// changed is the bytes of values that a query sets or removes, on average; 0: it only reads.
	changed float64
}

// Bytes of the columns of sysbench's tables, and of their rows.
const (
	kBytes, cBytes, padBytes, idBytes = 4, 120, 60, 4
	rowBytes                          = idBytes + kBytes + cBytes + padBytes
)

// deleting is the kind that needs rows which are there.
const deleting = "delete"

// kinds are measured in this order: what comes last removes rows.
var kinds = []kind{
	{"point_select", "oltp_point_select", 0},
	{"update_non_index", "oltp_update_non_index", cBytes},
	{"update_index", "oltp_update_index", kBytes},
	// Of 20 queries of a transaction one updates k, one c, one deletes a row, and one inserts it
	// anew.
	{"read_write", "oltp_read_write", (kBytes + cBytes + 2*rowBytes) / 20.0},
	{"insert", "oltp_insert", rowBytes},
	{deleting, "", rowBytes},
}

//go:embed delete.lua
var deleteLua []byte

// tolerance is how far the samples of a profile may be from the process's CPU time.
const tolerance = 0.10

// bench is a run of the benchmark.
type bench struct {
	p       rig.Params
	s       *rig.Server
	rows    int
	seconds int // of each profile
	threads []int
	told    bool // that system calls cannot be counted
}

func run(ctx context.Context, p rig.Params) (err error) {
	if _, err := exec.LookPath("sysbench"); err != nil {
		return fmt.Errorf("this benchmark needs sysbench (Debian: apt-get install sysbench): %w", err)
	}
	b := &bench{p: p, rows: rig.Pick(p, 100_000, 1_000_000), seconds: rig.Pick(p, 1, 8),
		threads: rig.Pick(p, []int{1, 8}, []int{1, 8, 32})}
	if p.Rows > 0 {
		b.rows = p.Rows
	}
	if p.Wants("cost/" + floorName) {
		if err := b.floor(ctx); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(kinds, func(k kind) bool { return p.Wants("cost/" + k.name) }) {
		return nil
	}
	if b.s, err = rig.StartNode(ctx, p.Dir, "--pprof"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.s.Stop()) }()
	begin := time.Now()
	if err := b.s.Prepare(ctx, "sbtest", b.rows); err != nil {
		return err
	}
	fmt.Fprintf(p.Log, "loaded %d rows in %s\n", b.rows, time.Since(begin).Round(time.Millisecond))
	for _, k := range kinds {
		if !p.Wants("cost/" + k.name) {
			continue
		}
		if err := b.kind(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// kind measures one kind of statement, at each number of threads.
func (b *bench) kind(ctx context.Context, k kind) error {
	var points []point
	for i, n := range b.threads {
		pt, err := b.measure(ctx, k, i)
		if err != nil {
			return fmt.Errorf("%s, %d threads: %w", k.name, n, err)
		}
		if err := b.emit(k, pt); err != nil {
			return err
		}
		points = append(points, pt)
	}
	fmt.Fprintf(b.p.Log, "\n%s\n", table(k, points))
	return nil
}

// point is what one run of sysbench has come to.
type point struct {
	threads int
	queries float64 // in the whole run
	rate    float64 // queries/s
	used    counters
	calls   float64 // all system calls, in the whole run; NaN where they cannot be counted
	budget  *budget
	window  time.Duration // the process's CPU time while the profile was taken
}

// each is a total of the run by query.
func (p *point) each(total float64) float64 { return total / max(p.queries, 1) }

// cpu is the process's CPU time a query, in µs.
func (p *point) cpu() float64 { return p.each(float64(p.used.cpu.Nanoseconds()) / 1e3) }

// share is how much of the time of all samples a part is.
func (p *point) share(part time.Duration) float64 {
	return float64(part) / float64(max(p.budget.total(), 1))
}

// covered is the time of the profile's samples in parts of the process's CPU time meanwhile.
func (p *point) covered() float64 {
	return float64(p.budget.total()) / float64(max(p.window, 1))
}

// within reports whether the stages come to the process's CPU time.
func (p *point) within() bool { return math.Abs(p.covered()-1) <= tolerance }

// measure runs sysbench with one number of threads, and takes a profile in the middle.
func (b *bench) measure(ctx context.Context, k kind, i int) (pt point, err error) {
	pt.threads = b.threads[i]
	before, err := readCounters(ctx, b.s)
	if err != nil {
		return pt, err
	}
	calls, cerr := countCalls(b.s.Cmd.Process.Pid)
	if cerr != nil && !b.told {
		b.told = true
		fmt.Fprintf(b.p.Log, "only reads and writes are counted of the system calls: %v\n", cerr)
	}
	type ended struct {
		out string
		err error
	}
	done := make(chan ended, 1)
	lctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		out, err := b.load(lctx, k, i)
		done <- ended{out, err}
	}()
	perr := b.profile(ctx, &pt)
	if perr != nil {
		cancel()
	}
	e := <-done
	pt.calls = math.NaN()
	if calls != nil {
		if pt.calls, err = calls.end(); err != nil {
			return pt, err
		}
	}
	if err := errors.Join(perr, e.err); err != nil {
		return pt, err
	}
	after, err := readCounters(ctx, b.s)
	if err != nil {
		return pt, err
	}
	pt.used = after.less(before)
	if pt.queries, pt.rate, err = parseQueries(e.out); err != nil {
		return pt, err
	}
	return pt, b.enoughRows(k, &pt)
}

// load runs sysbench for a second longer than the profile lasts.
func (b *bench) load(ctx context.Context, k kind, i int) (string, error) {
	args := []string{fmt.Sprintf("--table-size=%d", b.rows), fmt.Sprintf("--threads=%d", b.threads[i]),
		fmt.Sprintf("--time=%d", b.seconds+1)}
	test := k.test
	if k.name == deleting {
		test = filepath.Join(b.p.Dir, "delete.lua")
		if err := os.WriteFile(test, deleteLua, 0o644); err != nil {
			return "", err
		}
		args = append(args, fmt.Sprintf("--from=%d", 1+i*b.zone()))
	}
	return b.s.Sysbench(ctx, "sbtest", test, append(args, "run")...)
}

// zone is how many rows there are to delete for each number of threads.
func (b *bench) zone() int { return b.rows / len(b.threads) }

// enoughRows complains if rows were deleted that were not there.
func (b *bench) enoughRows(k kind, pt *point) error {
	if k.name == deleting && pt.queries > float64(b.zone()) {
		fmt.Fprintf(b.p.Log, "%d threads: of %.0f DELETEs only %d found a row: take more --rows\n", pt.threads, pt.queries,
			b.zone())
	}
	return nil
}

// profile takes a CPU profile, half a second after sysbench was started.
func (b *bench) profile(ctx context.Context, pt *point) error {
	if err := rig.Pause(ctx, 500*time.Millisecond); err != nil {
		return err
	}
	before, err := b.s.CPU()
	if err != nil {
		return err
	}
	// The process's time is read when the samples end: writing the profile takes more.
	window := time.Duration(b.seconds) * time.Second
	type read struct {
		cpu time.Duration
		err error
	}
	end := make(chan read, 1)
	time.AfterFunc(window, func() {
		cpu, err := b.s.CPU()
		end <- read{cpu, err}
	})
	zipped, err := get(ctx, b.s, fmt.Sprintf("/debug/pprof/profile?seconds=%d", b.seconds))
	if err != nil {
		return err
	}
	after := <-end
	if after.err != nil {
		return after.err
	}
	samples, err := readProfile(zipped)
	if err != nil {
		return err
	}
	pt.budget, pt.window = divide(samples), after.cpu-before
	return nil
}

var reQueries = regexp.MustCompile(`queries:\s+(\d+)\s+\(([\d.]+) per sec`)

// parseQueries reads how many queries sysbench has run, and how many a second.
func parseQueries(out string) (n, rate float64, err error) {
	m := reQueries.FindStringSubmatch(out)
	if m == nil {
		return 0, 0, fmt.Errorf("sysbench printed no count of queries:\n%s", out)
	}
	n, err1 := strconv.ParseFloat(m[1], 64)
	rate, err2 := strconv.ParseFloat(m[2], 64)
	return n, rate, errors.Join(err1, err2)
}

// emit reports one point: the stages, their sum, and what else a query has used.
func (b *bench) emit(k kind, pt point) error {
	series := fmt.Sprintf("%d threads", pt.threads)
	line := func(x, metric, unit string, v float64, better string) error {
		return b.p.Emit(rig.Line{Figure: "cost/" + k.name, Series: series, X: x, Metric: metric, Unit: unit, Value: v,
			Better: better})
	}
	var errs []error
	for s := range stages {
		errs = append(errs, line(s.String(), "server CPU a query", "µs", pt.cpu()*pt.share(pt.budget.by[s]), rig.Lower))
	}
	errs = append(errs, line("sum", "server CPU a query", "µs", pt.cpu(), rig.Lower),
		line("of it in allocation", "server CPU a query", "µs", pt.cpu()*pt.share(pt.budget.allocated), rig.Lower),
		line("profile", "samples beside the process's CPU time", "%", 100*pt.covered(), rig.Higher))
	for _, u := range usedBy(k, &pt) {
		if !math.IsNaN(u.value) {
			errs = append(errs, line(u.name, u.name+" a query", u.unit, u.value, rig.Lower))
		}
	}
	errs = append(errs, line("throughput", "throughput", "queries/s", pt.rate, rig.Higher))
	b.warn(k, &pt)
	return errors.Join(errs...)
}

// used is something that a query has used.
type used struct {
	name, unit string
	value      float64 // NaN: not known
}

func usedBy(k kind, pt *point) []used {
	perByte := math.NaN()
	if k.changed > 0 {
		perByte = pt.each(pt.used.written) / k.changed
	}
	return []used{
		{"allocated", "bytes", pt.each(pt.used.allocated)},
		{"objects allocated", "objects", pt.each(pt.used.objects)},
		{"system calls", "calls", pt.each(pt.calls)},
		{"reads and writes", "calls", pt.each(pt.used.readCalls + pt.used.callsOut)},
		{"goroutine switches", "switches", pt.each(pt.used.switches)},
		{"written to the disk", "bytes", pt.each(pt.used.written)},
		{"written by byte changed", "bytes", perByte},
	}
}

// mostOther is the share of samples that functions which the table does not know may have.
const mostOther = 0.05

// warn says what makes a budget doubtful.
func (b *bench) warn(k kind, pt *point) {
	if !pt.within() {
		fmt.Fprintf(b.p.Log, "%s, %d threads: NOT within %.0f %%: the samples come to %.2f s, the process's CPU time to %.2f s\n",
			k.name, pt.threads, 100*tolerance, pt.budget.total().Seconds(), pt.window.Seconds())
	}
	if pt.share(pt.budget.by[other]) <= mostOther {
		return
	}
	fmt.Fprintf(b.p.Log, "%s, %d threads: the table of stages misses functions:\n", k.name, pt.threads)
	unknown := slices.SortedFunc(maps.Keys(pt.budget.unknown), func(x, y string) int {
		return cmp.Compare(pt.budget.unknown[y], pt.budget.unknown[x])
	})
	for _, stack := range unknown[:min(len(unknown), 5)] {
		fmt.Fprintf(b.p.Log, "  %s %s\n", pt.budget.unknown[stack], stack)
	}
}
