// Command sqldiff compares Godwit's SQL answers with MariaDB's, by random statements.
//
//	go run ./lab/sqldiff/cmd -for 5m -seed 1                       one region, in this process
//	go run ./lab/sqldiff/cmd -regions 5                            five, over emulated oceans, through all gateways
//	go run ./lab/sqldiff/cmd -here 'root@tcp(127.0.0.1:7501)/'     a node that runs
//	go run ./lab/sqldiff/cmd -modes tlp,norec,pqs                  without MariaDB
//
// It starts a private MariaDB (Debian's mariadb-server) unless -beside names a server. It exits
// with status 1 if answers differ.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"
	"syscall"

	"github.com/godwitdb/godwit/lab/sqldiff"
	"github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/sql/exec/budget"
	"github.com/godwitdb/godwit/sql/exec/exchange"
	"github.com/godwitdb/godwit/sql/exec/helper"
	"github.com/godwitdb/godwit/sql/expr"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	wrong, err := run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if wrong > 0 {
		os.Exit(1)
	}
}

func run(ctx context.Context) (wrong int, err error) {
	o := sqldiff.Options{Out: os.Stderr}
	var regions int
	var here, beside, modes, journal, build, profile, temp string
	flag.Uint64Var(&o.Seed, "seed", 1, "seed of the first round")
	flag.IntVar(&o.Rounds, "rounds", 10, "rounds, each with a schema of its own; 0: until -for is over")
	flag.IntVar(&o.PerRound, "statements", 200, "statements a round")
	flag.DurationVar(&o.For, "for", 0, "how long; 0: until the rounds are done")
	flag.IntVar(&o.Reduce, "reduce", 300, "tries to make a statement smaller")
	flag.IntVar(&o.Examples, "examples", 1, "statements shown of each class")
	flag.IntVar(&o.Workers, "workers", 1, "rounds at once")
	flag.StringVar(&journal, "journal", "", "file with a line for each round that is done: those are not run again")
	flag.StringVar(&build, "build", "", "what the journal calls the program that runs: a commit")
	flag.BoolVar(&o.Again, "again", false, "run the rounds of the journal that have something unexplained")
	flag.IntVar(&regions, "regions", 1, "regions of the cluster in this process")
	one := flag.Bool("one-gateway", false, "all statements go through one node; else each goes through the node of some region")
	flag.StringVar(&here, "here", "", "data source name of a node that runs")
	flag.StringVar(&beside, "beside", "", "data source name of the reference")
	flag.StringVar(&modes, "modes", "queries,changes,transactions", strings.Join(sqldiff.ModeNames, ", "))
	flag.StringVar(&temp, "temp", "", "where both servers keep their data while they run: memory is faster")
	flag.IntVar(&expr.BatchSize, "batch", expr.BatchSize, "rows that an operator of the nodes in this process hands on at once")
	flag.Int64Var(&budget.SpillAbove, "spill", 0, "bytes of a statement above which the nodes in this process write files; 0: as always")
	flag.BoolVar(&helper.Eager, "eager", false, "helpers compute for statements of the nodes in this process from the first batch on")
	flag.StringVar(&profile, "profile", "", "file for a profile of the processor")
	flag.Parse()
	o.Modes = strings.Split(modes, ",")
	dir, err := os.MkdirTemp(temp, "sqldiff")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	var others []string
	if here == "" {
		l, err := start(ctx, dir, regions)
		if err != nil {
			return 0, err
		}
		defer l.Close(context.WithoutCancel(ctx))
		here = "root@tcp(" + l.SQLAddrs(l.Regions()[0])[0] + ")/"
		for _, r := range l.Regions()[1:] {
			if !*one {
				others = append(others, "root@tcp("+l.SQLAddrs(r)[0]+")/")
			}
		}
	}
	needs := sqldiff.NeedReference(o.Modes)
	if needs && beside == "" {
		m, err := sqldiff.StartMaria(ctx, dir)
		if err != nil {
			return 0, err
		}
		defer m.Stop()
		beside = m.DSN
	}
	if journal != "" {
		if o.Journal, err = sqldiff.OpenJournal(journal, build); err != nil {
			return 0, err
		}
		defer o.Journal.Close()
	}
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return 0, err
		}
		defer pprof.StopCPUProfile()
	}
	report, err := sqldiff.NewRunner(func(ctx context.Context) (h, ref *sqldiff.Side, err error) {
		if h, err = sqldiff.Dial(ctx, "godwit", here); err == nil {
			err = h.Roam(others...)
		}
		if err == nil && needs {
			ref, err = sqldiff.Dial(ctx, "reference", beside)
		}
		return h, ref, err
	}, o).Run(ctx)
	if o.Journal != nil {
		all, builds := o.Journal.Sum(o.Examples)
		for name, n := range builds {
			fmt.Printf("%d statements on %q\n", n, name)
		}
		report = all
	}
	if helper.Eager {
		fmt.Printf("%d parts of scans computed by helpers\n", exchange.Helped.Load())
	}
	if budget.SpillAbove > 0 {
		fmt.Printf("%d temporary files of statements\n", budget.Spilled.Load())
	}
	return report.Wrong, errors.Join(err, report.Print(os.Stdout))
}

// start runs a cluster in this process.
func start(ctx context.Context, dir string, regions int) (*node.Local, error) {
	m, err := matrix.Default(regions)
	if err != nil {
		return nil, err
	}
	return node.StartLocal(ctx, node.LocalConfig{Matrix: m, Dir: dir}, slog.New(slog.DiscardHandler))
}
