package node

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// ledger is what is looked at of a moment.
const ledgerRows = "SELECT id, v, note FROM bank.acct"

// TestRestoreToAnyMoment: a bank goes on working in three regions, its rows are moved, its tables
// are altered, made and dropped, and a node is killed that writes the log of changes. Restored to
// moments at random, into the same cluster and another one, it is what reads AS OF them show, row
// for row, and nothing is lost or made of the sum. GODWIT_LONG=1 looks at more moments.
func TestRestoreToAnyMoment(t *testing.T) {
	moments := 5
	if os.Getenv("GODWIT_LONG") != "" {
		moments = 20
	}
	bubble(t, func(t *testing.T) { restoreToAnyMoment(t, moments) })
}

// seenAt is what reads AS OF a moment have shown.
type seenAt struct {
	moment string
	rows   []string
	tables []string
	late   bool // there was a column that was added later
}

func restoreToAnyMoment(t *testing.T, moments int) {
	t.Helper()
	dir := t.TempDir()
	l, cs := startBackups(t, 3, dir)
	b := openBank(t, l, cs)
	place := " 'file://" + dir + "/b'"
	log := one(t, cs[2], "BACKUP LOG INTO"+place)[0]
	time.Sleep(6 * time.Second)
	one(t, cs[0], "BACKUP INTO"+place)
	mustExec(t, cs[0], "CREATE TABLE bank.short (id INT PRIMARY KEY, v INT, KEY (v))")
	mustExec(t, cs[0], "INSERT INTO bank.short VALUES (1, 1), (2, 2)")
	r := rand.New(rand.NewPCG(3, 4))
	regions := l.Regions()
	var seen []seenAt
	note := func() {
		t.Helper()
		at := time.Now().UTC().Add(-time.Duration(r.IntN(1_000_000)) * time.Microsecond).Format("2006-01-02 15:04:05.000000")
		s := seenAt{moment: at}
		s.rows = rowsOf(t, cs[0], ledgerRows+" AS OF SYSTEM TIME '"+at+"' ORDER BY id")
		s.tables = rowsOf(t, cs[0], "SELECT COUNT(*), SUM(v) FROM bank.short AS OF SYSTEM TIME '"+at+"'")
		_, err := cs[0].ExecContext(t.Context(), "SELECT COUNT(late) FROM bank.acct AS OF SYSTEM TIME '"+at+"'")
		s.late = err == nil
		seen = append(seen, s)
	}
	for i := range moments {
		time.Sleep(time.Duration(1000+r.IntN(4000)) * time.Millisecond)
		for range 5 {
			_, _ = cs[i%2].ExecContext(t.Context(), fmt.Sprintf("UPDATE bank.acct__homes SET home_region = '%s' WHERE id = %d",
				regions[r.IntN(3)], r.IntN(accounts))) // some lose against transfers
		}
		mustExec(t, cs[0], "INSERT INTO bank.short VALUES (?, ?)", 10+i, i)
		switch i {
		case 1:
			mustExec(t, cs[0], "ALTER TABLE bank.acct ADD COLUMN late INT DEFAULT 5")
		case 2:
			one(t, cs[1], "BACKUP INTO"+place+" WITH INCREMENTAL")
			mustExec(t, cs[0], "ALTER TABLE bank.short SET LOCALITY GLOBAL")
			mustExec(t, cs[1], "CREATE INDEX both_columns ON bank.acct (v, late)")
		case 3:
			if err := l.Nodes()[2].Kill(); err != nil { // it writes the log
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
			mustExec(t, cs[0], "TRUNCATE TABLE bank.short")
		}
		note()
	}
	time.Sleep(time.Minute) // the log is another node's now
	b.close()
	if b.done.Load() < 100 {
		t.Errorf("only %d transfers were made", b.done.Load())
	}
	mustExec(t, cs[0], "UPDATE bank.acct SET v = v + 1 WHERE id = 1")
	mustExec(t, cs[0], "UPDATE bank.acct SET v = v - 1 WHERE id = 2")
	latest := rowsOf(t, cs[0], ledgerRows+" ORDER BY id")
	homes := rowsOf(t, cs[0], "SELECT id, home_region, pinned FROM bank.acct__homes ORDER BY id")
	time.Sleep(10 * time.Second)
	for _, line := range rowsOf(t, cs[0], "SHOW BACKUP LOG FROM"+place) {
		t.Log("log: ", line)
	}
	periods := rowsOf(t, cs[1], "SHOW BACKUP LOG FROM"+place)
	if len(periods) != 1 {
		t.Errorf("the log has gaps: %q", periods)
	}
	to := strings.Split(periods[0], "|")[1]
	if end, err := time.Parse("2006-01-02 15:04:05.000000", to); err != nil || time.Since(end) > 10*time.Second {
		t.Errorf("the log is behind: it ends at %s, %v", to, err)
	}
	other, oc := startBackups(t, 2, dir)
	_ = other
	for i, s := range seen {
		for k, c := range []*sql.Conn{cs[i%2], oc[i%2]} {
			db := fmt.Sprintf("r%d", i)
			one(t, c, "RESTORE DATABASE bank FROM"+place+" AS OF SYSTEM TIME '"+s.moment+"' AS "+db)
			if got := rowsOf(t, c, strings.ReplaceAll(ledgerRows, "bank.", db+".")+" ORDER BY id"); !slices.Equal(got, s.rows) {
				t.Errorf("moment %d, cluster %d: %d rows that differ from the %d AS OF it", i, k, len(got), len(s.rows))
			}
			if sum := one(t, c, "SELECT SUM(v) FROM "+db+".acct")[0]; sum != fmt.Sprint(accounts*deposit) {
				t.Errorf("moment %d, cluster %d: the sum is %s", i, k, sum)
			}
			if got := rowsOf(t, c, "SELECT COUNT(*), SUM(v) FROM "+db+".short"); !slices.Equal(got, s.tables) {
				t.Errorf("moment %d, cluster %d: the other table has %q, want %q", i, k, got, s.tables)
			}
			if got := rowsOf(t, c, "SELECT COUNT(*), SUM(v) FROM "+db+".short FORCE INDEX (v) WHERE v > -1"); !slices.Equal(got, s.tables) {
				t.Errorf("moment %d, cluster %d: the other table has %q by its index, want %q", i, k, got, s.tables)
			}
			if _, err := c.ExecContext(t.Context(), "SELECT COUNT(late) FROM "+db+".acct"); (err == nil) != s.late {
				t.Errorf("moment %d, cluster %d: a column that was added later: %v", i, k, err)
			}
			if !s.late {
				checkIndexes(t, c, db)
			}
		}
	}
	one(t, cs[0], "RESTORE DATABASE bank FROM"+place+" AS latest")
	if got := rowsOf(t, cs[0], "SELECT id, v, note FROM latest.acct ORDER BY id"); !slices.Equal(got, latest) {
		t.Errorf("the latest moment: %d rows, want %d", len(got), len(latest))
	}
	if got := rowsOf(t, cs[0], "SELECT id, home_region, pinned FROM latest.acct__homes ORDER BY id"); !slices.Equal(got, homes) {
		t.Errorf("homes of the latest moment:\n got %q\nwant %q", got, homes)
	}
	rowsOf(t, cs[0], "VERIFY BACKUP"+place)
	refused(t, cs[0], "RESTORE DATABASE bank FROM"+place+" AS OF SYSTEM TIME '1999-01-01' AS x", "no complete backup of 1999-01-01")
	mustExec(t, cs[0], "CANCEL JOB "+log)
}
