package e2e

import (
	"database/sql"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/lab/workload"
	server "github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/policy/matrix"
)

// With several nodes in a region, each holds only some of the shards. Through any of them, reading
// rows of the own region asks no other one. Inserts find their owners even if no key is known
// before, as in a table without a primary key.
func TestGatewaysWithoutReplicas(t *testing.T) {
	m, err := matrix.Open(matrix.ThreeCity)
	if err != nil {
		t.Fatal(err)
	}
	local, err := server.StartLocal(t.Context(), server.LocalConfig{Matrix: m, NodesPerRegion: 2, Dir: t.TempDir(), CacheMB: 64},
		slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := local.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	var pools []*sql.DB
	for _, region := range local.Regions() {
		for _, addr := range local.SQLAddrs(region) {
			cfg := mysql.NewConfig()
			cfg.User, cfg.Net, cfg.Addr = "root", "tcp", addr
			c, err := mysql.NewConnector(cfg)
			if err != nil {
				t.Fatal(err)
			}
			pool := sql.OpenDB(c)
			t.Cleanup(func() { _ = pool.Close() })
			pools = append(pools, pool)
		}
	}
	exec1(t, pools[0], "CREATE DATABASE d")
	exec1(t, pools[0], "CREATE TABLE d.keyless (node INT, n INT)")
	exec1(t, pools[0], "CREATE TABLE d.keyed (id INT PRIMARY KEY, n INT)")
	const rows, batches = 30, 4
	var wg sync.WaitGroup
	for i, pool := range pools {
		wg.Go(func() {
			for b := range batches {
				var keyless, keyed []string
				for j := range rows {
					keyless = append(keyless, fmt.Sprintf("(%d, %d)", i, b*rows+j))
					keyed = append(keyed, fmt.Sprintf("(%d, %d)", (b*rows+j)*len(pools)+i, j))
				}
				for table, values := range map[string][]string{"keyless": keyless, "keyed": keyed} {
					_, err := pool.Exec("INSERT INTO d." + table + " VALUES " + strings.Join(values, ", "))
					for try := 0; try < 20 && workload.Retryable(err); try++ { // as told
						_, err = pool.Exec("INSERT INTO d." + table + " VALUES " + strings.Join(values, ", "))
					}
					if err != nil {
						t.Errorf("node %d, %s: %v", i+1, table, err)
					}
				}
			}
		})
	}
	wg.Wait()
	for i, pool := range pools {
		for _, table := range []string{"keyless", "keyed"} {
			var n int
			scan1(t, pool, &n, "SELECT COUNT(*) FROM d."+table)
			if want := rows * batches * len(pools); n != want {
				t.Errorf("node %d sees %d rows of %s, want %d", i+1, n, table, want)
			}
		}
		// Rows that the other node of the region inserted belong to this region, whichever of the
		// two nodes holds them.
		other := i ^ 1
		conn, err := pool.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for j := range 10 {
			id := j*len(pools) + other
			// Where the node of the region that leads is slow to answer, as on a busy machine, the
			// replica beside it may, after a wait that counts as half a round trip. And in the
			// first 10 s after CREATE TABLE such a machine may hear too late from the meta leader
			// that the definition is still the same, and asks it.
			trips := 1.0
			for begin := time.Now(); trips >= 1 && time.Since(begin) < patience; {
				var n int
				if err := conn.QueryRowContext(t.Context(), "SELECT n FROM d.keyed WHERE id = ?", id).Scan(&n); err != nil || n != j {
					t.Fatalf("node %d reads %d of row %d, %v", i+1, n, id, err)
				}
				if err := conn.QueryRowContext(t.Context(), "SELECT @@last_statement_wan_rtts").Scan(&trips); err != nil {
					t.Fatal(err)
				}
			}
			if trips >= 1 {
				t.Errorf("node %d: reading row %d of its own region takes %v WAN round trips", i+1, id, trips)
			}
		}
	}
}
