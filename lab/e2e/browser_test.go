package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// shotsVar names a folder for pictures of the pages that TestConsoleInABrowser sees; empty: none.
const shotsVar = "GODWIT_E2E_SHOTS"

// tab is a page in a browser that knows nothing of Godwit.
type tab struct {
	t   *testing.T
	ctx context.Context
	mu  sync.Mutex
	// complaints are errors on the browser's console: of scripts, and of what the policy forbids.
	complaints []string
}

func openTab(t *testing.T) *tab {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("no chromium is installed (apt-get install chromium): the console is not tried in a browser")
	}
	opts := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.DisableGPU,
		chromedp.Flag("ignore-certificate-errors", true)) // nodes have certificates of their own authority
	if os.Getuid() == 0 {
		opts = append(opts, chromedp.NoSandbox)
	}
	alloc, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(alloc)
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	chromedp.ListenTarget(ctx, func(ev any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			b.complaints = append(b.complaints, ev.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			// 401 is how a page learns that nobody has logged in, 400 how the page SQL learns of a
			// refused statement.
			refused := strings.Contains(ev.Entry.Text, "400") && strings.HasSuffix(ev.Entry.URL, "/sql")
			if ev.Entry.Level == log.LevelError && !strings.Contains(ev.Entry.Text, "401") && !refused {
				b.complaints = append(b.complaints, ev.Entry.Text+" "+ev.Entry.URL)
			}
		}
	})
	b.do(log.Enable(), chromedp.EmulateViewport(1280, 900))
	return b
}

func (b *tab) do(actions ...chromedp.Action) {
	b.t.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.t.Fatalf("in the browser: %v; it complains: %q", err, b.said())
	}
}

func (b *tab) said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.complaints)
}

// eval is the value of an expression of JavaScript.
func (b *tab) eval(expr string, into any) {
	b.t.Helper()
	b.do(chromedp.Evaluate(expr, into))
}

// await waits until an expression is true.
func (b *tab) await(expr string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	if err := chromedp.Run(ctx, chromedp.Poll(expr, nil, chromedp.WithPollingInterval(50*time.Millisecond),
		chromedp.WithPollingTimeout(0))); err != nil {
		var text string
		_ = chromedp.Run(b.ctx, chromedp.Evaluate("document.body.innerText", &text)) // for the message
		b.t.Fatalf("%s did not come true: %v; the browser complains: %q; it shows\n%s", expr, err, b.said(), text)
	}
}

// look is how a page is looked at.
type look struct {
	theme string
	width int64
}

var looks = []look{{"light", 1280}, {"dark", 1280}, {"light", 390}, {"dark", 390}}

func (b *tab) as(l look) {
	b.t.Helper()
	theme := &emulation.MediaFeature{Name: "prefers-color-scheme", Value: l.theme}
	b.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{theme}),
		chromedp.EmulateViewport(l.width, 900))
	b.await(fmt.Sprintf("document.documentElement.dataset.theme === %q && innerWidth === %d", l.theme, l.width))
}

