package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
)

// initEvery is the time between two attempts while nodes are awaited.
const initEvery = 200 * time.Millisecond

func initCommand() *cobra.Command {
	var e endpoint
	var q cluster.InitRequest
	var wait time.Duration
	var concurrency string
	c := &cobra.Command{
		Use:   "init",
		Short: "Make a cluster of the nodes that were started",
		Long: `Make a cluster of the nodes that were started. Run it once, against one node, when all nodes of the new cluster
run and name that node (or each other) in --join. Nodes that are started later join by themselves.

The number of shards is fixed from then on: a table's rows are spread over them, and every region holds all of them,
spread over its nodes.

So is the concurrency control: locking (strictly serializable), timestamp (as CockroachDB: serializable, and linearizable
for each key), or timestamp-relay (Relay: besides, real time orders all transactions that touch a common region).`,
		Example: `  godwit init --addr 127.0.0.1:7400 --expect 3
  godwit init --addr db1.example:7400 --expect 9 --shards 12`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := e.validate(); err != nil {
				return err
			}
			if q.Shards < 0 || q.Shards > 4096 {
				return usagef("--shards: %d is outside 1 to 4096 (0 chooses)", q.Shards)
			}
			var err error
			if q.Concurrency, err = base.ParseConcurrency(concurrency); err != nil {
				return usagef("--concurrency: %w", err)
			}
			if q.Expect < 0 {
				return usagef("--expect: %d is negative", q.Expect)
			}
			if wait < 0 {
				return usagef("--wait: %s is negative", wait)
			}
			var made cluster.InitReply
			for begin := time.Now(); ; {
				err := e.call(c.Context(), cluster.PathInit, q, &made)
				if err == nil {
					break
				}
				if q.Expect == 0 || !errors.Is(err, errEarly) || time.Since(begin) >= wait {
					return err
				}
				select {
				case <-c.Context().Done():
					return errInterrupted
				case <-time.After(initEvery):
				}
			}
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
			_, err = fmt.Fprintf(c.OutOrStdout(), "cluster %s: %d nodes in %d regions, %d shards, concurrency control %s\nnodes by region: %s\n",
				made.ClusterID, len(t.Nodes), len(t.Regions), t.Shards, t.Concurrency, strings.Join(regions, ", "))
			return err
		},
	}
	e.flags(c.Flags())
	c.Flags().IntVar(&q.Shards, "shards", 0, "number of shards, 1 to 4096; 0 takes one for each node of the largest region, at least two")
	c.Flags().StringVar(&concurrency, "concurrency", "locking", "locking, timestamp or timestamp-relay")
	c.Flags().IntVar(&q.Expect, "expect", 0, "wait until this many nodes have joined; 0 takes those that have")
	c.Flags().DurationVar(&wait, "wait", 30*time.Second, "how long to wait for the nodes expected before giving up")
	return c
}
