package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Command makes `workload` with its sub-commands init, run and check, each with one sub-command a
// workload. The caller's context ends a run cleanly, so cancel it on an interrupt.
func Command() *cobra.Command {
	root := &cobra.Command{
		Use:   "workload",
		Short: "Drive any MySQL-compatible server with TPC-C, YCSB, YCSB-T, a bank or travellers",
		Long: `Drive any server that speaks the MySQL protocol with TPC-C, YCSB, YCSB-T, a bank or travellers.

Each --url is a server, as mysql://user:password@host:port/database. In a geo-distributed cluster give one URL a
region, as region=mysql://...; each region's clients connect through it and mostly use that region's part of the data,
which init loads through the same URL. Give init and run the same regions in the same order. Several URLs of one
region share its clients.`,
		Example: "  godwit workload init tpcc --warehouses 2 --url eu=mysql://root@127.0.0.1:4001/tpcc " +
			"--url us=mysql://root@127.0.0.1:4002/tpcc\n" +
			"  godwit workload run tpcc --duration 60s --clients 8 --url eu=mysql://root@127.0.0.1:4001/tpcc " +
			"--url us=mysql://root@127.0.0.1:4002/tpcc\n" +
			"  godwit workload check tpcc --url mysql://root@127.0.0.1:4001/tpcc",
		Args: cobra.NoArgs,
	}
	verbs := []struct {
		use, short string
		make       func(name string) *cobra.Command
	}{
		{"init", "Create the tables and load them", initCommand},
		{"run", "Run transactions and report rates and latencies", runCommand},
		{"check", "Check the invariants of the tables, best at rest", checkCommand},
	}
	for _, v := range verbs {
		verb := &cobra.Command{Use: v.use, Short: v.short, Args: cobra.NoArgs}
		for _, name := range names {
			verb.AddCommand(v.make(name))
		}
		root.AddCommand(verb)
	}
	return root
}

var abouts = map[string]string{
	"tpcc":   "TPC-C: five transaction types of an order-entry business",
	"ycsb":   "YCSB core workloads A to F: single-row operations",
	"ycsb-t": "YCSB-T: transactions over several keys, a share of them over several regions",
	"bank":   "Transfers between accounts; the total must not change",
	"travel": "Users with a cart each, who travel between regions; no update may be lost or count twice",
}

// common are the flags of every command.
type common struct {
	urls []string
	opts Options
	json bool
}

func (c *common) register(f *pflag.FlagSet) {
	c.opts = DefaultOptions()
	f.StringArrayVar(&c.urls, "url", nil, "[region=]mysql://user:password@host:port/database; "+
		"repeat it for several regions or servers")
	f.Uint64Var(&c.opts.Seed, "seed", c.opts.Seed, "seed of all random choices")
	f.BoolVar(&c.opts.Text, "text", false, "interpolate parameters instead of using prepared statements")
	f.StringVar(&c.opts.Isolation, "isolation", "", `isolation level to set, e.g. "SERIALIZABLE" (default: the server's)`)
}

// UsageError is the error of a bad value on the command line.
type UsageError struct{ error }

// Unwrap returns the error that says what is wrong.
func (e UsageError) Unwrap() error { return e.error }

// open makes the workload and its targets.
func (c *common) open(name string) (Workload, []Target, error) {
	w, targets, err := c.make(name)
	if err != nil {
		err = UsageError{err}
	}
	return w, targets, err
}

func (c *common) make(name string) (Workload, []Target, error) {
	c.opts.Isolation = strings.ToUpper(c.opts.Isolation)
	c.opts.YCSB.Mix = strings.ToUpper(c.opts.YCSB.Mix)
	w, err := New(name, c.opts)
	if err != nil {
		return nil, nil, err
	}
	targets, err := ParseTargets(c.urls)
	return w, targets, err
}

// loadFlags registers the flags that shape the tables of a workload.
func loadFlags(f *pflag.FlagSet, name string, o *Options) {
	switch name {
	case "tpcc":
		f.IntVar(&o.TPCC.Warehouses, "warehouses", o.TPCC.Warehouses,
			"warehouses to load, at least one a region; w belongs to region (w-1) mod R")
		f.Float64Var(&o.TPCC.Scale, "scale", o.TPCC.Scale,
			"factor from 0.01 to 1 on items (100,000), and on customers and orders of a district (3,000): "+
				"for quick demonstrations")
	case "ycsb":
		f.IntVar(&o.YCSB.Records, "records", o.YCSB.Records, "rows to load, over all regions")
	case "ycsb-t":
		f.IntVar(&o.YCSBT.Records, "records", o.YCSBT.Records, "rows to load, over all regions")
		f.IntVar(&o.YCSBT.ValueLength, "value-length", o.YCSBT.ValueLength, "bytes of filler in a row")
	case "bank":
		f.IntVar(&o.Bank.Accounts, "accounts", o.Bank.Accounts, "accounts to open, over all regions")
		f.Int64Var(&o.Bank.Balance, "balance", o.Bank.Balance, "what each account is opened with")
	case "travel":
		f.IntVar(&o.Travel.Users, "users", o.Travel.Users, "users to load, over all regions")
	}
}

