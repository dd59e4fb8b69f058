package cli

import (
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/mechanism/clock/timeserver"
	"github.com/godwitdb/godwit/node"
)

func clockCommand() *cobra.Command {
	c := &cobra.Command{Use: "clock", Short: "Show the clocks and the clock mode, or change the mode"}
	c.AddCommand(clockStatusCommand(), clockModeCommand())
	return c
}

func clockStatusCommand() *cobra.Command {
	var e endpoint
	c := &cobra.Command{
		Use:   "status",
		Short: "Show every node's clock, its bound and what the others say of it, and the newest steps of the mode",
		Args:  cobra.NoArgs,
		RunE: e.talks(func(c *cobra.Command, _ []string) error {
			_, s, err := askStatus(c.Context(), &e)
			if err != nil {
				return err
			}
			lines := append([]string{clockLine(s), ""}, clockLines(s)...)
			if steps := clockStepLines(s); steps != nil {
				lines = append(append(lines, ""), steps...)
			}
			return writeLines(c.OutOrStdout(), lines)
		}),
	}
	e.flags(c.Flags())
	return c
}

func clockModeCommand() *cobra.Command {
	var e endpoint
	c := &cobra.Command{
		Use:   "mode auto|gtm|gclock",
		Short: "Choose where timestamps come from",
		Long: `Choose where timestamps come from, while the cluster works; the same as SET CLUSTER SETTING clock.mode.

gclock: local clocks with a bound, and commit wait. gtm: the timestamp oracle at the meta group's leader, which needs
no clocks and costs a round trip to it per snapshot and per commit (beside the quorum's). auto, the default: gclock
while all clocks are good, gtm while some are not. The switch goes on in the background; 'godwit clock status' shows
its steps.`,
		Example: "  godwit clock mode gtm --addr 127.0.0.1:7400",
		Args:    oneArg("one of auto, gtm, gclock"),
		RunE: e.talks(func(c *cobra.Command, args []string) error {
			req := struct {
				Mode string `json:"mode"`
			}{args[0]}
			if err := e.call(c.Context(), cluster.PathClock, req, nil); err != nil {
				return err
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "clock.mode is %s; 'godwit clock status' shows what the nodes do\n", args[0])
			return err
		}),
	}
	e.flags(c.Flags())
	return c
}

func timeserverCommand() *cobra.Command {
	var listen, source string
	var bound time.Duration
	c := &cobra.Command{
		Use:   "timeserver",
		Short: "Tell the machines of a region what time it is, until interrupted",
		Long: `Tell the machines of a region what time it is, over UDP, until interrupted. It runs where the best
clock of the region is: beside a GPS receiver or an atomic clock that disciplines the kernel's. Nodes use it with
--clock-source HOST:PORT.`,
		Example: "  godwit timeserver --listen 10.0.0.5:7123 --clock-source kernel",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if _, _, err := net.SplitHostPort(listen); err != nil {
				return usagef("--listen: %q is not HOST:PORT", listen)
			}
			if bound <= 0 || bound > 10*time.Second {
				return usagef("--max-clock-error: %s is outside 0 to 10s", bound)
			}
			src, err := node.ClockSource(source, bound, 0)
			if err != nil {
				return usageError{err}
			}
			defer src.Close()
			conn, err := net.ListenPacket("udp", listen)
			if err != nil {
				return fmt.Errorf("listen for questions: %w", err)
			}
			s := timeserver.Serve(conn, src.Source)
			fmt.Fprintf(c.OutOrStdout(), "godwit: time server answers at %s by clock %s\n", s.Addr(), src.Name())
			<-c.Context().Done()
			return s.Close()
		},
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:7123", "HOST:PORT for questions, UDP")
	c.Flags().StringVar(&source, "clock-source", "auto", "auto, fixed, kernel, or HOST:PORT of another time server")
	c.Flags().DurationVar(&bound, "max-clock-error", time.Millisecond,
		"bound with --clock-source fixed, and where the kernel knows none")
	return c
}

// clockLine is the mode and the worst bound, in a sentence.
func clockLine(s *cluster.Status) string {
	modes := map[string]int{}
	var worst *cluster.NodeStatus
	target := ""
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Clock == nil {
			continue
		}
		modes[n.Clock.Mode]++
		if worst == nil || n.Clock.Bound > worst.Clock.Bound {
			worst = n
		}
		if n.Clock.Target != "" {
			target = n.Clock.Target
		}
	}
	if worst == nil {
		return "clock: unknown"
	}
	what := ""
	for _, m := range []string{"gclock", "dual", "gtm", "none"} {
		if k := modes[m]; k > 0 {
			if what != "" {
				what += ", "
			}
			what += m
			if len(modes) > 1 {
				what += fmt.Sprintf(" at %d", k)
			}
		}
	}
	if len(modes) > 1 && target != "" {
		what += ", on the way to " + target
	}
	return fmt.Sprintf("clock: mode %s, worst bound %s (node %d, source %s)", what, span(worst.Clock.Bound), worst.ID,
		worst.Clock.Source)
}

func clockLines(s *cluster.Status) []string {
	rows := [][]string{{"node", "region", "mode", "epoch", "source", "bound", "verdict", "off by", "fenced",
		"oracle ahead", "right left"}}
	for _, n := range s.Nodes {
		c := n.Clock
		if c == nil {
			rows = append(rows, []string{fmt.Sprint(n.ID), n.Region, "-", "", "", "", "", "", "", "", ""})
			continue
		}
		fenced := "no"
		if c.Fenced {
			fenced = "YES"
		}
		rows = append(rows, []string{fmt.Sprint(n.ID), n.Region, c.Mode, fmt.Sprint(c.Epoch), c.Source, span(c.Bound),
			c.Verdict, span(c.Off), fenced,
			span(c.Ahead), span(min(c.Right, time.Hour))})
	}
	return table(rows)
}

func clockStepLines(s *cluster.Status) []string {
	if len(s.ClockHistory) == 0 {
		return nil
	}
	rows := [][]string{{"at", "epoch", "from", "to", "after", "by", "reason"}}
	for _, x := range s.ClockHistory {
		rows = append(rows, []string{x.At.UTC().Format("2006-01-02 15:04:05.000"), fmt.Sprint(x.Epoch), x.From, x.To,
			span(x.After), x.By, x.Reason})
	}
	return table(rows)
}
