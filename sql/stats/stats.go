// Package stats estimates what tables hold: rows, and for each column how many values are distinct,
// which are the most frequent ones, and how the others are spread.
//
// A [Collector] sees rows, keeps a sample of bounded size, and makes a [Table] of it. Values are
// keys, bytes that are ordered as the values are; the package knows nothing else of them. Where
// only a part of a table was seen, the estimates are scaled.
package stats

import (
	"bytes"
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"github.com/godwitdb/godwit/base"
)

const (
	// SampleRows is how many rows a sample has at most.
	SampleRows = 4096
	mostTop    = 32 // most frequent values that are kept
	buckets    = 64 // of the histogram
	keyBytes   = 40 // of a value that are kept
)

// Collector gathers a sample. It is not safe for concurrent use.
type Collector struct {
	cols  int
	seen  int
	bytes int
	homes map[base.RegionID]int
	rows  [][][]byte
	r     *rand.Rand
}

// NewCollector is one for rows of so many columns. The same seed draws the same sample.
func NewCollector(cols int, seed uint64) *Collector {
	return &Collector{cols: cols, homes: map[base.RegionID]int{}, r: rand.New(rand.NewPCG(seed, 1))}
}

// Next counts a row of so many bytes. If it is drawn, slot is its place in the sample, for Put;
// else -1.
func (c *Collector) Next(home base.RegionID, size int) (slot int) {
	c.seen++
	c.bytes += size
	c.homes[home]++
	if len(c.rows) < SampleRows {
		c.rows = append(c.rows, nil)
		return len(c.rows) - 1
	}
	if slot = c.r.IntN(c.seen); slot < SampleRows {
		return slot
	}
	return -1
}

// Put sets the values of a row of the sample; nil is NULL.
func (c *Collector) Put(slot int, vals [][]byte) {
	for i, v := range vals {
		if len(v) > keyBytes {
			vals[i] = append(make([]byte, 0, keyBytes), v[:keyBytes]...)
		}
	}
	c.rows[slot] = vals
}

// Seen is how many rows were counted.
func (c *Collector) Seen() int { return c.seen }

// Table is what is known of a table.
type Table struct {
	Rows, RowBytes float64
	Columns        []Column
	Homes          map[base.RegionID]float64 // shares, by home
	Whole          bool                      // all rows were seen
}

// Column is what is known of a column.
type Column struct {
	Distinct float64 // values, without NULL
	Nulls    float64 // share of the rows
	Top      []Common
	// Bounds are equally many of the other values apart; the first is the least of them, the last
	// the largest. Rest is the share of the rows that they stand for.
	Bounds [][]byte
	Rest   float64
}

// Common is a frequent value, and its share of the rows.
type Common struct {
	Key   []byte
	Share float64
}

// Table makes estimates, of a table of scale times the rows that were seen.
func (c *Collector) Table(scale float64) *Table {
	t := &Table{Rows: float64(c.seen) * scale, Homes: map[base.RegionID]float64{}}
	if c.seen == 0 {
		t.Columns = make([]Column, c.cols)
		return t
	}
	t.RowBytes = float64(c.bytes) / float64(c.seen)
	for h, n := range c.homes {
		t.Homes[h] = float64(n) / float64(c.seen)
	}
	for i := range c.cols {
		var vals [][]byte
		n := 0
		for _, r := range c.rows {
			if r == nil {
				continue
			}
			n++
			if r[i] != nil {
				vals = append(vals, r[i])
			}
		}
		t.Columns = append(t.Columns, column(vals, n, t.Rows))
	}
	return t
}

// column makes the estimates of one: vals are those of n rows that are not NULL.
func column(vals [][]byte, n int, rows float64) Column {
	if n == 0 {
		return Column{}
	}
	slices.SortFunc(vals, bytes.Compare)
	var runs []Common
	single := 0
	for i := 0; i < len(vals); {
		j := i + 1
		for j < len(vals) && bytes.Equal(vals[j], vals[i]) {
			j++
		}
		if j == i+1 {
			single++
		}
		runs = append(runs, Common{vals[i], float64(j-i) / float64(n)})
		i = j
	}
	c := Column{Nulls: 1 - float64(len(vals))/float64(n),
		Distinct: distinct(float64(len(vals)), float64(len(runs)), float64(single), rows*float64(len(vals))/float64(n))}
	c.Top = frequent(runs, n)
	c.spread(vals, n)
	return c
}