// tableFlags registers the flags that init and run must be given alike, because run cannot read
// them from the tables.
func tableFlags(f *pflag.FlagSet, name string, o *Options) {
	switch name {
	case "tpcc":
		f.BoolVar(&o.TPCC.HistoryKey, "history-key", false,
			"history has a primary key (the specification gives it none); same for init and run")
	case "ycsb":
		f.IntVar(&o.YCSB.Fields, "fields", o.YCSB.Fields, "fields in a row; same for init and run")
		f.IntVar(&o.YCSB.FieldLength, "field-length", o.YCSB.FieldLength, "bytes in a field; same for init and run")
	}
}

// runFlags registers the flags that shape the transactions of a workload.
func runFlags(f *pflag.FlagSet, name string, o *Options) {
	switch name {
	case "tpcc":
		f.Float64Var(&o.TPCC.RemoteLines, "remote-lines", o.TPCC.RemoteLines,
			"share of order lines supplied by another warehouse")
		f.Float64Var(&o.TPCC.RemotePayments, "remote-payments", o.TPCC.RemotePayments,
			"share of payments by a customer of another warehouse")
		f.BoolVar(&o.TPCC.Wait, "wait", false, "keying and think times as in the specification; "+
			"then 10 clients a warehouse by default")
	case "ycsb":
		f.StringVar(&o.YCSB.Mix, "mix", o.YCSB.Mix, "core workload: A update-heavy, B read-mostly, C read-only, "+
			"D read-latest, E short scans, F read-modify-write")
		f.StringVar(&o.YCSB.Distribution, "distribution", "", "zipf, uniform or latest (default: the mix's own)")
		f.Float64Var(&o.YCSB.Theta, "theta", o.YCSB.Theta, "zipfian constant, 0 to below 1")
		f.IntVar(&o.YCSB.MaxScan, "max-scan", o.YCSB.MaxScan, "longest scan of mix E, in rows")
		f.Float64Var(&o.YCSB.Remote, "remote", 0, "share of operations on another region's keys")
	case "ycsb-t":
		f.IntVar(&o.YCSBT.Ops, "ops", o.YCSBT.Ops, "keys a transaction touches")
		f.Float64Var(&o.YCSBT.Reads, "reads", o.YCSBT.Reads, "share of reads; the other operations read, modify and write")
		f.Float64Var(&o.YCSBT.Theta, "theta", o.YCSBT.Theta, "zipfian constant inside a region's keys, 0 (uniform) to below 1")
		f.Float64Var(&o.YCSBT.Cross, "cross", o.YCSBT.Cross, "share of transactions over several regions")
		f.IntVar(&o.YCSBT.Span, "span", o.YCSBT.Span, "regions a cross-region transaction touches")
		f.BoolVar(&o.YCSBT.Unordered, "unordered", false, "do not sort a transaction's keys; invites deadlocks")
	case "bank":
		f.Float64Var(&o.Bank.Cross, "cross", o.Bank.Cross, "share of transfers to another region")
		f.Float64Var(&o.Bank.Lookups, "lookups", o.Bank.Lookups, "share of transactions that read one balance")
		f.Float64Var(&o.Bank.Audits, "audits", o.Bank.Audits,
			"share of transactions that sum all balances; a wrong total is an error")
		f.Float64Var(&o.Bank.Theta, "theta", o.Bank.Theta, "zipfian constant inside a region's accounts, 0 (uniform) to below 1")
	case "travel":
		f.Float64Var(&o.Travel.Travellers, "travellers", o.Travel.Travellers, "share of users who travel")
		f.DurationVar(&o.Travel.Stay, "stay", o.Travel.Stay, "how long a traveller stays at a place")
		f.DurationVar(&o.Travel.Settle, "settle", o.Travel.Settle, "how long he counts as just arrived")
		f.Float64Var(&o.Travel.Reads, "reads", o.Travel.Reads, "share of statements that only read")
	}
}

