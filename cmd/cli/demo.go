package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lab/demo"
	"github.com/godwitdb/godwit/lab/workload"
	"github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/policy/matrix"
)

// demoFlags are the flags of `godwit demo`.
type demoFlags struct {
	matrix   string
	regions  int
	cfg      node.LocalConfig
	workload string
	beside   string
	opts     workload.Options
	clients  int
	duration time.Duration
	warmup   time.Duration
	interval time.Duration
	json     bool
	// concurrency is the text of the flag for cfg.Concurrency.
	concurrency string
}

const (
	demoSQLPort = 4001
	demoHTTP    = "127.0.0.1:7400"
)

func demoCommand() *cobra.Command {
	f := demoFlags{opts: workload.DefaultOptions()}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run all nodes of all regions in this process, over emulated oceans, under a workload",
		Long: `Run all nodes of all regions in this process, over emulated oceans, under a workload.

Messages between regions take the time, with the jitter and bandwidth, of a matrix of round trips: by default five AWS
regions as measured; --matrix names a CSV file whose header names the regions, followed by one row of round trips in
milliseconds for each. Disks and the MySQL protocol are real: connect any MySQL client to any region while it runs.

The workload is loaded first, each region's part through that region. Then a table shows for each region the rate of
statements and transactions, the WAN round trips a transaction waited for, the WAN bytes it caused, and the latency
(p50/p99) of each kind of statement. At the end the workload's invariants are checked and a report follows.

Ctrl-C ends the run, checks it and reports; a second one ends at once. The exit status is 1 if a check fails or a
client saw an error that is not retryable. Workloads: tpcc (order entry, the five transactions of TPC-C), ycsb (single
rows), ycsb-t (several rows a transaction), bank (transfers; the total must not change), travel (users who travel
between regions, and whose rows follow them: a table of latencies at home, just after an arrival and later), none
(only your own clients). --beside has one client in each region run a second one.`,
		Example: `  godwit demo
  godwit demo --workload bank --regions 3 --nodes-per-region 2 --for 30s
  godwit demo --workload travel --clients 8
  godwit demo --workload none --store demo.d
  godwit demo --matrix my-regions.csv --workload tpcc --for 60s --json > report.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runDemo(c, &f) },
	}
	f.register(c.Flags())
	return c
}

func (f *demoFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.matrix, "matrix", "", "CSV file of round trips in ms: a header with the regions' names, "+
		"then a row a region (default: five AWS regions)")
	fs.IntVar(&f.regions, "regions", 0, "number of regions, 1 to 14: the first N of the matrix (default 5, or all of --matrix)")
	fs.IntVar(&f.cfg.NodesPerRegion, "nodes-per-region", 1, "nodes in each region")
	fs.IntVar(&f.cfg.Shards, "shards", 0, "number of shards; 0 takes one for each node of a region, at least two")
	fs.StringVar(&f.concurrency, "concurrency", "locking", "how transactions are ordered: locking, timestamp or timestamp-relay")
	fs.StringVar(&f.workload, "workload", "tpcc", strings.Join(workload.Names(), ", ")+" or none")
	fs.StringVar(&f.beside, "beside", "", "another workload, which one client in each region runs beside it")
	fs.IntVar(&f.clients, "clients", 4, "clients of the workload in each region, each with a connection of its own")
	fs.DurationVar(&f.duration, "for", 0, "how long to measure, e.g. 30s; 0 is until Ctrl-C")
	fs.DurationVar(&f.warmup, "warmup", 0, "run the workload for so long before measuring")
	fs.DurationVar(&f.interval, "interval", 0, "time between two tables (default 1s on a terminal, 5s elsewhere)")
	fs.BoolVar(&f.json, "json", false, "end with one JSON object on standard output; everything else goes to standard error")
	fs.StringVar(&f.cfg.Dir, "store", "", "keep the data in this directory and continue with what it holds (default: "+
		"a temporary directory, removed at the end)")
	fs.IntVar(&f.cfg.SQLBasePort, "sql-port", demoSQLPort,
		"first region's MySQL port on loopback, the next regions' follow; 0 picks free ports")
	fs.StringVar(&f.cfg.HTTPListen, "http", demoHTTP, "HOST:PORT for the web console, /cluster/status, /metrics and /debug/pprof; "+
		"empty for none")
	fs.IntVar(&f.cfg.CacheMB, "cache-mb", 256, "block cache of all nodes together, in MiB")
	fs.DurationVar(&f.cfg.GCAge, "gc-age", 10*time.Minute, "how long old row versions can be read with AS OF")
	fs.StringVar(&f.cfg.BackupDir, "backup-dir", "", "directory below which BACKUP and RESTORE may use files; none unless given")
	fs.StringSliceVar(&f.cfg.ChangefeedSinks, "changefeed-sink", nil, "brokers and webhooks that CREATE CHANGEFEED may name: "+
		"'kafka://HOST:PORT' or 'https://HOST[:PORT][/PATH]'; none unless given")
	fs.DurationVar(&f.cfg.MaxClockError, "max-clock-error", 100*time.Microsecond,
		"bound on clock errors that commits wait out; all nodes share one clock")
	fs.Uint64Var(&f.cfg.Seed, "seed", 0, "seed of the network's jitter, 0 is random; the workload's choices are always the same")
	fs.StringVar(&f.cfg.LogLevel, "log-level", "warn", "debug, info, warn or error")
	o := &f.opts
	fs.IntVar(&o.TPCC.Warehouses, "warehouses", 0, "tpcc: warehouses to load; 0 is two a region")
	fs.Float64Var(&o.TPCC.Scale, "scale", demoScale,
		"tpcc: factor from 0.01 to 1 on the sizes of the tables; 1 is the specification's")
	fs.IntVar(&o.YCSB.Records, "records", 10_000, "ycsb, ycsb-t: rows to load, over all regions")
	fs.StringVar(&o.YCSB.Mix, "mix", o.YCSB.Mix, "ycsb: core workload, A to F")
	fs.IntVar(&o.Bank.Accounts, "accounts", 1000, "bank: accounts to open, over all regions")
	fs.IntVar(&o.Travel.Users, "users", o.Travel.Users, "travel: users to load, over all regions")
	fs.Float64Var(&o.Travel.Travellers, "travellers", o.Travel.Travellers, "travel: share of users who travel, 0 to 1")
	fs.DurationVar(&o.Travel.Think, "think", o.Travel.Think, "travel: how long a client waits after each statement")
	fs.DurationVar(&o.Travel.Stay, "stay", o.Travel.Stay, "travel: how long a traveller stays at a place")
	fs.Float64Var(&o.Bank.Cross, "cross", o.Bank.Cross, "bank, ycsb-t: share of transactions over several regions, 0 to 1")
}

// demoScale keeps the loading of TPC-C short on two cores.
const demoScale = 0.01

// validate completes the flags and reports bad values.
func (f *demoFlags) validate() error {
	m, err := f.openMatrix()
	if err != nil {
		return usageError{plain(err)}
	}
	f.cfg.Matrix = m
	if f.cfg.Concurrency, err = base.ParseConcurrency(f.concurrency); err != nil {
		return usagef("--concurrency: %w", err)
	}
	if err := f.validateCluster(); err != nil {
		return err
	}
	switch {
	case f.clients < 1 || f.clients > 1000:
		return usagef("--clients: %d is outside 1 to 1000", f.clients)
	case f.duration < 0 || f.warmup < 0 || f.interval < 0:
		return usagef("--for, --warmup and --interval must not be negative")
	}
	return f.validateWorkload()
}

// validateCluster reports bad values of the flags that shape the cluster.
func (f *demoFlags) validateCluster() error {
	switch n := f.cfg.Matrix.Len(); {
	case n > base.MaxRegions:
		return usagef("--matrix: %s has %d regions and a cluster %d at most; take the first ones with --regions %[3]d",
			f.matrix, n, base.MaxRegions)
	case f.cfg.NodesPerRegion < 1 || f.cfg.NodesPerRegion > 9:
		return usagef("--nodes-per-region: %d is outside 1 to 9", f.cfg.NodesPerRegion)
	case f.cfg.Shards < 0 || f.cfg.Shards > 256:
		return usagef("--shards: %d is outside 1 to 256 (0 chooses)", f.cfg.Shards)
	case f.cfg.SQLBasePort < 0 || f.cfg.SQLBasePort > 65535-n*f.cfg.NodesPerRegion:
		return usagef("--sql-port: %d leaves no room for %d ports", f.cfg.SQLBasePort, n)
	case f.cfg.CacheMB < 8:
		return usagef("--cache-mb: %d is below 8", f.cfg.CacheMB)
	}
	if f.cfg.HTTPListen != "" {
		if _, _, err := net.SplitHostPort(f.cfg.HTTPListen); err != nil {
			return usagef("--http: %q is not HOST:PORT", f.cfg.HTTPListen)
		}
	}
	return nil
}

// validateWorkload completes the options of the workloads and reports bad values.
func (f *demoFlags) validateWorkload() error {
	if f.opts.TPCC.Warehouses == 0 {
		f.opts.TPCC.Warehouses = 2 * f.cfg.Matrix.Len()
	}
	f.opts.YCSBT.Records, f.opts.YCSBT.Cross = f.opts.YCSB.Records, f.opts.Bank.Cross
	f.opts.YCSB.Mix = strings.ToUpper(f.opts.YCSB.Mix)
	switch {
	case f.beside != "" && (f.workload == "none" || f.beside == f.workload):
		return usagef("--beside %s: --workload has to name another one", f.beside)
	case f.beside != "":
		if _, err := workload.New(f.beside, f.opts); err != nil {
			return usagef("--beside %s: %w", f.beside, err)
		}
	case f.workload == "none":
		return nil
	}
	if _, err := workload.New(f.workload, f.opts); err != nil {
		return usagef("--workload %s: %w", f.workload, err)
	}
	return nil
}

// openMatrix reads the matrix that the flags name and cuts it.
func (f *demoFlags) openMatrix() (*matrix.Matrix, error) {
	if f.regions < 0 {
		return nil, fmt.Errorf("--regions: %d is negative", f.regions)
	}
	if f.matrix == "" {
		n := f.regions
		if n == 0 {
			n = matrix.DefaultRegions
		}
		m, err := matrix.Default(n)
		if err != nil {
			return nil, fmt.Errorf("--regions: %w", plain(err))
		}
		return m, nil
	}
	file, err := os.Open(f.matrix)
	if err != nil {
		return nil, fmt.Errorf("--matrix: %w", err)
	}
	defer file.Close()
	m, err := matrix.Parse(file, f.matrix)
	if err != nil {
		return nil, err
	}
	n := f.regions
	if n == 0 {
		n = m.Len()
	}
	return m.First(n)
}

// freePorts replaces default ports that are taken by free ones. Ports that the user asked for stay,
// and fail with a reason if they are taken.
func (f *demoFlags) freePorts(given func(string) bool, note io.Writer) {
	if f.cfg.SQLBasePort != 0 && !given("sql-port") {
		for i := range f.cfg.Matrix.Len() * f.cfg.NodesPerRegion {
			if !free("127.0.0.1:" + strconv.Itoa(f.cfg.SQLBasePort+i)) {
				fmt.Fprintf(note, "port %d is taken: using free ports for SQL\n", f.cfg.SQLBasePort+i)
				f.cfg.SQLBasePort = 0
				break
			}
		}
	}
	if f.cfg.HTTPListen != "" && !given("http") && !free(f.cfg.HTTPListen) {
		fmt.Fprintf(note, "%s is taken: no HTTP (--http takes another address)\n", f.cfg.HTTPListen)
		f.cfg.HTTPListen = ""
	}
}

func free(addr string) bool {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return false
	}
	_ = l.Close() // the port was only tried
	return true
}

func runDemo(c *cobra.Command, f *demoFlags) (err error) {
	given := c.Flags().Changed
	if err := f.validate(); err != nil {
		return err
	}
	out := c.OutOrStdout()
	if f.json {
		out = c.ErrOrStderr()
	}
	screen, logs := terminal(out, c.ErrOrStderr())
	log, err := logger(logs, f.cfg.LogLevel)
	if err != nil {
		return err
	}
	f.freePorts(given, out)

	remove, err := f.makeStore()
	if err != nil {
		return err
	}
	defer remove()
	defer atForcedExit(remove)()
	state, err := openState(f)
	if err != nil {
		return err
	}

	ctx := c.Context()
	begin := time.Now()
	fmt.Fprintf(out, "starting %d regions with %d node(s) each, data in %s\n", f.cfg.Matrix.Len(), f.cfg.NodesPerRegion,
		f.cfg.Dir)
	local, err := node.StartLocal(ctx, f.cfg, log)
	if err != nil {
		return orInterrupted(ctx, err)
	}
	defer func() {
		if cerr := closeWithin(local.Close, 30*time.Second); err == nil {
			err = cerr
		}
	}()
	started := time.Since(begin)
	cl := clusterOf{local}
	writeConnect(out, cl, local.HTTPAddr(), local.ConsoleURL())

	o := demo.Options{Workload: f.workload, Beside: f.beside, Work: f.opts, Clients: f.clients, Duration: f.duration, Warmup: f.warmup,
		Interval: f.interval, Screen: screen}
	var report *demo.Report
	if f.workload == "none" {
		report = demo.Watch(ctx, cl, o)
	} else if report, err = loadAndRun(ctx, cl, o, state, out); err != nil {
		return orInterrupted(ctx, err)
	}
	report.Version, report.StartSeconds = obs.Version(), started.Seconds()
	report.Setup = map[string]any{"regions": local.Regions(), "nodes_per_region": f.cfg.NodesPerRegion,
		"shards": f.cfg.Shards, "concurrency": f.cfg.Concurrency.String(),
		"clients_per_region": f.clients, "matrix": f.matrix}
	if f.json {
		err = json.NewEncoder(c.OutOrStdout()).Encode(report)
	} else {
		err = report.Write(out)
	}
	if err == nil {
		err = report.Err()
	}
	return err
}

// terminal is the screen on out, and where logs go: above the screen's table if both are one
// terminal, else to errs.
func terminal(out, errs io.Writer) (*demo.Screen, io.Writer) {
	var size func() (int, int)
	if file, ok := out.(*os.File); ok {
		size = demo.TerminalSize(file)
	}
	screen := demo.NewScreen(out, size)
	if file, ok := errs.(*os.File); ok && size != nil && demo.TerminalSize(file) != nil {
		return screen, screen
	}
	return screen, errs
}

// loadAndRun loads what the store does not hold yet, then runs.
func loadAndRun(ctx context.Context, cl demo.Cluster, o demo.Options, state *demoState, out io.Writer) (*demo.Report, error) {
	var took time.Duration
	for _, name := range []string{o.Workload, o.Beside} {
		if name == "" || state.loaded(name) {
			continue
		}
		fmt.Fprintf(out, "loading %s\n", name)
		o.Work.Drop = true // drop the tables of an interrupted load
		t, err := demo.Load(ctx, cl, name, o)
		if err != nil {
			return nil, err
		}
		took += t
		if err := state.setLoaded(name); err != nil {
			return nil, err
		}
	}
	report, err := demo.Run(ctx, cl, o)
	if report != nil {
		report.LoadSeconds = took.Seconds()
	}
	return report, err
}

func orInterrupted(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return errInterrupted
	}
	return err
}

// writeConnect says how to reach each region.
func writeConnect(out io.Writer, c demo.Cluster, http, console string) {
	fmt.Fprintln(out, "\nconnect to a region (user root, no password):")
	width := 0
	for _, r := range c.Regions() {
		width = max(width, len(r))
	}
	for _, r := range c.Regions() {
		name := r
		for _, addr := range c.SQLAddrs(r) {
			host, port, _ := net.SplitHostPort(addr) // a listener's address has a port
			fmt.Fprintf(out, "  %-*s  mysql -h %s -P %s -u root\n", width, name, host, port)
			name = ""
		}
	}
	if console != "" {
		fmt.Fprintf(out, "the web console, with a map: %s (user root, no password)\n", console)
	}
	if http != "" {
		fmt.Fprintf(out, "look at it: godwit status --insecure --addr %s; metrics and profiles at http://%s/metrics and "+
			"/debug/pprof/\n", http, http)
	}
	fmt.Fprintln(out)
}

// clusterOf adapts a local cluster to demo.Cluster.
type clusterOf struct{ *node.Local }

// Counts implements demo.Cluster.
func (c clusterOf) Counts() map[string]demo.Counts {
	out := map[string]demo.Counts{}
	for region, s := range c.Stats().Regions {
		d := demo.Counts{Kinds: map[string]demo.Kind{}, Transactions: s.Transactions, WANHops: s.WANHops, WANBytes: s.WANBytes,
			WANMessages: s.WANMessages, MovedIn: s.MovedIn}
		for name, k := range s.Kinds {
			d.Kinds[name] = demo.Kind{Latency: k.Latency, Errors: k.Errors}
		}
		out[region] = d
	}
	return out
}
