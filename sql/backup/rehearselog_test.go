package backup_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gms "github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/backup"
	"github.com/godwitdb/godwit/sql/backup/archive"
)

// rehearsed are the rows of each table that VERIFY BACKUP WITH TABLES says are the cluster's own.
func (w *world) rehearsed(q string) (out []string) {
	w.t.Helper()
	for _, line := range w.query(q) {
		f := strings.Split(line, "|")
		if f[2] != "ok" || f[4] != f[5] || len(f[4]) != 32 {
			w.t.Errorf("%s: %s", q, line)
		}
		out = append(out, f[1]+" "+f[3])
	}
	slices.Sort(out)
	return out
}

// TestRehearseLog: a backup and the log behind it lead to what the cluster shows, at each moment:
// also when rows have changed, moved and gone, and tables were altered, emptied, and made anew.
func TestRehearseLog(t *testing.T) {
	for _, key := range []string{"", "ENCRYPTION_PASSPHRASE = 'sesame'"} {
		t.Run("with "+key, func(t *testing.T) { rehearseLog(t, key) })
	}
}

func rehearseLog(t *testing.T, key string) {
	t.Helper()
	defer backup.Small(1<<10, 100)() // so that the log is sorted in files
	with, also := "", ""
	if key != "" {
		with, also = " WITH "+key, ", "+key
	}
	w := newWorld(t, "eu", "us")
	w.exec("CREATE TABLE t (a INT, b INT, v VARCHAR(40), PRIMARY KEY (a, b), UNIQUE KEY (v))")
	w.exec("CREATE TABLE nokey (v INT)")
	w.exec("CREATE TABLE emptied (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
	w.exec("CREATE TABLE again (id INT PRIMARY KEY, v VARCHAR(20))")
	insert := func(from, to int) {
		var values []string
		for i := from; i < to; i++ {
			values = append(values, fmt.Sprintf("(%d, %d, 'the row with number %d')", i, i%7, i))
		}
		w.exec("INSERT INTO t (a, b, v) VALUES " + strings.Join(values, ","))
	}
	insert(0, 300)
	w.exec("INSERT INTO nokey VALUES (1), (2), (3)")
	w.exec("INSERT INTO emptied (v) VALUES (1), (2), (3)")
	w.exec("INSERT INTO again VALUES (1, 'first'), (2, 'first')")
	m := newMortal(t, w)
	l := m.env.NewLog(m.ctx, "BACKUP LOG DATABASE test INTO '"+w.url+"'"+with)
	_, first := w.backup("DATABASE test", with)
	verify := func(at string) string {
		if at != "" {
			at = " AS OF SYSTEM TIME '" + at + "'"
		}
		return "VERIFY BACKUP '" + w.url + "'" + at + " WITH TABLES" + also
	}
	moments := []string{first}
	want := [][]string{{"test.again 2", "test.emptied 3", "test.nokey 3", "test.t 300"}}
	step := func(tables []string, qs ...string) {
		t.Helper()
		for _, q := range qs {
			w.exec(q)
		}
		moments, want = append(moments, w.query("SELECT NOW(6)")[0]), append(want, tables)
	}
	insert(300, 400)
	step([]string{"test.again 2", "test.emptied 3", "test.nokey 2", "test.t 390"}, "UPDATE t SET v = CONCAT('other ', v) WHERE a % 3 = 0",
		"DELETE FROM t WHERE a < 10", "DELETE FROM nokey WHERE v = 2", "UPDATE t__homes SET home_region = 'us' WHERE a % 5 = 0")
	l.Segment(t)
	step([]string{"test.again 2", "test.emptied 0", "test.nokey 2", "test.t 391"}, "ALTER TABLE t ADD COLUMN late INT DEFAULT 9",
		"INSERT INTO t VALUES (1, 1, 'back', 1)", "TRUNCATE TABLE emptied", "UPDATE t__homes SET home_region = 'eu' WHERE a = 15")
	step([]string{"test.emptied 1", "test.nokey 2", "test.t 391"}, "INSERT INTO emptied (v) VALUES (4)", "DROP TABLE again")
	l.Segment(t)
	step([]string{"test.again 1", "test.emptied 1", "test.nokey 3", "test.t 391"}, "CREATE TABLE again (id INT PRIMARY KEY, w INT, KEY (w))",
		"INSERT INTO again VALUES (1, 7)", "ALTER TABLE t MODIFY COLUMN late BIGINT, DROP PRIMARY KEY, ADD PRIMARY KEY (a)",
		"INSERT INTO nokey VALUES (9)", "CREATE VIEW vw AS SELECT COUNT(*) AS n FROM t")
	l.Segment(t)
	for i, at := range moments {
		if got := w.rehearsed(verify(at)); !slices.Equal(got, want[i]) {
			t.Errorf("moment %d: %q, want %q", i, got, want[i])
		}
	}
	if got := w.rehearsed(verify("")); !slices.Equal(got, want[len(want)-1]) {
		t.Errorf("the newest moment: %q", got)
	}
	w.refused("the log of changes leads from", verify("2100-01-01 00:00:00"))
	w.refused("AS OF goes with WITH TABLES", "VERIFY BACKUP '"+w.url+"' AS OF SYSTEM TIME '"+first+"'"+with)
	if key != "" {
		return
	}
	collectedVersions(t, w, verify(moments[2]))
	canceledRehearsal(t, w, verify(""))
	changedSegment(t, w, verify)
}

// collectedVersions: where the cluster has not kept versions, nothing is compared, which is no
// error.
func collectedVersions(t *testing.T, w *world, verify string) {
	t.Helper()
	db := &watched{DB: w.db.(*memkv.DB).Gateway(2)}
	m := newMortalOver(t, w, db)
	ask := func() (out []string) {
		t.Helper()
		rows, err := m.answer(verify)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			out = append(out, fmt.Sprintf("%v %v %v", r[1], r[2], r[5] == r[4] || r[5] == "not known"))
		}
		slices.Sort(out)
		return out
	}
	names := []string{"test.again", "test.emptied", "test.nokey", "test.t"}
	rows, err := newMortalOver(t, w, elsewhere{w.db.(*memkv.DB).Gateway(2)}).answer(verify)
	for _, r := range rows {
		if r[2] != "not compared" || r[5] != "not known" {
			t.Errorf("another cluster says %v", r)
		}
	}
	if err != nil || len(rows) != len(names) {
		t.Errorf("another cluster: %v, %v", rows, err)
	}
	for _, says := range []string{" ok true", " not compared true"} {
		var want []string
		for _, n := range names {
			want = append(want, n+says)
		}
		if got := ask(); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		db.collected.Store(uint64(db.Clock()))
	}
}

