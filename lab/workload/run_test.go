package workload

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
)

// scripted is a scenario whose transactions are all the same statement.
type scripted struct {
	keying time.Duration
	single bool
	err    error // returned by the transaction's code after its statement
}

func (*scripted) kinds() []string                                        { return []string{"only"} }
func (*scripted) tables() []string                                       { return []string{"t"} }
func (*scripted) create(context.Context, *session) error                 { return nil }
func (*scripted) load(*loader)                                           {}
func (*scripted) open(context.Context, *session, int) error              { return nil }
func (*scripted) check(context.Context, *session) ([]CheckResult, error) { return nil, nil }
func (s *scripted) client(region, i, n int) client                       { return s }
func (s *scripted) next() txn {
	return txn{single: s.single, keying: s.keying, run: func(ctx context.Context, c *session) error {
		if err := c.exec(ctx, "WORK"); err != nil {
			return err
		}
		return s.err
	}}
}

// runScripted runs a scenario against fake servers, one a region, inside a synctest bubble. Each
// statement takes a millisecond.
func runScripted(t *testing.T, ctx context.Context, sc scenario, servers []*fakeServer, opts RunOptions) (*Report, error) {
	t.Helper()
	w := &runner{name: "scripted", scenario: sc}
	var targets []Target
	w.dial = func([]Target, Options) ([]*pool, error) {
		var pools []*pool
		for i, f := range servers {
			f.delay = time.Millisecond
			pools = append(pools, f.pool(string(rune('a'+i))))
		}
		return pools, nil
	}
	report, err := w.Run(ctx, targets, opts)
	synctest.Wait()
	for _, f := range servers {
		if f.open != 0 {
			t.Errorf("%d connections are left open", f.open)
		}
	}
	return report, err
}

func versionAnd(f func(query string) error) func(string, []driver.NamedValue) (*fakeRows, error) {
	return func(q string, _ []driver.NamedValue) (*fakeRows, error) {
		if strings.HasPrefix(q, "SELECT VERSION") || strings.HasPrefix(q, "SELECT @@") {
			return rowsOf([]driver.Value{"1.0"}), nil
		}
		return nil, f(q)
	}
}

func TestRunCountsAndMeasures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ok := func(string) error { return nil }
		servers := []*fakeServer{{answer: versionAnd(ok)}, {answer: versionAnd(ok)}}
		snapshots := 0
		r, err := runScripted(t, t.Context(), &scripted{}, servers, RunOptions{
			Duration: 2500 * time.Millisecond, Warmup: time.Second, ClientsPerTarget: 3,
			Progress: func(s Snapshot) {
				snapshots++
				if s.Total.Count == 0 || len(s.Regions) != 2 || s.Line() == "" {
					t.Errorf("snapshot %+v", s)
				}
			}})
		if err != nil {
			t.Fatal(err)
		}
		// START TRANSACTION, WORK and COMMIT take a millisecond each.
		want := uint64(2 * 3 * 2500 / 3)
		if r.Clients != 6 || r.Total.Count < want-12 || r.Total.Count > want+12 ||
			r.Total.P50 != 3*time.Millisecond || r.Total.Errors != 0 {
			t.Errorf("report %+v, want about %d transactions of 3 ms", r.Total, want)
		}
		if snapshots < 2 || len(r.Regions) != 2 || r.Regions[0].Total.Count+r.Regions[1].Total.Count != r.Total.Count {
			t.Errorf("%d snapshots, regions %+v", snapshots, r.Regions)
		}
		var back map[string]any
		body, err := json.Marshal(r)
		if err != nil || json.Unmarshal(body, &back) != nil || back["total"].(map[string]any)["p50_ms"] != 3.0 {
			t.Errorf("JSON %s, %v", body, err)
		}
		var text strings.Builder
		if err := r.WriteTable(&text); err != nil || !strings.Contains(text.String(), "p99 ms") {
			t.Errorf("table %q, %v", text.String(), err)
		}
	})
}

func TestRunRetries(t *testing.T) {
	for _, c := range []struct {
		name             string
		code             uint16
		at               string
		failing          int // attempts that fail at first
		retries, errors_ uint64
	}{
		{"deadlock in a statement", 1213, "WORK", 3, 3, 0},
		{"timeout in a statement", 1205, "WORK", 2, 2, 0},
		{"failed commit", 1213, "COMMIT", 4, 4, 0},
		{"too many", 1213, "COMMIT", 11, 10, 1},
		{"duplicate key", 1062, "WORK", 1, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				left := c.failing
				f := &fakeServer{answer: versionAnd(func(q string) error {
					if q == c.at && left > 0 {
						left--
						return &mysql.MySQLError{Number: c.code, Message: "number 17"}
					}
					return nil
				})}
				r, err := runScripted(t, t.Context(), &scripted{}, []*fakeServer{f},
					RunOptions{Duration: 10 * time.Second, MaxRetries: 10})
				if err != nil {
					t.Fatal(err)
				}
				if r.Total.Retries != c.retries || r.Total.Errors != c.errors_ ||
					uint64(len(r.Errors)) != c.errors_ || r.Total.Count < 1000 {
					t.Errorf("report %+v, errors %+v", r.Total, r.Errors)
				}
				if n := f.count("ROLLBACK"); n != c.failing {
					t.Errorf("%d rollbacks for %d failed attempts", n, c.failing)
				}
				if begun, ended := f.count("START"), f.count("COMMIT")+f.count("ROLLBACK"); c.at == "WORK" && begun != ended {
					t.Errorf("%d transactions begun, %d ended", begun, ended)
				}
			})
		})
	}
}

