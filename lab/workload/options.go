package workload

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Options configures a workload. Shares are fractions from 0 to 1.
type Options struct {
	// Seed makes loading and the clients' choices repeatable.
	Seed uint64
	// Text interpolates parameters on the client instead of using prepared statements.
	Text bool
	// Isolation, if not empty, is set for each session, e.g. "SERIALIZABLE" or "REPEATABLE READ".
	Isolation string
	// Loaders is the number of loading connections a region.
	Loaders int
	// Drop lets Init drop tables of an earlier Init.
	Drop bool
	// LoadProgress, if set, gets a line a second during Init and one at its end.
	LoadProgress io.Writer

	TPCC  TPCCOptions
	YCSB  YCSBOptions
	YCSBT YCSBTOptions
	Bank  BankOptions

	Travel TravelOptions
}

// TPCCOptions configures "tpcc". The clauses are those of the TPC-C specification, revision 5.11.
type TPCCOptions struct {
	// Warehouses is the number to load, at least one a region.
	Warehouses int
	// Scale, in (0, 1], multiplies the 100,000 items (hence the stock rows of each warehouse), and
	// the 3,000 customers, 3,000 orders, 900 undelivered orders and 1,000 last names of each
	// district. Ten districts a warehouse stay. Anything but 1 is for demonstrations and tests, not
	// for figures.
	Scale float64
	// RemoteLines is the share of order lines supplied by another warehouse, 0.01 in 2.4.1.5.
	RemoteLines float64
	// RemotePayments is the share of payments by a customer of another warehouse, 0.15 in 2.5.1.2.
	RemotePayments float64
	// Wait adds keying and think times (5.2.5); then the default is ten clients a warehouse, as
	// terminals are.
	Wait bool
	// HistoryKey gives the history table a primary key (h_w_id, h_id), which the specification
	// leaves out.
	HistoryKey bool
}

// YCSBOptions configures "ycsb".
type YCSBOptions struct {
	// Mix is a letter from A to F: the core workload.
	Mix string
	// Records is the number of rows to load, over all regions.
	Records int
	// Fields and FieldLength shape a row: 10 fields of 100 bytes in YCSB.
	Fields, FieldLength int
	// Distribution of the keys: "zipf", "uniform" or "latest"; empty means the mix's own (latest
	// for D, else zipf).
	Distribution string
	// Theta is the zipfian constant, in [0, 1); 0.99 in YCSB.
	Theta float64
	// MaxScan is the longest scan of mix E; lengths are uniform from 1. 100 in YCSB.
	MaxScan int
	// Remote is the share of operations on a key of another region.
	Remote float64
}

// YCSBTOptions configures "ycsb-t".
type YCSBTOptions struct {
	// Records is the number of rows to load, over all regions.
	Records int
	// Ops is the number of keys a transaction touches; all are different.
	Ops int
	// Reads is the share of operations that only read; the others read, modify and write.
	Reads float64
	// Theta is the zipfian constant inside a region's part, in [0, 1); 0 is uniform.
	Theta float64
	// Cross is the share of transactions that touch keys of more than one region.
	Cross float64
	// Span is the number of regions a cross-region transaction touches, its own included.
	Span int
	// ValueLength is the length of a row's filler, in bytes.
	ValueLength int
	// Unordered leaves the keys in the order drawn instead of sorting them, which invites
	// deadlocks.
	Unordered bool
}

// BankOptions configures "bank".
type BankOptions struct {
	// Accounts is the number of accounts to open, over all regions.
	Accounts int
	// Balance is what each account is opened with.
	Balance int64
	// Cross is the share of transfers to an account of another region.
	Cross float64
	// Lookups is the share of transactions that only read one balance.
	Lookups float64
	// Audits is the share of transactions that sum all balances and compare the total.
	Audits float64
	// Theta is the zipfian constant inside a region's part, in [0, 1); 0 is uniform.
	Theta float64
}

