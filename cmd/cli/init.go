package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/join"
)

// initEvery is the time between two attempts while nodes are awaited.
const initEvery = 200 * time.Millisecond

// initFlags are the flags of `godwit init`.
type initFlags struct {
	endpoint
	request     join.InitRequest
	root        rootPassword
	concurrency string
	wait        time.Duration
}

func initCommand() *cobra.Command {
	var f initFlags
	c := &cobra.Command{
		Use:   "init",
		Short: "Make a cluster of the nodes that were started",
		Long: `Make a cluster of the nodes that were started. Run it once, against one node, when all nodes of the new
cluster run and name that node (or each other) in --join. Nodes that are started later join by themselves.

The number of shards is fixed from then on: a table's rows are spread over them, and every region holds all of them,
spread over its nodes.

So is the concurrency control: locking (strictly serializable), timestamp (as CockroachDB: serializable, and
linearizable for each key), or timestamp-relay (Relay: besides, real time orders all transactions that touch a common
region).

The user root gets a password, which is printed once and kept nowhere but as a hash in the cluster. For scripts,
--root-password-file or $` + rootPasswordVar + ` has it. A cluster of nodes with --insecure has none unless one is given.`,
		Example: `  godwit init --addr 127.0.0.1:7400 --expect 3
  godwit init --addr db1.example:7400 --expect 9 --shards 12 --root-password-file root.txt`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.validate(); err != nil {
				return err
			}
			if err := f.root.choose(c.InOrStdin(), f.insecure); err != nil {
				return err
			}
			made, err := f.makeCluster(c.Context())
			if err != nil {
				return f.root.afterError(err)
			}
			return writeLines(c.OutOrStdout(), append(madeLines(made), f.root.lines()...))
		},
	}
	f.flags(c.Flags())
	f.root.flags(c.Flags())
	c.Flags().IntVar(&f.request.Shards, "shards", 0,
		"number of shards, 1 to 4096; 0 takes one for each node of the largest region, at least two")
	c.Flags().StringVar(&f.concurrency, "concurrency", "locking", "locking, timestamp or timestamp-relay")
	c.Flags().IntVar(&f.request.Expect, "expect", 0, "wait until this many nodes have joined; 0 takes those that have")
	c.Flags().DurationVar(&f.wait, "wait", 30*time.Second, "how long to wait for the nodes expected before giving up")
	return c
}

// validate completes the request and reports bad flags.
func (f *initFlags) validate() (err error) {
	if err := f.endpoint.validate(); err != nil {
		return err
	}
	if f.request.Concurrency, err = base.ParseConcurrency(f.concurrency); err != nil {
		return usagef("--concurrency: %w", err)
	}
	switch {
	case f.request.Shards < 0 || f.request.Shards > 4096:
		return usagef("--shards: %d is outside 1 to 4096 (0 chooses)", f.request.Shards)
	case f.request.Expect < 0:
		return usagef("--expect: %d is negative", f.request.Expect)
	case f.wait < 0:
		return usagef("--wait: %s is negative", f.wait)
	}
	return nil
}

// makeCluster asks the node to make the cluster. It asks again, for as long as --wait says, while
// fewer nodes than --expect have joined or the node itself is not started yet.
func (f *initFlags) makeCluster(ctx context.Context) (*join.InitReply, error) {
	var err error
	if f.request.Root, err = f.root.hash(); err != nil {
		return nil, err
	}
	for begin := time.Now(); ; {
		var made join.InitReply
		err := f.call(ctx, join.PathInit, f.request, &made)
		if err == nil {
			return &made, nil
		}
		if f.request.Expect == 0 || !errors.Is(err, errEarly) || time.Since(begin) >= f.wait {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, errInterrupted
		case <-time.After(initEvery):
		}
	}
}

// madeLines describe a new cluster.
func madeLines(made *join.InitReply) []string {
	t := &made.Topology
	var regions []string
	for _, r := range t.Regions {
		n := 0
		for _, node := range t.Nodes {
			if node.Region == r.ID {
				n++
			}
		}
		regions = append(regions, fmt.Sprintf("%s (%d)", r.Name, n))
	}
	return []string{
		fmt.Sprintf("cluster %s: %d nodes in %d regions, %d shards, concurrency control %s", made.ClusterID,
			len(t.Nodes), len(t.Regions), t.Shards, t.Concurrency),
		"nodes by region: " + strings.Join(regions, ", "),
	}
}
