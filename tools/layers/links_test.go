package layers

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	linkTo  = regexp.MustCompile(`\]\(([^()\s]+(?:\([^()\s]*\))?[^()\s]*)\)`)
	heading = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	marked  = regexp.MustCompile("`([^`]*)`|\\*\\*([^*]*)\\*\\*|\\[([^]]*)\\]\\([^)]*\\)")
)

// page is a document: where its links lead, by line, and what they may lead to.
type page struct {
	links   map[int][]string
	anchors map[string]bool
}

// pageOf reads a document. What stands in fences and in code is neither.
func pageOf(text string) page {
	p := page{map[int][]string{}, map[string]bool{}}
	fenced := false
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if fenced {
			continue
		}
		if m := heading.FindStringSubmatch(line); m != nil {
			p.anchors[slug(m[1], p.anchors)] = true
		}
		for _, m := range linkTo.FindAllStringSubmatch(regexp.MustCompile("`[^`]*`").ReplaceAllString(line, ""), -1) {
			p.links[i+1] = append(p.links[i+1], m[1])
		}
	}
	return p
}

// slug is a heading's anchor, as GitHub makes it: lower case, words joined by hyphens; a number
// behind one that is taken.
func slug(title string, taken map[string]bool) string {
	for marked.MatchString(title) {
		title = marked.ReplaceAllString(title, "$1$2$3")
	}
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	s := b.String()
	for i, base := 1, s; taken[s]; i++ {
		s = base + "-" + string(rune('0'+i))
	}
	return s
}

// TestLinks: links of documents to other files, and to their headings, lead somewhere.
func TestLinks(t *testing.T) {
	pages := map[string]page{}
	for _, s := range tree(t) {
		if strings.HasSuffix(s.file, ".md") {
			pages[s.file] = pageOf(strings.Join(s.lines, "\n"))
		}
	}
	if len(pages) < 20 {
		t.Fatalf("only %d documents were found", len(pages))
	}
	for file, p := range pages {
		for line, links := range p.links {
			for _, l := range links {
				if why := broken(pages, file, l); why != "" {
					t.Errorf("%s:%d: %s: %s", file, line, l, why)
				}
			}
		}
	}
}

// broken is why a link of a file leads nowhere. Those to other sites are not followed.
func broken(pages map[string]page, file, link string) string {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return ""
	}
	path, anchor, _ := strings.Cut(link, "#")
	to := file
	if path != "" {
		to = filepath.ToSlash(filepath.Join(filepath.Dir(file), path))
	}
	if _, err := os.Stat(filepath.Join(root, to)); err != nil {
		return "there is no such file"
	}
	if anchor != "" && strings.HasSuffix(to, ".md") && !pages[to].anchors[anchor] {
		return "there is no such heading"
	}
	return ""
}

func TestLinksBite(t *testing.T) {
	p := pageOf("# A `b` c\n[x](#a-b-c) `[no](link)`\n```\n[no](link)\n```\n## Same\n## Same\n## What's *new*, here?\n")
	pages := map[string]page{"README.md": p}
	for link, ok := range map[string]bool{"#a-b-c": true, "#same": true, "#same-1": true, "#same-2": false, "#whats-new-here": true,
		"none.md": false, "go.mod": true, "docs": true, "https://example.com/x": true, "README.md#a-b-c": true, "README.md#b": false} {
		if why := broken(pages, "README.md", link); (why == "") != ok {
			t.Errorf("%s: %q", link, why)
		}
	}
	if len(p.links) != 1 || len(p.links[2]) != 1 {
		t.Errorf("links %v", p.links)
	}
}
