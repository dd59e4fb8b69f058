package changefeed_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/godwitdb/godwit/kv/memkv"
)

// fakeKafka is franz-go's fake of a cluster, in this process.
func fakeKafka(t *testing.T, opts ...kfake.Opt) (c *kfake.Cluster, brokers []string) {
	t.Helper()
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(2), kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(3))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, c.ListenAddrs()
}

// TestKafka: what a consumer of Kafka reads is the table at each mark, in order by key, while
// brokers refuse requests now and then. All messages of a key are in one partition, and marks are
// in all.
func TestKafka(t *testing.T) {
	c, brokers := fakeKafka(t)
	var produces, refusals atomic.Int64
	c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if produces.Add(1)%3 != 2 {
			return nil, nil, false
		}
		refusals.Add(1)
		req := r.(*kmsg.ProduceRequest)
		res := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, t := range req.Topics {
			rt := kmsg.NewProduceResponseTopic()
			rt.Topic, rt.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				rp := kmsg.NewProduceResponseTopicPartition()
				rp.Partition, rp.ErrorCode = p.Partition, kerr.NotEnoughReplicas.Code
				rt.Partitions = append(rt.Partitions, rp)
			}
			res.Topics = append(res.Topics, rt)
		}
		return res, nil, true
	})
	var sinks []string
	for _, b := range brokers {
		sinks = append(sinks, "kafka://"+b)
	}
	w := newWorld(t, sinks...)
	w.exec("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
	w.create("t INTO 'kafka://" + strings.Join(brokers, ",") + "?topic_prefix=p-' WITH updated, key_in_value, topic_in_value, resolved = '100ms'")
	consumer, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics("p-test.t"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.MetadataMinAge(10e6))
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	j := newJudge(t)
	partitions, marks := map[string]int32{}, map[int32]uint64{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			consumer.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				if r.Key != nil {
					if p, ok := partitions[string(r.Key)]; ok && p != r.Partition {
						t.Errorf("key %s is in the partitions %d and %d", r.Key, p, r.Partition)
					}
					partitions[string(r.Key)] = r.Partition
					j.take(r.Value)
					return
				}
				// A mark is reached once it is in all partitions.
				marks[r.Partition] = moment(t, strings.Split(string(r.Value), `"`)[3])
				if len(marks) < 3 {
					return
				}
				least := marks[0]
				for _, m := range marks {
					least = min(least, m)
				}
				j.take(fmt.Appendf(nil, `{"resolved":"%d.0000000000"}`, least))
			})
		}
	}()
	for i := range 40 {
		w.exec(fmt.Sprintf("REPLACE INTO t VALUES (%d, 'v%d')", i%7, i))
	}
	w.exec("DELETE FROM t WHERE id = 3")
	j.agreeAs(w, "p-test.t", "test.t", "id", "v")
	cancel()
	<-done
	if refusals.Load() == 0 || len(partitions) != 7 || len(slices.Compact(slices.Sorted(values(partitions)))) < 2 {
		t.Errorf("%d refusals; partitions: %v", refusals.Load(), partitions)
	}
}