func initCommand(name string) *cobra.Command {
	var c common
	cmd := &cobra.Command{Use: name, Short: abouts[name], Args: cobra.NoArgs}
	c.register(cmd.Flags())
	cmd.Flags().IntVar(&c.opts.Loaders, "loaders", c.opts.Loaders, "loading connections a region")
	cmd.Flags().BoolVar(&c.opts.Drop, "drop", false, "drop the tables of an earlier init first")
	loadFlags(cmd.Flags(), name, &c.opts)
	tableFlags(cmd.Flags(), name, &c.opts)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cmd.SilenceUsage = true
		c.opts.LoadProgress = cmd.ErrOrStderr()
		w, targets, err := c.open(name)
		if err != nil {
			return err
		}
		return w.Init(cmd.Context(), targets)
	}
	return cmd
}

func runCommand(name string) *cobra.Command {
	var c common
	var ro RunOptions
	var quiet, check bool
	cmd := &cobra.Command{Use: name, Short: abouts[name], Args: cobra.NoArgs}
	f := cmd.Flags()
	c.register(f)
	runFlags(f, name, &c.opts)
	tableFlags(f, name, &c.opts)
	f.DurationVar(&ro.Duration, "duration", 30*time.Second, "length of the measurement; 0 for until interrupted")
	f.DurationVar(&ro.Warmup, "warmup", 0, "time before it that is not measured")
	f.IntVar(&ro.ClientsPerTarget, "clients", 0, "connections a region (default 1, or 10 a warehouse for TPC-C with --wait)")
	f.DurationVar(&ro.Interval, "interval", time.Second, "time between progress lines")
	f.IntVar(&ro.MaxRetries, "max-retries", 100, "retries of a transaction before it counts as an error")
	f.DurationVar(&ro.Grace, "grace", 5*time.Second, "time that transactions in flight have at the end")
	f.BoolVar(&ro.TolerateErrors, "tolerate-errors", false,
		"reconnect when a connection is lost, and exit with success in spite of errors")
	f.BoolVar(&quiet, "quiet", false, "no progress lines")
	f.BoolVar(&check, "check", false, "check the invariants afterwards")
	f.BoolVar(&c.json, "json", false, "end with one JSON object on standard output instead of a table; "+
		"progress goes to standard error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cmd.SilenceUsage = true
		w, targets, err := c.open(name)
		if err != nil {
			return err
		}
		if err := ro.validate(); err != nil {
			return UsageError{err}
		}
		out := cmd.OutOrStdout()
		if !quiet {
			progress := out
			if c.json {
				progress = cmd.ErrOrStderr()
			}
			// A line that cannot be written does not end the measurement.
			ro.Progress = func(s Snapshot) { _, _ = fmt.Fprintln(progress, s.Line()) }
		}
		report, runErr := w.Run(cmd.Context(), targets, ro)
		if report == nil {
			return runErr
		}
		var checks []CheckResult
		var checkErr error
		if check && runErr == nil {
			// The check also follows a run that was ended by an interrupt.
			checks, checkErr = w.Check(context.WithoutCancel(cmd.Context()), targets[0])
		}
		if err := writeReport(out, report, checks, c.json); err != nil {
			return err
		}
		switch {
		case runErr != nil:
			return runErr
		case checkErr != nil:
			return fmt.Errorf("the checks could not be evaluated: %w", checkErr)
		case Failed(checks) > 0:
			return fmt.Errorf("%d of %d checks failed", Failed(checks), len(checks))
		case report.Total.Errors > 0 && !ro.TolerateErrors:
			return fmt.Errorf("%d transactions ended with an error", report.Total.Errors)
		}
		return nil
	}
	return cmd
}

// writeReport ends a run's output.
func writeReport(out io.Writer, r *Report, checks []CheckResult, asJSON bool) error {
	if !asJSON {
		if err := r.WriteTable(out); err != nil {
			return err
		}
		return WriteChecks(out, checks)
	}
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if checks != nil {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(body, &object); err != nil {
			return err
		}
		if object["checks"], err = json.Marshal(checks); err != nil {
			return err
		}
		if body, err = json.Marshal(object); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "%s\n", body)
	return err
}

func checkCommand(name string) *cobra.Command {
	var c common
	cmd := &cobra.Command{Use: name, Short: abouts[name], Args: cobra.NoArgs}
	c.register(cmd.Flags())
	cmd.Flags().BoolVar(&c.json, "json", false, "print a JSON array instead of lines")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cmd.SilenceUsage = true
		w, targets, err := c.open(name)
		if err != nil {
			return err
		}
		results, err := w.Check(cmd.Context(), targets[0])
		if err != nil {
			return err
		}
		if c.json {
			body, err := json.Marshal(results)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", body); err != nil {
				return err
			}
		} else if err := WriteChecks(cmd.OutOrStdout(), results); err != nil {
			return err
		}
		if n := Failed(results); n > 0 {
			return fmt.Errorf("%d of %d checks failed", n, len(results))
		}
		return nil
	}
	return cmd
}
