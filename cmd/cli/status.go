package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/lab/demo"
)

func statusCommand() *cobra.Command {
	var e endpoint
	var asJSON, watch bool
	var every time.Duration
	c := &cobra.Command{
		Use:   "status",
		Short: "Show nodes, groups, leaders, lag, round trips and problems",
		Long: `Show the cluster as one node sees it, completed by asking the others.

Nodes: "heard" is how long ago the asked node heard of it, "rtt" the round trip to it, "leads" and "replicas" count
groups.
Groups: one line a consensus group. "home" is the region its rows belong to, "lag" how many log entries each replica
that is not up to date is behind its leader (node:entries), "closed lag" how far its closed timestamp is behind now,
which is how stale a read at another replica must be to be served at once (negative: closed ahead of time).
Problems: what an operator should look at.

The exit status is 0 also when there are problems; scripts read "problems" in the --json output.`,
		Example: `  godwit status --addr 127.0.0.1:7400
  godwit status --watch
  godwit status --json | jq '.problems'`,
		Args: cobra.NoArgs,
		RunE: e.talks(func(c *cobra.Command, _ []string) error {
			if every <= 0 {
				return usagef("--every: %s is not positive", every)
			}
			if !watch {
				return showStatus(c, &e, asJSON)
			}
			return watchStatus(c, &e, asJSON, every)
		}),
	}
	e.flags(c.Flags())
	c.Flags().BoolVar(&asJSON, "json", false, "print the node's answer as one JSON object; "+
		"durations are in nanoseconds (with --watch, one object a line)")
	c.Flags().BoolVar(&watch, "watch", false, "show it again and again until interrupted, in place on a terminal")
	c.Flags().DurationVar(&every, "every", 2*time.Second, "time between two looks with --watch")
	return c
}

func askStatus(ctx context.Context, e *endpoint) (json.RawMessage, *cluster.Status, error) {
	var raw json.RawMessage
	if err := e.call(ctx, cluster.PathStatus, nil, &raw); err != nil {
		return nil, nil, err
	}
	var s cluster.Status
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, nil, e.stranger(err)
	}
	return raw, &s, nil
}

func showStatus(c *cobra.Command, e *endpoint, asJSON bool) error {
	raw, s, err := askStatus(c.Context(), e)
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(c.OutOrStdout()).Encode(raw)
	}
	return writeLines(c.OutOrStdout(), statusLines(s))
}

// watchStatus goes on while the node does not answer, as an operator watches just then.
func watchStatus(c *cobra.Command, e *endpoint, asJSON bool, every time.Duration) error {
	ctx := c.Context()
	var size func() (int, int)
	if f, ok := c.OutOrStdout().(*os.File); ok {
		size = demo.TerminalSize(f)
	}
	screen := demo.NewScreen(c.OutOrStdout(), size)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		raw, s, err := askStatus(ctx, e)
		var usage usageError
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &usage):
			return err
		case asJSON && err == nil:
			if err := json.NewEncoder(c.OutOrStdout()).Encode(raw); err != nil {
				return err
			}
		case asJSON:
			c.PrintErrln("godwit: " + err.Error())
		case err != nil:
			screen.Draw([]string{time.Now().Format(time.TimeOnly) + "  " + err.Error()})
		default:
			screen.Draw(append([]string{time.Now().Format(time.TimeOnly)}, statusLines(s)...))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
