package regex

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestMatches compares matches with those that Python's module re found, through strings and
// through the reader.
func TestMatches(t *testing.T) {
	file, err := os.ReadFile("testdata/matches.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(file)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 3 {
			continue
		}
		for _, groups := range []bool{false, true} {
			for _, size := range []int{0, 2 * direct} {
				p, err := Compile(f[0], "", groups)
				if err != nil {
					t.Fatal(f[0], err)
				}
				if size > 0 {
					p.size, p.Ask = size, func() error { return nil }
				}
				if got := all(t, p, f[1]); got != f[2] {
					t.Errorf("%s in %q, groups %v, size %d: %q, not %q", f[0], f[1], groups, size, got, f[2])
				}
				n++
			}
		}
	}
	if n < 1000 {
		t.Errorf("%d searches", n)
	}
}

func all(t *testing.T, p *Pattern, text string) string {
	t.Helper()
	var out []string
	for from, ok := 0, true; ok; {
		m, err := p.Find(text, from)
		if err != nil {
			t.Fatal(err)
		}
		if m == nil {
			break
		}
		out = append(out, fmt.Sprintf("%d-%d", m[0], m[1]))
		from, ok = After(text, m)
	}
	return strings.Join(out, " ")
}

// TestInterrupted: a search ends when it is told to, wherever it is.
func TestInterrupted(t *testing.T) {
	p, err := Compile(strings.Repeat("a?", 20000)+"b", "", false)
	if err != nil {
		t.Fatal(err)
	}
	asked, stop := 0, errors.New("stop")
	p.Ask = func() error {
		if asked++; asked > 3 {
			return stop
		}
		return nil
	}
	if m, err := p.Find(strings.Repeat("a", 60_000_000), 0); m != nil || err != stop || asked != 4 {
		t.Errorf("%v, %v, asked %d times", m, err, asked)
	}
}

// TestRefused: patterns that are wrong, or whose searches would take much memory.
func TestRefused(t *testing.T) {
	for pattern, want := range map[string]error{
		"": ErrEmpty, "(a": ErrParen, "a)": ErrParen, "[a": ErrBracket, "*": ErrSyntax, "a)(b": ErrParen, `\`: ErrSyntax,
		strings.Repeat("(a?)", 16000):                               ErrTooBig,
		"(" + strings.Repeat("a{1000}", 70) + ")":                   ErrTooBig,
		strings.Repeat("(", 2000) + "a" + strings.Repeat(")", 2000): ErrTooBig,
		"((a{1,1000}){1,1000})":                                     ErrTooBig,
	} {
		if _, err := Compile(pattern, "", true); !errors.Is(err, want) {
			t.Errorf("%.40q: %v, not %v", pattern, err, want)
		}
	}
	if p, err := Compile("(a)(b)", "i", false); err != nil || p.Groups() != 0 {
		t.Error("groups that nobody asks for", err)
	}
}

// FuzzFind: no pattern breaks the program, and both ways of reading find the same.
func FuzzFind(f *testing.F) {
	f.Add("a*b|^c", "aab c", true)
	f.Add(`(\b.)+$`, "aä \n", false)
	f.Fuzz(func(t *testing.T, pattern, text string, groups bool) {
		if len(pattern) > 100 || len(text) > 100 {
			return
		}
		p, err := Compile(pattern, "", groups)
		if err != nil {
			return
		}
		q, err := Compile(pattern, "", groups)
		if err != nil {
			t.Fatal(err)
		}
		q.size, q.Ask = 2*direct, func() error { return nil }
		if a, b := all(t, p, text), all(t, q, text); a != b {
			t.Errorf("%q in %q: %s and %s", pattern, text, a, b)
		}
	})
}
