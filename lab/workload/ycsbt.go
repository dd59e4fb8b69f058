package workload

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// ycsbT runs transactions over several keys, some of them over several regions' keys. It is a
// closed economy, as in YCSB+T (Dey et al., 2014): what a transaction adds to one value it takes
// from another, so the sum of all values is zero, and every write raises the row's version, so a
// lost update shows in the sum.
type ycsbT struct {
	opts YCSBTOptions
	seed uint64

	keys keyRanges
}

// keyRanges is a table of numbered rows cut into one contiguous range a region, with a shared zipf
// over each.
type keyRanges struct {
	n       int
	lo      []int // by region, and n at the end
	zipfs   []*zipf
	scatter []scatter
}

func newKeyRanges(n, regions int, theta float64) (keyRanges, error) {
	k := keyRanges{n: n}
	for r := range regions {
		lo, hi := split(n, r, regions)
		if lo == hi {
			return k, fmt.Errorf("%d rows are too few for %d regions: run init with more", n, regions)
		}
		k.lo = append(k.lo, lo)
		k.zipfs = append(k.zipfs, newZipf(hi-lo, theta))
		k.scatter = append(k.scatter, newScatter(hi-lo))
	}
	k.lo = append(k.lo, n)
	return k, nil
}

func (k keyRanges) size(region int) int { return k.lo[region+1] - k.lo[region] }

// draw takes a key of a region.
func (k keyRanges) draw(rng *rand.Rand, region int) int {
	// The zipfs never grow, so clients may share them.
	return k.lo[region] + k.scatter[region].item(k.zipfs[region].next(rng, k.size(region)))
}

// drawOther takes a key of a region that is not in used. After some tries with the distribution it
// takes the nearest free key, so that hot spots do not make it spin; there must be one.
func (k keyRanges) drawOther(rng *rand.Rand, region int, used []int) int {
	key := k.draw(rng, region)
	for range 16 {
		if !slices.Contains(used, key) {
			return key
		}
		key = k.draw(rng, region)
	}
	for slices.Contains(used, key) {
		if key++; key == k.lo[region+1] {
			key = k.lo[region]
		}
	}
	return key
}

// newRunTag is the beginning of a client's unique values: no other client has it, nor one of a run
// that started in another second. The low 24 bits are the client's to count with.
func newRunTag(client int) uint64 {
	run := uint64(time.Since(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).Seconds())
	return (run&(1<<29-1)<<10 | uint64(client)&(1<<10-1)) << 24
}

const (
	ycsbTLocal = iota
	ycsbTCross
)

func (y *ycsbT) kinds() []string  { return []string{"local", "cross-region"} }
func (y *ycsbT) tables() []string { return []string{"ycsb_t"} }

func (y *ycsbT) create(ctx context.Context, s *session) error {
	err := s.exec(ctx, fmt.Sprintf("CREATE TABLE ycsb_t (id BIGINT NOT NULL, val BIGINT NOT NULL, version BIGINT NOT NULL, "+
		"filler VARCHAR(%d) NOT NULL, PRIMARY KEY (id))", max(y.opts.ValueLength, 1)))
	if err != nil {
		return fmt.Errorf("creating the YCSB-T table: %w", err)
	}
	return nil
}

func (y *ycsbT) load(l *loader) {
	loadRanges(l, y.opts.Records, "ycsb_t (id, val, version, filler)", func(rng *rand.Rand, id int) []any {
		return []any{id, 0, 0, alpha(rng, y.opts.ValueLength, y.opts.ValueLength)}
	})
}

