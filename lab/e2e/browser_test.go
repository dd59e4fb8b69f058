package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
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
			// 401 is how a page learns that nobody has logged in.
			if ev.Entry.Level == log.LevelError && !strings.Contains(ev.Entry.Text, "401") {
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

// shoot keeps a picture, in both themes and two widths.
func (b *tab) shoot(name string) {
	b.t.Helper()
	dir := os.Getenv(shotsVar)
	if dir == "" {
		return
	}
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 400} {
			var png []byte
			b.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}),
				chromedp.EmulateViewport(width, 900), chromedp.Evaluate("new Promise(r => setTimeout(r, 300))", nil,
					func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }),
				chromedp.FullScreenshot(&png, 100))
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%s-%d.png", name, theme, width)), png, 0o644); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	b.do(chromedp.EmulateViewport(1280, 900))
}

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

// TestShots takes pictures of a console that runs already, at the address in GODWIT_E2E_CONSOLE.
func TestShots(t *testing.T) {
	url := os.Getenv("GODWIT_E2E_CONSOLE")
	if url == "" {
		t.Skip("GODWIT_E2E_CONSOLE names no console")
	}
	b := openTab(t)
	b.do(chromedp.Navigate(url), chromedp.WaitVisible("#login"))
	b.shoot("login")
	b.login(url, "root", "")
	b.await("document.querySelectorAll('#world .region').length >= 3")
	b.do(chromedp.Sleep(6 * time.Second))
	b.shoot("map")
	for _, page := range []string{"statements", "why", "health"} {
		b.do(chromedp.Evaluate("location.hash = '#"+page+"'", nil), chromedp.Sleep(3*time.Second))
		b.shoot(page)
	}
	b.statement("SELECT node, region, state, address, leads FROM godwit.nodes")
	b.shoot("sql")
	if said := b.said(); len(said) > 0 {
		t.Errorf("the browser complains: %q", said)
	}
}
