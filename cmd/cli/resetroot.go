package cli

import (
	"github.com/spf13/cobra"

	"github.com/godwitdb/godwit/cluster"
)

func resetRootCommand() *cobra.Command {
	var e endpoint
	var p rootPassword
	c := &cobra.Command{
		Use:   "reset-root",
		Short: "Give the user root another password",
		Long: `Give the MySQL user root another password, for who has lost it, and unlock it. A root that was dropped is made
anew, with all privileges. It takes an administrator's certificate, and is written to the node's audit log. The password
is printed once, unless --root-password-file or $` + rootPasswordVar + ` has it; the nodes are told its hash only.`,
		Example: "  godwit reset-root --addr 127.0.0.1:7400\n  godwit reset-root --root-password-file root.txt",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := e.validate(); err != nil {
				return err
			}
			if err := p.choose(c.InOrStdin(), false); err != nil {
				return err
			}
			hash, err := p.hash()
			if err != nil {
				return err
			}
			if err := e.call(c.Context(), cluster.PathResetRoot, cluster.ResetRootRequest{Root: hash}, nil); err != nil {
				return p.afterError(err)
			}
			return writeLines(c.OutOrStdout(), p.lines())
		},
	}
	e.flags(c.Flags())
	p.fileFlag(c.Flags())
	return c
}