// elsewhere is another cluster with the same versions.
type elsewhere struct{ *memkv.DB }

// Topology implements kv.DB.
func (e elsewhere) Topology() *base.Topology {
	t := *e.DB.Topology()
	t.ClusterID = "elsewhere"
	return &t
}

func (m *mortal) answer(q string) ([]gms.Row, error) { return m.env.Run(m.ctx, backup.Parse(q)) }

// canceledRehearsal: a rehearsal that is canceled leaves no temporary file.
func canceledRehearsal(t *testing.T, w *world, verify string) {
	t.Helper()
	whole := newMortal(t, w)
	if err := whole.run(verify); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	open := func() (n int) {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("this system does not tell which files are open")
		}
		for _, e := range fds {
			if to, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); err == nil && strings.HasPrefix(to, dir) {
				n++
			}
		}
		return n
	}
	m := newMortal(t, w)
	m.lastRead = whole.reads.Load() // that of the last piece: the log is sorted by then
	ctx, cancel := context.WithCancel(m.ctx.Context)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := m.env.Run(m.ctx.WithContext(ctx), backup.Parse(verify))
		ended <- err
	}()
	await := func(what string, fn func() bool) {
		t.Helper()
		for range 1000 {
			if fn() {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatal(what)
	}
	await("the last piece is not read", func() bool { return m.reads.Load() == m.lastRead })
	if open() == 0 {
		t.Error("there is no temporary file: this tests nothing")
	}
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("a rehearsal that was canceled: %v", err)
	}
	await("temporary files are open", func() bool { return open() == 0 })
	if !empty(t, dir) {
		t.Error("there are files with names")
	}
}

// changedSegment: a version in the log that is another one, in files that are made anew with all of
// their sums, is found at the moments that it counts for, and a version that is not there is, too.
func changedSegment(t *testing.T, w *world, verify func(string) string) {
	t.Helper()
	for _, skip := range []bool{false, true} {
		undo := remake(t, w, func(r *archive.Record) (keep bool) {
			if s := string(r.Value); strings.Contains(s, "back") {
				r.Value = []byte(strings.Replace(s, "back", "bacK", 1))
				return !skip
			}
			return true
		})
		w.query("VERIFY BACKUP '" + w.url + "'")
		w.refused("the rows of table test.t that backup", verify(""))
		w.refused("'"+w.url+"' and the log of changes behind it lead to are not those that the cluster shows as of", verify(""))
		undo()
		w.rehearsed(verify(""))
	}
}

// remake makes the pieces and segments of the log anew; fn changes records, and says which stay.
func remake(t *testing.T, w *world, fn func(*archive.Record) bool) (undo func()) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(w.dir, "log-2*", "*"+archive.SegmentSuffix))
	if err != nil {
		t.Fatal(err)
	}
	var undos []func()
	for _, name := range segments {
		folder, id := filepath.Base(filepath.Dir(name)), strings.TrimSuffix(filepath.Base(name), archive.SegmentSuffix)
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := archive.DecodeSegment(folder, id, b, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range s.Pieces {
			undos = append(undos, w.change(folder+"/"+f.Name, func(b []byte) []byte {
				d, err := archive.Open(folder, f, archive.LogPiece, b, nil)
				e := archive.Encoder{Kind: archive.LogPiece}
				for ok := err == nil; ok; {
					var r archive.Record
					if ok, err = d.Next(&r); ok && fn(&r) {
						e.Add(&r)
					}
				}
				if err == nil {
					b, s.Pieces[i], err = e.Finish(folder, f.Name, nil)
				}
				if err != nil {
					t.Fatal(err)
				}
				return b
			}))
		}
		undos = append(undos, w.change(folder+"/"+filepath.Base(name), func([]byte) []byte {
			b, err := s.Encode(folder, nil)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}))
	}
	return func() {
		for _, u := range undos {
			u()
		}
	}
}