func TestRunListsErrorsOnce(t *testing.T) {
	rec := newRecorder([]string{"a"}, []string{"k"})
	for i := range 200 {
		rec.fail(0, 0, &mysql.MySQLError{Number: 1062, Message: "duplicate " + string(rune('0'+i%10))})
		rec.fail(0, 0, errors.New(strings.Repeat("x", i)))
	}
	list := rec.errorList()
	if len(list) != maxErrorTexts+1 || list[0].Count != 200 || !strings.Contains(list[0].Text, "duplicate 0") {
		t.Errorf("%d texts, first %+v", len(list), list[0])
	}
	var sum uint64
	for _, e := range list {
		sum += e.Count
	}
	if sum != 400 {
		t.Errorf("%d errors are listed, not 400", sum)
	}
}

func TestRunRollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{answer: versionAnd(func(string) error { return nil })}
		r, err := runScripted(t, t.Context(), &scripted{err: errRollback}, []*fakeServer{f}, RunOptions{Duration: time.Second})
		if err != nil || r.Total.Count != 0 || r.Total.Errors != 0 || r.Total.Rollbacks < 300 || f.count("COMMIT") != 0 {
			t.Errorf("report %+v, %v", r.Total, err)
		}
	})
}

func TestRunLostConnection(t *testing.T) {
	for _, tolerate := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			n := 0
			f := &fakeServer{answer: versionAnd(func(q string) error {
				if n++; n == 100 {
					return mysql.ErrInvalidConn
				}
				return nil
			})}
			r, err := runScripted(t, t.Context(), &scripted{}, []*fakeServer{f},
				RunOptions{Duration: 10 * time.Second, TolerateErrors: tolerate})
			if r.Total.Errors != 1 || len(r.Errors) != 1 {
				t.Errorf("report %+v", r.Total)
			}
			if tolerate && (err != nil || r.Total.Count < 1000) {
				t.Errorf("tolerant run ended with %v after %d transactions", err, r.Total.Count)
			}
			if !tolerate && (!errors.Is(err, mysql.ErrInvalidConn) || r.Total.Count > 100) {
				t.Errorf("run ended with %v after %d transactions", err, r.Total.Count)
			}
		})
	}
}

// TestRunEndsCleanly cancels a run: transactions in flight finish; those that hang are cut after
// the grace period.
func TestRunEndsCleanly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second+time.Microsecond, cancel)
		f := &fakeServer{answer: versionAnd(func(string) error { return nil })}
		r, err := runScripted(t, ctx, &scripted{}, []*fakeServer{f}, RunOptions{ClientsPerTarget: 4})
		if err != nil || r.Total.Errors != 0 || r.Total.Count < 4*1600 || f.count("COMMIT") != int(r.Total.Count) {
			t.Errorf("report %+v, %v, %d commits", r.Total, err, f.count("COMMIT"))
		}
		if r.Elapsed > 5100*time.Millisecond {
			t.Errorf("ended after %v", r.Elapsed)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		f := &fakeServer{answer: versionAnd(func(q string) error {
			if q == "WORK" {
				time.Sleep(time.Second) // longer than the grace period
			}
			return nil
		})}
		r, err := runScripted(t, t.Context(), &scripted{}, []*fakeServer{f},
			RunOptions{Duration: 1500 * time.Millisecond, Grace: 100 * time.Millisecond})
		if err != nil || r.Total.Errors != 0 || r.Total.Count != 1 {
			t.Errorf("report %+v, %v", r.Total, err)
		}
		if d := time.Since(begin); d > 3*time.Second {
			t.Errorf("ended after %v", d)
		}
	})
	synctest.Test(t, func(t *testing.T) { // a client that waits ends at once
		f := &fakeServer{answer: versionAnd(func(string) error { return nil })}
		r, err := runScripted(t, t.Context(), &scripted{keying: time.Hour}, []*fakeServer{f}, RunOptions{Duration: time.Second})
		if err != nil || r.Total.Count != 0 || r.Elapsed > 1100*time.Millisecond {
			t.Errorf("report %+v after %v, %v", r.Total, r.Elapsed, err)
		}
	})
}
