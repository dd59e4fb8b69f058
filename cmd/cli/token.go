package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/godwitdb/godwit/mechanism/ident"
)

func tokenCommand() *cobra.Command {
	c := &cobra.Command{Use: "token", Short: "Let nodes on other machines get their certificates"}
	c.AddCommand(createTokenCommand(), listTokensCommand(), revokeTokenCommand())
	return c
}

func createTokenCommand() *cobra.Command {
	var certs, region, uuid string
	var life time.Duration
	c := &cobra.Command{
		Use:   "create",
		Short: "Make a token with which one node gets its certificate, once",
		Long: `Make a token with which one node gets its certificate, once. Run it where the cluster's authority is (--certs).
A node that runs there gives the certificate, so the new node names it in --join. Carry the token in secret: until it is
used or expires, whoever has it can become a node. The token proves to the new node that it has reached the right cluster.`,
		Example: "  godwit token create --expires 1h --region us\n" +
			"  godwit start --region us --join db1.example:7400 --listen db2.example:7400 --token gwt1-...",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if life <= 0 || life > ident.MaxTokenLife {
				return usagef("--expires: %s is outside 0 to %s", life, ident.MaxTokenLife)
			}
			ca, err := openCA(certs)
			if err != nil {
				return err
			}
			tok, _, err := ca.CreateToken(life, region, uuid)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), tok)
			return err
		},
	}
	certsFlag(c, &certs)
	c.Flags().DurationVar(&life, "expires", time.Hour, "how long it is good")
	c.Flags().StringVar(&region, "region", "", "only for a node of this region")
	c.Flags().StringVar(&uuid, "uuid", "", "for a store that exists and has lost its certificate; its log names the UUID")
	return c
}

func listTokensCommand() *cobra.Command {
	var certs string
	c := &cobra.Command{
		Use:   "list",
		Short: "List the tokens that were made and not revoked",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ca, err := openCA(certs)
			if err != nil {
				return err
			}
			all, err := ca.Tokens()
			if err != nil {
				return err
			}
			rows := [][]string{{"ID", "GOOD UNTIL", "REGION", "STATE"}}
			for _, g := range all {
				r := g.Region
				if r == "" {
					r = "any"
				}
				rows = append(rows, []string{g.ID, g.Until.Format(time.RFC3339), r, g.State(time.Now())})
			}
			return writeLines(c.OutOrStdout(), table(rows))
		},
	}
	certsFlag(c, &certs)
	return c
}

func revokeTokenCommand() *cobra.Command {
	var certs string
	c := &cobra.Command{
		Use:   "revoke ID",
		Short: "Take a token back; a certificate that was made by it stays good",
		Args:  oneArg("the id of one token; 'godwit token list' shows them"),
		RunE: func(c *cobra.Command, args []string) error {
			ca, err := openCA(certs)
			if err != nil {
				return err
			}
			if err := ca.Revoke(args[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "token %s is revoked\n", args[0])
			return err
		},
	}
	certsFlag(c, &certs)
	return c
}
