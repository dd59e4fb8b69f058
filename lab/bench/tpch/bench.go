package tpch

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"time"

	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/lab/sqldiff"
	"github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/policy/matrix"
)

// setup is a figure: a scale, and how many regions the rows are spread over.
type setup struct {
	figure  string
	scale   float64
	regions int
}

var setups = []setup{{"tpch/0.01", 0.01, 1}, {"tpch/0.05", 0.05, 1}, {"tpch/0.1", 0.1, 1}, {"tpch/regions", 0.01, 5}}

// Bench compares the 22 queries with MariaDB's.
func Bench() rig.Bench {
	b := rig.Bench{Name: "tpch", Parts: true, Run: run,
		Title: "the queries of TPC-H beside MariaDB's, answers compared, at three scales and over five regions (needs mariadbd)"}
	for _, s := range setups {
		b.Figures = append(b.Figures, s.figure)
	}
	return b
}

func run(ctx context.Context, p rig.Params) error {
	for _, s := range setups {
		if p.Wants(s.figure) && (!p.Quick || s == setups[0]) {
			if err := s.run(ctx, p); err != nil {
				return fmt.Errorf("%s: %w", s.figure, err)
			}
		}
	}
	return nil
}

// run loads both servers, and runs the queries in turns.
func (s setup) run(ctx context.Context, p rig.Params) (err error) {
	dir, err := os.MkdirTemp(p.Dir, "tpch")
	if err != nil {
		return err
	}
	maria, err := sqldiff.StartMaria(ctx, dir, "--innodb-buffer-pool-size="+cacheMB+"M")
	if err != nil {
		return err
	}
	defer maria.Stop()
	gateways, stop, err := s.start(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	ref, err := sql.Open("mysql", maria.DSN)
	if err != nil {
		return err
	}
	defer ref.Close()
	if err := errors.Join(Load(ctx, gateways, s.scale), Load(ctx, []*sql.DB{ref}, s.scale)); err != nil {
		return err
	}
	results, err := Run(ctx, gateways[0], ref, Options{Scale: s.scale, Times: 5, Patience: time.Minute, Log: p.Log})
	if err != nil {
		return err
	}
	return s.emit(p, results)
}

// cacheMB is what both servers may keep of their tables in memory, in MiB.
const cacheMB = "1024"

// start starts Godwit: one region as users run it, a process of its own, and several within this
// one.
func (s setup) start(ctx context.Context, dir string) (gateways []*sql.DB, stop func() error, err error) {
	var addrs []string
	if s.regions == 1 {
		n, err := rig.StartNode(ctx, dir, "--cache-mb", cacheMB)
		if err != nil {
			return nil, nil, err
		}
		addrs, stop = []string{fmt.Sprintf("127.0.0.1:%d", n.Port)}, n.Stop
	} else {
		m, err := matrix.Default(s.regions)
		if err != nil {
			return nil, nil, err
		}
		l, err := node.StartLocal(ctx, node.LocalConfig{Matrix: m, Dir: dir}, slog.New(slog.DiscardHandler))
		if err != nil {
			return nil, nil, err
		}
		for _, r := range l.Regions() {
			addrs = append(addrs, l.SQLAddrs(r)[0])
		}
		stop = func() error { return l.Close(context.WithoutCancel(ctx)) }
	}
	for _, a := range addrs {
		db, err := sql.Open("mysql", "root@tcp("+a+")/")
		if err != nil {
			return nil, nil, errors.Join(err, stop())
		}
		gateways = append(gateways, db)
	}
	end := stop
	return gateways, func() (err error) {
		for _, db := range gateways {
			err = errors.Join(err, db.Close())
		}
		return errors.Join(err, end())
	}, nil
}

// emit gives out the results. Wrong answers, and queries that go-mysql-server ran, are errors.
func (s setup) emit(p rig.Params, results []Result) (err error) {
	for _, r := range results {
		x := fmt.Sprintf("Q%d", r.Query)
		if r.Wrong != "" || r.FellBack {
			err = errors.Join(err, fmt.Errorf("%s: wrong %q, left to the old engine %t", x, r.Wrong, r.FellBack))
		}
		err = errors.Join(err, p.Emit(rig.Line{Figure: s.figure, Series: "beside MariaDB", X: x, Metric: "time", Unit: "ms",
			Value: ms(r.Here), Baseline: rig.Float(ms(r.There)), Better: rig.Lower}))
		if s.regions > 1 {
			err = errors.Join(err, p.Emit(rig.Line{Figure: s.figure, Series: "over five regions", X: x, Metric: "round trips",
				Unit: "RTT", Value: r.Trips, Better: rig.Lower}))
		}
	}
	mean := Mean(results)
	if math.IsNaN(mean) || math.IsInf(mean, 0) {
		return err
	}
	return errors.Join(err, p.Emit(rig.Line{Figure: s.figure, Series: "beside MariaDB", X: "all", Metric: "geometric mean of the ratios",
		Unit: "times", Value: mean, Baseline: rig.Float(1), Better: rig.Lower}))
}
