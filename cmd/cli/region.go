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

func regionCommand() *cobra.Command {
	c := &cobra.Command{Use: "region", Short: "List regions, or drop one",
		Long: `List regions, or drop one. A region is added by starting a node of it: 'godwit start --region NAME --join ...'
with a name that the cluster does not have yet. 'godwit status' says how far that is.`}
	c.AddCommand(regionListCommand(), regionDropCommand())
	return c
}

func regionListCommand() *cobra.Command {
	var e endpoint
	var asJSON bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the regions of the cluster, those that come and go among them",
		Example: "  godwit region list --addr 127.0.0.1:7400",
		Args:    cobra.NoArgs,
		RunE: e.talks(func(c *cobra.Command, _ []string) error {
			_, s, err := askStatus(c.Context(), &e)
			if err != nil {
				return err
			}
			t := &s.Topology
			if asJSON {
				return json.NewEncoder(c.OutOrStdout()).Encode(t.Present())
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "region\tnodes\tstate")
			for _, r := range t.Present() {
				fmt.Fprintf(w, "%s\t%d\t%s\n", r.Name, len(t.NodesIn(r.ID)), regionState(t, r, s))
			}
			return w.Flush()
		}),
	}
	e.flags(c.Flags())
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return c
}

// regionState says how far a region has come or gone, and what that waits for.
func regionState(t *base.Topology, r base.Region, s *cluster.Status) string {
	if r.State == base.RegionActive {
		return "active"
	}
	text := string(r.State)
	if r.Into != 0 {
		text += ", its rows move to " + t.RegionName(r.Into)
	}
	if why := s.RegionWaits[r.ID]; why != "" {
		text += ": " + why
	}
	return text
}

func regionDropCommand() *cobra.Command {
	var e endpoint
	var into string
	c := &cobra.Command{
		Use:   "drop NAME",
		Short: "Drop a region: its rows move to another one, then its nodes are taken out for good",
		Long: `Drop a region while the cluster is in use. New rows of its clients are at home in another region at once, and the
rows that are at home there move, pinned ones too. When none is left, the nodes of the region are decommissioned and
their processes end: let clients connect elsewhere before. 'godwit region list' shows how far it is. The name is never
used again. The other regions must be able to hold the cluster: from three regions on, each row survives the loss of one
region, with two the first one needs two nodes to survive the loss of a node.`,
		Example: "  godwit region drop ap-south-1 --into ap-southeast-1 --addr 127.0.0.1:7400",
		Args:    oneArg("the name of a region; 'godwit region list' shows them"),
		RunE: e.talks(func(c *cobra.Command, args []string) error {
			var reply join.InitReply
			if err := e.call(c.Context(), cluster.PathDropRegion, cluster.DropRegionRequest{Region: args[0], Into: into}, &reply); err != nil {
				return err
			}
			t := &reply.Topology
			_, err := fmt.Fprintf(c.OutOrStdout(), "region %s is being dropped, and its rows move to %s; 'godwit region list' "+
				"shows how far that is\n", args[0], t.RegionName(t.HomeFor(t.RegionByName(args[0]))))
			return err
		}),
	}
	e.flags(c.Flags())
	c.Flags().StringVar(&into, "into", "", "the region that gets the rows; the nearest if it is left out")
	return c
}
