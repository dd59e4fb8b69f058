package pages

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	rewrite = flag.Bool("rewrite", false, "write what clients get into the pages")
	quiet   = slog.New(slog.DiscardHandler)
)

// folder has the pages.
const folder = "../../docs/statements"

// alone are the pages whose statements change the cluster itself: each has one of its own.
var alone = map[string]bool{"alter-cluster-drop-region.md": true}

// names are the pages' files, but for the index.
func names(t *testing.T) (out []string) {
	t.Helper()
	all, err := filepath.Glob(folder + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if b := filepath.Base(f); b != "README.md" {
			out = append(out, b)
		}
	}
	if len(out) < 60 {
		t.Fatalf("only %d pages were found", len(out))
	}
	return out
}

// worlds is how many clusters share the pages: most of the time is spent waiting.
const worlds = 4

// TestPages executes all pages.
func TestPages(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes longer than ten seconds")
	}
	all := names(t)
	for i := range worlds {
		t.Run(fmt.Sprint("world", i), func(t *testing.T) {
			t.Parallel()
			w := openWorld(t)
			for j := i; j < len(all); j += worlds {
				t.Run(all[j], func(t *testing.T) {
					if alone[all[j]] {
						play(t, openWorld(t), all[j])
						return
					}
					play(t, w, all[j])
				})
			}
		})
	}
}

// play executes a page from its beginning to its end.
func play(t *testing.T, w *world, name string) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := w.clean(ctx); err != nil {
		t.Fatalf("cannot clean up for the page: %v", err)
	}
	path := filepath.Join(folder, name)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	from := home
	c, err := w.client(ctx, from)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ExecContext(ctx, "USE shop"); err != nil {
		t.Fatal(err)
	}
	all := blocks(page)
	var edits []edit
	shown := map[string]bool{}
	for i, b := range all {
		if b.kind == "csv" {
			w.csv = b.text
		}
		if b.kind != "sql" {
			continue
		}
		want, at := "", block{from: b.to + len("```"), to: b.to + len("```")}
		if i+1 < len(all) && all[i+1].kind == "text" {
			want, at = all[i+1].text, all[i+1]
		}
		got := w.block(ctx, t, name, b, want, &from)
		for _, m := range number.FindAllStringSubmatch(got, -1) {
			shown[m[1]] = true
		}
		if shows(want, got) {
			continue
		}
		if *rewrite {
			edits = append(edits, edit{at, got, want == ""})
			continue
		}
		t.Errorf("%s:%d shows\n%s, but clients get\n%s", name, b.line, want, got)
	}
	if *rewrite && len(edits) > 0 {
		if err := os.WriteFile(path, []byte(edited(page, edits)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, errs, _ := strings.Cut(page, "\n## Errors\n")
	errs, _, _ = strings.Cut(errs, "\n## ")
	for _, m := range listed.FindAllStringSubmatch(errs, -1) {
		if !shown[m[1]] {
			t.Errorf("%s: the page lists error %s and shows no statement that gets it", name, m[1])
		}
	}
}

var (
	number = regexp.MustCompile(`(?m)^ERROR (\d+) `)
	listed = regexp.MustCompile(`(?m)^- (\d{4}): `)
)

// block sends the statements of a block, one after the other, and returns all that was shown.
func (w *world) block(ctx context.Context, t *testing.T, name string, b block, want string, from *sender) string {
	t.Helper()
	out := ""
	with := func(got string) string { // what was shown so far, and this
		if out != "" && got != "" {
			return out + "\n" + got
		}
		return out + got
	}
	var pending chan string
	for _, s := range b.steps(from) {
		if s.text == "" {
			t.Fatalf("%s:%d: a statement has no end", name, s.line)
		}
		if s.concurrent {
			pending = make(chan string, 1)
			if _, err := w.client(ctx, sender{s.user, s.at}); err != nil {
				t.Fatal(err)
			}
			go func() { pending <- w.run(ctx, s) }()
			continue
		}
		got := w.run(ctx, s)
		for end := time.Now().Add(30 * time.Second); s.later && !startsWith(want, with(got)) && time.Now().Before(end); got = w.run(ctx, s) {
			time.Sleep(100 * time.Millisecond)
		}
		out = with(got)
	}
	if pending != nil {
		out = with(<-pending)
	}
	return out
}

// startsWith reports whether what a client got so far is how the page begins.
func startsWith(page, got string) bool {
	n := len(strings.Split(strings.TrimRight(got, "\n"), "\n"))
	lines := strings.Split(page, "\n")
	return len(lines) >= n && shows(strings.Join(lines[:n], "\n"), got)
}

// An edit is a block of text that is to be another one; of one that is not there yet, both fences
// are missing.
type edit struct {
	at   block
	text string
	made bool
}

func edited(page string, edits []edit) string {
	for _, e := range slices.Backward(edits) {
		text := e.text
		if e.made {
			text = "\n\n```text\n" + text + "```"
		}
		page = page[:e.at.from] + text + page[e.at.to:]
	}
	return page
}

// TestHarnessBites: a page that does not tell the truth fails.
func TestHarnessBites(t *testing.T) {
	for _, c := range []struct {
		page, got string
		want      bool
	}{
		{"a  b\n1  2\n", "a b\n1   2\n", true},
		{"a  b\n1  2\n", "a b\n1   3\n", false},
		{"a  b\n1  ...\n", "a b\n1   3\n", true},
		{"a\n...\nz\n", "a\nb\nc\nz\n", true},
		{"a\n...\nz\n", "a\nb\nc\n", false},
		{"a\n1\n", "a\n1\n2\n", false},
		{"", "", true},
		{"", "ERROR 1064 (42000): no\n", false},
	} {
		if got := shows(c.page, c.got); got != c.want {
			t.Errorf("%q of %q: %v", c.page, c.got, got)
		}
	}
	from := home
	b := block{1, "sql", "-- as ann in us-east\nSELECT 1; -- one\nDELIMITER //\nCREATE x BEGIN\n  y;\nEND//\nDELIMITER ;\nSELECT\n 2;\n", 0, 0}
	all := b.steps(&from)
	if len(all) != 3 || all[0].text != "SELECT 1" || all[0].user != "ann" || all[1].text != "CREATE x BEGIN\n  y;\nEND" || all[2].at != "us-east" ||
		all[2].line != 8 {
		t.Errorf("%+v", all)
	}
}
