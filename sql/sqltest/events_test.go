package sqltest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/sql/schema"
)

// TestEventsOfDeadNodes: an execution that a node has claimed is run by another one if that node
// dies before it began, and by nobody if it dies later.
func TestEventsOfDeadNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4, "eu", "us")
		defer w.close()
		a := w.clients["a"]
		a.run("CREATE TABLE log (what VARCHAR(40))", flags{})
		db, ctx := w.names.db.Gateway(1), context.Background()
		claimed := func(name string, began bool) {
			t.Helper()
			spec, _ := json.Marshal(&schema.EventTask{DB: "test", Name: name, Definer: schema.Account{Name: "root", Host: "%"},
				Body: fmt.Sprintf("INSERT INTO log VALUES ('%s')", name)})
			l, err := job.Create(ctx, db, job.Record{Kind: "EVENT", What: "test." + name, User: "root", Spec: spec})
			if err != nil {
				t.Fatal(err)
			}
			if began {
				if err := l.Checkpoint(map[string]bool{"begun": true}); err != nil {
					t.Fatal(err)
				}
				if err := l.Renew(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		claimed("fresh", false)
		time.Sleep(time.Millisecond)
		claimed("old", true)
		a.run("CREATE EVENT sleeps ON SCHEDULE AT CURRENT_TIMESTAMP DO BEGIN INSERT INTO log VALUES ('sleeps'); DO SLEEP(10000); "+
			"INSERT INTO log VALUES ('awake'); END", flags{})
		time.Sleep(10 * time.Second)
		all, err := job.List(ctx, db)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			if r.What == "test.sleeps" {
				a.run(fmt.Sprintf("CANCEL JOB %d", r.ID), flags{})
			}
		}
		time.Sleep(time.Minute)
		if got := a.run("SELECT what FROM log ORDER BY what", flags{}); got != "fresh\nsleeps" {
			t.Errorf("executed: %q", got)
		}
		if all, err = job.List(ctx, db); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, r := range all {
			got += fmt.Sprintf("%s %s %s\n", r.What, r.State, r.Error)
		}
		if want := "test.old failed the node that ran it has stopped: it is not known how far it came\ntest.sleeps canceled \n"; got != want {
			t.Errorf("jobs:\n%swant:\n%s", got, want)
		}
	})
}

// TestEventsOnce: with many nodes that look, each time an event is due it is run once.
func TestEventsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4, "eu", "us", "as")
		defer w.close()
		a := w.clients["a"]
		a.run("CREATE TABLE log (what VARCHAR(40), n INT)", flags{})
		for i := range 10 {
			a.run(fmt.Sprintf("CREATE EVENT e%d ON SCHEDULE EVERY %d SECOND DO INSERT INTO log VALUES ('e%d', 1)", i, i+1, i), flags{})
		}
		// The clock stands between two ticks, so that all executions have ended.
		time.Sleep(60*time.Second + 500*time.Millisecond)
		synctest.Wait()
		got := a.run("SELECT what, COUNT(*) FROM log GROUP BY what ORDER BY what", flags{})
		for i, line := range strings.Split(got, "\n") {
			times := 60/(i+1) + 1
			if i == 0 {
				times = 60 // the first time is over when a node first looks
			}
			if want := fmt.Sprintf("e%d|%d", i, times); line != want {
				t.Errorf("%s, want %s", line, want)
			}
		}
		all, err := job.List(context.Background(), w.names.db.Gateway(1))
		if err != nil || len(all) != 0 {
			t.Errorf("%d jobs are left of executions that succeeded, %v", len(all), err)
		}
	})
}
