package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/node/console"
)

func startCommand() *cobra.Command {
	var cfg node.Config
	var file string
	var drain time.Duration
	c := &cobra.Command{
		Use:   "start",
		Short: "Run a node until it is interrupted",
		Long: `Run a node until it is interrupted.

A node belongs to a region and keeps its data in --store. A new node asks the addresses in --join for the cluster: it
joins one that runs, or waits until 'godwit init' makes one of all nodes that have asked. From then on its store knows
the cluster; start it again with the same --store and it continues.

Nodes and administrators know each other by certificates; docs/security.md says more. A node's own one is in the
store. The first node of a cluster makes an authority in --certs, with which the other nodes of this machine make theirs,
and the commands of this user are administrators. A node on another machine gets its certificate by a --token that
'godwit token create' makes there.

--listen takes the cluster's traffic and HTTPS: /console/ (the web console), /cluster/status, /metrics (Prometheus),
/health, /ready. --sql-listen takes MySQL clients. Both default to the loopback interface; for other machines listen on
an address they reach, or on 0.0.0.0 and name that address in --advertise.

One line on standard output says that the node listens, another that it serves SQL; logs go to standard error. SIGINT
or SIGTERM drains the node: it hands its groups over, tells clients to go once their transactions have ended, and
exits with 0. A second signal ends it at once; nothing acknowledged is lost either way.

A --config file is YAML with the flags' names as keys; flags win over it:
  region: eu-west
  store: /var/lib/godwit
  listen: 0.0.0.0:7400
  advertise: db1.example:7400
  join: [db1.example:7400, db2.example:7400]`,
		Example: "  godwit start --region eu --store eu.d --listen 127.0.0.1:7401 --sql-listen 127.0.0.1:7501 " +
			"--join 127.0.0.1:7401\n" +
			"  godwit start --config godwit.yaml --log-level debug",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if file != "" {
				if err := fileUnderFlags(file, &cfg, c.Flags()); err != nil {
					return err
				}
			}
			cfg.Fill()
			if err := cfg.Validate(); err != nil {
				return usageError{err}
			}
			if drain <= 0 {
				return usagef("--drain-timeout: %s is not positive", drain)
			}
			return serve(c, cfg, drain)
		},
	}
	startFlags(c.Flags(), &cfg)
	c.Flags().StringVar(&file, "config", "", "YAML file with these flags' names as keys; flags win over it")
	c.Flags().DurationVar(&drain, "drain-timeout", 15*time.Second,
		"how long the node may take to end once it is told to: to hand its leads over, "+
			"let clients finish (5s at most) and close its files")
	return c
}

