// Package node wires one process together: disk, clock, transport, consensus,
// transactions, SQL. It holds no logic of its own. [Start] makes a real node;
// [StartLocal] makes all nodes of all regions in one process over emulated
// oceans (`godwit demo`, tests).
package node

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/node/bundle"
	"github.com/godwitdb/godwit/node/memory"
	"github.com/godwitdb/godwit/obs/audit"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/policy/home"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/sql/backup/place"
	"github.com/godwitdb/godwit/sql/changefeed/sink"
	"github.com/godwitdb/godwit/txn"
)

// Config of a real node. The yaml names are those of the --flags.
type Config struct {
	Region string `yaml:"region"` // name of this node's region
	Store  string `yaml:"store"`  // directory of its data
	// cluster transport and HTTP (status, metrics, pprof)
	Listen    string `yaml:"listen"`
	Advertise string `yaml:"advertise"`  // how others reach Listen; default Listen
	SQLListen string `yaml:"sql-listen"` // MySQL protocol
	// requests of administrators, metrics and the console, if not at Listen
	AdminListen    string   `yaml:"admin-listen"`
	AdminAdvertise string   `yaml:"admin-advertise"` // default AdminListen
	SQLAdvertise   string   `yaml:"sql-advertise"`   // default SQLListen
	Join           []string `yaml:"join"`            // cluster addresses of some other nodes
	// folder of the cluster's authority, default [DefaultCerts]; the node's own certificate is in
	// the store
	Certs string `yaml:"certs"`
	Token string `yaml:"token"` // gets the node its first certificate
	// Insecure runs without TLS and certificates; elsewhere than on loopback only with
	// InsecureAnywhere.
	Insecure         bool `yaml:"insecure"`
	InsecureAnywhere bool `yaml:"insecure-anywhere"`
	Pprof            bool `yaml:"pprof"`        // serve profiles
	OpenMetrics      bool `yaml:"open-metrics"` // serve metrics to whoever asks
	NoConsole        bool `yaml:"no-console"`   // do not serve the web console
	// AcceptOldStore starts on the store although others know a newer one, or cannot be asked
	AcceptOldStore bool `yaml:"accept-old-store"`
	// AsVersion has the node know no newer cluster version than this, 0 all of the build: to try an
	// upgrade with one build
	AsVersion uint32 `yaml:"as-version"`
	// bound on the error of this machine's clock
	MaxClockError time.Duration `yaml:"max-clock-error"`
	// auto, fixed, kernel, or HOST:PORT of a time server
	ClockSource string        `yaml:"clock-source"`
	ClockPoll   time.Duration `yaml:"clock-poll"` // how often a time server is asked
	// for tests: the clock is off by the nanoseconds in this file, whose changes it follows; only
	// with the clock source fixed
	ClockOffsetFile string `yaml:"clock-offset-file"`
	// block cache; default a sixteenth of the memory, at least 256. The cache of rows takes a
	// quarter more
	CacheMB int `yaml:"cache-mb"`
	// what all statements together may keep in memory; default a quarter of it, at least 256
	SQLMemoryMB int `yaml:"sql-memory-mb"`
	// how long old row versions can be read by AS OF
	GCAge    time.Duration `yaml:"gc-age"`
	LogLevel string        `yaml:"log-level"` // debug, info, warn, error
	// text or json, to standard error or to a file that is rotated
	LogFormat string `yaml:"log-format"`
	LogFile   string `yaml:"log-file"`
	LogFileMB int    `yaml:"log-file-mb"`
	LogFiles  int    `yaml:"log-files"`

	// file with the key that encrypts the store, and with the one that it replaces
	EncryptionKey    string `yaml:"encryption-key"`
	EncryptionOldKey string `yaml:"encryption-old-key"`
	// folder of the audit log; default audit in the store
	AuditDir string `yaml:"audit-dir"`

	// collector that traces are sent to, as http://HOST:4318; empty: none
	OTLPEndpoint string `yaml:"otlp-endpoint"`
	// share of the statements without a trace context that are traced, 0 to 1
	OTLPRatio float64 `yaml:"otlp-ratio"`
	// files: headers for the collector, its authority, and the node's certificate for it
	OTLPHeaders string `yaml:"otlp-headers"`
	OTLPCA      string `yaml:"otlp-ca"`
	OTLPCert    string `yaml:"otlp-cert"`
	OTLPKey     string `yaml:"otlp-key"`

	// directory below which BACKUP and RESTORE may use files; empty: nowhere
	BackupDir string `yaml:"backup-dir"`
	// buckets that they may use, as s3://BUCKET[/PATH][?PARAMETERS]
	BackupBuckets []string `yaml:"backup-bucket"`
	// brokers and webhooks that change feeds may be sent to, as kafka://HOST:PORT and
	// https://HOST[:PORT][/PATH]
	ChangefeedSinks []string `yaml:"changefeed-sink"`

	audit  *audit.Log
	recent *bundle.Recent                                       // the newest lines of the log
	tune   func(*group.HostOptions, *owner.Config, *txn.Config) // Parts.Tune, for tests
}