// TravelOptions configures "travel".
type TravelOptions struct {
	// Users is the number of users to load, over all regions; user u lives in region u mod R.
	Users int
	// Travellers is the share of users who travel; the others stay at home.
	Travellers float64
	// Stay is how long a traveller stays at a place, home included. The first departure is at a
	// random time.
	Stay time.Duration
	// Settle is how long a traveller counts as just arrived.
	Settle time.Duration
	// Reads is the share of statements that only read.
	Reads float64
	// Think is how long a client waits after each statement.
	Think time.Duration
}

// RunOptions configures one run.
type RunOptions struct {
	// Duration of the measured part; 0 means until ctx is cancelled.
	Duration time.Duration
	// Warmup runs before it and is not measured.
	Warmup time.Duration
	// ClientsPerTarget is the number of connections a region; 0 means the workload's default (1, or
	// ten a warehouse for TPC-C with Wait).
	ClientsPerTarget int
	// Interval between two calls of Progress; 0 means a second.
	Interval time.Duration
	// Progress, if set, is called from one goroutine with what happened since its last call.
	Progress func(Snapshot)
	// MaxRetries of one transaction before it counts as an error; 0 means 100.
	MaxRetries int
	// Retried, if set, is called with the error for which an attempt is repeated, from many
	// goroutines.
	Retried func(error)
	// TolerateErrors makes clients reconnect, with back-off, when a connection is lost or cannot be
	// made. Without it the run ends with that error. Errors that leave the connection usable never
	// end a run.
	TolerateErrors bool
	// Grace is how long transactions in flight at the end may take; 0 means 5 s.
	Grace time.Duration
}

// DefaultOptions returns the standard parameters of every workload, small enough to load within a
// minute.
func DefaultOptions() Options {
	return Options{
		Seed:    1,
		Loaders: 4,
		TPCC:    TPCCOptions{Warehouses: 1, Scale: 1, RemoteLines: 0.01, RemotePayments: 0.15},
		YCSB:    YCSBOptions{Mix: "A", Records: 100_000, Fields: 10, FieldLength: 100, Theta: 0.99, MaxScan: 100},
		YCSBT:   YCSBTOptions{Records: 100_000, Ops: 4, Reads: 0.5, Theta: 0.5, Cross: 0.1, Span: 2, ValueLength: 64},
		Bank:    BankOptions{Accounts: 10_000, Balance: 1000, Cross: 0.1},
		Travel:  TravelOptions{Users: 100, Travellers: 0.5, Stay: 65 * time.Second, Settle: 5 * time.Second, Reads: 0.8},
	}
}

// complaints collects what is wrong with options, so that all of it is reported at once.
type complaints []error

func (c *complaints) bad(cond bool, format string, args ...any) {
	if cond {
		*c = append(*c, fmt.Errorf(format, args...))
	}
}

func (c *complaints) share(flag string, v float64) {
	c.bad(!(v >= 0 && v <= 1), "%s is %v: give a share from 0 to 1", flag, v)
}

func (c *complaints) theta(v float64) {
	c.bad(!(v >= 0 && v < 1), "theta is %v: give a value from 0 (uniform) to below 1", v)
}

// between complains of a number outside of least to most. what says how to choose it.
func (c *complaints) between(flag string, v, least, most int, what string) {
	c.bad(v < least || v > most, "%s is %d: give %d to %d%s", flag, v, least, most, what)
}

// validate reports every bad option of the workload at once.
func (o Options) validate(name string) error {
	var c complaints
	c.between("loaders", o.Loaders, 1, 256, " connections a region")
	c.bad(o.Isolation != "" && !isolationLevels[o.Isolation],
		"isolation is %q: give READ UNCOMMITTED, READ COMMITTED, REPEATABLE READ or SERIALIZABLE", o.Isolation)
	switch name {
	case "tpcc":
		o.TPCC.validate(&c)
	case "ycsb":
		o.YCSB.validate(&c)
	case "ycsb-t":
		o.YCSBT.validate(&c)
	case "bank":
		o.Bank.validate(&c)
	case "travel":
		o.Travel.validate(&c)
	}
	return errors.Join(c...)
}

