package cli

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/godwitdb/godwit/cmd/etcdleader"
	"github.com/godwitdb/godwit/policy/leader"
)

// etcdAccess adds the flags by which etcdctl reaches etcd.
func etcdAccess(f *pflag.FlagSet, a *etcdleader.Access) {
	f.StringSliceVar(&a.Endpoints, "endpoints", []string{"127.0.0.1:2379"},
		"client URLs of etcd, or host:port; one is enough to find the other members")
	f.StringVar(&a.CACert, "cacert", "", "verify etcd's certificates with this CA bundle (PEM)")
	f.StringVar(&a.Cert, "cert", "", "identify with this certificate (PEM)")
	f.StringVar(&a.Key, "key", "", "its key (PEM)")
	f.BoolVar(&a.InsecureSkipVerify, "insecure-skip-tls-verify", false, "do not verify etcd's certificates (for tests)")
	f.StringVar(&a.User, "user", "", "name[:password] of a user with role root, if authentication is on")
	f.StringVar(&a.Password, "password", "", "its password")
	f.DurationVar(&a.Timeout, "command-timeout", 5*time.Second, "longest time for one request")
}

// etcdEnv takes options without a flag from etcdctl's environment variables.
func etcdEnv(a *etcdleader.Access) {
	for name, v := range map[string]*string{"CACERT": &a.CACert, "CERT": &a.Cert, "KEY": &a.Key, "USER": &a.User,
		"PASSWORD": &a.Password} {
		if *v == "" {
			*v = os.Getenv("ETCDCTL_" + name)
		}
	}
}

func etcdLeaderCommand() *cobra.Command {
	var o etcdleader.Options
	var once bool
	var reads string
	c := &cobra.Command{
		Use:   "etcd-leader",
		Short: "Keep the leader of a stock etcd cluster near its clients (GeoLM)",
		Long: `Keep the leader of a stock etcd cluster where requests take least, by GeoLM's policy (package leader)
and etcd's public API.

Once an interval it reads of every member the requests of its own clients and its round trips to the other members
(from /metrics, or from 'godwit etcd-leader sidecar' beside the members, which follows changes within seconds where
etcd's own histograms take half a minute). The utility of a member is what an average request would save with it as
leader. One whose utility was positive throughout the damping window, and large enough on average, is made the leader;
the next window is then twice as long.

The log, on standard output, is one JSON object a line: when a window ends, when the reason changes, and for each
move, with the utilities of all members; durations in it are in ms. What fails is logged and tried again. With --once
it looks twice, an interval apart, decides without a window and ends; the exit status is 1 if it could not. The flags
that say how to reach etcd are etcdctl's; ETCDCTL_CACERT, ETCDCTL_CERT, ETCDCTL_KEY, ETCDCTL_USER and ETCDCTL_PASSWORD
stand for those that are not given.

Reads are taken to be linearizable (etcd's default), which wait for a quorum as writes do; --reads serializable leaves
reads out.`,
		Example: `  godwit etcd-leader --endpoints 10.0.0.1:2379 --dry-run
  godwit etcd-leader --endpoints https://a:2379,https://b:2379,https://c:2379 --cacert ca.pem --cert me.pem --key me-key.pem
  godwit etcd-leader --endpoints a:2379 --sidecars a=a:2390,b=b:2390,c=c:2390
  godwit etcd-leader --endpoints a:2379 --once --dry-run | jq '.members[] | {name, utility_ms}'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch reads {
			case "linearizable":
			case "serializable":
				o.Serializable = true
			default:
				return usagef("--reads %q: linearizable or serializable", reads)
			}
			etcdEnv(&o.Access)
			o.Log = c.OutOrStdout()
			a, err := etcdleader.New(c.Context(), o)
			switch {
			case c.Context().Err() != nil:
				return errInterrupted
			case err != nil:
				return err
			case once:
				return a.Once(c.Context())
			}
			return a.Run(c.Context())
		},
	}
	f := c.Flags()
	etcdAccess(f, &o.Access)
	f.DurationVar(&o.Interval, "interval", time.Second, "time between two looks; the unit of --window and --hold-down")
	f.BoolVar(&o.DryRun, "dry-run", false, "decide and log, but move nothing")
	f.BoolVar(&once, "once", false, "look, decide, move and end")
	f.BoolVar(&o.Verbose, "verbose", false, "log every look")
	f.StringVar(&reads, "reads", "linearizable", "what clients' reads are: linearizable or serializable")
	f.StringToStringVar(&o.Sidecars, "sidecars", nil, "sidecars by member name, name=host:port")
	f.StringSliceVar(&o.Candidates, "candidates", nil, "names of the members that may lead (default all)")
	f.IntVar(&o.Policy.Window, "window", 40, "first and shortest damping window, in intervals")
	f.IntVar(&o.Policy.MaxWindow, "max-window", 0, "longest damping window (default 16 times --window)")
	f.IntVar(&o.Policy.HoldDown, "hold-down", 10, "intervals after a change of the leader that are not looked at; -1: none")
	f.DurationVar(&o.Policy.MinGain, "min-gain", time.Millisecond, "the least that an average request must save; -1ns: anything")
	f.Float64Var(&o.Policy.MinGainShare, "min-gain-share", .05,
		"the same as a share of what an average request takes now; -1: any")
	f.StringVar((*string)(&o.Policy.Commit), "commit", string(leader.Quorum),
		"estimate of a commit: quorum, or the paper's median")
	c.AddCommand(etcdSidecarCommand())
	return c
}

func etcdSidecarCommand() *cobra.Command {
	var a etcdleader.Access
	var listen string
	var interval time.Duration
	c := &cobra.Command{
		Use:   "sidecar",
		Short: "Measure round trips from beside one member to all members, for 'godwit etcd-leader'",
		Long: `Measure round trips from beside one member of etcd to all members, as the time that a TCP connection to
their client URLs takes, and serve them at http://LISTEN` + etcdleader.PathRTT + ` as JSON: seconds by member id. It
needs no credentials but those that listing the members needs, and serves nothing secret.`,
		Example: `  godwit etcd-leader sidecar --endpoints 127.0.0.1:2379 --listen :2390`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			etcdEnv(&a)
			s, err := etcdleader.NewSidecar(a, interval)
			if err != nil {
				return usageError{err}
			}
			ln, err := net.Listen("tcp", listen)
			if err != nil {
				return err
			}
			srv := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- srv.Serve(ln); cancel() }()
			err = s.Run(ctx)
			if cerr := srv.Close(); err == nil {
				err = cerr
			}
			if serr := <-ended; err == nil && !errors.Is(serr, http.ErrServerClosed) {
				err = serr
			}
			return err
		},
	}
	f := c.Flags()
	etcdAccess(f, &a)
	f.StringVar(&listen, "listen", ":2390", "address to serve at")
	f.DurationVar(&interval, "interval", time.Second, "time between two measurements")
	return c
}
