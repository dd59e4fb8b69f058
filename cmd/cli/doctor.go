package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/godwitdb/godwit/cmd/doctor"
	"github.com/godwitdb/godwit/node"
)

func doctorCommand() *cobra.Command {
	var cfg node.Config
	var file string
	var asJSON, running bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Say what of this machine would hurt a node",
		Long: `Look at the clock, the disk of the store, the room on it, limits, memory, processors, ports and the certificate, and
say what to do. It takes the flags of 'godwit start', or its --config file, and starts nothing.

The status is 1 if something is bad. --running leaves the ports out, for a machine on which the node runs.`,
		Example: "  godwit doctor --store /var/lib/godwit --listen 0.0.0.0:7400\n  godwit doctor --config /etc/godwit/godwit.yaml --running",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if file != "" {
				if err := fileUnderFlags(file, &cfg, c.Flags()); err != nil {
					return err
				}
			}
			cfg.Fill()
			w := doctor.Where{Store: cfg.Store}
			if !running {
				w.Ports = []doctor.Port{{Flag: "--listen", Addr: cfg.Listen}, {Flag: "--sql-listen", Addr: cfg.SQLListen}}
			}
			all := doctor.Judge(doctor.Look(w))
			if asJSON {
				if err := json.NewEncoder(c.OutOrStdout()).Encode(all); err != nil {
					return err
				}
			} else {
				for _, x := range all {
					fmt.Fprintf(c.OutOrStdout(), "%-4s  %-12s %s\n", x.Grade, x.Organ, x.Found)
					if x.Do != "" {
						fmt.Fprintf(c.OutOrStdout(), "%20s%s\n", "", "-> "+x.Do)
					}
				}
			}
			if doctor.Worst(all) == doctor.Bad {
				return errors.New("a node would not do well here")
			}
			return nil
		},
	}
	startFlags(c.Flags(), &cfg)
	c.Flags().StringVar(&file, "config", "", "YAML file with the flags' names as keys; flags win over it")
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	c.Flags().BoolVar(&running, "running", false, "the node runs: its ports are taken")
	keep := map[string]bool{"store": true, "listen": true, "sql-listen": true, "config": true, "json": true, "running": true}
	for _, name := range flagNames(c.Flags()) {
		if !keep[name] {
			_ = c.Flags().MarkHidden(name) // it exists
		}
	}
	return c
}

// manCommand writes what --help says as pages for man.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the commands' pages for man(1) into a folder",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return writeMan(c.Root(), args[0])
		},
	}
}

// manName is the name of a command's page: godwit-cert-create-ca.
func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }
