package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// kafkaVar names a directory with the libraries of lab/suites/kafka/pom.xml; without it Maven
// fetches them.
const kafkaVar = "GODWIT_KAFKA"

// kafka is a broker of Apache Kafka, which is its own controller.
type kafka struct {
	addr          string
	java, classes string
	config        string
	cmd           *exec.Cmd
	errs          output
}

// startKafka starts a broker, for as long as the test runs.
func startKafka(t *testing.T) *kafka {
	t.Helper()
	k := &kafka{addr: port(t), java: tool(t, "java")}
	libs := os.Getenv(kafkaVar)
	if libs == "" {
		libs = t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if out, err := exec.CommandContext(ctx, tool(t, "mvn"), "-q", "-B", "-f", "../suites/kafka/pom.xml", "dependency:copy-dependencies",
			"-DoutputDirectory="+libs).CombinedOutput(); err != nil {
			t.Skipf("Apache Kafka cannot be had: %v\n%s", err, out)
		}
	}
	dir := t.TempDir()
	k.classes, k.config = filepath.Join(libs, "*"), filepath.Join(dir, "server.properties")
	control := port(t)
	text := fmt.Sprintf(`process.roles=broker,controller
node.id=1
controller.quorum.voters=1@%[2]s
listeners=PLAINTEXT://%[1]s,CONTROLLER://%[2]s
advertised.listeners=PLAINTEXT://%[1]s
controller.listener.names=CONTROLLER
log.dirs=%[3]s
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
num.partitions=4
`, k.addr, control, filepath.Join(dir, "data"))
	if err := os.WriteFile(k.config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(k.java, "-cp", k.classes, "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qk",
		"-c", k.config).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	k.start(t)
	t.Cleanup(k.kill)
	return k
}

// start starts the broker with the data that it has, and waits until it takes connections.
func (k *kafka) start(t *testing.T) {
	t.Helper()
	k.cmd = exec.Command(k.java, "-Xmx384m", "-cp", k.classes, "kafka.Kafka", k.config)
	k.cmd.Stdout, k.cmd.Stderr = &k.errs, &k.errs
	if err := k.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		c, err := net.Dial("tcp", k.addr)
		if err == nil {
			c.Close()
			return
		}
		if time.Since(begin) > patience {
			t.Fatalf("Kafka does not come up:\n%s", k.errs.String())
		}
	}
}

func (k *kafka) kill() {
	_ = k.cmd.Process.Kill()
	_ = k.cmd.Wait()
}

// TestKafka: a change feed into a broker of Apache Kafka has each change at least once, those of a
// row in their order, and marks that hold, while the feed's node, all nodes and the broker die, and
// the broker stands still.
func TestKafka(t *testing.T) {
	needTime(t)
	k := startKafka(t)
	c := startCluster(t, t.TempDir(), 3, 1)
	t.Cleanup(c.kill)
	c.logOnFailure(t)
	again := func(nodes ...*node) {
		for _, n := range nodes {
			n.kill()
		}
		for _, n := range nodes {
			n.start(t)
		}
		for _, n := range nodes {
			n.awaitSQL(t)
		}
	}
	for _, n := range c.nodes {
		n.args = []string{"--changefeed-sink", "kafka://" + k.addr}
	}
	again(c.nodes...)
	db := c.nodes[1].open(t, "")
	exec1(t, db, "CREATE DATABASE shop")
	exec1(t, db, "CREATE TABLE shop.carts (id INT PRIMARY KEY, v VARCHAR(40), n INT)")
	exec1(t, db, "INSERT INTO shop.carts VALUES (1, 'first', 0), (2, 'first', 0)")
	exec1(t, c.nodes[0].open(t, ""), "CREATE CHANGEFEED FOR shop.carts INTO 'kafka://"+k.addr+"' WITH updated, key_in_value, resolved = '200ms'")

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	var done [2]int
	for i, n := range c.nodes[1:] {
		db := n.open(t, "")
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 9))
			for ctx.Err() == nil {
				q := fmt.Sprintf("REPLACE INTO shop.carts VALUES (%d, 'é%d', %d)", rng.IntN(200), rng.IntN(1e6), i)
				if rng.IntN(4) == 0 {
					q = fmt.Sprintf("DELETE FROM shop.carts WHERE id = %d", rng.IntN(200))
				}
				if _, err := db.ExecContext(ctx, q); err == nil {
					done[i]++
				}
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	wait := func() { time.Sleep(4 * time.Second) }
	wait()
	t.Log("kill the feed's node")
	again(c.nodes[0])
	wait()
	t.Log("kill the broker")
	k.kill()
	time.Sleep(3 * time.Second)
	k.start(t)
	wait()
	t.Log("the broker stands still")
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := k.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		wait()
	}
	executed(t, db, "ALTER TABLE shop.carts ADD COLUMN w DECIMAL(8,2) DEFAULT 1.25")
	wait()
	t.Log("kill all nodes")
	again(c.nodes...)
	wait()
	stop()
	clients.Wait()
	exec1(t, c.nodes[2].open(t, ""), "INSERT INTO shop.carts (id, v) VALUES (1000, 'last')")

	consumer, err := kgo.NewClient(kgo.SeedBrokers(k.addr), kgo.ConsumeTopics("carts", "shop.carts"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	j := newFeedJudge(t)
	for begin := time.Now(); !j.through("[1000]"); {
		if time.Since(begin) > patience {
			t.Fatalf("the last change has not come, or no mark behind it in each partition: %d messages, marks %v", j.messages, j.marks)
		}
		poll, cancel := context.WithTimeout(t.Context(), time.Second)
		consumer.PollFetches(poll).EachRecord(func(r *kgo.Record) { j.take(r) })
		cancel()
	}
	t.Logf("%v statements, %d messages, of which %d again", done, j.messages, j.again)
	if done[0]+done[1] < 200 {
		t.Errorf("only %v statements succeeded", done)
	}
	if got, want := j.rows(), rowsAsJSON(t, db); !maps.Equal(got, want) {
		t.Errorf("by the feed there are %d rows, want %d", len(got), len(want))
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if got[key] != want[key] {
				t.Errorf("%s: has %s, want %s", key, got[key], want[key])
			}
		}
	}
}

