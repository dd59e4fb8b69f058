package e2e

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/go-sql-driver/mysql"
)

// axe-core judges pages by the rules of WCAG. npm gets it, and nothing else of what npm knows.
const (
	axeVersion = "4.11.0"
	axeSum     = "e9e5863c33a874f09bc01acd9234b7e3c871479f5eef8802fa582544465e6d01" // SHA-256
)

// axeSource is the script of axe-core.
func axeSource(t *testing.T) string {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("npm is not installed: axe-core does not judge the pages")
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", dir, "axe-core@"+axeVersion)
	if out, err := c.CombinedOutput(); err != nil {
		t.Skipf("npm does not get axe-core %s, so it does not judge the pages: %v, %.300s", axeVersion, err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != axeSum {
		t.Fatalf("axe-core %s is not the file that it was: SHA-256 is %x", axeVersion, sum)
	}
	return string(b)
}

// judged are the rules: those of WCAG 2.1, levels A and AA, and what axe-core calls good practice.
const judged = `axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'], resultTypes: ['violations']})
  .then(r => r.violations.flatMap(v => v.nodes.map(n => v.id + ' (' + v.impact + '): ' + n.target.join(' ') + ' ' +
    n.failureSummary.replace(/\s+/g, ' ').slice(0, 200))))`

// axe judges a page in both themes and at both widths.
func (b *tab) axe(source, name string) {
	b.t.Helper()
	awaited := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
	for _, l := range looks {
		b.as(l)
		var there bool
		if b.eval("window.axe !== undefined", &there); !there {
			b.do(chromedp.Evaluate(source+"; undefined", nil))
		}
		var faults []string
		b.do(chromedp.Evaluate(judged, &faults, awaited))
		for _, f := range faults {
			b.t.Errorf("page %s, %s, %d px wide: %s", name, l.theme, l.width, f)
		}
	}
	b.as(looks[0])
}

// focusable lists what a page lets users operate, each with a mark of its own.
const focusable = `(() => {
  const all = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')]
    .filter(e => !e.disabled && e.checkVisibility({visibilityProperty: true}) && !e.closest('[hidden]'));
  return all.map((e, i) => e.dataset.tab = e.dataset.tab || (window.tabs = (window.tabs || 0) + 1) + ' ' + (e.getAttribute('aria-label') ||
    e.textContent || e.name || e.id).trim().slice(0, 40));
})()`

// tabbed goes through a page by the key Tab: whatever can be operated gets the focus, in the order
// of the page, shows that it has it, and lets it go again.
func (b *tab) tabbed(name string) {
	b.t.Helper()
	// What is refreshed meanwhile would not be what was listed.
	b.do(chromedp.Evaluate("document.querySelector('.live input')?.checked && document.querySelector('.live input').click(); document.activeElement.blur();"+
		"window.getSelection().removeAllRanges(); scrollTo(0, 0)", nil))
	time.Sleep(300 * time.Millisecond) // an answer that is under way comes
	var want, got []string
	b.eval(focusable, &want)
	if len(want) > 300 {
		b.t.Fatalf("page %s has %d things to operate: this test is for pages with less", name, len(want))
	}
	b.do(chromedp.Focus(".skip"), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(8))) // shift
	const at = "(() => { const e = document.activeElement, s = getComputedStyle(e); return [e.dataset.tab || e.tagName," +
		"s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0 || e.matches('.region:focus-visible, .link:focus-visible') ? 'seen' : s.outlineStyle + s.outlineWidth + e.outerHTML.slice(0, 60)] })()"
	for range len(want) + 2 {
		var now []string
		if b.eval(at, &now); len(got) > 0 && (now[0] == got[0] || now[0] == "BODY") {
			break
		}
		if got = append(got, now[0]); now[1] != "seen" {
			b.t.Errorf("page %s: it is not seen that %q has the focus: %s", name, now[0], now[1])
		}
		b.do(chromedp.KeyEvent(kb.Tab))
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			b.t.Errorf("page %s: the key Tab does not reach %q", name, w)
		}
	}
	if n := len(slices.Compact(slices.Sorted(slices.Values(got)))); n != len(got) {
		b.t.Errorf("page %s: the key Tab goes in a circle: %q", name, got)
	}
	b.do(chromedp.Evaluate("document.querySelector('.live input') && !document.querySelector('.live input').checked && "+
		"document.querySelector('.live input').click()", nil))
}

