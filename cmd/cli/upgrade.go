package cli

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/cluster/join"
)

func upgradeCommand() *cobra.Command {
	c := &cobra.Command{Use: "upgrade", Short: "Show how far an upgrade is, or finalize it",
		Long: `Show how far an upgrade is, or finalize it. To upgrade, stop one node after the other and start it with the new
build; until the upgrade is final, a node can be started with the old build again. It is finalized by itself a day after
the last node was started with the new build (cluster setting upgrade.after), or by 'godwit upgrade finalize' if
upgrade.finalize is manual.`}
	c.AddCommand(upgradeStatusCommand(), upgradeFinalizeCommand())
	return c
}

func upgradeStatusCommand() *cobra.Command {
	var e endpoint
	var asJSON bool
	c := &cobra.Command{
		Use:     "status",
		Short:   "Show the builds of the nodes, and the cluster versions that they know and act by",
		Example: "  godwit upgrade status --addr 127.0.0.1:7400",
		Args:    cobra.NoArgs,
		RunE: e.talks(func(c *cobra.Command, _ []string) error {
			_, s, err := askStatus(c.Context(), &e)
			if err != nil {
				return err
			}
			newest := s.Topology.Acts()
			for _, n := range s.Nodes {
				newest = max(newest, n.Knows)
			}
			if asJSON {
				type node struct {
					Node  base.NodeID         `json:"node"`
					Build string              `json:"build,omitempty"`
					Knows base.ClusterVersion `json:"knows,omitempty"`
				}
				var nodes []node
				for _, n := range s.Nodes {
					nodes = append(nodes, node{n.ID, n.Version, n.Knows})
				}
				return json.NewEncoder(c.OutOrStdout()).Encode(map[string]any{"acts_by": s.Topology.Acts(), "newest": newest,
					"final": newest == s.Topology.Acts(), "waits": s.UpgradeWaits, "nodes": nodes})
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "node\tregion\tbuild\tknows")
			for _, n := range s.Nodes {
				knows := "-"
				if n.Knows != 0 {
					knows = fmt.Sprint(n.Knows)
				}
				fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", n.ID, n.Region, orDash(n.Version), knows)
			}
			fmt.Fprintf(w, "\nThe cluster acts by version %d. %s\n", s.Topology.Acts(), upgradeText(s, newest))
			return w.Flush()
		}),
	}
	e.flags(c.Flags())
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return c
}

// upgradeText says what is left to do, and what it brings.
func upgradeText(s *cluster.Status, newest base.ClusterVersion) string {
	if newest == s.Topology.Acts() {
		return "No node that answers knows a newer one."
	}
	text := fmt.Sprintf("Version %d", newest)
	for v := s.Topology.Acts() + 1; v <= newest; v++ {
		if b := v.Brings(); b != "" {
			text += " (" + b + ")"
		}
	}
	if s.UpgradeWaits == "" {
		return text + " is not final."
	}
	return text + " is not final: it " + s.UpgradeWaits + "."
}

func upgradeFinalizeCommand() *cobra.Command {
	var e endpoint
	c := &cobra.Command{
		Use:   "finalize",
		Short: "Have the cluster act by the newest version that all nodes know; older builds are refused then, for good",
		Long: `Have the cluster act by the newest version that all nodes know. All nodes must answer. Afterwards the stores can be
opened only by builds that know the version, and nodes of older builds are refused: there is no way back.`,
		Example: "  godwit upgrade finalize --addr 127.0.0.1:7400",
		Args:    cobra.NoArgs,
		RunE: e.talks(func(c *cobra.Command, _ []string) error {
			var reply join.InitReply
			if err := e.call(c.Context(), cluster.PathUpgrade, struct{}{}, &reply); err != nil {
				return err
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "the cluster acts by version %d; older builds are refused from now on\n",
				reply.Topology.Acts())
			return err
		}),
	}
	e.flags(c.Flags())
	return c
}
