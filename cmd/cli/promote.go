package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/godwitdb/godwit/cluster"
)

func promoteCommand() *cobra.Command {
	var e endpoint
	var q cluster.PromoteRequest
	c := &cobra.Command{
		Use:   "promote --lost REGION",
		Short: "Let the survivors of a lost region take over its asynchronous tables",
		Long: `Let the survivors of a lost region take over its asynchronous tables. They go on from a cut, the newest
moment up to which they hold everything that the region had committed; what it committed later is lost, also
when it comes back, and then reported: SELECT * FROM godwit.promotions and godwit.losses. Synchronous tables go on by
themselves. It is refused while a node of the region is heard of.

When the region is back, --return lets its groups vote there again.`,
		Example: "  godwit promote --lost eu-west --addr 127.0.0.1:7400\n  godwit promote --return eu-west",
		Args:    cobra.NoArgs,
		RunE: e.talks(func(c *cobra.Command, _ []string) error {
			back, err := c.Flags().GetString("return")
			if err != nil {
				return err
			}
			switch {
			case (q.Lost == "") == (back == ""):
				return usagef("name a region either as --lost or as --return")
			case back != "":
				q.Lost, q.Back = back, true
			}
			var r cluster.PromoteReply
			if err := e.call(c.Context(), cluster.PathPromote, q, &r); err != nil {
				return err
			}
			out := c.OutOrStdout()
			if q.Back {
				_, err := fmt.Fprintf(out, "the asynchronous groups of region %s go back there; "+
					"'godwit status' shows how far they are\n", q.Lost)
				return err
			}
			for _, p := range r.Promotions {
				if _, err := fmt.Fprintf(out, "promotion %d: group %s of region %s votes in %s; it stands as of %s, "+
					"from the copy of node %d; "+
					"the newest closed timestamp heard of it is %s\n",
					p.ID, p.Group, p.Region, p.Seat, p.Cut.Time().UTC().Format(timeFormat), p.Source,
					p.Closed.Time().UTC().Format(timeFormat)); err != nil {
					return err
				}
			}
			_, err = fmt.Fprintf(out, "What region %s committed to asynchronous tables after %s is lost. "+
				"Its nodes discard and report it when they are back:\n"+
				"SELECT * FROM godwit.losses\nThen 'godwit promote --return %s' lets its groups vote there again.\n",
				q.Lost, oldest(r.Promotions).UTC().Format(timeFormat), q.Lost)
			return err
		}),
	}
	e.flags(c.Flags())
	c.Flags().StringVar(&q.Lost, "lost", "", "region that is lost")
	c.Flags().StringVar(&q.Seat, "seat", "", "region where its groups shall vote; default: the one that holds most")
	c.Flags().BoolVar(&q.Force, "force", false, "go on without survivors that do not answer")
	c.Flags().String("return", "", "region that is back")
	return c
}

// oldest is the smallest cut.
func oldest(ps []cluster.PromotionAccount) (at time.Time) {
	for i, p := range ps {
		if t := p.Cut.Time(); i == 0 || t.Before(at) {
			at = t
		}
	}
	return at
}

// timeFormat shows timestamps to the microsecond.
const timeFormat = "2006-01-02 15:04:05.000000 MST"
