package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/godwitdb/godwit/cluster"
)

func epochsCommand() *cobra.Command {
	c := &cobra.Command{Use: "epochs", Short: "Repair a node whose rows of MULTI MASTER tables differ from the others'"}
	c.AddCommand(epochsCopyCommand())
	return c
}

func epochsCopyCommand() *cobra.Command {
	var e endpoint
	c := &cobra.Command{
		Use:   "copy",
		Short: "Have a halted node discard its rows of MULTI MASTER tables and copy another node's",
		Long: `Have a node that SELECT * FROM godwit.epochs shows as halted, because its rows of MULTI MASTER tables
differ from those of the other nodes, discard these rows and copy another node's. --addr is the halted node's own
address. The other nodes and all other tables go on meanwhile. Keep a copy of the node's data directory first if the
cause is to be found: rows differ when a disk or memory is damaged, or Godwit has an error.`,
		Example: "  godwit epochs copy --addr 127.0.0.1:7402",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			err := e.validate()
			if err == nil {
				err = e.call(c.Context(), cluster.PathEpochsCopy, struct{}{}, nil)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), "the node copies the rows of MULTI MASTER tables; "+
				"SELECT * FROM godwit.epochs shows when it is a member again")
			return err
		},
	}
	e.flags(c.Flags())
	return c
}