// fits judges a page at all widths and in both themes, and keeps pictures: nothing is wider than
// the window, no label of the map lies on another, whatever takes the focus has a name, and the
// colours are those of the theme.
func (b *tab) fits(name string) {
	b.t.Helper()
	for _, l := range looks {
		b.as(l)
		var why []string
		b.eval(faultsOfPage, &why)
		for _, w := range why {
			b.t.Errorf("page %s, %s, %d px wide: %s", name, l.theme, l.width, w)
		}
		if dir := os.Getenv(shotsVar); dir != "" {
			var png []byte
			b.do(chromedp.Evaluate("new Promise(r => setTimeout(r, 300))", nil, func(p *runtime.EvaluateParams) *runtime.EvaluateParams {
				return p.WithAwaitPromise(true)
			}), chromedp.CaptureScreenshot(&png))
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%s-%d.png", name, l.theme, l.width)), png, 0o644); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	b.as(looks[0])
}

// faultsOfPage lists what is wrong with how the page looks now.
const faultsOfPage = `(() => {
  const out = [], w = document.documentElement;
  if (w.scrollWidth > innerWidth) out.push('the page is ' + w.scrollWidth + ' px wide');
  const dark = w.dataset.theme === 'dark', back = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
  if ((back[0] < 128) !== dark) out.push('the background is ' + back);
  for (const e of document.querySelectorAll('button, a, input, textarea, select, [tabindex="0"]')) {
    if (!e.getClientRects().length) continue;
    const name = e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.[0]?.textContent.trim();
    if (!name && e.tagName !== 'PRE') out.push('no name: ' + e.outerHTML.slice(0, 80));
  }
  for (const e of document.querySelectorAll('h1, h2, button, nav a')) {
    if (e.getClientRects().length && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline') {
      out.push('cut: ' + e.textContent);
    }
  }
  const names = [...document.querySelectorAll('#world .region text:not(.count):not(.sub)')].map((e) => [e.textContent, e.getBoundingClientRect()]);
  names.forEach(([a, r], i) => names.slice(i + 1).forEach(([c, s]) => {
    if (r.left < s.right - 2 && s.left < r.right - 2 && r.top < s.bottom - 2 && s.top < r.bottom - 2) out.push(a + ' lies on ' + c);
  }));
  for (const e of document.querySelectorAll('section.card')) if (e.textContent.trim().length < 5) out.push('an empty panel');
  return out;
})()`

// login logs in at a console.
func (b *tab) login(url, user, password string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url), chromedp.WaitVisible("#login input[name=user]"),
		chromedp.SendKeys("#login input[name=user]", user))
	if password != "" {
		b.do(chromedp.SendKeys("#login input[name=password]", password))
	}
	b.do(chromedp.Click("#login button"))
}

// pageHas is an expression that is true once the page has a text.
func pageHas(text string) string { return fmt.Sprintf("document.body.innerText.includes(%q)", text) }

// statement has the console's box run a statement.
func (b *tab) statement(q string) {
	b.t.Helper()
	b.do(chromedp.Evaluate("location.hash = '#sql'", nil), chromedp.WaitVisible("#statement"),
		chromedp.SetValue("#statement", q), chromedp.Click("#run"))
	b.await("!document.getElementById('run').disabled && document.querySelector('#result .fine, #result .bad') !== null")
}

// open goes to a page, and waits until all of its tables have been asked for.
func (b *tab) open(page string) {
	b.t.Helper()
	b.do(chromedp.Evaluate("location.hash = '#"+page+"'", nil))
	b.await(fmt.Sprintf("document.querySelector('nav a[aria-current]')?.hash === '#%s' && "+
		"[...document.querySelectorAll('#tables section')].every(s => s.children[2].childElementCount > 0)", page))
}

// column are the cells of a column of a table, from the top.
func (b *tab) column(table, column string) (out []string) {
	b.t.Helper()
	b.eval(fmt.Sprintf("(() => { const s = [...document.querySelectorAll('#tables section, #result section')]"+
		".find(s => s.getAttribute('aria-label') === %q); const i = [...s.querySelectorAll('th')].findIndex(h => h.dataset.c === %q);"+
		"return [...s.querySelectorAll('tbody tr')].map(r => r.cells[i].textContent) })()", table, column), &out)
	return out
}

