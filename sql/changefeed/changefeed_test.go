package changefeed_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// TestWebhook: a webhook that fails at random gets everything, in order by key, and what it was
// told is the table at each mark, while others write.
func TestWebhook(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	h := newHook(t, func(int) int {
		if r.IntN(3) == 0 {
			return []int{500, 503, 429, 404}[r.IntN(4)]
		}
		return 0
	})
	w := newWorld(t, h.URL)
	w.exec("CREATE TABLE a (id INT PRIMARY KEY, v INT)", "CREATE TABLE b (x VARCHAR(10), y INT, v DECIMAL(10,2), PRIMARY KEY (x, y))",
		"INSERT INTO a VALUES (1, 10), (2, 20), (3, 30)", "INSERT INTO b VALUES ('one', 1, 1.5)")
	id := w.create("a, test.b INTO '" + h.address("/x") + "' WITH updated, diff, resolved = '100ms', webhook_auth_header = 'Bearer sesame'")
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			c := w.as("root")
			r := rand.New(rand.NewPCG(3, uint64(i)))
			for n := range 60 {
				q := fmt.Sprintf("UPDATE test.a SET v = v + 1 WHERE id = %d", r.IntN(6))
				switch r.IntN(4) {
				case 0:
					q = fmt.Sprintf("REPLACE INTO test.a VALUES (%d, %d)", r.IntN(6), n)
				case 1:
					q = fmt.Sprintf("DELETE FROM test.a WHERE id = %d", r.IntN(6))
				case 2:
					q = fmt.Sprintf("REPLACE INTO test.b VALUES ('k%d', %d, %d.25)", r.IntN(3), r.IntN(3), n)
				}
				if _, err := c.Exec(q); err != nil && !strings.Contains(err.Error(), "try restarting") {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	h.j.agree(w, "test.a", "id", "v")
	h.j.agree(w, "test.b", "x", "y", "v")
	if h.j.again == 0 || h.auth["Bearer sesame"] != h.n {
		t.Errorf("%d messages arrived again; headers: %v", h.j.again, h.auth)
	}
	f := w.shown(id)
	if f["status"] != "running" && f["status"] != "retrying" || f["tables"] != "test.a, test.b" ||
		!strings.Contains(f["options"], "webhook_auth_header = '***'") {
		t.Errorf("SHOW CHANGEFEEDS: %q", f)
	}
	w.exec("CANCEL JOB " + id)
	until(t, "the feed ends", func() bool { return w.shown(id)["status"] == "canceled" })
}
