// Command sqldiff compares Godwit's SQL answers with MariaDB's, by random statements.
//
//	go run ./lab/sqldiff/cmd -for 5m -seed 1                       one region, in this process
//	go run ./lab/sqldiff/cmd -regions 5                            five, over emulated oceans
//	go run ./lab/sqldiff/cmd -here 'root@tcp(127.0.0.1:7501)/'     a node that runs
//	go run ./lab/sqldiff/cmd -modes tlp,norec,pqs                  without MariaDB
//
// It starts a private MariaDB (Debian's mariadb-server) unless -beside names a server. It exits
// with status 1 if answers differ.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/godwitdb/godwit/lab/sqldiff"
	"github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/policy/matrix"
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
	var o sqldiff.Options
	var regions int
	var here, beside, modes string
	flag.Uint64Var(&o.Seed, "seed", 1, "seed of the first round")
	flag.IntVar(&o.Rounds, "rounds", 10, "rounds, each with a schema of its own; 0: until -for is over")
	flag.IntVar(&o.PerRound, "statements", 200, "statements a round")
	flag.DurationVar(&o.For, "for", 0, "how long; 0: until the rounds are done")
	flag.IntVar(&o.Reduce, "reduce", 300, "tries to make a statement smaller")
	flag.IntVar(&o.Examples, "examples", 1, "statements shown of each class")
	flag.BoolVar(&o.Verbose, "v", false, "a line a round")
	flag.IntVar(&regions, "regions", 1, "regions of the cluster in this process")
	flag.StringVar(&here, "here", "", "data source name of a node that runs")
	flag.StringVar(&beside, "beside", "", "data source name of the reference")
	flag.StringVar(&modes, "modes", "queries,changes,transactions", strings.Join(sqldiff.ModeNames, ", "))
	flag.Parse()
	o.Modes, o.Out = strings.Split(modes, ","), os.Stderr
	dir, err := os.MkdirTemp("", "sqldiff")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if here == "" {
		l, err := start(ctx, dir, regions)
		if err != nil {
			return 0, err
		}
		defer l.Close(context.WithoutCancel(ctx))
		here = "root@tcp(" + l.SQLAddrs(l.Regions()[0])[0] + ")/"
	}
	h, err := sqldiff.Dial(ctx, "godwit", here)
	if err != nil {
		return 0, err
	}
	defer h.Close()
	var ref *sqldiff.Side
	if sqldiff.NeedReference(o.Modes) {
		if beside == "" {
			m, err := sqldiff.StartMaria(ctx, dir)
			if err != nil {
				return 0, err
			}
			defer m.Stop()
			beside = m.DSN
		}
		if ref, err = sqldiff.Dial(ctx, "reference", beside); err != nil {
			return 0, err
		}
		defer ref.Close()
	}
	report, err := sqldiff.NewRunner(h, ref, o).Run(ctx)
	if report != nil {
		err = firstError(err, report.Print(os.Stdout))
		wrong = report.Wrong
	}
	return wrong, err
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// start runs a cluster in this process.
func start(ctx context.Context, dir string, regions int) (*node.Local, error) {
	m, err := matrix.Default(regions)
	if err != nil {
		return nil, err
	}
	return node.StartLocal(ctx, node.LocalConfig{Matrix: m, Dir: dir}, slog.New(slog.DiscardHandler))
}