// texts is a query's first column.
func texts(t *testing.T, db *sql.DB, query string) (out []string) {
	t.Helper()
	rows, err := db.Query(query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestConsoleInABrowser: each page of the console shows what SQL says, at all widths and in both
// themes, without an error in the browser; it treats text as text; and it tells of a node's death.
func TestConsoleInABrowser(t *testing.T) {
	needTime(t)
	b := openTab(t)
	c := startCluster(t, t.TempDir(), 3, 1)
	t.Cleanup(c.kill)
	c.logOnFailure(t)
	db := c.nodes[0].open(t, "")
	const evil = "<script>window.evil = 1</script><img src=x onerror='window.evil = 1'>"
	for _, q := range []string{"CREATE DATABASE shop", "CREATE TABLE shop.carts (id INT PRIMARY KEY, n INT)", "INSERT INTO shop.carts VALUES (7, 1)",
		"CREATE TABLE shop.`<script>` (a TEXT)", "SET CLUSTER SETTING console.places = 'region-a 50 8; region-b 40 -75; region-c 35 139'",
		"CREATE USER reader IDENTIFIED BY 'books'", "GRANT SELECT ON shop.* TO reader"} {
		exec1(t, db, q)
	}
	exec1(t, db, "INSERT INTO shop.`<script>` VALUES (?)", evil)

	url := "https://" + c.nodes[0].addr + "/console/"
	b.do(chromedp.Navigate(url), chromedp.WaitVisible("#login"))
	b.fits("login")
	b.login(url, "reader", "wrong")
	b.await("!document.getElementById('login-error').hidden")
	begin := time.Now()
	b.login(url, "root", "")
	b.await("document.querySelectorAll('#world .region').length === 3 && document.querySelectorAll('#world .arc').length === 3")
	var loaded float64
	b.eval("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd", &loaded)
	t.Logf("the files are there after %.0f ms; with the login by keys, the map after %s", loaded, time.Since(begin).Round(time.Millisecond))

	b.open("map")
	nodes := texts(t, db, "SELECT node FROM godwit.nodes ORDER BY node")
	if got := b.column("Nodes", "node"); !slices.Equal(got, nodes) {
		t.Errorf("nodes %q, SQL says %q", got, nodes)
	}
	groups := texts(t, db, "SELECT name FROM godwit.groups ORDER BY name")
	if got := b.column("Groups and their leaders", "name"); !slices.Equal(slices.Sorted(slices.Values(got)), groups) {
		t.Errorf("groups %q, SQL says %q", got, groups)
	}
	b.traffic(db)
	b.fits("map")
	b.keys()
	b.clicks()
	b.decided(c, db)
	b.plans(db)
	b.open("statements")
	if got, want := b.column("Statements that take turns", "class"), texts(t, db, "SELECT class FROM godwit.admission"); !slices.Equal(
		slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("classes %q, SQL says %q", got, want)
	}
	b.fits("statements")
	b.open("why")
	if got, want := b.column("How transactions cross regions", "mode"), texts(t, db, "SELECT mode FROM godwit.consistency ORDER BY at DESC"); !slices.Equal(got, want) {
		t.Errorf("modes %q, SQL says %q", got, want)
	}
	b.fits("why")
	b.open("health")
	if got := b.column("Clocks", "node"); !slices.Equal(slices.Sorted(slices.Values(got)), nodes) {
		t.Errorf("clocks of %q", got)
	}
	b.signs(db)
	b.fits("health")
	b.box(evil)
	b.death(c, db)
	b.survives(c)
	if said := b.said(); len(said) > 0 {
		t.Errorf("the browser complains: %q", said)
	}
}

// traffic compares what the map says of links and answers with SQL, and colours links by each.
func (b *tab) traffic(db *sql.DB) {
	b.t.Helper()
	const links = "What regions send each other"
	if got, want := slices.Sorted(slices.Values(b.column(links, "from_region"))), texts(b.t, db,
		"SELECT from_region FROM godwit.region_links ORDER BY 1"); len(want) != 6 || !slices.Equal(got, want) {
		b.t.Errorf("links from %q, SQL says %q", got, want)
	}
	if got := b.column(links, "loss"); slices.ContainsFunc(got, func(s string) bool { return !strings.HasSuffix(s, " %") }) {
		b.t.Errorf("loss of links: %q", got)
	}
	const q = "SELECT CONCAT(client_region, ' ', answered_by) FROM godwit.answers ORDER BY 1"
	shown := "(() => { const s = [...document.querySelectorAll('#tables section')].find(s => s.getAttribute('aria-label').startsWith('Where clients'));" +
		"return [...s.querySelectorAll('tbody tr')].map(r => r.cells[0].textContent + ' ' + r.cells[1].textContent).sort().join() })()"
	b.await(fmt.Sprintf("%s === %q", shown, strings.Join(texts(b.t, db, q), ",")))
	b.await(pageHas("Statements of its clients are answered now"))
	for _, colour := range []string{"loss", "bytes", "asked", "rtt"} {
		b.do(chromedp.Evaluate(fmt.Sprintf("(() => { const s = document.getElementById('colour'); s.value = %q; s.dispatchEvent(new Event('change')) })()",
			colour), nil))
		b.await("document.querySelectorAll('#world .arc:not(.r0)').length === 3 && document.querySelectorAll('#legend span').length > 6")
	}
}

// signs compares what the page Health says of certificates, schedules and waits with SQL.
func (b *tab) signs(db *sql.DB) {
	b.t.Helper()
	b.await(pageHas("Nobody waits for a lock."))
	if got, want := b.column("Certificates", "certificate"), texts(b.t, db, "SELECT certificate FROM godwit.certificates"); len(want) != 9 ||
		!slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		b.t.Errorf("certificates %q, SQL says %q", got, want)
	}
	b.await(pageHas("There is no schedule"))
}

// keys goes about without a mouse.
func (b *tab) keys() {
	b.t.Helper()
	b.do(chromedp.Evaluate("document.querySelector('#world .region[data-region=region-c]').focus()", nil), chromedp.KeyEvent("\r"))
	b.await("document.querySelector('#chosen h2')?.textContent === 'region-c' && document.activeElement.dataset.region === 'region-c'")
	b.do(chromedp.Evaluate("document.querySelector('nav a').focus()", nil), chromedp.KeyEvent("\t"), chromedp.KeyEvent("\r"))
	b.await("location.hash === '#statements' && document.activeElement.id === 'main'")
}

// clicks chooses a link, a node and a table where they are shown.
func (b *tab) clicks() {
	b.t.Helper()
	b.open("map")
	b.do(chromedp.Evaluate("document.querySelector('#world .link[data-link=\"region-a – region-c\"] .near').dispatchEvent(new MouseEvent('click', {bubbles: true}))", nil))
	b.await("document.querySelector('#chosen h2')?.textContent === 'region-a – region-c' && " + pageHas("A round trip takes ") + " && " +
		pageHas("Node 3 there is connected with this node."))
	b.do(chromedp.Evaluate("document.querySelector('#world .link[data-link=\"region-a – region-b\"]').focus()", nil), chromedp.KeyEvent("\r"))
	b.await("document.querySelector('#chosen h2')?.textContent === 'region-a – region-b' && document.activeElement.dataset.link === 'region-a – region-b'")
	b.fits("link")
	b.press("[...document.querySelectorAll('#tables section[aria-label=Nodes] td button.plain')].find(x => x.textContent === '2')")
	b.await("document.querySelector('#chosen h2')?.textContent === 'Node 2' && " + pageHas("All of its organs are well.") + " && " + pageHas("in region-b, at"))
	b.fits("node")
	b.open("why")
	b.press("[...document.querySelectorAll('#tables td button.plain')].find(x => x.textContent === 'shop.carts')")
	b.await(pageHas("Table shop.carts") + " && " + pageHas("locality: REGIONAL BY ROW") + " && " + pageHas("INSERT INTO `shop` . `carts`"))
	b.fits("table")
	b.press("[...document.querySelectorAll('#row-out td button.plain')].find(x => x.textContent.startsWith('INSERT INTO `shop` . `carts`'))")
	b.await("location.hash === '#statements' && document.querySelector('#slow pre')?.textContent.startsWith('INSERT INTO `shop` . `carts`')")
}

// decided compares plans of rounds, and nodes that were judged sick, with SQL: one is stopped for a
// moment, several times.
func (b *tab) decided(c *processes, db *sql.DB) {
	b.t.Helper()
	exec1(b.t, db, "CREATE TABLE shop.likes (post INT PRIMARY KEY, n INT) LOCALITY MULTI MASTER")
	sick, plans := "", ""
	for deadline := time.Now().Add(time.Minute); (sick == "" || plans == "") && time.Now().Before(deadline); {
		exec1(b.t, db, "REPLACE INTO shop.likes VALUES (1, 1)") // plans are made for batches
		for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
			if err := c.nodes[1].cmd.Process.Signal(sig); err != nil {
				b.t.Fatal(err)
			}
			time.Sleep(700 * time.Millisecond)
		}
		if err := db.QueryRow("SELECT COALESCE(MAX(why), '') FROM godwit.health_history WHERE to_state = 'sick' AND region = 'region-b'").Scan(&sick); err != nil {
			b.t.Fatal(err)
		}
		if err := db.QueryRow("SELECT COALESCE(MAX(to_plan), '') FROM godwit.plan_history").Scan(&plans); err != nil {
			b.t.Fatal(err)
		}
	}
	if sick == "" || plans == "" {
		b.t.Fatalf("a node that stood still was sick because of %q, and the plans are %q", sick, plans)
	}
	b.open("why")
	b.await(pageHas(sick) + " && " + pageHas(plans))
	b.fits("decided")
}

