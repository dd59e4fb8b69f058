package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
)

func leaderCommand() *cobra.Command {
	c := &cobra.Command{Use: "leader", Short: "Move the lead of a group to a node, or pin it there"}
	c.AddCommand(leaderMoveCommand(), leaderPinCommand())
	return c
}

// leaderArgs parses the arguments GROUP NODE. none allows "none" for the node.
func leaderArgs(args []string, none bool) (q cluster.LeaderRequest, err error) {
	if len(args) != 2 {
		return q, usagef("give a group and a node, like s1@r2 5; SELECT name FROM godwit.groups names the groups")
	}
	if _, err := base.ParseGroup(args[0]); err != nil {
		return q, usageError{err}
	}
	q.Group = args[0]
	if none && args[1] == "none" {
		return q, nil
	}
	n, err := strconv.ParseUint(args[1], 10, 16)
	if err != nil || n == 0 {
		return q, usagef("%q is not the number of a node, like 5; godwit status lists them", args[1])
	}
	q.Node = base.NodeID(n)
	return q, nil
}

func leaderMoveCommand() *cobra.Command {
	var e endpoint
	c := &cobra.Command{
		Use:   "move GROUP NODE",
		Short: "Hand the lead of a group to a node, and wait until it leads",
		Long: `Hand the lead of a group to a node, and wait until it leads. No statement fails: transactions go on at
the new leader with their locks. The lead does not stay there if the policy of leaders finds another node better, or
the group has a home elsewhere: see 'godwit leader pin'.`,
		Example: "  godwit leader move s1@r2 5 --addr 127.0.0.1:7400",
		RunE: func(c *cobra.Command, args []string) error {
			q, err := leaderArgs(args, false)
			if err == nil {
				err = e.validate()
			}
			if err == nil {
				err = e.call(c.Context(), cluster.PathLeader, q, nil)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "node %d leads group %s\n", q.Node, q.Group)
			return err
		},
	}
	e.flags(c.Flags())
	return c
}

func leaderPinCommand() *cobra.Command {
	var e endpoint
	c := &cobra.Command{
		Use:   "pin GROUP NODE|none",
		Short: "Keep the lead of a group at a node as long as that lives, or let it go",
		Long: `Keep the lead of a group at a node as long as that lives and keeps up, or with none let the policies
decide again. The pins are the cluster setting leader.pin.`,
		Example: "  godwit leader pin s1@r2 5\n  godwit leader pin s1@r2 none",
		RunE: func(c *cobra.Command, args []string) error {
			q, err := leaderArgs(args, true)
			if err == nil {
				err = e.validate()
			}
			if q.Pin = true; err == nil {
				err = e.call(c.Context(), cluster.PathLeader, q, nil)
			}
			if err != nil {
				return err
			}
			if q.Node == 0 {
				_, err = fmt.Fprintf(c.OutOrStdout(), "the lead of group %s is not pinned\n", q.Group)
			} else {
				_, err = fmt.Fprintf(c.OutOrStdout(), "the lead of group %s is pinned to node %d\n", q.Group, q.Node)
			}
			return err
		},
	}
	e.flags(c.Flags())
	return c
}