func startFlags(f *pflag.FlagSet, cfg *node.Config) {
	var def node.Config
	def.Fill()
	f.StringVar(&cfg.Region, "region", "", "name of the place this node is in; nodes of one name are close to each "+
		"other (required)")
	f.StringVar(&cfg.Store, "store", def.Store, "directory of the node's data; made if it does not exist")
	f.StringVar(&cfg.Listen, "listen", def.Listen, "HOST:PORT for the cluster's traffic and HTTP")
	f.StringVar(&cfg.Advertise, "advertise", "", "HOST:PORT at which other nodes reach --listen (default --listen)")
	f.StringVar(&cfg.AdminListen, "admin-listen", "", "HOST:PORT for administrators, metrics and the console alone; --listen "+
		"then answers other nodes only (default: --listen answers all of them)")
	f.StringVar(&cfg.AdminAdvertise, "admin-advertise", "", "HOST:PORT at which administrators reach --admin-listen (default "+
		"--admin-listen)")
	f.StringVar(&cfg.SQLListen, "sql-listen", def.SQLListen, "HOST:PORT for MySQL clients")
	f.StringVar(&cfg.SQLAdvertise, "sql-advertise", "",
		"HOST:PORT at which clients reach --sql-listen, shown by status (default --sql-listen)")
	f.StringSliceVar(&cfg.Join, "join", nil, "addresses of some other nodes (their --advertise), "+
		"comma-separated or repeated; may name this node too")
	f.StringVar(&cfg.Certs, "certs", "", "folder of the cluster's authority, for a node that has no certificate yet, and for "+
		"tokens (default $"+node.CertsVar+" or ~/.godwit)")
	f.StringVar(&cfg.Token, "token", "", "a token of 'godwit token create', for the first start of a node on another machine")
	f.BoolVar(&cfg.Insecure, "insecure", false, "no TLS and no certificates: whoever reaches --listen is an administrator; "+
		"only on loopback")
	f.BoolVar(&cfg.InsecureAnywhere, "insecure-anywhere", false, "let --insecure listen on any address")
	f.BoolVar(&cfg.Pprof, "pprof", false, "serve profiles at /debug/pprof, to administrators")
	f.BoolVar(&cfg.NoConsole, "no-console", false, "do not serve the web console at --listen, "+console.Path)
	f.BoolVar(&cfg.OpenMetrics, "open-metrics", false, "serve /metrics without a certificate, and over plain HTTP")
	f.BoolVar(&cfg.AcceptOldStore, "accept-old-store", false, "start although other nodes know a newer copy of the store, or "+
		"too few answer: after a disaster, if this is the last copy; what was acknowledged since is lost")
	f.Uint32Var(&cfg.AsVersion, "as-version", 0, "for tests: know no newer cluster version than this, as an older build")
	_ = f.MarkHidden("as-version") // it exists
	f.StringVar(&cfg.EncryptionKey, "encryption-key", "", "file with the key that encrypts the store: 64 hexadecimal digits "+
		"(openssl rand -hex 32), readable by this user only; keep it elsewhere than the store")
	f.StringVar(&cfg.EncryptionOldKey, "encryption-old-key", "", "file with the store's key of before, to replace it by "+
		"--encryption-key")
	f.StringVar(&cfg.AuditDir, "audit-dir", "", "folder of the audit log (default STORE/audit)")
	f.StringVar(&cfg.OTLPEndpoint, "otlp-endpoint", "", "collector that traces of statements are sent to, as OTLP over HTTP "+
		"(http://HOST:4318, or a whole address); none unless given")
	f.Float64Var(&cfg.OTLPRatio, "otlp-ratio", node.DefaultOTLPRatio, "share of the statements that are traced, 0 to 1, of those "+
		"that come without a trace context in a comment")
	f.StringVar(&cfg.OTLPHeaders, "otlp-headers", "", "file with headers for the collector, as NAME: VALUE, a line each")
	f.StringVar(&cfg.OTLPCA, "otlp-ca", "", "file with the authority of the collector's certificate, if the machine does not know it")
	f.StringVar(&cfg.OTLPCert, "otlp-cert", "", "file with a certificate of this node for the collector")
	f.StringVar(&cfg.OTLPKey, "otlp-key", "", "file with the key of --otlp-cert")
	f.StringVar(&cfg.BackupDir, "backup-dir", "", "directory of this machine below which BACKUP and RESTORE may use files "+
		"(file:///...); none unless given")
	f.StringSliceVar(&cfg.BackupBuckets, "backup-bucket", nil, "buckets that BACKUP and RESTORE may use: "+
		"'s3://BUCKET[/PATH]?region=REGION', 'gs://BUCKET[/PATH]' or 'azblob://CONTAINER[/PATH]', comma-separated or "+
		"repeated; credentials are those of the process: its environment, its user's files, or the machine's role")
	f.StringSliceVar(&cfg.ChangefeedSinks, "changefeed-sink", nil, "brokers and webhooks that CREATE CHANGEFEED may name: "+
		"'kafka://HOST:PORT' or 'https://HOST[:PORT][/PATH]' with what lies below it, comma-separated or repeated; files go "+
		"where --backup-dir and --backup-bucket allow")
	f.DurationVar(&cfg.MaxClockError, "max-clock-error", def.MaxClockError,
		"bound on how far this machine's clock is off true time; commits wait it out")
	f.StringVar(&cfg.ClockSource, "clock-source", def.ClockSource,
		"where the clock's bound comes from: fixed (--max-clock-error), kernel (adjtimex), "+
			"HOST:PORT of a 'godwit timeserver', or auto: kernel if it is disciplined, else fixed")
	f.DurationVar(&cfg.ClockPoll, "clock-poll", def.ClockPoll, "how often a time server is asked")
	f.StringVar(&cfg.ClockOffsetFile, "clock-offset-file", "",
		"for tests: the clock is off by the nanoseconds in this file, whose changes it follows")
	_ = f.MarkHidden("clock-offset-file") // it exists
	f.IntVar(&cfg.CacheMB, "cache-mb", def.CacheMB, "block cache in MiB, a sixteenth of the machine's memory unless "+
		"given; rows read one by one get a quarter as much besides")
	f.IntVar(&cfg.SQLMemoryMB, "sql-memory-mb", def.SQLMemoryMB, "what all SQL statements together may keep in memory, in "+
		"MiB, a quarter of the machine's memory unless given; one of them gets a quarter of it, and no more than 256")
	f.DurationVar(&cfg.GCAge, "gc-age", def.GCAge, "how long old row versions can be read with AS OF")
	f.StringVar(&cfg.LogLevel, "log-level", def.LogLevel, "debug, info, warn or error")
	f.StringVar(&cfg.LogFormat, "log-format", def.LogFormat, "text, or json: one object a line")
	f.StringVar(&cfg.LogFile, "log-file", "", "file for the log, instead of standard error")
	f.IntVar(&cfg.LogFileMB, "log-file-mb", def.LogFileMB, "MiB after which --log-file is renamed, and another one begun")
	f.IntVar(&cfg.LogFiles, "log-files", def.LogFiles, "how many of the renamed files are kept")
}

// serve runs a node until the command's context is cancelled or the node fails.
func serve(c *cobra.Command, cfg node.Config, drain time.Duration) error {
	ownFiles()
	log, file, err := nodeLogger(c.ErrOrStderr(), &cfg)
	if err != nil {
		return err
	}
	defer file.Close()
	ctx := c.Context()
	n, err := node.Start(ctx, cfg, log)
	if err != nil {
		if ctx.Err() != nil {
			return errInterrupted
		}
		return err
	}
	out := c.OutOrStdout()
	fmt.Fprintf(out, "godwit: node of region %s listens at %s, store %s\n", cfg.Region, n.Addr(), cfg.Store)
	if n.AdminAddr() != n.Addr() {
		fmt.Fprintf(out, "godwit: administrators are answered at %s\n", n.AdminAddr())
	}
	failed := make(chan error, 1)
	go func() { failed <- n.Wait() }()
	ready := n.Ready()
	for {
		select {
		case <-ready:
			ready = nil
			host, port, err := net.SplitHostPort(n.SQLAddr())
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "godwit: node %d serves SQL at %s: mysql -h %s -P %s -u root -p\n", n.ID(), n.SQLAddr(), host, port)
		case err := <-failed:
			return errors.Join(err, closeWithin(n.Close, drain))
		case <-ctx.Done():
			if err := closeWithin(n.Close, drain); err != nil {
				return err
			}
			fmt.Fprintln(out, "godwit: ended")
			return nil
		}
	}
}

// closeWithin bounds a clean end.
func closeWithin(end func(context.Context) error, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return end(ctx)
}