// plans asks for the plan of a statement whose tables are in the session's database.
func (b *tab) plans(db *sql.DB) {
	b.t.Helper()
	conn, err := db.Conn(b.ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	defer conn.Close()
	for _, q := range []string{"USE shop", "UPDATE carts SET n = n + 1 WHERE id IN (7, 8)"} {
		if _, err := conn.ExecContext(b.ctx, q); err != nil {
			b.t.Fatal(err)
		}
	}
	b.open("statements")
	b.press("[...document.querySelectorAll('#tables td button.plain')].find(x => x.textContent.startsWith('UPDATE `carts`'))")
	b.press("[...document.querySelectorAll('#slow button')].find(x => x.textContent === 'Show its plan')")
	b.await("document.querySelector('#result .plan, #result pre, #result .bad') !== null")
	var plan string
	b.eval("document.getElementById('result').innerText", &plan)
	if b.t.Logf("its plan: %s", plan); !strings.Contains(plan, "rows") || strings.Contains(plan, "1046") {
		b.t.Errorf("the plan of a statement on a table of shop is %s", plan)
	}
	b.do(chromedp.Evaluate("document.querySelector('input[name=database]').value = ''", nil))
	b.statement("SELECT * FROM carts")
	b.await("document.querySelector('#result .bad') !== null") // no database stays from the statement before
}

// box tries the page SQL.
func (b *tab) box(evil string) {
	b.t.Helper()
	b.statement("SELECT a, '<b>bold</b>' AS `<i>` FROM shop.`<script>`")
	if got := b.column("Rows", "a"); !slices.Equal(got, []string{evil}) {
		b.t.Errorf("a text is shown as %q", got)
	}
	b.statement("SHOW TABLES FROM shop")
	b.await(pageHas("<script>"))
	var markup bool
	b.eval("window.evil !== undefined || document.querySelector('#result script, #result img, #result b, #result i') !== null", &markup)
	if markup {
		b.t.Error("a text became markup")
	}
	b.statement("DELETE FROM shop.carts")
	b.await(pageHas("allow changes") + " && document.querySelector('#result .bad') !== null")
	b.do(chromedp.SetValue("#statement", "SELECT n FROM shop.carts WHERE id IN (SELECT id FROM shop.carts)"), chromedp.Click("#explain"))
	b.await("document.querySelectorAll('#result .plan li').length > 2")
	b.fits("sql")
	b.do(chromedp.Click("input[name=changes]"))
	b.statement("INSERT INTO shop.carts VALUES (8, 1)")
	b.await(pageHas("1 rows changed"))
}

// death kills a node, and looks how the pages tell of it.
func (b *tab) death(c *processes, db *sql.DB) {
	b.t.Helper()
	b.open("map")
	c.nodes[2].kill()
	b.await("document.querySelector('#world .region.down')?.dataset.region === 'region-c' && document.querySelector('#problems .bad') !== null")
	var shown []string
	b.open("health")
	b.await("document.querySelector('#problems .bad') !== null")
	b.eval("[...document.querySelectorAll('#problems .bad')].map(p => p.textContent)", &shown)
	if !slices.ContainsFunc(shown, func(s string) bool { return strings.Contains(s, "region-c") || strings.Contains(s, "node 3") }) {
		b.t.Errorf("the problems are %q, and SQL's %q", shown, texts(b.t, db, "SELECT problem FROM godwit.problems"))
	}
	b.fits("health-dead")
	b.open("map")
	b.await("document.querySelector('#world .region.down') !== null")
	b.fits("map-dead")
	b.past(c, db)
}

// past winds the map back to before the node died, by keys, and to what is now. Another node tells
// the same of that time.
func (b *tab) past(c *processes, db *sql.DB) {
	b.t.Helper()
	const dead = "SELECT MIN(at) FROM godwit.moments WHERE state LIKE '%\"dead\"%'"
	at := ""
	for deadline := time.Now().Add(2 * time.Minute); at == "" && time.Now().Before(deadline); time.Sleep(time.Second) {
		if err := db.QueryRow("SELECT COALESCE((" + dead + "), '')").Scan(&at); err != nil {
			b.t.Fatal(err)
		}
	}
	if at == "" {
		b.t.Fatal("no moment was kept after the death")
	}
	const before = "SELECT state FROM godwit.moments WHERE state NOT LIKE '%\"dead\"%' ORDER BY at DESC LIMIT 1"
	for _, n := range c.nodes[:2] {
		if got := texts(b.t, n.open(b.t, ""), before); len(got) != 1 || strings.Count(got[0], "\"live\"") != 3 {
			b.t.Errorf("node at %s tells of the time before: %q", n.addr, got)
		}
	}
	for i := 0; ; i++ {
		b.do(chromedp.Evaluate("document.getElementById('moment').focus()", nil), chromedp.KeyEvent(kb.ArrowLeft))
		b.await(pageHas(" ago.") + " || " + pageHas("Nothing is kept of that time"))
		var live bool
		b.eval("document.querySelectorAll('#world .region').length === 3 && document.querySelector('#world .region.down') === null", &live)
		if live {
			break
		}
		if time.Sleep(300 * time.Millisecond); i > 20 {
			b.t.Fatal("the map does not go back to before the death")
		}
	}
	if got := b.column("Nodes", "state"); !slices.Equal(got, []string{"live", "live", "live"}) {
		b.t.Errorf("before the death the nodes are %q", got)
	}
	b.await("document.querySelectorAll('#world .arc:not(.r0)').length === 3 && !document.getElementById('now').disabled")
	b.fits("map-past")
	b.do(chromedp.Click("#now"))
	b.await("document.querySelector('#world .region.down') !== null && " + pageHas("The map shows what is now."))
}

// survives kills the console's own node: the page says so, and asks for a login once it is back.
func (b *tab) survives(c *processes) {
	b.t.Helper()
	c.nodes[2].start(b.t)
	c.nodes[2].awaitSQL(b.t)
	b.await("document.querySelector('#world .region.down') === null")
	before := b.said()
	c.nodes[0].kill()
	b.await("document.getElementById('status').textContent === 'the node does not answer'")
	c.nodes[0].start(b.t)
	c.nodes[0].awaitSQL(b.t)
	b.await("document.getElementById('login') !== null")
	b.mu.Lock()
	b.complaints = before // that a node does not answer is said by the browser, too
	b.mu.Unlock()
	b.login("https://"+c.nodes[0].addr+"/console/", "reader", "books")
	b.await("document.querySelector('#tables .warn') !== null && " + pageHas("Your user may not see this"))
}

// TestShots takes pictures of a console that runs already, at the address in GODWIT_E2E_CONSOLE.
func TestShots(t *testing.T) {
	url := os.Getenv("GODWIT_E2E_CONSOLE")
	if url == "" {
		t.Skip("GODWIT_E2E_CONSOLE names no console")
	}
	b := openTab(t)
	b.do(chromedp.Navigate(url), chromedp.WaitVisible("#login"))
	b.fits("login")
	b.login(url, "root", "")
	b.await("document.querySelectorAll('#world .region').length >= 3")
	for _, page := range []string{"map", "statements", "why", "health"} {
		b.open(page)
		b.fits(page)
	}
	b.statement("SELECT node, region, state, address, leads FROM godwit.nodes")
	b.fits("sql")
	if said := b.said(); len(said) > 0 {
		t.Errorf("the browser complains: %q", said)
	}
}

// TestAdviceInABrowser: over emulated oceans the page Advice shows what SQL says, and hands the
// statement to the page SQL, where it is executed.
func TestAdviceInABrowser(t *testing.T) {
	needTime(t)
	b := openTab(t)
	console, dbs := startDemo(t, 3, "--workload", "none")
	for _, q := range []string{"CREATE DATABASE shop", "CREATE TABLE shop.prices (id INT PRIMARY KEY, cents INT)",
		"INSERT INTO shop.prices VALUES (1, 100), (2, 200)", "UPDATE shop.prices__homes SET pinned = TRUE"} {
		exec1(t, dbs[0], q)
	}
	for i := range 40 {
		for _, db := range dbs {
			texts(t, db, fmt.Sprintf("SELECT cents FROM shop.prices WHERE id = %d", 1+i%2))
		}
	}
	b.login(console, "root", "")
	b.await("document.querySelectorAll('#world .region').length === 3")
	b.open("advice")
	want := texts(t, dbs[0], "SELECT do_this FROM godwit.advice ORDER BY advice")
	got := b.column("All figures", "do_this")
	for _, all := range [][]string{got, want} { // how old replicas are changes from one look to the next
		for i := range all {
			all[i] = regexp.MustCompile(`staleness = .*`).ReplaceAllString(all[i], "staleness")
		}
	}
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("the page shows %q, SQL %q", got, want)
	}
	b.fits("advice")
	b.take("ALTER TABLE `shop`.`prices` SET LOCALITY GLOBAL")
	var table, locality string
	if err := dbs[1].QueryRow("SHOW LOCALITY FROM shop.prices").Scan(&table, &locality); err != nil || locality != "GLOBAL" {
		t.Errorf("after the advice was taken the locality is %q, %v", locality, err)
	}
	if said := b.said(); len(said) > 0 {
		t.Errorf("the browser complains: %q", said)
	}
}