// feedJudge reads messages of a feed.
type feedJudge struct {
	t               *testing.T
	messages, again int
	newest          map[string]string          // the moment of the newest message of a key
	seen            map[string]map[string]bool // the moments of all of them
	values          map[string]string          // what the newest says
	marks           map[int32]string           // the newest of each partition
}

func newFeedJudge(t *testing.T) *feedJudge {
	return &feedJudge{t: t, newest: map[string]string{}, seen: map[string]map[string]bool{}, values: map[string]string{}, marks: map[int32]string{}}
}

// take judges a message: what comes behind a mark, for the first time, is younger than it, and what
// comes for the first time is younger than what has come of the same row.
func (j *feedJudge) take(r *kgo.Record) {
	var m struct {
		After             json.RawMessage
		Updated, Resolved string
	}
	if err := json.Unmarshal(r.Value, &m); err != nil {
		j.t.Errorf("%s: %v", r.Value, err)
		return
	}
	if m.Resolved != "" {
		j.marks[r.Partition] = max(j.marks[r.Partition], m.Resolved)
		return
	}
	j.messages++
	key := string(r.Key)
	if j.seen[key] == nil {
		j.seen[key] = map[string]bool{}
	}
	switch {
	case j.seen[key][m.Updated]:
		j.again++
		return
	case m.Updated <= j.marks[r.Partition]:
		j.t.Errorf("%s of %s comes behind the mark %s", key, m.Updated, j.marks[r.Partition])
	case m.Updated < j.newest[key]:
		j.t.Errorf("%s of %s comes for the first time behind %s", key, m.Updated, j.newest[key])
	}
	j.seen[key][m.Updated], j.newest[key], j.values[key] = true, m.Updated, string(m.After)
}

// through reports whether a key has come, with a mark behind it in each partition.
func (j *feedJudge) through(key string) bool {
	at := j.newest[key]
	if at == "" || len(j.marks) < 4 {
		return false
	}
	for _, m := range j.marks {
		if m < at {
			return false
		}
	}
	return true
}

// rows are those that there are by the feed, with sorted names of columns.
func (j *feedJudge) rows() map[string]string {
	out := map[string]string{}
	for key, v := range j.values {
		if v != "" && v != "null" {
			out[key] = normal(j.t, v)
		}
	}
	return out
}

// normal is JSON with sorted names and numbers as they are written.
func normal(t *testing.T, s string) string {
	t.Helper()
	in := json.NewDecoder(strings.NewReader(s))
	in.UseNumber()
	m := map[string]any{}
	if err := in.Decode(&m); err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	out := ""
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out += fmt.Sprintf("%s=%v ", k, m[k])
	}
	return out
}

// rowsAsJSON are the rows of the table as the feed words them.
func rowsAsJSON(t *testing.T, db *sql.DB) map[string]string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT id, JSON_OBJECT('id', id, 'v', v, 'n', n, 'w', w) FROM shop.carts")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var id int
		var text string
		if err := rows.Scan(&id, &text); err != nil {
			t.Fatal(err)
		}
		out[fmt.Sprintf("[%d]", id)] = normal(t, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
