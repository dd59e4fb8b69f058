package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// hungry are statements that would keep more memory than there is. Those of the second half are
// run by go-mysql-server.
var hungry = []string{
	"SELECT a FROM (SELECT x.a, CONCAT(x.b, y.b, z.b) AS s FROM t x, t y, t z) q ORDER BY s LIMIT 10000000, 5",
	"SELECT COUNT(*) FROM (SELECT x.a, y.a AS ya, z.a AS za, COUNT(*) FROM t x, t y, t z GROUP BY x.a, y.a, z.a) q",
	"SELECT LENGTH(JSON_ARRAYAGG(CONCAT(x.b, y.b, z.b))) FROM t x, t y, t z",
	"SELECT SUM(r) FROM (SELECT ROW_NUMBER() OVER (ORDER BY x.b, y.b, z.b) AS r FROM t x, t y, t z) q",
	"SELECT COUNT(*) FROM (SELECT x.b, y.b AS c, z.b AS d FROM t x, t y, t z UNION SELECT x.b, y.b, z.a FROM t x, t y, t z) q",
	"INSERT INTO u SELECT x.a * 1000000 + y.a * 1000 + z.a, REPEAT('x', 1000) FROM t x, t y, t z",
	"SELECT x.b FROM t x, t y, t z ORDER BY x.b, y.b, z.b",
	"SELECT COUNT(DISTINCT x.a, y.a, z.a) FROM t x, t y, t z",
	"SELECT LENGTH(GROUP_CONCAT(x.b, y.b, z.b)) FROM t x, t y, t z",
	"SELECT COUNT(*) FROM t WHERE b IN (SELECT CONCAT(x.b, y.b) FROM t x, t y, t z)",
	"SELECT COUNT(*) FROM information_schema.columns x, information_schema.columns y, information_schema.columns z GROUP BY " +
		"x.column_name, y.column_name, z.column_name, x.table_name, y.table_name",
	"SELECT SUM(r) FROM (SELECT ROW_NUMBER() OVER (ORDER BY x.b, y.b, z.b) AS r FROM t x, t y, t z) q",
}

const (
	// budget is the memory of the machine that the attacked nodes are to think they have.
	budget     = 2 << 30
	attackFor  = 30 * time.Second
	manyLogins = 5000
	manySilent = 300
)

// TestOverload attacks a node in all ways at once: statements that eat memory, thousands of
// clients, and sockets that say nothing. It leads all groups. It lives, keeps to its memory and its
// leads, and others are served.
func TestOverload(t *testing.T) {
	needTime(t)
	t.Setenv("GOMEMLIMIT", fmt.Sprint(budget/4*3)) // as a node sets it in a cgroup of this size
	c := &processes{regions: []string{"region-a"}}
	dir := t.TempDir()
	for i := range 3 {
		c.nodes = append(c.nodes, &node{region: "region-a", dir: fmt.Sprintf("%s/%d", dir, i), addr: port(t), sql: port(t),
			args: []string{"--sql-memory-mb", fmt.Sprint(budget / 4 >> 20)}})
	}
	for _, n := range c.nodes {
		n.join = c.nodes[0].addr
		n.start(t)
	}
	t.Cleanup(c.kill)
	c.logOnFailure(t)
	for _, n := range c.nodes {
		n.awaitLine(t, "listens at")
	}
	c.init(t)
	for _, n := range c.nodes {
		n.awaitSQL(t)
	}
	victim := c.nodes[0]
	leadAll(t, victim)
	hungryTables(t, victim)

	quiet := pointSelects(t, victim, 10*time.Second)
	before := leads(t, c.nodes[1])
	ctx, stop := context.WithTimeout(t.Context(), attackFor)
	defer stop()
	var attack sync.WaitGroup
	for i, q := range hungry {
		db := victim.open(t, "a")
		attack.Go(func() { eat(ctx, db, q, i >= len(hungry)/2) })
	}
	in := login(ctx, t, &attack, victim, manyLogins)
	beSilent(ctx, &attack, victim.addr)
	beSilent(ctx, &attack, victim.sql)
	most := make(chan int64, 1)
	go func() { most <- residentTop(ctx, victim.cmd.Process.Pid) }()
	under := pointSelects(t, victim, attackFor-5*time.Second)
	after := leads(t, c.nodes[1])
	stop()
	attack.Wait()
	top := <-most

	t.Logf("point selects: quiet p50 %v p99 %v (%d), attacked p50 %v p99 %v max %v (%d)", quiet.at(50), quiet.at(99), len(quiet),
		under.at(50), under.at(99), under.at(100), len(under))
	t.Logf("%d of %d clients got in; resident at most %d MiB of %d", in.Load(), manyLogins, top>>20, budget>>20)
	t.Logf("leads before %v, after %v", before, after)
	if top > budget/4*5 {
		t.Errorf("%d MiB resident, of a budget of %d", top>>20, budget>>20)
	}
	if under.at(99) > 10*quiet.at(99) {
		t.Errorf("p99 of point selects rose from %v to %v", quiet.at(99), under.at(99))
	}
	if !slices.Equal(before, after) {
		t.Errorf("leads before %v, after %v", before, after)
	}
	if again := pointSelects(t, victim, time.Second); len(again) == 0 {
		t.Error("the node does not answer any more")
	}
}

