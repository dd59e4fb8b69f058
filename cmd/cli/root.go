package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lab/workload"
)

// Exit statuses, see the package comment.
const (
	exitOK        = 0
	exitFailed    = 1
	exitUsage     = 2
	exitInterrupt = 130
)

// usageError is a mistake in what the user typed or wrote into a file.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errInterrupted ends a command that was interrupted before it had anything to report.
var errInterrupted = errors.New("interrupted")

// Main runs the command line and returns the exit status. The first SIGINT or SIGTERM cancels the
// command's context, which ends it cleanly; the second ends the process at once.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := interruptible(stderr)
	defer stop()
	return run(ctx, args, stdin, stdout, stderr)
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	// cobra has checked the command, its flags and its arguments once a command's hook runs.
	understood := false
	root.PersistentPreRun = func(*cobra.Command, []string) { understood = true }
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if errors.Is(err, errInterrupted) {
		fmt.Fprintln(stderr, "godwit: interrupted")
		return exitInterrupt
	}
	fmt.Fprintf(stderr, "godwit: %s\n", indent(plain(err).Error()))
	var usage usageError
	var driver workload.UsageError
	if !understood || errors.As(err, &usage) || errors.As(err, &driver) {
		fmt.Fprintf(stderr, "Run '%s --help' for what it takes.\n", cmd.CommandPath())
		return exitUsage
	}
	return exitFailed
}

// plain removes the name of an error's kind where it tells a user nothing.
func plain(err error) error {
	var e *base.Error
	if errors.As(err, &e) && e.Code == base.CodeInvalid {
		return errors.New(strings.ReplaceAll(err.Error(), e.Error(), e.Msg))
	}
	return err
}

// indent sets the further lines of a message apart from what follows it.
func indent(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ") }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "godwit",
		Short: "A geo-distributed SQL database whose rows live where they are used",
		Long: `Godwit is a geo-distributed SQL database whose rows live where they are used. It speaks the MySQL protocol.

See it at work, with five regions and emulated oceans in one process:
  godwit demo

Make a cluster of real processes:
  godwit start --region eu --store eu.d --listen 127.0.0.1:7401 --sql-listen 127.0.0.1:7501 --join 127.0.0.1:7401
  godwit start --region us --store us.d --listen 127.0.0.1:7402 --sql-listen 127.0.0.1:7502 --join 127.0.0.1:7401
  godwit start --region ap --store ap.d --listen 127.0.0.1:7403 --sql-listen 127.0.0.1:7503 --join 127.0.0.1:7401
  godwit init --addr 127.0.0.1:7401 --expect 3
  godwit status --addr 127.0.0.1:7401
  mysql -h 127.0.0.1 -P 7501 -u root -p`,
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(demoCommand(), startCommand(), initCommand(), statusCommand(), certCommand(), tokenCommand(), auditCommand(), nodeCommand(), regionCommand(), upgradeCommand(), promoteCommand(),
		clockCommand(), leaderCommand(), resetRootCommand(), epochsCommand(), debugCommand(), whatifCommand(), importCommand(), timeserverCommand(),
		workload.Command(), benchCommand(), etcdLeaderCommand(), routerCommand(), floorCommand(), doctorCommand(), manCommand(), versionCommand())
	requireSubcommands(root)
	return root
}

// requireSubcommands makes a command that only groups others show its help
// when it is called bare, and refuse words that name none of them. cobra would
// show the help and exit with success for those as well.
func requireSubcommands(c *cobra.Command) {
	for _, sub := range c.Commands() {
		requireSubcommands(sub)
	}
	if c.HasSubCommands() && c.RunE == nil && c.Run == nil {
		c.Args, c.DisableFlagsInUseLine = cobra.ArbitraryArgs, true
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return noCommand(c, args[0])
		}
		c.SetFlagErrorFunc(func(at *cobra.Command, err error) error {
			// the flag belongs to the unknown subcommand
			if words := at.Flags().Args(); at == c && len(words) > 0 {
				return noCommand(c, words[0])
			}
			return err
		})
	}
}

func noCommand(c *cobra.Command, word string) error {
	c.SuggestionsMinimumDistance = 2
	msg := fmt.Sprintf("there is no command %q", c.CommandPath()+" "+word)
	if near := c.SuggestionsFor(word); len(near) > 0 {
		msg += ": did you mean " + strings.Join(near, " or ") + "?"
	}
	return usageError{errors.New(msg)}
}

// cleanups run before the process ends at once, so that no temporary directory stays behind.
var cleanups struct {
	sync.Mutex
	list map[int]func()
	next int
}

// atForcedExit registers f; the result takes it back.
func atForcedExit(f func()) (undo func()) {
	cleanups.Lock()
	defer cleanups.Unlock()
	if cleanups.list == nil {
		cleanups.list = map[int]func(){}
	}
	id := cleanups.next
	cleanups.next++
	cleanups.list[id] = f
	return func() {
		cleanups.Lock()
		defer cleanups.Unlock()
		delete(cleanups.list, id)
	}
}

// interruptible returns a context that the first signal cancels.
func interruptible(stderr io.Writer) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
		case <-ctx.Done():
			return
		}
		fmt.Fprintln(stderr, "\ngodwit: ending; interrupt again to exit at once")
		cancel()
		<-signals
		cleanups.Lock()
		for _, f := range cleanups.list {
			f()
		}
		os.Exit(exitInterrupt)
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel()
	}
}