func values(m map[string]int32) func(func(int32) bool) {
	return func(yield func(int32) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

// readFiles reads all files of a folder in the order of their names.
func readFiles(t *testing.T, dir string) *judge {
	t.Helper()
	j := newJudge(t)
	days, err := filepath.Glob(filepath.Join(dir, "2*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(days)
	days = slices.DeleteFunc(days, func(f string) bool { return strings.HasSuffix(f, ".partial") }) // not written yet
	for _, f := range days {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
			line := s.Text()
			if topic, ok := strings.CutSuffix(f, ".ndjson"); ok {
				topic = topic[strings.LastIndex(topic, "-")+1:]
				line = fmt.Sprintf(`{"topic":%q,`, topic) + line[1:]
			}
			j.take([]byte(line))
		}
	}
	return j
}

// TestFiles: who reads the files in the order of their names has the tables at each mark, also
// after the node has ended and another one goes on, and after definitions have changed.
func TestFiles(t *testing.T) {
	w := newWorld(t)
	w.exec("CREATE TABLE a (id INT PRIMARY KEY, v INT)", "CREATE TABLE nokey (v INT)", "CREATE TABLE k (x INT, y INT, PRIMARY KEY (x))",
		"INSERT INTO a VALUES (1, 10), (2, 20), (3, 30)", "INSERT INTO nokey VALUES (7), (7)", "INSERT INTO k VALUES (1, 100), (2, 200)")
	id := w.create("a, nokey, k INTO 'file://" + w.dir + "/f' WITH updated, resolved = '100ms'")
	reached := func() {
		t.Helper()
		now := uint64(w.db.Clock())
		until(t, "a mark in the files", func() bool { return readFiles(t, w.dir+"/f").reached() >= now })
	}
	reached()
	w.exec("UPDATE a SET v = v + 1", "DELETE FROM nokey LIMIT 1", "ALTER TABLE a ADD COLUMN c INT DEFAULT 5", "INSERT INTO a VALUES (4, 40, 6)")
	reached()
	agree := func(topic, table string, cols ...string) {
		t.Helper()
		now := uint64(w.db.Clock())
		until(t, "a mark", func() bool { return readFiles(t, w.dir+"/f").reached() >= now })
		j := readFiles(t, w.dir+"/f")
		want := w.query("SELECT " + strings.Join(cols, ", ") + " FROM " + table)
		slices.Sort(want)
		if got := j.lines(topic, j.reached(), cols...); !slices.Equal(got, want) {
			t.Errorf("%s: the files say %q, and the table has %q", topic, got, want)
		}
	}
	agree("test.a", "a", "id", "v", "c")
	agree("test.nokey", "nokey", "v")
	// Another node goes on.
	if err := w.srv.Close(); err != nil {
		t.Fatal(err)
	}
	w2 := start(t, w.db.(*memkv.DB).Gateway(2), w.dir)
	w2.exec("USE test", "UPDATE a SET v = v + 100", "RENAME TABLE a TO a2", "INSERT INTO a2 VALUES (9, 9, 9)", "TRUNCATE TABLE nokey",
		"INSERT INTO nokey VALUES (8)", "ALTER TABLE k DROP PRIMARY KEY, ADD PRIMARY KEY (y)", "ALTER TABLE a2 DROP COLUMN c")
	*w = *w2
	agree("test.a", "a2", "id", "v")
	agree("test.nokey", "nokey", "v")
	agree("test.k", "k", "x", "y")
	if f := w.shown(id); f["status"] != "running" || f["tables"] != "test.a, test.nokey, test.k" {
		t.Errorf("SHOW CHANGEFEEDS: %q", f)
	}
	w.exec("DROP TABLE k")
	until(t, "the feed fails", func() bool { return w.shown(id)["status"] == "failed" })
	if f := w.shown(id); !strings.Contains(f["error"], "table test.k was dropped at") || !strings.Contains(f["error"], "WITH cursor = '") {
		t.Errorf("SHOW CHANGEFEEDS: %q", f)
	}
}

// TestPauseAndResume: a feed stands still, and goes on with what was committed meanwhile.
func TestPauseAndResume(t *testing.T) {
	w := newWorld(t)
	w.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1)")
	id := w.create("t INTO 'file://" + w.dir + "' WITH updated, resolved = '100ms', on_error = 'pause'")
	until(t, "the scan", func() bool { return readFiles(t, w.dir).messages == 1 })
	w.exec("PAUSE JOB " + id)
	until(t, "the feed stands still", func() bool { return w.shown(id)["status"] == "paused" })
	refused(t, w.c, "is paused, and not running", "PAUSE JOB "+id)
	w.exec("INSERT INTO t VALUES (2, 2)", "RESUME JOB "+id)
	until(t, "the feed goes on", func() bool { return readFiles(t, w.dir).messages >= 2 })
	w.exec("DROP TABLE t")
	until(t, "the failed feed stands still", func() bool { f := w.shown(id); return f["status"] == "paused" && f["error"] != "" })
	w.exec("CANCEL JOB " + id)
	until(t, "the feed ends", func() bool { return w.shown(id)["status"] == "canceled" })
}

// TestScans: a feed that only scans ends by itself, and one with a cursor goes on where another one
// was.
func TestScans(t *testing.T) {
	w := newWorld(t)
	w.exec("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
	id := w.create("t INTO 'file://" + w.dir + "/a' WITH updated, resolved, initial_scan = 'only'")
	until(t, "the scan ends", func() bool { return w.shown(id)["status"] == "succeeded" })
	j := readFiles(t, w.dir+"/a")
	if got := j.lines("test.t", j.reached(), "id", "v"); !slices.Equal(got, []string{"1|1", "2|2"}) {
		t.Errorf("the scan has sent %q", got)
	}
	w.exec("UPDATE t SET v = 3 WHERE id = 2")
	w.create(fmt.Sprintf("t INTO 'file://%s/b' WITH updated, cursor = '%d.0000000000', compression = 'gzip'", w.dir, j.reached()))
	until(t, "the change", func() bool {
		files, _ := filepath.Glob(filepath.Join(w.dir, "b", "2*", "*-test.t.ndjson.gz"))
		return len(files) == 1
	})
}

// TestRefusals: bad statements say what to do, and show nothing of passwords.
func TestRefusals(t *testing.T) {
	w := newWorld(t, "kafka://kafka.acme.test:9092", "https://hooks.acme.test/godwit")
	w.exec("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE VIEW v AS SELECT * FROM t", "CREATE USER u", "GRANT BACKUP_ADMIN ON *.* TO u",
		"CREATE USER nobody", "GRANT SELECT ON test.* TO nobody")
	for q, want := range map[string]string{
		"FOR t INTO 'kafka://other.test'":                                                       "--changefeed-sink kafka://other.test:9092",
		"FOR t INTO 'https://hooks.acme.test/other'":                                            "--changefeed-sink",
		"FOR t INTO 'https://hooks.acme.test/godwit/../other'":                                  "--changefeed-sink",
		"FOR t INTO 'https://hooks.acme.test/godwit%2f..%2fother'":                              "--changefeed-sink",
		"FOR t INTO 'https://169.254.169.254/latest'":                                           "--changefeed-sink",
		"FOR t INTO 'http://hooks.acme.test/godwit'":                                            "a webhook takes TLS",
		"FOR t INTO 'https://hooks.acme.test/godwit?insecure_tls_skip_verify=true'":             "certificates are always verified",
		"FOR t INTO 'kafka://kafka.acme.test?sasl_enabled=true&sasl_user=u&sasl_password=hush":  "the end of the sink",
		"FOR t INTO 'kafka://kafka.acme.test?sasl_enabled=true&sasl_user=u&sasl_password=hush'": "PLAIN sends the password",
		"FOR t INTO 'kafka://kafka.acme.test?sasl_password=hush'":                               "take sasl_enabled=true",
		"FOR t INTO 'file:///elsewhere'":                                                        "does not lie below",
		"FOR v INTO 'kafka://kafka.acme.test'":                                                  "is a view",
		"FOR t, t INTO 'kafka://kafka.acme.test'":                                               "named twice",
		"FOR nowhere INTO 'kafka://kafka.acme.test'":                                            "not found",
		"FOR t INTO 'kafka://kafka.acme.test' WITH upadted":                                     "has no option upadted; it has",
		"FOR t INTO 'kafka://kafka.acme.test' WITH format = 'xml'":                              "one of 'json'",
		"FOR t INTO 'kafka://kafka.acme.test' WITH cursor = '2001-01-01'":                       "old versions are kept",
		"FOR t INTO 'kafka://kafka.acme.test' WITH resolved = '1ms'":                            "a duration such as '10s'",
		"FOR t INTO 'kafka://kafka.acme.test' WITH diff, envelope = 'row'":                      "envelope = 'row' has the row alone",
		"FOR t INTO 'kafka://kafka.acme.test' WITH webhook_auth_header = 'hush'":                "are of https:// sinks",
	} {
		refused(t, w.c, want, "CREATE CHANGEFEED "+q)
		if _, err := query(w.c, "CREATE CHANGEFEED "+q); strings.Contains(fmt.Sprint(err), "hush") {
			t.Errorf("%s: the error shows a secret: %v", q, err)
		}
	}
	refused(t, w.as("nobody"), "BACKUP_ADMIN", "CREATE CHANGEFEED FOR test.t INTO 'kafka://kafka.acme.test'")
	refused(t, w.as("nobody"), "BACKUP_ADMIN", "SHOW CHANGEFEEDS")
	refused(t, w.as("u"), "not found", "CREATE CHANGEFEED FOR test.t INTO 'kafka://kafka.acme.test'")
	refused(t, w.c, "there is no job 5", "PAUSE JOB 5")
}

// TestSecrets: the address of a sink and its header show nowhere.
func TestSecrets(t *testing.T) {
	h := newHook(t, func(int) int { return 500 })
	w := newWorld(t, h.URL)
	w.exec("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
	id := w.create("t INTO '" + h.address("/T00/hush") + "&token=hush' WITH webhook_auth_header = 'Bearer hush', updated")
	until(t, "the trouble shows", func() bool { return strings.Contains(w.shown(id)["error"], "500 Internal Server Error") })
	for _, q := range []string{"SHOW CHANGEFEEDS", "SHOW JOBS", "SHOW FULL PROCESSLIST", "SELECT * FROM information_schema.processlist",
		"SELECT * FROM performance_schema.events_statements_summary_by_digest"} {
		for _, line := range w.query(q) {
			if strings.Contains(line, "hush") || strings.Contains(line, "BEGIN CERT") {
				t.Errorf("%s: %s", q, line)
			}
		}
	}
	if f := w.shown(id); f["status"] != "retrying" || !strings.HasSuffix(f["sink"], "/***?ca_cert=***") {
		t.Errorf("SHOW CHANGEFEEDS: %q", f)
	}
}
