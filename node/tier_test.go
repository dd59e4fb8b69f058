package node

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestConsistencyMode: sessions choose how they cross regions; those that do not follow the cluster
// setting, and with auto the gateway chooses by what its transactions do.
func TestConsistencyMode(t *testing.T) { bubble(t, consistencyMode) }

func consistencyMode(t *testing.T) {
	t.Helper()
	l := startLocal(t, 3, 1)
	a, b := openSQL(t, l.Nodes()[0], ""), openSQL(t, l.Nodes()[1], "")
	mustExec(t, a, "CREATE DATABASE d")
	mustExec(t, a, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
	mustExec(t, a, "SET CLUSTER SETTING home.mode = 'never'")
	mustExec(t, a, "INSERT INTO d.t VALUES (1,0),(2,0)")
	mustExec(t, b, "INSERT INTO d.t VALUES (101,0),(102,0)")
	crossed := func() int64 { return l.Nodes()[0].db.Stats().Crossed.Load() }
	tx := func(c *sql.Conn, ids ...int) {
		t.Helper()
		until(t, "a transaction", func() string {
			for _, q := range append(append([]string{"BEGIN"}, updates(ids)...), "COMMIT") {
				if _, err := c.ExecContext(t.Context(), q); err != nil {
					return err.Error()
				}
			}
			return ""
		})
	}
	expect := func(what string, c *sql.Conn, relay bool) {
		t.Helper()
		before := crossed()
		tx(c, 1, 101)
		if got := crossed() > before; got != relay {
			t.Errorf("%s: crosses in a tier of its own: %v, want %v", what, got, relay)
		}
	}
	mode := func() string {
		return strings.Join(column(t, a, "SELECT setting, mode FROM godwit.consistency WHERE in_force"), ";")
	}
	if got := column(t, a, "SELECT @@transaction_consistency"); got[0] != "CLUSTER" {
		t.Errorf("a new session is %s", got)
	}
	if got := mode(); got != "auto|relay" {
		t.Errorf("at the start: %s", got)
	}
	expect("the default", a, true)
	mustExec(t, a, "SET CLUSTER SETTING transaction.tier = 'strict'")
	expect("the cluster's strict", a, false)
	mustExec(t, a, "SET transaction_consistency = 'relay'")
	expect("a session's relay", a, true)
	mustExec(t, a, "SET CLUSTER SETTING transaction.tier = 'relay'")
	mustExec(t, a, "SET transaction_consistency = 'strict'")
	expect("a session's strict", a, false)
	mustExec(t, a, "SET transaction_consistency = DEFAULT")
	expect("the cluster's relay", a, true)
	for _, bad := range []string{"transaction.tier = 'both'", "transaction.tier_below = 0.9",
		"transaction.tier_window = '1ms'", "transaction.tier_least = 0"} {
		if _, err := a.ExecContext(t.Context(), "SET CLUSTER SETTING "+bad); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
	mustExec(t, a, "SET CLUSTER SETTING transaction.tier_window = '200ms'")
	mustExec(t, a, "SET CLUSTER SETTING transaction.tier_least = 4")
	mustExec(t, a, "SET CLUSTER SETTING transaction.tier = 'auto'")
	if got := mode(); got != "auto|relay" {
		t.Errorf("auto begins with %s", got)
	}
	until(t, "the majority crosses", func() string {
		if tx(a, 1, 101); mode() != "auto|strict" {
			return mode()
		}
		return ""
	})
	expect("auto, the majority crosses", a, false)
	until(t, "the majority stays", func() string {
		if tx(a, 1, 2); mode() != "auto|relay" {
			return mode()
		}
		return ""
	})
	why := column(t, a, "SELECT mode, why LIKE '%transactions cross regions%', transactions >= 4, "+
		"crossing FROM godwit.consistency WHERE setting = 'auto' AND transactions > 0 ORDER BY at")
	if len(why) < 2 || !strings.HasPrefix(why[0], "strict|1|1|") || !strings.HasPrefix(why[1], "relay|1|1|") {
		t.Errorf("godwit.consistency: %q", why)
	}
}

func updates(ids []int) (out []string) {
	for _, id := range ids {
		out = append(out, fmt.Sprintf("UPDATE d.t SET v = v + 1 WHERE id = %d", id))
	}
	return out
}

// TestLocksShowTiers: who holds and who waits, in which tier and of what age.
func TestLocksShowTiers(t *testing.T) { bubble(t, locksShowTiers) }

func locksShowTiers(t *testing.T) {
	t.Helper()
	l := startLocal(t, 2, 1)
	a, b, watch := openSQL(t, l.Nodes()[0], ""), openSQL(t, l.Nodes()[0], ""), openSQL(t, l.Nodes()[0], "")
	mustExec(t, a, "CREATE DATABASE d")
	mustExec(t, a, "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
	mustExec(t, a, "INSERT INTO d.t VALUES (1,0)")
	mustExec(t, a, "BEGIN")
	mustExec(t, a, "UPDATE d.t SET v = 1 WHERE id = 1")
	time.Sleep(time.Second) // the holder grows old
	done := make(chan error, 1)
	go func() {
		_, err := b.ExecContext(t.Context(), "UPDATE d.t SET v = 2 WHERE id = 1")
		done <- err
	}()
	until(t, "a holder and a waiter", func() string {
		got := column(t, watch, "SELECT granted, COUNT(*) > 0, MIN(tier), MAX(tier), MIN(age_ms) >= 0, "+
			"COUNT(DISTINCT txn) FROM godwit.locks WHERE mode = 'exclusive' GROUP BY granted ORDER BY granted")
		if strings.Join(got, " ") != "0|1|irt|irt|1|1 1|1|irt|irt|1|1" {
			return strings.Join(got, " ")
		}
		return ""
	})
	// The waiter gives up after 100 ms, since it waits for an older transaction, and its statement
	// is executed again. So it does not wait at every instant.
	until(t, "the holder is older than who waits for it", func() string {
		if got := column(t, watch, "SELECT COUNT(*) FROM godwit.locks h JOIN godwit.locks w ON h.span = w.span AND "+
			"h.granted AND NOT w.granted AND h.txn <> w.txn AND h.age_ms > w.age_ms"); got[0] == "0" {
			return "none is"
		}
		return ""
	})
	mustExec(t, a, "COMMIT")
	if err := <-done; err != nil {
		t.Error(err)
	}
	until(t, "no lock", func() string {
		if got := column(t, watch, "SELECT COUNT(*) FROM godwit.locks"); got[0] != "0" {
			return got[0] + " are left"
		}
		return ""
	})
}