// TestPlacementAdviceInABrowser: an advice of two statements is taken one by one, as the page SQL
// executes one at a time.
func TestPlacementAdviceInABrowser(t *testing.T) {
	needTime(t)
	b := openTab(t)
	console, dbs := startDemo(t, 5, "--workload", "none")
	for _, q := range []string{"CREATE DATABASE shop", "CREATE TABLE shop.stock (id INT PRIMARY KEY, v INT) LOCALITY REGIONAL BY TABLE IN 'sa-east-1'",
		"INSERT INTO shop.stock VALUES (1, 0), (2, 0)"} {
		exec1(t, dbs[0], q)
	}
	for i := range 60 {
		exec1(t, dbs[4], fmt.Sprintf("UPDATE shop.stock SET v = v + 1 WHERE id = %d", 1+i%2))
	}
	b.login(console, "root", "")
	b.await("document.querySelectorAll('#world .region').length === 5")
	b.open("advice")
	b.take("CREATE PLACEMENT `near_sa_east_1` REGIONS ('sa-east-1', 'us-east-1', 'us-west-2')")
	b.open("advice") // the first step is done, and no more in the advice
	b.take("ALTER TABLE `shop`.`stock` SET PLACEMENT `near_sa_east_1`")
	var table, create string
	if err := dbs[1].QueryRow("SHOW CREATE TABLE shop.stock").Scan(&table, &create); err != nil || !strings.Contains(create, "PLACEMENT `near_sa_east_1`") {
		t.Errorf("after the advice was taken the table is %s, %v", create, err)
	}
	if said := b.said(); len(said) > 0 {
		t.Errorf("the browser complains: %q", said)
	}
}

