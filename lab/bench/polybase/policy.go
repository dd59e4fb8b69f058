package polybase

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/policy/home"
	"github.com/godwitdb/godwit/policy/matrix"
)

// take moves rows to a region by statements, in batches.
func (g *sited) take(ctx context.Context, region int, ks []base.Key) error {
	for part := range slices.Chunk(ks, 200) {
		if _, err := kv.Run(ctx, g.DBs[region], kv.Options{}, func(t kv.Txn) error {
			for _, k := range part {
				t.Move(k, base.RegionID(region+1), kv.MoveOptions{})
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

const (
	hotTable   = 8
	hotQueries = 5
)

// stationary says where a region's rows lie in the long run. Where every access moves the row, and
// one access of ten comes from the other two regions, a tenth of the rows is in either of these.
func stationary(v system, region, rows int) (at [3][]base.Key) {
	for n := range rows {
		to := region
		if v.Homes.Mode == home.Always && n%10 == 0 {
			to = (region + 1 + n/10%2) % 3
		}
		at[to] = append(at[to], rig.Key(hotTable, region, n))
	}
	return at
}

// hotness measures section 6.5: a region uses its rows most, and other regions use them sometimes.
// A policy that follows every access moves them to and fro.
func (b *polybase) hotness(ctx context.Context) (lines []rig.Line, err error) {
	vs := []system{policy, always}
	gs, shut, err := b.open(ctx, intercontinental, vs...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, shut()) }()
	// rows of a region: few enough to load, and enough that clients seldom meet at one
	rows := rig.Pick(b.Params, 2000, 20_000)
	const per = 6
	if err := rig.Each(len(gs), func(i int) error {
		for r := range 3 {
			if err := gs[i].load(ctx, r, rig.Keys(hotTable, r, 0, rows)); err != nil {
				return err
			}
		}
		return rig.Each(3, func(r int) error {
			for to, ks := range stationary(vs[i], r, rows) {
				if to != r {
					if err := gs[i].take(ctx, to, ks); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}); err != nil {
		return nil, err
	}
	settle, run := rig.Pick(b.Params, 2*time.Second, 5*time.Second), rig.Pick(b.Params, 4*time.Second, 20*time.Second)
	s := start(ctx, gs, func(int) (cs []*rig.Client) {
		for c := range 3 * per {
			region := c / per
			cs = append(cs, rig.NewClient(region, 0, func(r *rand.Rand) (j rig.Job) {
				for range hotQueries {
					at := region
					if r.IntN(10) == 0 {
						at = (region + 1 + r.IntN(2)) % 3
					}
					j = append(j, rig.Op{Kind: rig.OpUpdate, Keys: rig.Keys(hotTable, at, r.IntN(rows), 1)})
				}
				return j
			}))
		}
		return cs
	})
	wait := rig.Pause(ctx, settle)
	before := []int64{gs[0].Moves(), gs[1].Moves()}
	wait = errors.Join(wait, rig.Pause(ctx, run))
	moves := []float64{float64(gs[0].Moves() - before[0]), float64(gs[1].Moves() - before[1])}
	all, err := s.end()
	if err := errors.Join(wait, err); err != nil {
		return nil, err
	}
	for i := range all {
		all[i] = all[i].Between(settle, settle+run)
		moves[i] /= max(1, float64(len(all[i])))
	}
	lines = []rig.Line{
		line("hotness", "hotness/always", "10 %", "median latency", "ms", rig.Lower, all[0].MS(.5),
			rig.Float(all[1].MS(.5)), rig.Float(.37)),
		line("hotness", "hotness/always", "10 %", "p95 latency", "ms", rig.Lower, all[0].MS(.95),
			rig.Float(all[1].MS(.95)), rig.Float(.73)),
		line("hotness", "hotness/always", "10 %", "moves a transaction", "rows", rig.Lower, moves[0],
			rig.Float(moves[1]), rig.Float(.1)),
		line("hotness", "hotness/always", "10 %", "throughput", "txn/s", rig.Higher, all[0].Rate(run),
			rig.Float(all[1].Rate(run)), nil),
	}
	for r := range 3 { // a median over all regions would mix different quorums
		x, y := all[0].From(r), all[1].From(r)
		lines = append(lines, line("hotness", "hotness/always", fmt.Sprintf("10 %%, R%d", r+4), "median latency",
			"ms", rig.Lower, x.MS(.5), rig.Float(y.MS(.5)), rig.Float(.37)))
	}
	return lines, nil
}

const (
	pairTable = 9
	pairs     = 300
)

// correlation measures section 6.5: transactions of two statements use rows in pairs, in R4 and R6
// at the same time, so that the same pairs are hot in both. The second row of a pair moves with the
// first one, or does not.
func (b *polybase) correlation(ctx context.Context) (lines []rig.Line, err error) {
	// Time is compressed: a run is seconds long, so the policy's times are shorter than by default.
	quickly := home.Params{Mode: home.Hotness, DecayTime: home.Duration(500 * time.Millisecond),
		MinStay: home.Duration(100 * time.Millisecond), MineInterval: home.Duration(200 * time.Millisecond),
		MiningRows: 32, MinFreq: 4}
	alone := quickly
	alone.Prefetch = -1
	gs, shut, err := b.open(ctx, intercontinental, system{Variant: rig.Variant{Name: "prefetch", Homes: quickly}},
		system{Variant: rig.Variant{Name: "alone", Homes: alone}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, shut()) }()
	if err := rig.Each(len(gs), func(i int) error { return gs[i].load(ctx, 0, rig.Keys(pairTable, 0, 0, 2*pairs)) }); err != nil {
		return nil, err
	}
	const per = 3
	settle, run := rig.Pick(b.Params, 4*time.Second, 10*time.Second), rig.Pick(b.Params, 5*time.Second, 20*time.Second)
	s := start(ctx, gs, func(int) (cs []*rig.Client) {
		for c := range 2 * per {
			z := rig.Zipf(pairs, .99)
			cs = append(cs, rig.NewClient(c/per*2, 0, func(r *rand.Rand) rig.Job {
				p := z(r)
				return rig.Job{{Kind: rig.OpUpdate, Keys: rig.Keys(pairTable, 0, 2*p, 1)},
					{Kind: rig.OpUpdate, Keys: rig.Keys(pairTable, 0, 2*p+1, 1)}}
			}))
		}
		return cs
	})
	wait := rig.Pause(ctx, settle+run)
	done, err := s.end()
	if err := errors.Join(wait, err); err != nil {
		return nil, err
	}
	for i := range done {
		done[i] = done[i].Between(settle, settle+run)
	}
	add := func(x string, a, b rig.Outcomes, paper *float64) {
		lines = append(lines,
			line("correlation", "prefetch/alone", x, "throughput", "txn/s", rig.Higher, a.Rate(run),
				rig.Float(b.Rate(run)), paper),
			line("correlation", "prefetch/alone", x, "mean latency", "ms", rig.Lower, a.Mean(), rig.Float(b.Mean()), nil),
			line("correlation", "prefetch/alone", x, "mean round trips", "RTT", rig.Lower, a.MeanTrips(),
				rig.Float(b.MeanTrips()), nil))
	}
	add("pairs", done[0], done[1], rig.Float(1.308))
	// most pairs are at home in R4, which commits in half the time of R6
	for _, r := range []int{0, 2} {
		add(fmt.Sprintf("pairs, R%d", r+4), done[0].From(r), done[1].From(r), nil)
	}
	return lines, nil
}

const moveTable = 10

// rehome counts the round trips of a move, together with a write of the row and alone.
func (b *polybase) rehome(ctx context.Context) (lines []rig.Line, err error) {
	gs, shut, err := b.open(ctx, european, fixed)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, shut()) }()
	g := gs[0]
	const kinds, n = 4, 6 // rows for each kind
	if err := g.load(ctx, 0, rig.Keys(moveTable, 0, 0, kinds*n)); err != nil {
		return nil, err
	}
	if err := rig.Pause(ctx, time.Second); err != nil {
		return nil, err // until R2's replica knows the rows
	}
	var trips [kinds]float64
	for i := range kinds * n {
		kind, k := i%kinds, rig.Key(moveTable, 0, i)
		var tr obs.Trace
		if _, err := kv.Run(ctx, g.DBs[1], kv.Options{Trace: &tr}, func(t kv.Txn) error {
			if kind < 2 {
				if _, err := t.Get(ctx, []base.Key{k}, kv.LockExclusive); err != nil {
					return err
				}
			}
			if kind != 3 {
				t.Put(k, rig.RowValue, 0)
			}
			if kind == 1 || kind == 3 {
				t.Move(k, 2, kv.MoveOptions{})
			}
			return nil
		}); err != nil {
			return nil, err
		}
		trips[kind] += tr.RTTs() / n
	}
	once, home, err := b.forwarded(ctx)
	if err != nil {
		return nil, err
	}
	// In the paper a move costs two round trips before the write's own. A forwarded write costs two
	// in all.
	return []rig.Line{
		line("rehome", "update and move/update", "R1 to R2", "round trips of lock and commit", "RTT", rig.Lower,
			trips[1], rig.Float(trips[0]), rig.Float(1.5)),
		line("rehome", "move alone/forwarded write", "R1 to R2", "round trips, quorum included", "RTT", rig.Lower,
			trips[3], rig.Float(trips[2]), rig.Float(1)),
		line("rehome", "SQL UPDATE, forwarded/lock and commit", "R1 to R2", "round trips", "RTT", rig.Lower, once,
			rig.Float(trips[0]), nil),
		line("rehome", "SQL UPDATE of a row that has come home/forwarded", "R1 to R2", "round trips", "RTT",
			rig.Lower, home, rig.Float(once), rig.Float(.5)),
	}, nil
}

// forwarded counts the round trips of UPDATE statements in R2: on rows of R1, and on a row that has
// moved to R2.
func (b *polybase) forwarded(ctx context.Context) (once, home float64, err error) {
	m, err := matrix.Open(matrix.AWS)
	if err != nil {
		return 0, 0, err
	}
	if m, err = m.Pick(european...); err != nil {
		return 0, 0, err
	}
	l, err := node.StartLocal(ctx, node.LocalConfig{Matrix: m, Shards: 1, Dir: filepath.Join(b.Dir, "sql"),
		CacheMB: 64}, slog.New(slog.DiscardHandler))
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, l.Close(context.Background())) }()
	var dbs [2]*sql.DB
	for i := range dbs {
		_, port, err := net.SplitHostPort(l.SQLAddrs(european[i])[0])
		if err != nil {
			return 0, 0, err
		}
		n, err := strconv.Atoi(port)
		if err != nil {
			return 0, 0, err
		}
		if dbs[i], err = rig.OpenMySQL(n, ""); err != nil {
			return 0, 0, err
		}
		defer dbs[i].Close()
	}
	const rows = 10
	for _, q := range []string{"CREATE DATABASE moves", "CREATE TABLE moves.t (id INT PRIMARY KEY, v INT)"} {
		if _, err := dbs[0].ExecContext(ctx, q); err != nil {
			return 0, 0, err
		}
	}
	for id := range rows {
		if _, err := dbs[0].ExecContext(ctx, "INSERT INTO moves.t VALUES (?, 0)", id); err != nil {
			return 0, 0, err
		}
	}
	update := func(from, to, times int) (float64, error) {
		before := l.Stats().Regions[european[1]].WANHops
		for id := from; id < to; id++ {
			for range times {
				if _, err := dbs[1].ExecContext(ctx, fmt.Sprintf("UPDATE moves.t SET v = v + 1 WHERE id = %d", id)); err != nil {
					return 0, err
				}
			}
		}
		return float64(l.Stats().Regions[european[1]].WANHops-before) / 2 / float64((to-from)*times), nil
	}
	// the session learns of the table, and the row moves to R2
	if _, err := update(0, 1, 10); err != nil {
		return 0, 0, err
	}
	if once, err = update(1, rows, 1); err != nil {
		return 0, 0, err
	}
	home, err = update(0, 1, 5)
	return once, home, err
}
