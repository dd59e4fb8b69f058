package layers

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"
)

// Widths, with a tab as 4 columns.
const (
	maxComment  = 100
	maxDocument = 120
	tab         = 4
)

// fileName is what looks like the name of a file of this module in a text.
var fileName = regexp.MustCompile(`[\w./*-]*\w\.(?:go|md|proto|svg)\b`)

// Files by the names that texts may call them.
type files struct {
	all       map[string]bool
	byBase    map[string][]string
	documents map[string]bool // folders of documents, in which doc.go means any package's
}

func filesOf(names []string) files {
	f := files{map[string]bool{}, map[string][]string{}, map[string]bool{}}
	for _, n := range names {
		f.all[n] = true
		if path.Ext(n) == ".md" {
			f.documents[path.Dir(n)] = true
		}
		f.byBase[path.Base(n)] = append(f.byBase[path.Base(n)], n)
	}
	return f
}

// named reports why a name that a text of a folder gives does not lead to one file: "" if it does.
// A name leads there from the text's folder or from the module's, and one without folders also if
// there is only one such file.
func (f files) named(name, folder string) string {
	name = strings.TrimPrefix(name, "./")
	if f.all[path.Join(folder, name)] || f.all[name] {
		return ""
	}
	if strings.Contains(name, "/") {
		return "there is no such file"
	}
	switch found := f.byBase[name]; {
	case len(found) == 0:
		return "there is no such file"
	case len(found) == 1 || name == "doc.go" && f.documents[folder]:
		return ""
	default:
		return "name its folder: there are " + strings.Join(found, ", ")
	}
}

// elsewhere reports whether a name is not one of this module's files: part of an address or of a
// pattern, or a library's.
func elsewhere(name, before string) bool {
	return strings.HasPrefix(name, ".") || strings.ContainsAny(name, "*") || strings.Contains(name, "//") ||
		strings.HasPrefix(name, "github.com/") || strings.HasPrefix(name, "go.etcd.io/") || name == "_test.go" ||
		strings.HasSuffix(before, ":") || strings.HasSuffix(before, "$") || strings.HasSuffix(before, "<") ||
		strings.HasSuffix(before, ">")
}

// TestFileNames: a comment or document that names a file names one that exists.
func TestFileNames(t *testing.T) {
	all := tree(t)
	var names []string
	for _, s := range all {
		names = append(names, s.file)
	}
	names = append(names, drawings(t)...)
	known := filesOf(names)
	for _, s := range all {
		if s.generated || strings.HasPrefix(s.file, "tools/layers/") {
			continue
		}
		for _, p := range s.passages {
			if p.kind == literal {
				continue
			}
			for _, at := range fileName.FindAllStringIndex(p.text, -1) {
				name := p.text[at[0]:at[1]]
				if elsewhere(name, p.text[:at[0]]) || s.file == "docs/README.md" {
					continue
				}
				if why := known.named(name, path.Dir(s.file)); why != "" {
					t.Errorf("%s:%d names %s: %s", p.file, p.line, name, why)
				}
			}
		}
	}
}

func TestFileNamesBite(t *testing.T) {
	known := filesOf([]string{"a/doc.go", "a/x.go", "b/doc.go", "docs/design.md"})
	for _, c := range []struct {
		name, folder string
		right        bool
	}{
		{"x.go", "a", true}, {"x.go", "b", true}, {"doc.go", "b", true}, {"docs/design.md", "a", true},
		{"a/x.go", "b", true}, {"doc.go", "docs", true},
		{"doc.go", "c", false}, {"y.go", "a", false}, {"sim/x.go", "a", false}, {"design.go", "docs", false},
	} {
		if why := known.named(c.name, c.folder); (why == "") != c.right {
			t.Errorf("%s in %s: %q", c.name, c.folder, why)
		}
	}
}

func width(line string) int {
	w := 0
	for _, r := range line {
		if r == '\t' {
			w += tab
		} else {
			w++
		}
	}
	return w
}

// TestCommentWidth: lines that are comments, and nothing else, are at most 100 columns wide.
func TestCommentWidth(t *testing.T) {
	for _, s := range tree(t) {
		if s.generated {
			continue
		}
		for _, p := range s.passages {
			if line := s.lines[p.line-1]; p.kind == comment && tooWideComment(line) {
				t.Errorf("%s:%d is %d columns wide, more than %d", s.file, p.line, width(line), maxComment)
			}
		}
	}
}

// tooWideComment leaves out directives and addresses, which cannot be broken.
func tooWideComment(line string) bool {
	text := strings.TrimLeft(line, "\t ")
	words := strings.Fields(text)
	return width(line) > maxComment && strings.HasPrefix(text, "// ") && len(words) > 2
}

// address is a link or a literal that cannot be broken.
var address = regexp.MustCompile(`\]\([^)]*\)|https?://\S+`)

// TestDocumentWidth: lines of documents are at most 120 columns wide, but for tables, blocks of
// code and lines that are too wide because of an address.
func TestDocumentWidth(t *testing.T) {
	for _, s := range tree(t) {
		if path.Ext(s.file) != ".md" {
			continue
		}
		code := false
		for i, line := range s.lines {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			exempt := code || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "    ")
			if !exempt && width(address.ReplaceAllString(line, "")) > maxDocument {
				t.Errorf("%s:%d is %d columns wide, more than %d", s.file, i+1, width(line), maxDocument)
			}
		}
	}
}

// houseWords are not used in comments or names: the field has its own. See docs/glossary.md.
var houseWords = []struct {
	word *regexp.Regexp
	say  string
}{
	{word("pulses?"), "heartbeat"},
	{word("bequests?|bequeaths?|bequeathed"), "lease transfer entry"},
	{word("heirs?"), "transfer target"},
	{word("heritage"), "transferred state"},
	{word("doors?"), "fan-out proxy"},
	{word("circles?"), "cycle, deadlock"},
}

func word(pattern string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(?:` + pattern + `)\b`) }

// parts splits an identifier at its capitals.
var parts = regexp.MustCompile(`[A-Z]?[a-z0-9]+|[A-Z]+`)

func houseWordIn(text string) string {
	for _, h := range houseWords {
		if m := h.word.FindString(text); m != "" {
			return fmt.Sprintf("%q: the field says %s", m, h.say)
		}
	}
	return ""
}

// TestHouseWords: the field's words are used in comments, documents and names.
func TestHouseWords(t *testing.T) {
	for _, s := range tree(t) {
		if s.generated || strings.HasPrefix(s.file, "tools/layers/") {
			continue
		}
		for _, p := range s.passages {
			if why := houseWordIn(p.text); why != "" && p.kind != literal {
				t.Errorf("%s:%d: %s", p.file, p.line, why)
			}
		}
		if s.syntax != nil {
			checkNames(t, s)
		}
	}
}

func checkNames(t *testing.T, s source) {
	seen := map[string]bool{}
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if seen[n.Name] {
				return true
			}
			seen[n.Name] = true
			if why := houseWordIn(strings.Join(parts.FindAllString(n.Name, -1), " ")); why != "" {
				t.Errorf("%s: the name %s has %s", s.file, n.Name, why)
			}
		}
		return true
	})
}

func TestHouseWordsBite(t *testing.T) {
	for _, text := range []string{"// the heir's log", "a pulse", "next Pulse Interval", "Circles"} {
		if houseWordIn(text) == "" {
			t.Errorf("%q has a house word", text)
		}
	}
	for _, text := range []string{"// an impulse", "their", "circled", "indoors"} {
		if why := houseWordIn(text); why != "" {
			t.Errorf("%q: %s", text, why)
		}
	}
}