// loadRanges loads rows numbered from 0, each range through its region.
func loadRanges(l *loader, n int, table string, row func(rng *rand.Rand, id int) []any) {
	for r := range l.regions {
		first, end := split(n, r, l.regions)
		eachChunk(end-first, 20_000, func(lo, hi int) {
			l.add(r, hi-lo, func(ctx context.Context, b *batch) error {
				rng := newRand(l.seed, 0x4a11, uint64(first+lo))
				if err := b.into(ctx, table); err != nil {
					return err
				}
				for id := first + lo; id < first+hi; id++ {
					if err := b.row(ctx, row(rng, id)...); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// countRows counts a table that must not be empty.
func countRows(ctx context.Context, s *session, table, workload string) (int, error) {
	var n int
	if err := s.row(ctx, []any{&n}, "SELECT COUNT(*) FROM "+table); err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, fmt.Errorf("table %s is empty: run `godwit workload init %s --drop` first", table, workload)
	}
	return n, nil
}

func (y *ycsbT) open(ctx context.Context, s *session, regions int) error {
	n, err := countRows(ctx, s, "ycsb_t", "ycsb-t")
	if err != nil {
		return err
	}
	if n/regions < y.opts.Ops {
		return fmt.Errorf("%d rows in %d regions are too few for transactions of %d different keys", n, regions, y.opts.Ops)
	}
	y.keys, err = newKeyRanges(n, regions, y.opts.Theta)
	return err
}

func (y *ycsbT) client(region, i, _ int) client {
	return &ycsbTClient{y: y, rng: newRand(y.seed, 0x1c57, uint64(region), uint64(i)), region: region}
}

type ycsbTClient struct {
	y      *ycsbT
	rng    *rand.Rand
	region int
}

// ycsbTOp touches one key; it writes if delta is to be added.
type ycsbTOp struct {
	key   int
	write bool
	delta int64
}

func (c *ycsbTClient) next() txn {
	o, rng := c.y.opts, c.rng
	regions := []int{c.region}
	if n := len(c.y.keys.zipfs); n > 1 && chance(rng, o.Cross) {
		// The client's own region and some others, all different.
		for _, r := range rng.Perm(n) {
			if r != c.region && len(regions) < min(o.Span, n) {
				regions = append(regions, r)
			}
		}
	}
	ops := make([]ycsbTOp, o.Ops)
	used := make([]int, 0, o.Ops)
	last := -1
	var sum int64
	for i := range ops {
		key := c.y.keys.drawOther(rng, regions[i%len(regions)], used)
		used = append(used, key)
		ops[i] = ycsbTOp{key: key, write: !chance(rng, o.Reads)}
		if ops[i].write {
			ops[i].delta = int64(between(rng, -1000, 1000))
			sum += ops[i].delta
			last = i
		}
	}
	if last >= 0 {
		ops[last].delta -= sum // a lone write adds nothing, but still raises the version
	}
	if !o.Unordered {
		slices.SortFunc(ops, func(a, b ycsbTOp) int { return a.key - b.key })
	}
	t := txn{kind: ycsbTLocal, run: func(ctx context.Context, s *session) error { return runYCSBT(ctx, s, ops) }}
	if len(regions) > 1 {
		t.kind = ycsbTCross
	}
	return t
}

func runYCSBT(ctx context.Context, s *session, ops []ycsbTOp) error {
	for _, op := range ops {
		var val, version int64
		var filler sql.RawBytes
		query := "SELECT val, version, filler FROM ycsb_t WHERE id = ?"
		if op.write {
			query += " FOR UPDATE"
		}
		if err := s.row(ctx, []any{&val, &version, &filler}, query, op.key); err != nil {
			return err
		}
		if op.write {
			// The client computes the new row, so an update lost between reading and writing breaks
			// the sum.
			err := s.exec(ctx, "UPDATE ycsb_t SET val = ?, version = ? WHERE id = ?", val+op.delta, version+1, op.key)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (y *ycsbT) check(ctx context.Context, s *session) ([]CheckResult, error) {
	var sum whole
	var rows, negative int
	err := inTransaction(ctx, s, func() error {
		var err error
		if rows, err = countRows(ctx, s, "ycsb_t", "ycsb-t"); err != nil {
			return err
		}
		if err := s.row(ctx, []any{&sum}, "SELECT SUM(val) FROM ycsb_t"); err != nil {
			return err
		}
		return s.row(ctx, []any{&negative}, "SELECT COUNT(*) FROM ycsb_t WHERE version < 0 OR (version = 0 AND val <> 0)")
	})
	return []CheckResult{
		{Name: "sum", Description: "the sum of all values is 0", OK: sum == 0,
			Detail: fmt.Sprintf("sum %d of %d rows", sum, rows)},
		{Name: "versions", Description: "a row without a write has its first value", OK: negative == 0,
			Detail: fmt.Sprintf("%d of %d rows violate it", negative, rows)},
	}, err
}
