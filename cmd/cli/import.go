package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/godwitdb/godwit/cmd/migrate"
)

// Environment variables with the passwords of the two servers, for URLs that have none.
const (
	fromPasswordVar = "GODWIT_FROM_PASSWORD"
	toPasswordVar   = "GODWIT_TO_PASSWORD"
)

func importCommand() *cobra.Command {
	var o migrate.Options
	var from, to string
	c := &cobra.Command{
		Use:   "import",
		Short: "Copy the databases of a running MySQL or MariaDB server, and follow it until clients change over",
		Long: `Copy tables, rows, views, routines, triggers and events of a running MySQL or MariaDB server into a cluster, and compare
checksums. Nothing is copied before all tables can be made; --dry-run only says which cannot.

With --follow it goes on to apply what the source commits, from the source's binary log (binlog_format = ROW). Ctrl-C
stops it, and the same command goes on from there. With --cut-over it makes the source read only once Godwit has caught
up, applies the rest, makes views, routines, triggers and events, and says when clients may go to Godwit.

Passwords are in the URLs, or in ` + fromPasswordVar + ` and ` + toPasswordVar + `. Accounts and their rights are not copied.`,
		Example: `  godwit import --from mysql://root@db.example.com:3306/shop --to mysql://root@127.0.0.1:7501 --dry-run
  godwit import --from mysql://root@db.example.com:3306/shop --to mysql://root@127.0.0.1:7501 --follow
  godwit import --from mysql://root@db.example.com:3306/shop --to mysql://root@127.0.0.1:7501 --cut-over`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.From, err = address("--from", from, fromPasswordVar); err != nil {
				return err
			}
			if o.To, err = address("--to", to, toPasswordVar); err != nil {
				return err
			}
			switch {
			case len(o.To.Databases) > 0:
				return usagef("--to: databases keep their names: leave out %s", strings.Join(o.To.Databases, ","))
			case o.Threads < 1 || o.Threads > 64:
				return usagef("--threads: %d is not from 1 to 64", o.Threads)
			case o.DryRun && (o.Follow || o.CutOver || o.Overwrite):
				return usagef("--dry-run goes with none of --follow, --cut-over and --overwrite")
			}
			o.Log = c.ErrOrStderr()
			report, err := migrate.Run(c.Context(), o)
			report.Print(c.OutOrStdout())
			if err != nil && c.Context().Err() != nil {
				return errInterrupted
			}
			if err == nil && len(report.Left) > 0 && !o.SkipFailed {
				return fmt.Errorf("%d objects of the source were not imported", len(report.Left))
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&from, "from", "", "the source, and which of its databases (default all): mysql://user@host:port/db1,db2; it may end with "+
		"?tls=true, skip-verify, preferred or false")
	f.StringVar(&to, "to", "mysql://root@127.0.0.1:4000", "any node's SQL port; rows are at home in its region")
	f.IntVar(&o.Threads, "threads", 4, "how many tables are read, and statements written, side by side")
	f.BoolVar(&o.DryRun, "dry-run", false, "make the tables, say what cannot be made, and take them back")
	f.BoolVar(&o.Overwrite, "overwrite", false, "drop tables of the same names in Godwit, and begin anew")
	f.BoolVar(&o.SkipFailed, "skip-failed", false, "leave out the tables that cannot be made, and do not count as failed what was not imported")
	f.BoolVar(&o.NoVerify, "no-verify", false, "compare no checksums")
	f.BoolVar(&o.Follow, "follow", false, "after the copy, apply what the source commits, until Ctrl-C")
	f.BoolVar(&o.CutOver, "cut-over", false, "follow, make the source read only once Godwit has caught up, and end")
	_ = c.MarkFlagRequired("from") // it exists
	return c
}

// address reads a server's URL, with the password of the environment if it has none.
func address(flag, url, passwordVar string) (*migrate.Address, error) {
	a, err := migrate.ParseAddress(url)
	if err != nil {
		return nil, usagef("%s: %w", flag, err)
	}
	if a.Password == "" {
		a.Password = os.Getenv(passwordVar)
	}
	return a, nil
}
