package cli

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/godwitdb/godwit/node/residency"
)

func auditCommand() *cobra.Command {
	c := &cobra.Command{Use: "audit", Short: "Check what the stores of the nodes hold"}
	c.AddCommand(auditResidencyCommand())
	return c
}

// audited is the answer of one node, or why there is none.
type audited struct {
	*residency.Report
	Error string `json:"error,omitempty"`
}

func auditResidencyCommand() *cobra.Command {
	var e endpoint
	var q residency.Request
	var asJSON bool
	c := &cobra.Command{
		Use:   "residency",
		Short: "List what lies at nodes whose regions may not have it",
		Long: `Read the stores of all nodes and list what lies where it may not: rows, old versions, logs and records of groups
that belong to a placement (CREATE PLACEMENT) in whose regions the node is not, and rows of tables with PLACEMENT BY
whose column names a placement in whose regions the node is not. With --find a text is looked for in keys
and values as well, at all nodes outside of the placement that --placement names: write rows with a text that nothing else
has, and look for it.

Each node reads its whole store, at the speed of its disk: give --timeout accordingly. What was deleted, or belonged to a
table before it got its placement, is found until old versions are collected (--gc-age), and then lies in files of
the store until these are compacted: that is not looked for, nor are logs, backups and files outside of the store.

The exit status is 0 if all nodes have answered and nothing was found.`,
		Example: "  godwit audit residency --addr 127.0.0.1:7400\n" +
			"  godwit audit residency --find canary-7f3a --placement eu --timeout 10m",
		Args: cobra.NoArgs,
		RunE: e.talks(func(c *cobra.Command, _ []string) error {
			if (q.Find == "") != (q.Placement == "") {
				return usagef("--find and --placement go together: the text, and the placement whose regions may have it")
			}
			_, s, err := askStatus(c.Context(), &e)
			if err != nil {
				return err
			}
			var all []audited
			found, missing := 0, 0
			for _, n := range s.Topology.Nodes {
				if n.Gone {
					continue
				}
				x := audited{Report: &residency.Report{Node: n.ID, Region: s.Topology.RegionName(n.Region)}}
				at := e
				at.addr = n.AdminAddr()
				var got residency.Report
				if err := at.call(c.Context(), residency.Path, q, &got); err != nil {
					x.Error = err.Error()
					missing++
				} else {
					x.Report = &got
					found += len(got.Findings)
				}
				all = append(all, x)
			}
			if err := printAudit(c, all, asJSON); err != nil {
				return err
			}
			if found+missing > 0 {
				return fmt.Errorf("%d findings, and %d nodes that did not answer", found, missing)
			}
			return nil
		}),
	}
	e.flags(c.Flags())
	c.Flags().StringVar(&q.Find, "find", "", "a text to look for in keys and values")
	c.Flags().StringVar(&q.Placement, "placement", "", "the placement whose regions may have the text of --find")
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return c
}

func printAudit(c *cobra.Command, all []audited, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(c.OutOrStdout()).Encode(all)
	}
	w := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "node\tregion\trecords\tbytes\tfindings")
	for _, x := range all {
		if x.Error != "" {
			fmt.Fprintf(w, "%d\t%s\t-\t-\tnot read: %s\n", x.Node, x.Region, x.Error)
			continue
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%d\n", x.Node, x.Region, x.Records, x.Bytes, len(x.Findings))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, x := range all {
		for _, f := range x.Findings {
			fmt.Fprintf(c.OutOrStdout(), "node %d in %s: %v\n", x.Node, x.Region, f)
		}
	}
	return nil
}
