// Command tpch runs the queries of TPC-H on servers that run already.
//
//	go run ./lab/bench/tpch/cmd -scale 0.01 -load -load-beside -here 'root@tcp(127.0.0.1:7501)/'
//	go run ./lab/bench/tpch/cmd -scale 0.01 -queries 2,20 -plans
//
// `godwit bench tpch` starts both servers itself. With several data source names in -here,
// separated by commas, the rows are loaded through all of them in turns.
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/godwitdb/godwit/lab/bench/tpch"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	o := tpch.Options{Log: os.Stderr}
	flag.Float64Var(&o.Scale, "scale", 0.01, "scale of the rows")
	flag.IntVar(&o.Times, "times", 3, "how often each query is run")
	flag.DurationVar(&o.Patience, "patience", time.Minute, "how long a query may take")
	load := flag.Bool("load", false, "load the rows first")
	loadBeside := flag.Bool("load-beside", false, "load the reference's rows, too")
	plans := flag.Bool("plans", false, "only print the plans of the queries, measured")
	here := flag.String("here", "root@tcp(127.0.0.1:7501)/", "data source names of Godwit")
	beside := flag.String("beside", "root@tcp(127.0.0.1:3306)/", "data source name of the reference")
	only := flag.String("queries", "", "numbers of queries; empty: all")
	flag.Parse()
	for _, q := range strings.FieldsFunc(*only, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(q)
		if err != nil {
			return err
		}
		o.Only = append(o.Only, n)
	}
	var gateways []*sql.DB
	for _, dsn := range strings.Split(*here, ",") {
		db, err := sql.Open("mysql", dsn)
		if err != nil {
			return err
		}
		defer db.Close()
		gateways = append(gateways, db)
	}
	ref, err := sql.Open("mysql", *beside)
	if err != nil {
		return err
	}
	defer ref.Close()
	if *load {
		if err := timed("load of godwit", func() error { return tpch.Load(ctx, gateways, o.Scale) }); err != nil {
			return err
		}
	}
	if *loadBeside {
		if err := timed("load of the reference", func() error { return tpch.Load(ctx, []*sql.DB{ref}, o.Scale) }); err != nil {
			return err
		}
	}
	if *plans {
		return tpch.Plans(ctx, gateways[0], o, os.Stdout)
	}
	results, err := tpch.Run(ctx, gateways[0], ref, o)
	if err != nil {
		return err
	}
	return tpch.Print(os.Stdout, results)
}

func timed(what string, f func() error) error {
	begin := time.Now()
	err := f()
	fmt.Fprintf(os.Stderr, "%s: %s\n", what, time.Since(begin).Round(time.Millisecond))
	return err
}