// leadAll makes a node the leader of all groups, and pins the leads there: so the one that is
// attacked has something to lose, no policy moves a lead, and a lead that changes is one that was
// lost.
func leadAll(t *testing.T, n *node) {
	t.Helper()
	says := n.out.String()
	id, _, _ := strings.Cut(says[strings.LastIndex(says, "godwit: node ")+len("godwit: node "):], " ")
	for slices.ContainsFunc(leads(t, n), func(l string) bool { return strings.Contains(l, ": node ,") }) {
		time.Sleep(20 * time.Millisecond) // elections
	}
	for _, do := range []string{"pin", "move"} {
		for _, l := range leads(t, n) {
			group, _, _ := strings.Cut(l, ":")
			if status, out, errs := godwit(t, "leader", do, group, id, "--addr", n.addr); status != 0 {
				t.Fatalf("%s%s", out, errs)
			}
		}
	}
	for _, l := range leads(t, n) {
		if !strings.Contains(l, ": node "+id+",") {
			t.Fatalf("node %s does not lead %s", id, l)
		}
	}
}

// hungryTables makes what the statements read.
func hungryTables(t *testing.T, n *node) {
	t.Helper()
	db := n.open(t, "")
	rows := make([]string, 400)
	for i := range rows {
		rows[i] = fmt.Sprintf("(%d, '%s')", i, strings.Repeat(fmt.Sprintf("v%d", i), 30))
	}
	for _, q := range []string{"CREATE DATABASE a", "CREATE TABLE a.t (a INT PRIMARY KEY, b VARCHAR(300))",
		"CREATE TABLE a.u (a INT PRIMARY KEY, b VARCHAR(1000))", "INSERT INTO a.t VALUES " + strings.Join(rows, ", ")} {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
}

// eat runs a statement again and again; old leaves it to go-mysql-server.
func eat(ctx context.Context, db *sql.DB, q string, old bool) {
	for ctx.Err() == nil {
		k, err := db.Conn(ctx)
		if err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if old {
			_, err = k.ExecContext(ctx, "SET div_precision_increment = 5")
		}
		for err == nil && ctx.Err() == nil {
			if rows, qerr := k.QueryContext(ctx, q); qerr == nil {
				for rows.Next() {
				}
				_ = rows.Close() // errors are what the statement is for
			}
			err = k.PingContext(ctx)
		}
		_ = k.Close()
	}
}

// login logs clients in and keeps them until the end.
func login(ctx context.Context, t *testing.T, wg *sync.WaitGroup, n *node, clients int) *atomic.Int32 {
	in := new(atomic.Int32)
	turn := make(chan struct{}, 50)
	pool := n.open(t, "")
	for range clients {
		wg.Go(func() {
			turn <- struct{}{}
			k, err := pool.Conn(ctx)
			<-turn
			if err != nil {
				return // there are too many
			}
			defer k.Close()
			in.Add(1)
			<-ctx.Done()
		})
	}
	return in
}

// beSilent opens connections that say nothing, again a second after they are closed. They come from
// another address than those who talk.
func beSilent(ctx context.Context, wg *sync.WaitGroup, addr string) {
	for range manySilent {
		wg.Go(func() {
			for ctx.Err() == nil {
				from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}
				if c, err := (&net.Dialer{LocalAddr: from}).DialContext(ctx, "tcp", addr); err == nil {
					end := context.AfterFunc(ctx, func() { c.Close() })
					_, _ = io.Copy(io.Discard, c) // until the node closes it
					end()
					_ = c.Close()
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		})
	}
}

// latencies are sorted.
type latencies []time.Duration

func (l latencies) at(percent int) time.Duration {
	if len(l) == 0 {
		return 0
	}
	return l[min(len(l)-1, len(l)*percent/100)].Round(10 * time.Microsecond)
}

// pointSelects reads single rows, one every 5 ms at most.
func pointSelects(t *testing.T, n *node, d time.Duration) latencies {
	t.Helper()
	db := n.open(t, "a")
	var out latencies
	for begin := time.Now(); time.Since(begin) < d; {
		at := time.Now()
		var b string
		if err := db.QueryRowContext(t.Context(), "SELECT b FROM t WHERE a = ?", len(out)%400).Scan(&b); err != nil {
			t.Errorf("a point select: %v", err)
		}
		out = append(out, time.Since(at))
		time.Sleep(5 * time.Millisecond)
	}
	slices.Sort(out)
	return out
}

// leads are the groups' leaders and terms, as a node sees them.
func leads(t *testing.T, n *node) []string {
	t.Helper()
	rows, err := n.open(t, "").QueryContext(t.Context(), "SELECT name, leader, term FROM godwit.`groups` ORDER BY name")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var name, term string
		var leader sql.NullString // NULL while nobody leads
		if err := rows.Scan(&name, &leader, &term); err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s: node %s, term %s", name, leader.String, term))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// residentTop is the most memory that a process has until ctx ends.
func residentTop(ctx context.Context, pid int) (top int64) {
	for {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)); err == nil {
			if f := strings.Fields(string(text)); len(f) > 1 {
				pages, _ := strconv.ParseInt(f[1], 10, 64) // it is a number
				top = max(top, pages*int64(os.Getpagesize()))
			}
		}
		select {
		case <-ctx.Done():
			return top
		case <-time.After(50 * time.Millisecond):
		}
	}
}
