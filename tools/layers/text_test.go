package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// root is the module's folder as seen from this package.
const root = "../.."

// A passage is one line of prose: of a comment, of a string literal, of a document or of a script.
type passage struct {
	file string // from the module's folder, with slashes
	line int
	text string
	kind kind
}

type kind int

const (
	comment kind = iota // a line of a Go comment, with its "//"
	literal             // a string literal of Go
	prose               // a line of a document or of a script under testdata
)

// A source is one file of the module that people write or read.
type source struct {
	file      string
	lines     []string
	generated bool
	syntax    *ast.File // of Go files
	passages  []passage
}

var readTree = sync.OnceValues(func() ([]source, error) {
	var tree []source
	err := walk(func(path string) error {
		if !readable(path) {
			return nil
		}
		s, err := readSource(path)
		tree = append(tree, s)
		return err
	})
	return tree, err
})

// walk calls f for the files of the module, without what is built and hidden.
func walk(f func(path string) error) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "bin" || d.Name() == "dist" || d.Name() == "tmp"):
			return filepath.SkipDir
		case d.IsDir():
			return nil
		}
		return f(path)
	})
}

// readable reports whether people read the file as text.
func readable(path string) bool {
	switch ext := filepath.Ext(path); ext {
	case ".go", ".md", ".proto":
		return true
	default:
		return strings.Contains(filepath.ToSlash(path), "/testdata/") && (ext == "" || ext == ".txt")
	}
}

func readSource(path string) (source, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return source{}, err
	}
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return source{}, err
	}
	s := source{file: filepath.ToSlash(rel), lines: strings.Split(string(b), "\n")}
	if filepath.Ext(path) != ".go" {
		for i, l := range s.lines {
			s.passages = append(s.passages, passage{s.file, i + 1, l, prose})
		}
		return s, nil
	}
	fset := token.NewFileSet()
	if s.syntax, err = parser.ParseFile(fset, path, b, parser.ParseComments|parser.SkipObjectResolution); err != nil {
		return s, err
	}
	s.generated = ast.IsGenerated(s.syntax)
	for _, group := range s.syntax.Comments {
		for _, c := range group.List {
			first := fset.Position(c.Pos()).Line
			for i, l := range strings.Split(c.Text, "\n") {
				s.passages = append(s.passages, passage{s.file, first + i, l, comment})
			}
		}
	}
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				s.passages = append(s.passages, passage{s.file, fset.Position(lit.Pos()).Line, text, literal})
			}
		}
		return true
	})
	return s, nil
}

func tree(t *testing.T) []source {
	t.Helper()
	all, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// drawings are the pictures that documents may name.
func drawings(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "docs", "*", "*.svg"))
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(root, "docs", "*.svg"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range append(found, more...) {
		rel, err := filepath.Rel(root, f)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, filepath.ToSlash(rel))
	}
	return names
}