// Defaults of a real node.
const (
	DefaultListen    = "127.0.0.1:7400"
	DefaultSQLListen = "127.0.0.1:7306"
	DefaultStore     = "godwit-data"
	DefaultOTLPRatio = 0.001
)

// Fill sets unset options to their defaults.
func (c *Config) Fill() {
	def := func(p *string, v string) {
		if *p == "" {
			*p = v
		}
	}
	def(&c.Store, DefaultStore)
	def(&c.Certs, DefaultCerts())
	def(&c.AuditDir, filepath.Join(c.Store, "audit"))
	def(&c.Listen, DefaultListen)
	def(&c.Advertise, c.Listen)
	def(&c.SQLListen, DefaultSQLListen)
	def(&c.SQLAdvertise, c.SQLListen)
	def(&c.AdminAdvertise, c.AdminListen)
	def(&c.LogLevel, "info")
	def(&c.LogFormat, "text")
	if c.LogFileMB == 0 {
		c.LogFileMB = 100
	}
	if c.LogFiles == 0 {
		c.LogFiles = 10
	}
	def(&c.ClockSource, "auto")
	if c.ClockPoll == 0 {
		c.ClockPoll = DefaultClockPoll
	}
	if c.MaxClockError == 0 {
		c.MaxClockError = time.Millisecond
	}
	if c.CacheMB == 0 {
		c.CacheMB = memory.CacheMB()
	}
	if c.SQLMemoryMB == 0 {
		c.SQLMemoryMB = memory.SQLMemoryMB()
	}
	if c.GCAge == 0 {
		c.GCAge = 10 * time.Minute
	}
}

// Validate returns one error that lists every bad option.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Region == "" {
		bad("region: name the place this node is in (--region eu-west)")
	}
	errs = append(errs, c.validateAddresses()...)
	errs = append(errs, c.validateSecurity()...)
	if err := c.backups().Check(); err != nil {
		errs = append(errs, err)
	}
	if err := (&sink.Policy{Allowed: c.ChangefeedSinks}).Check(); err != nil {
		errs = append(errs, err)
	}
	if c.MaxClockError < 0 || c.MaxClockError > 10*time.Second {
		bad("max-clock-error: %s is outside 0 to 10s", c.MaxClockError)
	}
	to := c.collector()
	if err := to.Check(c.OTLPRatio); err != nil {
		errs = append(errs, err)
	}
	if err := checkClockSource(c.ClockSource); err != nil {
		errs = append(errs, err)
	}
	if c.ClockOffsetFile != "" && c.ClockSource != "fixed" {
		bad("clock-offset-file: it is for tests, and needs clock-source fixed")
	}
	if c.ClockPoll < 100*time.Microsecond || c.ClockPoll > time.Minute {
		bad("clock-poll: %s is outside 100us to 1m", c.ClockPoll)
	}
	if c.LogFormat != "text" && c.LogFormat != "json" {
		bad("log-format: %q is neither text nor json", c.LogFormat)
	}
	if c.LogFileMB < 1 || c.LogFiles < 1 {
		bad("log-file-mb and log-files: %d and %d must be at least 1", c.LogFileMB, c.LogFiles)
	}
	if c.CacheMB < 8 {
		bad("cache-mb: %d is below 8", c.CacheMB)
	}
	if c.SQLMemoryMB < 16 {
		bad("sql-memory-mb: %d is below 16", c.SQLMemoryMB)
	}
	if v := base.ClusterVersion(c.AsVersion); v != 0 && (v < base.VersionFirst || v > base.VersionNewest) {
		bad("as-version: this build knows cluster versions %d to %d, not %d", base.VersionFirst, base.VersionNewest, v)
	}
	if c.GCAge < 10*time.Second {
		bad("gc-age: %s is below 10s; running snapshot reads need that much", c.GCAge)
	}
	switch c.LogLevel {
	case "debug", "info", "warn", "error":
	default:
		bad("log-level: %q is none of debug, info, warn, error", c.LogLevel)
	}
	return errors.Join(errs...)
}

