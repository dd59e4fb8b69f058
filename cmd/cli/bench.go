package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/godwitdb/godwit/lab/bench"
	"github.com/godwitdb/godwit/lab/bench/cost"
	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/mechanism/wan/wanemu"
)

func benchCommand() *cobra.Command {
	var quick, asJSON bool
	var rows int
	var figures []string
	c := &cobra.Command{
		Use:   "bench NAME",
		Short: "Regenerate the figures and tables of a paper, side by side with its baselines",
		Long: `Regenerate the figures and tables of a paper, side by side with its baselines, in one run on this machine.

'godwit bench list' names the benchmarks of this build. The result is a table with a verdict a line, or with --json
one object a line: figure, series, x, metric, unit, value, baseline (the same metric of the thing compared with),
ratio (value/baseline), paper (the paper's ratio, null where it has none) and better ("higher" or "lower").`,
		Example: `  godwit bench list
  godwit bench NAME --quick
  godwit bench NAME --figure 12,scan
  godwit bench NAME --json > figures.jsonl`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("give the name of one benchmark; 'godwit bench list' names them")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			b, err := bench.Find(args[0])
			if err != nil {
				return usageError{err}
			}
			if rows < 0 || rows > 0 && !b.Sized {
				return usagef("--rows takes a number from 1 on, and only with a benchmark that loads a table of any size: cost")
			}
			only, err := b.Part(figures)
			if err != nil {
				return usageError{err}
			}
			dir, err := os.MkdirTemp("", "godwit-bench-")
			if err != nil {
				return err
			}
			remove := func() { _ = os.RemoveAll(dir) } // a temporary directory: an error does no harm
			defer remove()
			defer atForcedExit(remove)()
			sink := rig.NewSink(c.OutOrStdout(), asJSON)
			err = b.Run(c.Context(), rig.Params{Quick: quick, Dir: dir, Log: c.ErrOrStderr(), Emit: sink.Emit, Rows: rows, Only: only})
			if cerr := sink.Close(); err == nil {
				err = cerr
			}
			return err
		},
	}
	c.Flags().BoolVar(&quick, "quick", false, "fewer points and shorter measurements: ends within a minute on two cores")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line instead of tables; progress goes to standard error")
	c.Flags().IntVar(&rows, "rows", 0, "load so many rows, of the benchmark cost; 0: 1,000,000, with --quick 100,000")
	c.Flags().StringSliceVar(&figures, "figure", nil,
		"only these figures, as 'godwit bench list' names them, of a benchmark that can be run in parts")
	c.AddCommand(benchListCommand())
	return c
}

func benchListCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the benchmarks of this build",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			out := c.OutOrStdout()
			for _, b := range bench.All() {
				var err error
				if asJSON {
					err = json.NewEncoder(out).Encode(map[string]any{"name": b.Name, "title": b.Title, "figures": b.Figures})
				} else {
					_, err = fmt.Fprintf(out, "%-12s %s (%s)\n", b.Name, b.Title, strings.Join(b.Figures, ", "))
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return c
}

// floorCommand is the process in which the benchmark cost runs a step of its floor.
func floorCommand() *cobra.Command {
	return &cobra.Command{
		Use:    cost.FloorArg + " STEP N MILLISECONDS DIR",
		Short:  "Run a step of the floor (started by the benchmark cost)",
		Hidden: true,
		Args:   cobra.ExactArgs(4),
		RunE:   func(c *cobra.Command, args []string) error { return cost.FloorMain(args, c.OutOrStdout()) },
	}
}

// routerCommand is the helper process that benchmarks on emulated networks start.
func routerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    wanemu.RouterArg + " CONFIG",
		Short:  "Forward the packets of an emulated network (started by benchmarks)",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return wanemu.RouterMain(args[0]) },
	}
}
