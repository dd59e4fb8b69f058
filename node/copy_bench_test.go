package node

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/policy/matrix"
)

// BenchmarkSetReplication switches a table between synchronous and asynchronous replication while
// clients of two of three regions update it, and reports how long the switch takes and the clients'
// statements meanwhile: GODWIT_ROWS=100000 (default 20000) go test -run '^$' -bench SetReplication
// -benchtime 1x ./node
func BenchmarkSetReplication(b *testing.B) {
	benchmarkCopies(b, 1, "ALTER TABLE t SET REPLICATION ASYNC", "ALTER TABLE t SET REPLICATION SYNC")
}

// BenchmarkSplit does so with a table that gets eight shards of its own, and gives them back, with
// two nodes in each region.
func BenchmarkSplit(b *testing.B) {
	benchmarkCopies(b, 2, "ALTER TABLE t SPLIT INTO 8 SHARDS", "ALTER TABLE t UNSPLIT")
}

// benchmarkCopies runs two statements that copy a table, with so many nodes in each region.
func benchmarkCopies(b *testing.B, perRegion int, there, back string) {
	b.Helper()
	rows := 20_000
	if s := os.Getenv("GODWIT_ROWS"); s != "" {
		var err error
		if rows, err = strconv.Atoi(s); err != nil {
			b.Fatal(err)
		}
	}
	m, err := matrix.Default(3)
	if err != nil {
		b.Fatal(err)
	}
	l, err := StartLocal(b.Context(), LocalConfig{Matrix: m, NodesPerRegion: perRegion, Dir: b.TempDir()}, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close(context.Background())
	a := openSQL(b, l.Nodes()[0], "")
	mustExec(b, a, "CREATE DATABASE d")
	mustExec(b, a, "USE d")
	mustExec(b, a, "CREATE TABLE t (id INT PRIMARY KEY, k INT, v INT, pad CHAR(60), KEY (k))")
	for i := 0; i < rows; {
		var values []string
		for ; i < rows && len(values) < 1000; i++ {
			values = append(values, fmt.Sprintf("(%d, %d, 0, REPEAT('x', 60))", i, i%977))
		}
		mustExec(b, a, "INSERT INTO t VALUES "+strings.Join(values, ","))
	}
	ctx, stop := context.WithCancel(b.Context())
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	failed := 0
	for i := range 2 {
		for j := range 2 {
			c := openSQL(b, l.Nodes()[i*perRegion], "d")
			r := rand.New(rand.NewPCG(uint64(i), uint64(j)))
			wg.Go(func() {
				for ctx.Err() == nil {
					id := r.IntN(rows)
					if i == 1 {
						id = r.IntN(20) // these come home to the second region
					}
					begin := time.Now()
					_, err := c.ExecContext(context.Background(), "UPDATE t SET v = v + 1 WHERE id = ?", id)
					mu.Lock()
					took = append(took, time.Since(begin))
					if err != nil {
						failed++
					}
					mu.Unlock()
				}
			})
		}
	}
	measure := func(name string, f func()) {
		mu.Lock()
		took, failed = nil, 0
		mu.Unlock()
		begin := time.Now()
		f()
		d := time.Since(begin)
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(took)
		n := len(took)
		b.Logf("%-7s %8.2f s, %6d updates (%5.0f/s), median %4d ms, p99 %5d ms, longest %6d ms, %d failed", name,
			d.Seconds(), n, float64(n)/d.Seconds(),
			took[n/2].Milliseconds(), took[n*99/100].Milliseconds(), took[n-1].Milliseconds(), failed)
	}
	for b.Loop() {
		measure("before", func() { time.Sleep(5 * time.Second) })
		measure("there", func() { mustExec(b, a, there) })
		measure("between", func() { time.Sleep(5 * time.Second) })
		measure("back", func() { mustExec(b, a, back) })
	}
	stop()
	wg.Wait()
}
