package node

import (
	"context"
	"testing"
	"time"

	"github.com/godwitdb/godwit/policy/matrix"
)

// TestCloseUnderBackground: a node is closed while its gateway leases values of AUTO_INCREMENT
// columns, takes over gaps and counts rows. Nothing of that is left behind: a bubble fails whose
// goroutines outlive it.
func TestCloseUnderBackground(t *testing.T) {
	for _, after := range []time.Duration{0, 1, 10, 40, 100} {
		bubble(t, func(t *testing.T) {
			m, err := matrix.Default(2)
			if err != nil {
				t.Fatal(err)
			}
			l := startVirtual(t, LocalConfig{Matrix: m, NodesPerRegion: 1})
			c := openSQL(t, l.Nodes()[1], "")
			mustExec(t, c, "CREATE DATABASE d")
			mustExec(t, c, "CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT, KEY (v))")
			for range 3 {
				mustExec(t, c, "INSERT INTO d.t (v) VALUES (1), (2), (3)")
			}
			mustExec(t, c, "ALTER TABLE d.t ADD COLUMN w INT NOT NULL DEFAULT 3")
			ctx, cancel := context.WithTimeout(t.Context(), after*time.Millisecond)
			defer cancel()
			_, _ = c.ExecContext(ctx, "UPDATE d.t SET v = v + 1 WHERE v > 1")
		})
	}
}
