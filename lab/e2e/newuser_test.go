package e2e

import (
	"database/sql"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestNewUserInABrowser does what somebody does who sees Godwit for the first time, with the demo
// and by clicks: watch a traveller's rows follow, find why the slowest statement is slow and what
// to do, take the advice, and see the latency fall as predicted.
func TestNewUserInABrowser(t *testing.T) {
	needTime(t)
	t.Run("a traveller's rows follow", rowsFollow)
	t.Run("the slowest statement", slowestStatement)
}

// picture keeps what the browser shows, if somebody wants pictures.
func (b *tab) picture(name string) {
	b.t.Helper()
	dir := os.Getenv(shotsVar)
	if dir == "" {
		return
	}
	var png []byte
	b.do(chromedp.CaptureScreenshot(&png))
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// press clicks on what an expression finds, as a user would who sees it.
func (b *tab) press(expr string) {
	b.t.Helper()
	b.await("(" + expr + ")?.getClientRects().length > 0")
	b.do(chromedp.Evaluate("("+expr+").scrollIntoView({block: 'center'})", nil), chromedp.Evaluate("("+expr+").click()", nil))
}

func rowsFollow(t *testing.T) {
	b := openTab(t)
	console, dbs := startDemo(t, 3, "--workload", "travel", "--users", "12", "--clients", "2", "--stay", "8s")
	begin := time.Now()
	b.login(console, "root", "")
	b.await("document.querySelectorAll('#world .region').length === 3")
	t.Logf("the map is there %v after the login began", time.Since(begin).Round(time.Millisecond))
	// It is between two regions, and not on one of them.
	b.await("[...document.querySelectorAll('#world circle.move[transform]')].some(m => [...document.querySelectorAll('#world .spot')]" +
		".every(s => { const a = m.getBoundingClientRect(), c = s.getBoundingClientRect();" +
		" return Math.hypot(a.x - c.x - c.width / 2, a.y - c.y - c.height / 2) > 40 }))")
	t.Logf("a row moves over the map after %v", time.Since(begin).Round(time.Millisecond))
	b.picture("row-moves")
	row := "[...document.querySelectorAll('#tables section')].find(s => s.getAttribute('aria-label') === 'Rows that moved')" +
		"?.querySelector('td button.plain')"
	b.press(row)
	b.await("location.hash === '#why' && " + pageHas(" lives in "))
	var name, said string
	b.eval("document.getElementById('row').elements.name.value", &name)
	b.eval("document.getElementById('row-out').textContent", &said)
	t.Logf("after %v the console says of %s: %.160s", time.Since(begin).Round(time.Millisecond), name, said)
	var seen bool
	if b.eval("document.getElementById('row-out').getBoundingClientRect().top < innerHeight", &seen); !seen {
		t.Error("the answer is not in sight")
	}
	b.picture("row-life")
	if n := texts(t, dbs[0], "SELECT COUNT(*) FROM godwit.moves WHERE row_name = '"+strings.ReplaceAll(name, "'", "''")+"'"); n[0] == "0" ||
		!strings.Contains(name, "travel.carts") && !strings.Contains(name, "travel.ledger") {
		t.Errorf("row %s, of which SQL knows %s moves", name, n)
	}
	// A lead is a diamond.
	b.press("document.querySelector('#nav a[href=\"#map\"]')")
	b.await("document.querySelectorAll('#world .region').length === 3")
	addr := regexp.MustCompile(`//([^/]+)/`).FindStringSubmatch(console)[1]
	if status, _, errs := godwit(t, "leader", "move", "s1@r1", "2", "--insecure", "--addr", addr); status != 0 {
		t.Fatalf("status %d: %s", status, errs)
	}
	b.await("document.querySelector('#world path.move[transform]') !== null")
	b.picture("lead-moves")
	if said := b.said(); len(said) > 0 {
		t.Errorf("the browser complains: %q", said)
	}
}

// sell is what the clients of a region do, four at once.
func sell(t *testing.T, db *sql.DB, each int) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range each {
				if _, err := db.Exec(fmt.Sprintf("UPDATE shop.stock SET n = n - 1 WHERE id = %d", 10*i+j%10)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func slowestStatement(t *testing.T) {
	b := openTab(t)
	console, dbs := startDemo(t, 3, "--workload", "none")
	var rows []string
	for i := range 40 {
		rows = append(rows, fmt.Sprintf("(%d, 1000)", i))
	}
	for _, q := range []string{"CREATE DATABASE shop", "CREATE TABLE shop.stock (id INT PRIMARY KEY, n INT)",
		"INSERT INTO shop.stock VALUES " + strings.Join(rows, ", "), "UPDATE shop.stock__homes SET pinned = TRUE"} {
		exec1(t, dbs[0], q)
	}
	sell(t, dbs[2], 40)
	begin := time.Now()
	b.login(console, "root", "")
	b.press("document.querySelector('#nav a[href=\"#statements\"]')")
	// The statement that took most stands first.
	b.press("document.querySelector('#tables td button.plain')")
	b.await("document.querySelector('#slow .advised') !== null")
	var text, why string
	b.eval("document.querySelector('#slow pre').textContent", &text)
	b.eval("document.querySelector('#slow p').textContent", &why)
	t.Logf("after %v the console says of %s: %s", time.Since(begin).Round(time.Millisecond), text, why)
	if !strings.Contains(text, "`shop` . `stock`") || !strings.Contains(why, "2.0 round trips to other regions") {
		t.Errorf("the slowest statement is %s: %s", text, why)
	}
	b.elsewhere(dbs[0])
	b.fits("slow")
	var region string
	var was, promised float64
	if err := dbs[0].QueryRow("SELECT region, p50_ms, p50_ms_after FROM godwit.advice WHERE table_name = 'shop.stock' AND "+
		"do_this LIKE '%REGIONAL BY TABLE%' ORDER BY statements DESC").Scan(&region, &was, &promised); err != nil {
		t.Fatal(err)
	}
	b.press("[...document.querySelectorAll('#slow .advised')].find(d => d.textContent.includes('REGIONAL BY TABLE')).querySelector('button')")
	b.press("document.querySelector('input[name=changes]')")
	b.press("document.getElementById('run')")
	b.await("!document.getElementById('run').disabled && document.querySelector('#result .fine') !== null")
	t.Logf("the advice was taken %v after the login began", time.Since(begin).Round(time.Millisecond))
	b.picture("advice-taken")
	sell(t, dbs[2], 5)
	for _, db := range dbs {
		exec1(t, db, "TRUNCATE TABLE performance_schema.events_statements_summary_by_digest")
	}
	sell(t, dbs[2], 40)
	b.press("document.querySelector('#nav a[href=\"#statements\"]')")
	b.await("document.querySelector('#tables td button.plain')?.textContent.includes('`shop` . `stock`')")
	b.picture("after-advice")
	var now float64
	if err := dbs[0].QueryRow("SELECT p50_ms FROM godwit.statements WHERE region = ? AND digest_text LIKE 'UPDATE `shop`%'", region).Scan(&now); err != nil {
		t.Fatal(err)
	}
	t.Logf("median of the updates in %s: %.1f ms, promised %.1f, is now %.1f (%+.0f %%)", region, was, promised, now, 100*(now-promised)/promised)
	// How busy the machine is adds to both, so no more is demanded than that most of it came.
	if !(was-now > (was-promised)/2) || math.IsNaN(now) {
		t.Errorf("the median was %.1f ms, and is %.1f where %.1f was promised", was, now, promised)
	}
	b.press("document.querySelector('#tables td button.plain')")
	b.press("[...document.querySelectorAll('#slow button')].find(x => x.textContent === 'Show its plan')")
	b.await("document.querySelector('#result .plan, #result pre') !== null")
	b.picture("plan")
	if said := b.said(); len(said) > 0 {
		t.Errorf("the browser complains: %q", said)
	}
}

// elsewhere compares what the page says of other regions with SQL: there has nobody executed it.
func (b *tab) elsewhere(db *sql.DB) {
	b.t.Helper()
	want := texts(b.t, db, "SELECT CONCAT_WS('|', region, other_region) FROM godwit.elsewhere WHERE digest_text LIKE 'UPDATE `shop`%' ORDER BY region, avg_ms_there")
	var got, figures []string
	const cells = "[...document.querySelectorAll('#slow [aria-label=\"What it would cost from other regions\"] tbody tr')]"
	b.eval(cells+".map(r => r.cells[0].textContent + '|' + r.cells[1].textContent)", &got)
	b.eval(cells+".map(r => r.cells[2].textContent + ' ' + r.cells[3].textContent + ' ' + r.cells[5].textContent)", &figures)
	if len(want) != 2 || !slices.Equal(got, want) {
		b.t.Errorf("from other regions: %q, SQL says %q", got, want)
	}
	b.t.Logf("statements there, medians and round trips from other regions: %q", figures)
	// Where the rows live the same statement makes one trip instead of two.
	if len(figures) == 0 || !strings.HasPrefix(figures[0], "0 ") || !strings.HasSuffix(figures[0], "2 → 1") {
		b.t.Errorf("from the region where the rows live: %q", figures)
	}
}
