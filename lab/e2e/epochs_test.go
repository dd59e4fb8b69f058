package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/mechanism/store"
)

// TestRowsThatDiffer: the rows of MULTI MASTER tables of a node are damaged while it is down. It
// stops when its outcomes differ, says what to do, and takes part again once that was done; the
// others go on all the while.
func TestRowsThatDiffer(t *testing.T) {
	c := startCluster(t, t.TempDir(), 3, 1)
	t.Cleanup(c.kill)
	first, bad := c.nodes[0], c.nodes[2]
	exec1(t, first.open(t, ""), "CREATE DATABASE d")
	db := first.open(t, "d")
	exec1(t, db, "CREATE TABLE t (id INT PRIMARY KEY, v INT) LOCALITY MULTI MASTER")
	exec1(t, db, "INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)")
	var status cluster.Status
	if _, out, errs := godwit(t, "status", "--addr", first.addr, "--json"); json.Unmarshal([]byte(out), &status) != nil {
		t.Fatalf("%s%s", out, errs)
	}
	id := base.NodeID(0)
	for _, n := range status.Topology.Nodes {
		if n.Addr == bad.addr {
			id = n.ID
		}
	}
	state := func() (state, why string) {
		var w *string
		if err := db.QueryRow("SELECT state, why FROM godwit.epochs WHERE node = ?", id).Scan(&state, &w); err != nil {
			t.Fatal(err)
		}
		if w != nil {
			why = *w
		}
		return state, why
	}
	await := func(want string, meanwhile func()) (why string) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
			is, why := state()
			if is == want {
				return why
			}
			if time.Now().After(deadline) {
				t.Fatalf("node %d is %s (%s), not %s:\n%s", id, is, why, want, bad.log())
			}
			meanwhile()
		}
	}
	await("member", func() {})
	if status := bad.end(t); status != 0 {
		t.Fatalf("the node ended with %d:\n%s", status, bad.log())
	}
	st, err := store.Open(store.Options{Dir: bad.dir})
	if err != nil {
		t.Fatal(err)
	}
	var rows []store.Version
	if err := st.EachVersion(base.EpochShard, func(v *store.Version) error {
		rows = append(rows, store.Version{Key: v.Key.Clone(), TS: v.TS + 1_000_000, Value: []byte("damaged"), Writer: v.Writer})
		return nil
	}); err != nil || len(rows) == 0 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	b := st.NewBatch()
	for _, v := range rows {
		b.PutVersion(v)
	}
	if err := b.Commit(true); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	bad.start(t)
	bad.awaitSQL(t)
	written := 0
	write := func() {
		if _, err := db.Exec("UPDATE t SET v = v + 1 WHERE id = 1"); err == nil {
			written++
		}
	}
	await("member", func() {})
	why := await("halted", write)
	if !strings.Contains(why, "godwit epochs copy --addr") || written == 0 {
		t.Errorf("after %d updates: %s", written, why)
	}
	before := written
	for deadline := time.Now().Add(patience); written < before+3 && time.Now().Before(deadline); {
		write()
	}
	if written < before+3 {
		t.Errorf("the others do not go on: %d updates", written)
	}
	if status, out, errs := godwit(t, "epochs", "copy", "--addr", first.addr); status == 0 ||
		!strings.Contains(errs, "nothing to repair") {
		t.Errorf("a node that takes part copies rows: status %d\n%s%s", status, out, errs)
	}
	if status, out, errs := godwit(t, "epochs", "copy", "--addr", bad.addr); status != 0 {
		t.Fatalf("status %d\n%s%s", status, out, errs)
	}
	await("member", write)
	exec1(t, bad.open(t, "d"), "UPDATE t SET v = -1 WHERE id = 2")
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		var got [3]string
		for i, n := range c.nodes {
			if err := n.open(t, "d").QueryRow("SELECT GROUP_CONCAT(CONCAT(id, ':', v) " +
				"ORDER BY id) FROM t").Scan(&got[i]); err != nil {
				t.Fatal(err)
			}
		}
		if got[0] == got[1] && got[1] == got[2] && strings.Contains(got[0], "2:-1") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("rows: %q", got)
		}
	}
}
