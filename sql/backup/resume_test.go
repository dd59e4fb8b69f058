package backup_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gms "github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/backup"
	"github.com/godwitdb/godwit/sql/backup/place"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// mortal is a gateway without a server, which dies at one of its writes or reads of files.
type mortal struct {
	t   *testing.T
	env *backup.Env
	ctx *gms.Context
	// writes and reads are those of files; the one with this number is its last, if it is not 0.
	writes, reads         atomic.Int64
	lastWrite, lastRead   int64
	pieces, bytes, parted atomic.Int64 // pieces that were written, and parts
}

func newMortal(t *testing.T, w *world) *mortal {
	t.Helper()
	return newMortalOver(t, w, w.db.(*memkv.DB).Gateway(2))
}

// newMortalOver is such a gateway over a kv.
func newMortalOver(t *testing.T, w *world, db kv.DB) *mortal {
	t.Helper()
	se := &session.Env{DB: db, Log: slog.New(slog.DiscardHandler), Catalog: schema.NewCatalog(db)}
	m := &mortal{t: t}
	policy := place.Policy{Dir: w.dir}
	m.env = &backup.Env{Env: ddl.NewEnv(table.NewEnv(se), nil), Rights: func(*gms.Context) rights.Set { return rights.All() },
		OpenPlace: func(ctx context.Context, name string) (place.Place, error) {
			p, err := policy.Open(ctx, name, true)
			return dying{p, m}, err
		}}
	m.env.Closing = func() bool { return true }
	s := session.New(gms.NewBaseSessionWithClientServer("", gms.Client{User: "root", Address: "localhost"}, 7), se)
	s.InitVariables()
	m.ctx = gms.NewContext(t.Context(), gms.WithSession(s))
	t.Cleanup(func() { se.CloseBackground(time.Minute) })
	return m
}

func (m *mortal) run(q string) error {
	_, err := m.env.Run(m.ctx, backup.Parse(q))
	return err
}

// dying is a place that its gateway does not survive.
type dying struct {
	place.Place
	m *mortal
}

