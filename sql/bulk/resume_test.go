package bulk_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/backup/place"
	"github.com/godwitdb/godwit/sql/bulk"
)

// until waits for the end of a job and returns its status.
func (w *world) until(id uint64) string {
	w.t.Helper()
	for range 600 {
		r, err := job.Find(w.t.Context(), w.db, id)
		if err != nil {
			w.t.Fatal(err)
		}
		if r.State != job.Running {
			return strings.TrimSpace(string(r.State) + " " + r.Error)
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.t.Fatal("the job does not end")
	return ""
}

// records counts the records of imports that are left.
func (w *world) records() (n int) {
	w.t.Helper()
	p := base.Key(base.IndexPrefix(base.MetaShard, base.MakeTableID(12, 0), 0, 0))
	if _, err := kv.Run(w.t.Context(), w.db, kv.Options{ReadOnly: true}, func(t kv.Txn) error {
		res, err := t.Scan(w.t.Context(), kv.ScanRequest{Spans: []base.Span{{Start: p, End: p.PrefixEnd()}}})
		n = len(res.Rows)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return n
}

const goesOnRows = 6000

// lines are rows of a table without a key, in which rows that are loaded twice are there twice.
func lines(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "%d,\"row\n%d\"\n", i, i)
	}
	return b.String()
}

func (w *world) complete() {
	w.t.Helper()
	w.expect("SELECT COUNT(*), COUNT(DISTINCT id), SUM(id) FROM test.t", fmt.Sprintf("%d|%d|%d", goesOnRows, goesOnRows, goesOnRows*(goesOnRows-1)/2))
	if n := w.records(); n != 0 {
		w.t.Errorf("%d records are left", n)
	}
}

func twoGateways(t *testing.T) (a, b *world) {
	t.Helper()
	a = newWorld(t, "eu", "us")
	a.exec("CREATE TABLE t (id INT, v VARCHAR(20), KEY (id))")
	a.file("1.csv", lines(0, goesOnRows/3))
	a.file("2.csv", lines(goesOnRows/3, goesOnRows))
	return a, start(t, a.db.(*memkv.DB).Gateway(2), place.Policy{Dir: a.dir})
}

// TestImportGoesOn: the node stops in the middle, and another one loads the rest, once.
func TestImportGoesOn(t *testing.T) {
	a, b := twoGateways(t)
	stop := make(chan uint64, 1)
	chunks := atomic.Int64{}
	defer bulk.Small(50, func(id uint64, _ int64) {
		if chunks.Add(1) == 30 {
			stop <- id
		}
		if chunks.Load() < 60 {
			time.Sleep(5 * time.Millisecond)
		}
	})()
	failed := make(chan error, 1)
	go func() {
		_, err := ask(a.c, "IMPORT INTO t FROM '"+a.url+"/*.csv'")
		failed <- err
	}()
	id := <-stop
	a.srv.Close()
	if err := <-failed; err == nil {
		t.Log("the import was over before its node stopped")
	}
	if got := b.until(id); got != "succeeded" {
		t.Fatal(got)
	}
	b.complete()
}

// TestImportByTwo: a node that is believed dead goes on loading while another one does: each row is
// there once.
func TestImportByTwo(t *testing.T) {
	a, b := twoGateways(t)
	chunks := atomic.Int64{}
	defer bulk.Small(20, func(id uint64, _ int64) {
		if chunks.Add(1) == 20 { // its lease ends
			if _, err := kv.Run(t.Context(), a.db, kv.Options{}, func(k kv.Txn) error {
				key := base.AppendUint64(job.Span().Start.Clone(), id)
				rows, err := k.Get(t.Context(), []base.Key{key}, kv.LockExclusive)
				if err != nil {
					return err
				}
				r := new(job.Record)
				if err := json.Unmarshal(rows[0].Value, r); err != nil {
					return err
				}
				r.Until = 0
				r.Term++
				v, err := json.Marshal(r)
				k.Put(key, v, 0)
				return err
			}); err != nil {
				t.Error(err)
			}
			l, err := job.Claim(t.Context(), b.db, id)
			if err == nil {
				err = l.Release(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		}
		time.Sleep(50 * time.Millisecond)
	})()
	rows := a.query("IMPORT INTO t FROM '" + a.url + "/*.csv' WITH detached, threads = 2")
	var id uint64
	if _, err := fmt.Sscan(rows[0], &id); err != nil {
		t.Fatal(err)
	}
	if got := b.until(id); got != "succeeded" {
		t.Fatal(got)
	}
	r, err := job.Find(t.Context(), b.db, id)
	if err != nil || r.Term < 2 {
		t.Errorf("nobody has taken the job: %+v, %v", r, err)
	}
	b.complete()
}

// TestImportCanceled: rows that were loaded stay, and the records of the job go.
func TestImportCanceled(t *testing.T) {
	w := newWorld(t, "eu")
	w.exec("CREATE TABLE t (id INT, v VARCHAR(20))")
	w.file("1.csv", lines(0, goesOnRows))
	begun := make(chan uint64, 1000)
	defer bulk.Small(20, func(id uint64, _ int64) {
		begun <- id
		time.Sleep(200 * time.Millisecond)
	})()
	w.query("IMPORT INTO t FROM '" + w.url + "/1.csv' WITH detached, threads = 1")
	id := <-begun
	if got := w.query("SHOW JOBS"); !strings.Contains(got[0], "IMPORT|test.t FROM "+w.url+"/1.csv") || !strings.Contains(got[0], "running") {
		t.Errorf("jobs: %q", got)
	}
	w.exec(fmt.Sprintf("CANCEL JOB %d", id))
	if got := w.until(id); got != "canceled" {
		t.Error(got)
	}
	if got := w.query("SELECT COUNT(*) FROM t"); got[0] == "0" || got[0] == fmt.Sprint(goesOnRows) {
		t.Errorf("%s rows are there", got)
	}
	if n := w.records(); n != 0 {
		t.Errorf("%d records are left", n)
	}
}