// distinct is the estimator of Haas and Stokes (Duj1): d values, f1 of them once, in a sample of n
// of N.
func distinct(n, d, f1, N float64) float64 {
	if n == 0 || N <= n {
		return d
	}
	if f1 == n {
		return N // each was seen once: it is as good as a key
	}
	return min(n*d/(n-f1+f1*n/N), N)
}

// frequent are the most frequent values: those with at least twice their even share, all of them if
// they are few.
func frequent(runs []Common, n int) []Common {
	var top []Common
	for _, r := range runs {
		if len(runs) <= mostTop || r.Share >= 2/float64(len(runs)) && r.Share*float64(n) >= 2 {
			top = append(top, r)
		}
	}
	slices.SortStableFunc(top, func(a, b Common) int {
		switch {
		case a.Share > b.Share:
			return -1
		case a.Share < b.Share:
			return 1
		}
		return 0
	})
	return top[:min(len(top), mostTop)]
}

// spread makes the histogram of the values that are not frequent.
func (c *Column) spread(vals [][]byte, n int) {
	top := map[string]bool{}
	for _, t := range c.Top {
		top[string(t.Key)] = true
	}
	var rest [][]byte
	for _, v := range vals {
		if !top[string(v)] {
			rest = append(rest, v)
		}
	}
	c.Rest = float64(len(rest)) / float64(n)
	if len(rest) == 0 {
		return
	}
	k := min(buckets, len(rest))
	for i := range k + 1 {
		c.Bounds = append(c.Bounds, rest[i*(len(rest)-1)/k])
	}
}

// Between estimates the share of the rows whose value lies between lo and hi, both included; nil is
// no bound. NULL lies nowhere.
func (c *Column) Between(lo, hi []byte) float64 {
	share := 0.0
	for _, t := range c.Top {
		if bytes.Compare(t.Key, cut(lo)) >= 0 && (hi == nil || bytes.Compare(t.Key, cut(hi)) <= 0) {
			share += t.Share
		}
	}
	if len(c.Bounds) == 0 {
		return share
	}
	if lo != nil && bytes.Equal(lo, hi) {
		return share + c.one(cut(lo))
	}
	to := 1.0
	if hi != nil {
		to = c.below(cut(hi))
	}
	return min(share+c.Rest*max(to-c.below(cut(lo)), 0), 1)
}

func cut(k []byte) []byte { return k[:min(len(k), keyBytes)] }

// one is the share of a value, if it is not among the frequent ones.
func (c *Column) one(k []byte) float64 {
	for _, t := range c.Top {
		if bytes.Equal(t.Key, k) {
			return 0
		}
	}
	if bytes.Compare(k, c.Bounds[0]) < 0 || bytes.Compare(k, c.Bounds[len(c.Bounds)-1]) > 0 {
		return 0
	}
	return c.Rest / max(c.Distinct-float64(len(c.Top)), 1)
}

// below is the part of the histogram below a key.
func (c *Column) below(k []byte) float64 {
	if len(k) == 0 {
		return 0
	}
	n := len(c.Bounds) - 1
	if n == 0 {
		if bytes.Compare(k, c.Bounds[0]) >= 0 {
			return 1
		}
		return 0
	}
	i, _ := slices.BinarySearchFunc(c.Bounds, k, bytes.Compare)
	switch {
	case i == 0:
		return 0
	case i > n:
		return 1
	}
	return (float64(i-1) + within(c.Bounds[i-1], c.Bounds[i], k)) / float64(n)
}

// within is where k lies between lo and hi, as far as eight bytes behind what they share tell.
func within(lo, hi, k []byte) float64 {
	p := 0
	for p < len(lo) && p < len(hi) && lo[p] == hi[p] {
		p++
	}
	l, h, x := number(lo, p), number(hi, p), number(k, p)
	if h <= l {
		return 0.5
	}
	return min(max((x-l)/(h-l), 0), 1)
}

func number(k []byte, from int) (x float64) {
	for i := range 8 {
		x *= 256
		if from+i < len(k) {
			x += float64(k[from+i])
		}
	}
	return x
}

// Seed is a seed for the sample of a table.
func Seed(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // a hash takes everything
	return h.Sum64()
}