// TestConsoleIsAccessible: axe-core finds nothing wrong with any page, in either theme and at
// either width, and each page can be used with the keyboard alone.
func TestConsoleIsAccessible(t *testing.T) {
	needTime(t)
	source := axeSource(t)
	b := openTab(t)
	console, dbs := startDemo(t, 3, "--workload", "none")
	for _, q := range []string{"CREATE DATABASE shop", "CREATE TABLE shop.prices (id INT PRIMARY KEY, cents INT)",
		"INSERT INTO shop.prices VALUES (1, 100), (2, 200)", "UPDATE shop.prices__homes SET pinned = TRUE",
		"CREATE TABLE shop.carts (id INT PRIMARY KEY, n INT)", "INSERT INTO shop.carts VALUES (1, 0)"} {
		exec1(t, dbs[0], q)
	}
	for i := range 40 {
		for _, db := range dbs {
			texts(t, db, fmt.Sprintf("SELECT cents FROM shop.prices WHERE id = %d", 1+i%2))
		}
	}
	for range 6 { // a row moves
		exec1(t, dbs[2], "UPDATE shop.carts SET n = n + 1 WHERE id = 1")
	}
	b.do(chromedp.Navigate(console), chromedp.WaitVisible("#login"))
	b.axe(source, "login")
	b.tabbed("login")
	// By keys alone from here on.
	b.do(chromedp.Focus("#login input[name=user]"), chromedp.KeyEvent("root"+kb.Tab+kb.Tab+kb.Enter))
	b.await("document.querySelectorAll('#world .region').length === 3 && document.querySelectorAll('#tables td button.plain').length > 0")
	b.axe(source, "map")
	b.tabbed("map")
	b.focusOn("document.querySelector('#world .link')")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await("document.querySelector('#chosen h2')?.textContent.includes(' – ')")
	b.axe(source, "link")
	b.focusOn("document.querySelector('#tables section[aria-label=Nodes] td button.plain')")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await("document.querySelector('#chosen h2')?.textContent.startsWith('Node ') && " + pageHas("All of its organs are well."))
	b.axe(source, "node")
	b.onward("statements", "document.querySelector('#tables td button.plain') !== null")
	b.focusOn("[...document.querySelectorAll('#tables td button.plain')].find(x => x.textContent.includes('`shop` . `prices`') && x.textContent.includes('SELECT'))")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await("document.querySelector('#slow .advised') !== null")
	b.axe(source, "statements")
	b.tabbed("statements")
	b.onward("advice", "document.querySelector('#advice section') !== null")
	b.axe(source, "advice")
	b.tabbed("advice")
	b.onward("why", "document.querySelector('#tables td button.plain') !== null")
	b.focusOn("document.querySelector('#row input')")
	b.do(chromedp.KeyEvent("shop.carts(1)" + kb.Enter))
	b.await("document.querySelector('#row-out section') !== null")
	b.axe(source, "why")
	b.tabbed("why")
	b.focusOn("[...document.querySelectorAll('#tables td button.plain')].find(x => x.textContent === 'shop.prices')")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await(pageHas("Table shop.prices") + " && document.querySelectorAll('#row-out section').length === 5")
	b.axe(source, "table")
	b.tabbed("table")
	undo := blocked(t, dbs)
	b.onward("health", "document.querySelector('svg.waits') !== null")
	b.axe(source, "health")
	b.tabbed("health")
	undo()
	b.onward("sql", "document.getElementById('statement') !== null")
	b.focusOn("document.getElementById('statement')")
	b.do(chromedp.KeyEvent("SELECT * FROM godwit.nodes"), chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(2)))
	b.await("document.querySelector('#result td') !== null")
	b.axe(source, "sql")
	b.tabbed("sql")
	b.focusOn("document.getElementById('explain')")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await("document.querySelector('#result .plan, #result pre') !== null")
	b.axe(source, "plan")
	b.tabbed("plan")
	b.focusOn("document.getElementById('leave')")
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await("document.getElementById('login') !== null")
	if said := b.said(); len(said) > 0 {
		t.Errorf("the browser complains: %q", said)
	}
}

// focusOn puts the focus where Tab would bring it, which tabbed has shown.
func (b *tab) focusOn(expr string) {
	b.t.Helper()
	b.await("(" + expr + ") != null")
	b.do(chromedp.Evaluate("("+expr+").focus()", nil))
}

// onward goes to a page by its link and the key Enter, and waits until it shows something.
func (b *tab) onward(page, until string) {
	b.t.Helper()
	b.focusOn("document.querySelector('#nav a[href=\"#" + page + "\"]')")
	begin := time.Now()
	b.do(chromedp.KeyEvent(kb.Enter))
	b.await("document.activeElement.id === 'main' && location.hash === '#" + page + "'")
	b.open(page)
	b.t.Logf("page %s is there after %v", page, time.Since(begin).Round(time.Millisecond))
	b.await(until)
}

// blocked has one client wait for another one's lock, until the answer is called.
func blocked(t *testing.T, dbs []*sql.DB) (undo func()) {
	t.Helper()
	holder, err := dbs[0].Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec("UPDATE shop.prices SET cents = 7 WHERE id = 1"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		for {
			_, err := dbs[0].Exec("UPDATE shop.prices SET cents = 8 WHERE id = 1")
			var e *mysql.MySQLError
			if errors.As(err, &e) && (e.Number == 1205 || e.Number == 1213) {
				continue // it has waited for long enough
			}
			done <- err
			return
		}
	}()
	return func() {
		if err := holder.Rollback(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