func (t TPCCOptions) validate(c *complaints) {
	c.bad(t.Warehouses < 1, "warehouses is %d: give at least 1", t.Warehouses)
	c.bad(!(t.Scale >= minScale && t.Scale <= 1), "scale is %v: give a factor from %v to 1", t.Scale, minScale)
	c.share("remote-lines", t.RemoteLines)
	c.share("remote-payments", t.RemotePayments)
}

func (y YCSBOptions) validate(c *complaints) {
	c.bad(ycsbMixes[y.Mix] == nil, "mix is %q: give a letter from A to F", y.Mix)
	c.bad(y.Records < 1, "records is %d: give at least 1", y.Records)
	c.between("fields", y.Fields, 1, 100, "")
	c.between("field-length", y.FieldLength, ycsbTagLength, 16000, " bytes (a value begins with a unique tag)")
	c.bad(!slices.Contains([]string{"", "zipf", "uniform", "latest"}, y.Distribution),
		"distribution is %q: give zipf, uniform or latest", y.Distribution)
	c.between("max-scan", y.MaxScan, 1, 10000, " rows")
	c.share("remote", y.Remote)
	c.theta(y.Theta)
}

func (y YCSBTOptions) validate(c *complaints) {
	c.bad(y.Records < 1, "records is %d: give at least 1", y.Records)
	c.between("ops", y.Ops, 1, 1000, " keys a transaction")
	c.bad(y.Cross > 0 && y.Ops < 2, "ops is 1 but cross is %v: a cross-region transaction needs two keys or more", y.Cross)
	c.bad(y.Span < 2, "span is %d: a cross-region transaction touches at least 2 regions", y.Span)
	c.bad(y.Cross > 0 && y.Ops >= 2 && y.Span > y.Ops, "span is %d but ops is %d: each region needs a key", y.Span, y.Ops)
	c.between("value-length", y.ValueLength, 0, 16000, " bytes")
	c.share("reads", y.Reads)
	c.share("cross", y.Cross)
	c.theta(y.Theta)
}

func (b BankOptions) validate(c *complaints) {
	c.bad(b.Accounts < 2, "accounts is %d: a transfer needs at least 2", b.Accounts)
	c.bad(b.Balance < 0 || b.Balance > 1e9, "balance is %d: give 0 to 1e9", b.Balance)
	c.share("cross", b.Cross)
	c.share("lookups", b.Lookups)
	c.share("audits", b.Audits)
	c.bad(b.Lookups+b.Audits > 1, "lookups and audits together exceed 1")
	c.theta(b.Theta)
}

func (t TravelOptions) validate(c *complaints) {
	c.bad(t.Users < 1 || t.Users > 1e6, "users is %d: give 1 to 1000000", t.Users)
	c.bad(t.Stay < time.Second, "stay is %v: give at least 1s", t.Stay)
	c.bad(t.Think < 0 || t.Think > time.Hour, "think is %v: give a time up to 1h", t.Think)
	c.bad(t.Settle < 0 || t.Settle > t.Stay, "settle is %v: give a time up to stay, %v", t.Settle, t.Stay)
	c.share("travellers", t.Travellers)
	c.share("reads", t.Reads)
}

// validate reports every bad option at once.
func (o RunOptions) validate() error {
	var errs []error
	if o.Duration < 0 || o.Warmup < 0 || o.Interval < 0 || o.Grace < 0 {
		errs = append(errs, errors.New("duration, warmup, interval and grace must not be negative"))
	}
	if o.ClientsPerTarget < 0 || o.ClientsPerTarget > 10_000 {
		errs = append(errs, fmt.Errorf("clients is %d: give 1 to 10000 a region", o.ClientsPerTarget))
	}
	if o.MaxRetries < 0 {
		errs = append(errs, errors.New("max-retries must not be negative"))
	}
	return errors.Join(errs...)
}

func (o RunOptions) withDefaults() RunOptions {
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	if o.MaxRetries == 0 {
		o.MaxRetries = 100
	}
	if o.Grace == 0 {
		o.Grace = 5 * time.Second
	}
	return o
}

var isolationLevels = map[string]bool{
	"READ UNCOMMITTED": true, "READ COMMITTED": true, "REPEATABLE READ": true, "SERIALIZABLE": true,
}