// end ends the gateway at the given call; the call does not return before that.
func (d dying) end(ctx context.Context, n, last int64) error {
	if last == 0 || n < last {
		return nil
	}
	if n == last {
		go d.m.env.CloseBackground(time.Minute)
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (d dying) Write(ctx context.Context, name string, b []byte) error {
	if err := d.end(ctx, d.m.writes.Add(1), d.m.lastWrite); err != nil {
		return err
	}
	switch filepath.Ext(name) {
	case ".rows", ".keys":
		d.m.pieces.Add(1)
		d.m.bytes.Add(int64(len(b)))
	case ".part":
		d.m.parted.Add(1)
	}
	return d.Place.Write(ctx, name, b)
}

func (d dying) Read(ctx context.Context, name string, most int64) ([]byte, error) {
	if err := d.end(ctx, d.m.reads.Add(1), d.m.lastRead); err != nil {
		return nil, err
	}
	return d.Place.Read(ctx, name, most)
}

// TestBackupGoesOn: what a gateway has written of a backup when it dies is not written again by the
// one that goes on, however often that happens; and the backup is of its moment.
func TestBackupGoesOn(t *testing.T) {
	defer backup.Small(1<<10, 100)()
	for _, passphrase := range []string{"", "ENCRYPTION_PASSPHRASE = 'sesame'"} {
		t.Run("with "+passphrase, func(t *testing.T) { backupGoesOn(t, passphrase) })
	}
}

func backupGoesOn(t *testing.T, with string) {
	t.Helper()
	w := newWorld(t, "eu", "us")
	w.exec("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(100), KEY (v))")
	insert := func(from, to int) {
		var values []string
		for i := from; i < to; i++ {
			values = append(values, fmt.Sprintf("(%d, 'a row with the number %d')", i, i))
		}
		w.exec("INSERT INTO t VALUES " + strings.Join(values, ","))
	}
	insert(0, 3000)
	option := func(more string) string {
		if all := strings.Trim(more+", "+with, ", "); all != "" {
			return " WITH " + all
		}
		return ""
	}
	whole := newMortal(t, w)
	if err := whole.run("BACKUP DATABASE test INTO '" + w.url + "/whole'" + option("")); err != nil {
		t.Fatal(err)
	}
	later := 10_000
	allParts := int64(0) // how many streams were under way when a gateway died is a matter of chance
	take := func(options string, least int64, deaths ...int64) {
		t.Helper()
		done, parts := int64(0), int64(0)
		for i, last := range deaths {
			m := newMortal(t, w)
			m.lastWrite = last
			var err error
			if i == 0 {
				err = m.run("BACKUP DATABASE test INTO '" + w.url + "'" + option(options))
			} else {
				err = m.env.GoOn(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), "this node stops") {
				t.Fatalf("gateway %d died with %v", i, err)
			}
			done, parts = done+m.pieces.Load(), parts+m.parted.Load()
			later += 100
			insert(later, later+100) // not of the moment
		}
		m := newMortal(t, w)
		if err := m.env.GoOn(t.Context()); err != nil {
			t.Fatal(err)
		}
		allParts += parts
		if m.pieces.Load()+least > whole.pieces.Load() {
			t.Errorf("%d pieces and %d parts were written before, and %d pieces by the last one; of all are %d", done, parts,
				m.pieces.Load(), whole.pieces.Load())
		}
	}
	rows := func(db string) []string { return w.query("SELECT id, v FROM " + db + ".t ORDER BY id") }
	want := rows("test")
	take("", 1, 60, 60)
	w.query("RESTORE DATABASE test FROM '" + w.url + "' AS first" + option(""))
	if got := rows("first"); !slices.Equal(got, want) {
		t.Errorf("%d rows are restored, want %d", len(got), len(want))
	}
	w.exec("DELETE FROM t WHERE id % 3 = 0")
	w.exec("UPDATE t SET v = CONCAT(v, ' changed') WHERE id % 5 = 0")
	want = rows("test")
	take("INCREMENTAL", 1, 12, 6)
	w.query("RESTORE DATABASE test FROM '" + w.url + "' AS second" + option(""))
	if got := rows("second"); !slices.Equal(got, want) {
		t.Errorf("%d rows are restored of the second backup, want %d", len(got), len(want))
	}
	for _, line := range w.query("SHOW BACKUP FROM '" + w.url + "'" + option("")) {
		f := strings.Split(line, "|")
		if f[1] != "complete" {
			t.Errorf("SHOW BACKUP: %s", line)
		}
		for _, name := range w.files(f[0]) {
			if !strings.HasSuffix(name, ".rows") && !strings.HasSuffix(name, ".keys") {
				t.Errorf("file %s of a complete backup is left", name)
			}
		}
	}
	w.query("VERIFY BACKUP '" + w.url + "'" + option(""))
	if allParts == 0 {
		t.Error("no gateway has noted how far it has come with a stream")
	}
}

// TestRestoreGoesOn: a restore goes on from where a gateway has died, and shows everything at once.
func TestRestoreGoesOn(t *testing.T) {
	defer backup.Small(1<<10, 100)()
	w := newWorld(t, "eu", "us")
	w.exec("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(100), KEY (v))")
	var values []string
	for i := range 3000 {
		values = append(values, fmt.Sprintf("(%d, 'a row with the number %d')", i, i))
	}
	w.exec("INSERT INTO t VALUES " + strings.Join(values, ","))
	w.backup("DATABASE test", "")
	m := newMortal(t, w)
	m.lastRead = 60
	restore := "RESTORE DATABASE test FROM '" + w.url + "' AS copied"
	if err := m.run(restore); err == nil || !strings.Contains(err.Error(), "this node stops") {
		t.Fatalf("the gateway died with %v", err)
	}
	w.expect("SHOW DATABASES LIKE 'copied'")
	jobs, err := job.List(t.Context(), w.db)
	if err != nil || len(jobs) != 2 {
		t.Fatalf("jobs: %+v, %v", jobs, err)
	}
	var far struct {
		IDs   []uint64       `json:"ids"`
		Ended []byte         `json:"ended"`
		Going map[string]any `json:"going"`
	}
	if err := json.Unmarshal(jobs[1].Checkpoint, &far); err != nil || len(far.IDs) != 1 || len(far.Going) == 0 {
		t.Fatalf("the checkpoint is %s, %v", jobs[1].Checkpoint, err)
	}
	if got := w.query("SHOW JOBS"); !strings.Contains(got[0], "|RESTORE|DATABASE test|0|waiting|") {
		t.Errorf("SHOW JOBS: %q", got)
	}
	next := newMortal(t, w)
	if err := next.env.GoOn(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.expect("SELECT COUNT(*), COUNT(DISTINCT v), SUM(id) FROM copied.t WHERE v > ''", "3000|3000|4498500")
	w.expect("SELECT COUNT(*) FROM copied.t", "3000")
	if err := newMortal(t, w).env.GoOn(t.Context()); err == nil || !strings.Contains(err.Error(), "no such job") {
		t.Errorf("a job that has ended is done again: %v", err)
	}
}

// TestJobElsewhere: a node that does not see the files of a job leaves it to others.
func TestJobElsewhere(t *testing.T) {
	w := newWorld(t, "eu", "us")
	w.exec("CREATE TABLE t (id INT PRIMARY KEY)")
	w.exec("INSERT INTO t VALUES (1)")
	m := newMortal(t, w)
	m.lastWrite = 2
	if err := m.run("BACKUP INTO '" + w.url + "'"); err == nil || !strings.Contains(err.Error(), "this node stops") {
		t.Fatalf("the gateway died with %v", err)
	}
	if err := os.Rename(w.dir, w.dir+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := newMortal(t, w).env.GoOn(t.Context()); err == nil || !strings.Contains(err.Error(), "/job: no such file") {
		t.Errorf("a node without the files goes on: %v", err)
	}
	jobs, err := job.List(t.Context(), w.db)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("jobs: %+v, %v", jobs, err)
	}
	w.exec(fmt.Sprintf("CANCEL JOB %d", jobs[0].ID))
	w.refused("there is no job 12345", "CANCEL JOB 12345")
	if jobs, err = job.List(t.Context(), w.db); err != nil || !jobs[0].Cancel {
		t.Errorf("the job is not canceled: %+v, %v", jobs, err)
	}
}
