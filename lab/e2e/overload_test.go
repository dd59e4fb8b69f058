package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
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
// leads, and others are served. Their times are those of the node: a client that waits for a
// processor among the threads of the node, on the same machine, had 7 ms where it has 5.
func TestOverload(t *testing.T) {
	needTime(t)
	t.Setenv("GOMEMLIMIT", fmt.Sprint(budget/4*3)) // as a node sets it in a cgroup of this size
	c := &processes{regions: []string{"region-a"}}
	dir := t.TempDir()
	for i := range 3 {
		c.nodes = append(c.nodes, &node{region: "region-a", dir: fmt.Sprintf("%s/%d", dir, i), addr: port(t), sql: port(t), apart: true,
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
	others := attack(ctx, t, victim)
	most := make(chan int64, 1)
	go func() { most <- residentTop(ctx, victim.cmd.Process.Pid) }()
	busy := processorTime(t, victim.cmd.Process.Pid)
	under := pointSelects(t, victim, attackFor-5*time.Second)
	busy = processorTime(t, victim.cmd.Process.Pid) - busy
	after := leads(t, c.nodes[1])
	stop()
	said := others.end(t)
	top := <-most

	t.Logf("point selects: quiet p50 %v p99 %v (%d), attacked p50 %v p99 %v max %v (%d)", quiet.at(50), quiet.at(99), len(quiet),
		under.at(50), under.at(99), under.at(100), len(under))
	t.Logf("the attackers: %s; the node computed for %v in %v", said, busy, attackFor-5*time.Second)
	if busy < attackFor/4 {
		t.Errorf("the node was not attacked: it computed for %v", busy)
	}
	t.Logf("resident at most %d MiB of %d", top>>20, budget>>20)
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

// asAttacker names the variable that makes the test binary attack a node instead. Its value is the
// node's cluster address and that of its SQL.
const asAttacker = "GODWIT_E2E_ATTACK"

// attackers are a process that attacks a node. It has another one than who measures: its clients
// must not wait in the attackers' scheduler. And it has a lower priority than the nodes: in truth
// the attackers run on other machines, and take no processor from a node but by what they make it
// do.
type attackers struct {
	cmd  *exec.Cmd
	tell io.Closer
	says *output
}

// attack begins an attack that lasts until ctx ends.
func attack(ctx context.Context, t *testing.T, n *node) *attackers {
	t.Helper()
	a := &attackers{cmd: exec.Command("nice", "-n", "10", os.Args[0]), says: &output{}}
	a.cmd.Env = append(os.Environ(), asAttacker+"="+n.addr+" "+n.sql)
	a.cmd.Stdout, a.cmd.Stderr = a.says, a.says
	tell, err := a.cmd.StdinPipe()
	if err == nil {
		err = a.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	a.tell = tell
	context.AfterFunc(ctx, func() { _ = tell.Close() })
	return a
}

// end waits for the end of the attack, and returns what it came to.
func (a *attackers) end(t *testing.T) string {
	t.Helper()
	if err := a.cmd.Wait(); err != nil {
		t.Errorf("the attackers: %v: %s", err, a.says)
	}
	return strings.TrimSpace(a.says.String())
}

// tally counts what attackers do.
type tally struct{ statements, refused, in, silent atomic.Int64 }

// attackNode attacks a node until its standard input ends, and says what was done.
func attackNode(cluster, at string) int {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	var all sync.WaitGroup
	var n tally
	for i, q := range hungry {
		all.Go(func() { eat(ctx, client(at, "a"), q, i >= len(hungry)/2, &n) })
	}
	login(ctx, &all, client(at, ""), &n)
	for _, addr := range []string{cluster, at} {
		beSilent(ctx, &all, addr, &n)
	}
	all.Wait()
	fmt.Printf("%d of %d clients got in; %d silent connections; %d statements ended, %d of them with an error\n", n.in.Load(),
		manyLogins, n.silent.Load(), n.statements.Load(), n.refused.Load())
	return 0
}

// eat runs a statement again and again; old leaves it to go-mysql-server.
func eat(ctx context.Context, db *sql.DB, q string, old bool, n *tally) {
	for ctx.Err() == nil {
		k, err := db.Conn(ctx)
		if err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if old {
			_, err = k.ExecContext(ctx, "SET godwit_own_engine = OFF") // not in UTF-8
		}
		for err == nil && ctx.Err() == nil {
			rows, qerr := k.QueryContext(ctx, q)
			if qerr == nil {
				for rows.Next() {
				}
				qerr = rows.Err()
				_ = rows.Close() // errors are what the statement is for
			}
			if n.statements.Add(1); qerr != nil {
				n.refused.Add(1)
			}
			err = k.PingContext(ctx)
		}
		_ = k.Close()
	}
}

// login logs clients in and keeps them until the end.
func login(ctx context.Context, wg *sync.WaitGroup, pool *sql.DB, n *tally) {
	turn := make(chan struct{}, 50)
	for range manyLogins {
		wg.Go(func() {
			turn <- struct{}{}
			k, err := pool.Conn(ctx)
			<-turn
			if err != nil {
				return // there are too many
			}
			defer k.Close()
			n.in.Add(1)
			<-ctx.Done()
		})
	}
}

// beSilent opens connections that say nothing, again a second after they are closed. They come from
// another address than those who talk.
func beSilent(ctx context.Context, wg *sync.WaitGroup, addr string, n *tally) {
	for range manySilent {
		wg.Go(func() {
			for ctx.Err() == nil {
				from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}
				if c, err := (&net.Dialer{LocalAddr: from}).DialContext(ctx, "tcp", addr); err == nil {
					n.silent.Add(1)
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

// processorTime is how long a process has computed.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), ") ") // its name, which we gave it, has no parenthesis
	f := strings.Fields(after)
	if len(f) < 13 {
		t.Fatalf("%s", text)
	}
	var ticks time.Duration
	for _, s := range f[11:13] { // in user and in system mode
		n, _ := strconv.ParseInt(s, 10, 64) // it is a number
		ticks += time.Duration(n)
	}
	return ticks * 10 * time.Millisecond // Linux counts hundredths of a second here
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
