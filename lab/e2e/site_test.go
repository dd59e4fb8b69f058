package e2e

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestSite opens the first page of the site that `make site` has built, and all that have pictures
// or drawings, in a browser that can ask nobody but the server of these files: all pictures are
// there, all drawings are drawn, and nothing complains.
func TestSite(t *testing.T) {
	needTime(t)
	root := "../../dist/site"
	if _, err := os.Stat(filepath.Join(root, "index.html")); err != nil {
		t.Skip("the site is not built (make site): it is not tried in a browser")
	}
	files := http.FileServer(http.Dir(root))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// What a page may ask for: scripts, pictures and connections of this server alone.
		w.Header().Set("Content-Security-Policy", "default-src 'self' 'unsafe-inline' data: blob:; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:")
		files.ServeHTTP(w, r)
	}))
	defer server.Close()
	pages, err := filepath.Glob(root + "/*.html")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(root + "/*/*.html")
	if err != nil {
		t.Fatal(err)
	}
	b := openTab(t)
	drawn, pictures := 0, 0
	for _, p := range append(pages, more...) {
		rel, err := filepath.Rel(root, p)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if rel != "index.html" && (rel == "404.html" || !strings.Contains(string(text), "<img ") && !strings.Contains(string(text), `class="mermaid"`)) {
			continue
		}
		var title string
		var wanted, have, images, broken int
		b.do(chromedp.Navigate(server.URL+"/"+filepath.ToSlash(rel)), chromedp.Title(&title),
			chromedp.Evaluate(`document.querySelectorAll(".mermaid").length`, &wanted),
			chromedp.Poll(`document.querySelectorAll("pre.mermaid").length == 0`, nil),
			chromedp.Evaluate(`[...document.querySelectorAll("div.mermaid")].filter(x => x.clientHeight > 40).length`, &have),
			chromedp.Evaluate(`document.images.length`, &images),
			chromedp.Evaluate(`[...document.images].filter(x => x.complete && x.naturalWidth == 0).length`, &broken))
		if !strings.Contains(title, "Godwit") || wanted != have || broken > 0 {
			t.Errorf("%s: title %q, %d of %d drawings, %d of %d pictures are missing", rel, title, have, wanted, broken, images)
		}
		drawn, pictures = drawn+have, pictures+images
	}
	t.Logf("%d pages, %d drawings, %d pictures", len(pages)+len(more), drawn, pictures)
	if drawn < 5 || pictures < 3 || len(pages)+len(more) < 100 {
		t.Errorf("the site has hardly anything: %d drawings, %d pictures, %d pages", drawn, pictures, len(pages)+len(more))
	}
	for _, c := range b.complaints {
		t.Errorf("the browser says: %s", c)
	}
}
