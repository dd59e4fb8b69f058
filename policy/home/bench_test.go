package home

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

const second = base.Timestamp(time.Second)

// start is when tests begin; a real clock is never near 0.
const start = 1_700_000_000 * second

func key(n int) base.Key {
	k := base.IndexPrefix(base.ShardID(1+n%8), base.MakeTableID(100, 1), 0, 0)
	return base.AppendUint64(k, uint64(n))
}

func txnID(n uint64) base.TxnID { return base.MakeTxnID(start+base.Timestamp(n), 7, uint32(n)) }

func benchPolicy(b *testing.B, rows int) (*Policy, []base.Key) {
	p, err := New(Params{}, 1)
	if err != nil {
		b.Fatal(err)
	}
	keys := make([]base.Key, rows)
	for i := range keys {
		keys[i] = key(i)
		for j := range 3 {
			p.Record(Access{Key: keys[i], Home: 1, From: 1, At: start, Txn: txnID(uint64(3*i + j + 1))})
		}
	}
	return p, keys
}

// BenchmarkRecord is an access of a known row on behalf of its home: with every
// access a transaction of its own, and in a row set that does and does not fit
// the cache and the recorded rows.
func BenchmarkRecord(b *testing.B) {
	for _, rows := range []int{1000, 50_000, 250_000} {
		for _, write := range []bool{false, true} {
			b.Run(fmt.Sprintf("rows=%d/write=%t", rows, write), func(b *testing.B) {
				p, keys := benchPolicy(b, rows)
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					p.Record(Access{Key: keys[i*7919%rows], Home: 1, From: 1, Write: write,
						At: start + base.Timestamp(i)*10_000, Txn: txnID(uint64(i))})
				}
			})
		}
	}
}

func BenchmarkRecordForeign(b *testing.B) {
	p, keys := benchPolicy(b, 1000)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		p.Record(Access{Key: keys[i%1000], Home: 1, From: base.RegionID(1 + i/1000%2),
			At: start + base.Timestamp(i)*10_000, Txn: txnID(uint64(i))})
	}
}

// BenchmarkRecordNew is a scan of rows never seen, at the memory bound.
func BenchmarkRecordNew(b *testing.B) {
	p, err := New(Params{Memory: 4 << 20}, 1)
	if err != nil {
		b.Fatal(err)
	}
	k := key(0)
	b.ReportAllocs()
	for i := range b.N {
		binary.BigEndian.PutUint64(k[len(k)-8:], uint64(i))
		p.Record(Access{Key: k, Home: 1, From: 1, At: start + base.Timestamp(i)*10_000, Txn: txnID(uint64(i))})
	}
}

func BenchmarkRecordParallel(b *testing.B) {
	p, keys := benchPolicy(b, 50_000)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		r := rand.New(rand.NewPCG(1, 2))
		for pb.Next() {
			n := r.Uint64()
			p.Record(Access{Key: keys[n%50_000], Home: 1, From: 1, At: start, Txn: txnID(n)})
		}
	})
}

// BenchmarkMine is one mining table of the default size, half of it pairs.
func BenchmarkMine(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	table := make([]mined, 0, 1250)
	for len(table) < cap(table) {
		x := mined{hash: r.Uint64(), n: 10}
		for i, t := 0, uint32(r.IntN(5000)); i < x.n; i++ {
			x.ts[i] = t
			t += uint32(50 + r.IntN(500))
		}
		table = append(table, x)
		if len(table)%2 == 1 {
			x.hash = r.Uint64()
			table = append(table, x)
		}
	}
	work := make([]mined, len(table))
	found := 0
	for b.Loop() {
		copy(work, table)
		found = len(pairs(work, 20_000, 5, 0.8))
	}
	b.ReportMetric(float64(found), "pairs")
}

func BenchmarkTop(b *testing.B) {
	p, _ := benchPolicy(b, 250_000)
	for b.Loop() {
		p.Top(20, start)
	}
}
