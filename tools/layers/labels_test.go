package layers

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Rules have labels such as OWN-3 or REL-9a. The prefix says where the rule is defined: in a
// section of docs/protocol.md or in a package comment. Everybody else only mentions the label.
var (
	label = regexp.MustCompile(`\b([A-Z]{2,})-(\d+[a-z]?)\b`)
	// In a document: "- **OWN-3** text", or a heading "### REL-9: text".
	definedInDocument = regexp.MustCompile(`^\s*- \*\*([A-Z]{2,}-\d+[a-z]?)\*\* |^##+ ([A-Z]{2,}-\d+[a-z]?): `)
	// In a package comment: an item of a list, or the beginning of an indented block.
	definedInComment = regexp.MustCompile(`^//(?:\t| {3}- )\(?([A-Z]{2,}-\d+[a-z]?)[:)]? `)
	// A label of before prefixes: one letter and a number. Names of transactions (T1) and regions
	// (R1) look alike, so only a number that is said to be a rule counts.
	withoutPrefix = regexp.MustCompile(`(?i:\b(?:rules?|invariants?|protocols?(?:\.md)?),? )[A-Z]\d+[a-z]?\b`)
)

// otherLabels begin like labels and are none.
var otherLabels = []string{"UTF", "FNV", "PL", "SHA", "AES", "BSD"}

// rules collects where labels are defined and mentioned.
type rules struct {
	defined   map[string][]string // places, by label
	files     map[string][]string // files that define labels, by prefix
	mentioned []mention
	problems  []string
}

type mention struct {
	place, prefix, label string
}

func (r *rules) define(p passage, name string) {
	place := fmt.Sprintf("%s:%d", p.file, p.line)
	r.defined[name] = append(r.defined[name], place)
	prefix, _, _ := strings.Cut(name, "-")
	if !slices.Contains(r.files[prefix], p.file) {
		r.files[prefix] = append(r.files[prefix], p.file)
	}
}

func (r *rules) read(p passage) {
	var def []string
	switch p.kind {
	case comment:
		def = definedInComment.FindStringSubmatch(p.text)
	case prose:
		def = definedInDocument.FindStringSubmatch(p.text)
	}
	for _, name := range def[min(1, len(def)):] {
		if name != "" {
			r.define(p, name)
		}
	}
	place := fmt.Sprintf("%s:%d", p.file, p.line)
	for _, m := range label.FindAllStringSubmatch(p.text, -1) {
		r.mentioned = append(r.mentioned, mention{place, m[1], m[0]})
	}
	if m := withoutPrefix.FindString(p.text); m != "" {
		r.problems = append(r.problems, fmt.Sprintf("%s: %q: labels of rules have a prefix, such as OWN-3", place, m))
	}
}

// judge lists what is wrong, in order.
func (r *rules) judge() []string {
	for _, name := range slices.Sorted(maps.Keys(r.defined)) {
		if at := r.defined[name]; len(at) > 1 {
			r.problems = append(r.problems, fmt.Sprintf("%s is defined twice: %s", name, strings.Join(at, ", ")))
		}
	}
	for _, prefix := range slices.Sorted(maps.Keys(r.files)) {
		if in := r.files[prefix]; len(in) > 1 {
			r.problems = append(r.problems, fmt.Sprintf("%s rules are defined in several files: %s", prefix,
				strings.Join(in, ", ")))
		}
	}
	for _, m := range r.mentioned {
		if len(r.defined[m.label]) == 0 && !slices.Contains(otherLabels, m.prefix) {
			r.problems = append(r.problems, fmt.Sprintf("%s: %s is not defined anywhere", m.place, m.label))
		}
	}
	return r.problems
}

func newRules() *rules {
	return &rules{defined: map[string][]string{}, files: map[string][]string{}}
}

// TestLabels: a rule's label is defined once, and one that is mentioned is defined.
func TestLabels(t *testing.T) {
	r := newRules()
	for _, s := range tree(t) {
		if s.generated || strings.HasPrefix(s.file, "tools/layers/") {
			continue
		}
		for _, p := range s.passages {
			r.read(p)
		}
	}
	if len(r.defined) < 100 {
		t.Errorf("only %d rules were found: does the test still read their definitions?", len(r.defined))
	}
	for _, p := range r.judge() {
		t.Error(p)
	}
}

// TestLabelsBite: each kind of mistake is found.
func TestLabelsBite(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []passage
		want  []string
	}{
		{"right", []passage{
			{"docs/protocol.md", 1, "- **TXN-1** Something.", prose},
			{"a/doc.go", 1, "//\tOWN-1 Something that follows from TXN-1.", comment},
			{"a/a.go", 2, "// as OWN-1 asks, in UTF-8", comment},
			{"b/doc.go", 1, "//   - PLAN-1: a list.", comment},
			{"b/b.go", 1, "PLAN-1: broken", literal},
		}, nil},
		{"twice", []passage{
			{"a/doc.go", 1, "//\tOWN-1 Something.", comment}, {"a/doc.go", 9, "//\tOWN-1 Something else.", comment},
		}, []string{"OWN-1 is defined twice: a/doc.go:1, a/doc.go:9"}},
		{"two files", []passage{
			{"a/doc.go", 1, "//\tOWN-1 Something.", comment}, {"b/doc.go", 1, "//\tOWN-2 Something.", comment},
		}, []string{"OWN rules are defined in several files: a/doc.go, b/doc.go"}},
		{"dangling", []passage{{"a/a.go", 7, "// (OWN-4)", comment}}, []string{"a/a.go:7: OWN-4 is not defined anywhere"}},
		{"dangling in a message", []passage{{"a/a.go", 7, "OWN-4: broken", literal}},
			[]string{"a/a.go:7: OWN-4 is not defined anywhere"}},
		{"no prefix", []passage{{"a/a.go", 7, "// by rule F1 of the protocol", comment}},
			[]string{`a/a.go:7: "rule F1": labels of rules have a prefix, such as OWN-3`}},
	} {
		r := newRules()
		for _, p := range c.lines {
			r.read(p)
		}
		if got := r.judge(); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
