package cli

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
)

func nodeCommand() *cobra.Command {
	c := &cobra.Command{Use: "node", Short: "List nodes, or take one out of the cluster for good"}
	c.AddCommand(nodeListCommand(), decommissionCommand())
	return c
}

func nodeListCommand() *cobra.Command {
	var e endpoint
	var asJSON bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the nodes of the cluster",
		Example: "  godwit node list --addr 127.0.0.1:7400",
		Args:    cobra.NoArgs,
		RunE: e.talks(func(c *cobra.Command, _ []string) error {
			_, s, err := askStatus(c.Context(), &e)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(s.Nodes)
			}
			return writeLines(c.OutOrStdout(), nodeLines(s))
		}),
	}
	e.flags(c.Flags())
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON array; durations are in nanoseconds")
	return c
}

func decommissionCommand() *cobra.Command {
	var e endpoint
	c := &cobra.Command{
		Use:   "decommission ID",
		Short: "Take a node out of the cluster for good; its replicas move to others of its region",
		Long: `Take a node out of the cluster for good. Its replicas move to other nodes of its region, and its id is
never used again; the process may run or be dead. To replace a dead node, start a new one with an empty --store in the
same region, then decommission the dead one. 'godwit node list' shows the ids, 'godwit status --watch' how far the
move is.`,
		Example: "  godwit node decommission 3 --addr 127.0.0.1:7400",
		Args:    oneArg("the id of one node; 'godwit node list' shows them"),
		RunE: e.talks(func(c *cobra.Command, args []string) error {
			id, err := strconv.ParseUint(args[0], 10, 32)
			if err != nil || id == 0 {
				return usagef("%q is no node id; 'godwit node list' shows them", args[0])
			}
			req := struct {
				Node base.NodeID `json:"node"`
			}{base.NodeID(id)}
			if err := e.call(c.Context(), cluster.PathDecommission, req, nil); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "node %d is decommissioned; once 'godwit status' shows that it "+
				"holds no replica, its process and its store can go\n", id)
			return err
		}),
	}
	e.flags(c.Flags())
	return c
}