func (c *Config) backups() *place.Policy {
	return &place.Policy{Dir: c.BackupDir, Buckets: c.BackupBuckets}
}

func (c *Config) validateAddresses() (errs []error) {
	for _, a := range []struct{ name, addr string }{{"listen", c.Listen}, {"advertise", c.Advertise},
		{"sql-listen", c.SQLListen}, {"sql-advertise", c.SQLAdvertise}} {
		if _, _, err := net.SplitHostPort(a.addr); err != nil {
			errs = append(errs, fmt.Errorf("%s: %q is not HOST:PORT (%v)", a.name, a.addr, err))
		}
	}
	for _, a := range []struct{ name, addr string }{{"admin-listen", c.AdminListen}, {"admin-advertise", c.AdminAdvertise}} {
		if _, _, err := net.SplitHostPort(a.addr); a.addr != "" && err != nil {
			errs = append(errs, fmt.Errorf("%s: %q is not HOST:PORT (%v)", a.name, a.addr, err))
		}
	}
	if c.AdminListen == "" && c.AdminAdvertise != "" {
		errs = append(errs, errors.New("admin-advertise: it goes with --admin-listen"))
	}
	if host, _, err := net.SplitHostPort(c.Advertise); err == nil && (host == "" || host == "0.0.0.0" || host == "::") {
		errs = append(errs, fmt.Errorf("advertise: %q is no address that other nodes can dial; "+
			"set --advertise to this machine's name or address", c.Advertise))
	}
	return errs
}

func (c *Config) validateSecurity() (errs []error) {
	switch {
	case c.Insecure && c.Token != "":
		errs = append(errs, errors.New("token: a node with --insecure has no certificate"))
	case c.Insecure && !c.InsecureAnywhere && !(loopback(c.Listen) && (c.AdminListen == "" || loopback(c.AdminListen))):
		errs = append(errs, fmt.Errorf("insecure: whoever reaches %s would be an administrator; listen on 127.0.0.1, leave out "+
			"--insecure, or add --insecure-anywhere if only machines that you trust reach it", cmp.Or(c.AdminListen, c.Listen)))
	case c.InsecureAnywhere && !c.Insecure:
		errs = append(errs, errors.New("insecure-anywhere: it goes with --insecure"))
	case c.EncryptionOldKey != "" && c.EncryptionKey == "":
		errs = append(errs, errors.New("encryption-old-key: --encryption-key names the key that replaces it"))
	case c.Token != "" && len(c.Join) == 0:
		errs = append(errs, errors.New("token: --join names the nodes that give the certificate"))
	}
	return errs
}

// LocalConfig of a cluster in one process.
type LocalConfig struct {
	// regions and round trips; nil is the embedded default of five regions
	Matrix         *matrix.Matrix
	NodesPerRegion int // default 1
	Shards         int // default max(2, NodesPerRegion)
	Concurrency    base.Concurrency
	Dir            string // node i keeps its data in Dir/node-i; required
	// region i's first node listens on SQLBasePort+i on loopback; 0 picks free ports
	SQLBasePort   int
	HTTPListen    string        // status, metrics and pprof of the whole process; empty is none
	MaxClockError time.Duration // default 100 µs: the nodes share one clock
	CacheMB       int           // of the whole process, default 256
	BackupDir     string        // as in Config
	// as in Config
	ChangefeedSinks []string
	GCAge           time.Duration
	LogLevel        string // default warn
	Seed            uint64 // of jitter; 0 is random
	// Homes are the first parameters of the home policy; nil takes the defaults.
	Homes *home.Params
	// NoSQL starts the nodes without SQL. Transactions run through Node.DB, and every key is a row
	// that may move.
	NoSQL bool
	// Tune is Parts.Tune of every node; may be nil.
	Tune func(*group.HostOptions, *owner.Config, *txn.Config)
}