// take takes a statement of the page Advice to the page SQL, and executes it there.
func (b *tab) take(do string) {
	b.await(fmt.Sprintf("[...document.querySelectorAll('#advice pre')].some(p => p.textContent === %q)", do))
	b.do(chromedp.Evaluate(fmt.Sprintf("[...document.querySelectorAll('#advice pre')].find(p => p.textContent === %q)"+
		".nextElementSibling.querySelector('button').click()", do), nil), chromedp.WaitVisible("#statement"),
		chromedp.Evaluate("document.querySelector('input[name=changes]').checked || document.querySelector('input[name=changes]').click()", nil),
		chromedp.Click("#run"))
	b.await("!document.getElementById('run').disabled && document.querySelector('#result .fine, #result .bad') !== null")
}

// startDemo starts a demo of some regions, and gives its console's address and a client in each
// region.
func startDemo(t *testing.T, regions int, args ...string) (console string, dbs []*sql.DB) {
	t.Helper()
	demo := command(append([]string{"demo", "--regions", strconv.Itoa(regions), "--sql-port", "0", "--http", "127.0.0.1:0", "--for", "5m"}, args...)...)
	var out output
	demo.Stdout, demo.Stderr = &out, &out
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = demo.Process.Kill() // it holds nothing
		_ = demo.Wait()
		if t.Failed() {
			t.Log(out.String())
		}
	})
	console, ports := demoAddresses(t, &out, regions)
	for _, port := range ports {
		db, err := sql.Open("mysql", "root@tcp(127.0.0.1:"+port+")/")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		dbs = append(dbs, db)
	}
	return console, dbs
}

// demoAddresses are what a demo prints: the console's address, and the MySQL port of each region.
func demoAddresses(t *testing.T, out *output, regions int) (console string, ports []string) {
	t.Helper()
	url, port := regexp.MustCompile(`https?://\S+/console/`), regexp.MustCompile(`-P (\d+)`)
	for began := time.Now(); time.Since(began) < patience; time.Sleep(50 * time.Millisecond) {
		console, ports = url.FindString(out.String()), nil
		for _, m := range port.FindAllStringSubmatch(out.String(), -1) {
			ports = append(ports, m[1])
		}
		if console != "" && len(ports) >= regions {
			return console, ports[:regions]
		}
	}
	t.Fatalf("the demo has printed no addresses, but %q", out.String())
	return "", nil
}
