package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/mechanism/ident"
	"github.com/godwitdb/godwit/node"
)

const day = 24 * time.Hour

func certCommand() *cobra.Command {
	c := &cobra.Command{Use: "cert", Short: "Make the certificates of a cluster's nodes and administrators"}
	c.AddCommand(createCACommand(), createNodeCommand(), createClientCommand())
	return c
}

// certsFlag names the folder of the authority.
func certsFlag(c *cobra.Command, dir *string) {
	c.Flags().StringVar(dir, "certs", node.DefaultCerts(), "folder of the cluster's authority (default $"+node.CertsVar+
		" or ~/.godwit)")
	c.Flags().Lookup("certs").DefValue = ""
}

// openCA opens the authority of a folder, and says what to do if it cannot.
func openCA(dir string) (*ident.CA, error) {
	ca, err := ident.OpenCA(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the key of the cluster's authority is not in %s: run this where the cluster's first node was "+
			"started, name the folder by --certs, or make an authority by 'godwit cert create-ca' (%w)", dir, err)
	}
	return ca, err
}

func createCACommand() *cobra.Command {
	var certs string
	c := &cobra.Command{
		Use:   "create-ca",
		Short: "Make the authority of a new cluster",
		Long: `Make the authority of a new cluster, in a folder that is empty or does not exist: ca.crt, ca.key, and client.crt and
client.key for an administrator. 'godwit start' does the same for a cluster whose nodes all run on one machine.

Who can read ca.key can become any node: keep it where tokens and certificates are made, and nowhere else.`,
		Example: "  godwit cert create-ca --certs /etc/godwit",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ca, err := ident.CreateCA(certs)
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s has files already; name an empty folder by --certs", certs)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "made an authority and an administrator's certificate in %s; fingerprint %x\n", certs,
				ca.Fingerprint())
			return err
		},
	}
	certsFlag(c, &certs)
	return c
}

func createNodeCommand() *cobra.Command {
	var certs, out, region, uuid string
	var days int
	c := &cobra.Command{
		Use:   "create-node",
		Short: "Make a node's certificate by hand",
		Long: `Make a node's certificate by hand, in a folder to be copied to the node as the folder certs in its --store. A token
does the same without copying a key.

If the folder has a node's certificate already, the new one is for the same node and key: a running node reads it
without a restart.`,
		Example: "  godwit cert create-node --region eu --out /var/lib/godwit/certs",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if out == "" {
				return usagef("--out: name the folder for the certificate")
			}
			if days < 1 {
				return usagef("--days: %d is not positive", days)
			}
			ca, err := openCA(certs)
			if err != nil {
				return err
			}
			name := ident.Name{Role: ident.RoleNode, ID: uuid, Region: region}
			if ident.HasNode(out) {
				old, err := ident.Open(out, ident.Node, nil)
				if err != nil {
					return err
				}
				had := old.Name()
				if uuid != "" && uuid != had.ID || region != "" && region != had.Region {
					return fmt.Errorf("%s has the certificate of %s: leave out --uuid and --region to renew it, or name another folder",
						out, had)
				}
				name = had
			}
			if name.Region == "" {
				return usagef("--region: name the node's region")
			}
			if name.ID == "" {
				name.ID = join.NewUUID()
			}
			if err := ca.Create(out, ident.Node, name, time.Duration(days)*day); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "made the certificate of node %s of region %s in %s, good for %d days\n", name.ID,
				name.Region, out, days)
			return err
		},
	}
	certsFlag(c, &certs)
	c.Flags().StringVar(&out, "out", "", "folder for node.crt, node.key and ca.crt (required)")
	c.Flags().StringVar(&region, "region", "", "the node's region")
	c.Flags().StringVar(&uuid, "uuid", "", "of a store that exists, as 'godwit status' shows it; default a new one")
	c.Flags().IntVar(&days, "days", int(ident.NodeLife/day), "how long it is good")
	return c
}

func createClientCommand() *cobra.Command {
	var certs, out, name string
	var days int
	c := &cobra.Command{
		Use:   "create-client",
		Short: "Make an administrator's certificate",
		Long: `Make an administrator's certificate, in a folder to be given to the person or the program (Prometheus, for example).
Whoever has it may do all that 'godwit node', 'promote', 'clock', 'leader' and 'init' do. It cannot be revoked alone:
give it a short life.`,
		Example: "  godwit cert create-client --name alice --out alice.d\n  godwit status --addr db1.example:7400 --certs alice.d",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if out == "" || name == "" {
				return usagef("--out and --name: name the folder for the certificate, and who it is for")
			}
			if days < 1 {
				return usagef("--days: %d is not positive", days)
			}
			ca, err := openCA(certs)
			if err != nil {
				return err
			}
			if err := ca.Create(out, ident.Client, ident.Name{Role: ident.RoleClient, ID: name}, time.Duration(days)*day); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "made the certificate of %s in %s, good for %d days\n", name, out, days)
			return err
		},
	}
	certsFlag(c, &certs)
	c.Flags().StringVar(&out, "out", "", "folder for client.crt, client.key and ca.crt (required)")
	c.Flags().StringVar(&name, "name", "", "who it is for (required)")
	c.Flags().IntVar(&days, "days", int(ident.ClientLife/day), "how long it is good")
	return c
}
