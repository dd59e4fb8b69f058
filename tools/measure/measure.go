package main

import (
	"bytes"
	"cmp"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A function is long, or complex, above these.
const (
	longFunction    = 80
	complexFunction = 15
)

// A Report has the figures of a tree.
type Report struct {
	RootFolders []string  `json:"root_folders"` // those with code or documents in them
	Packages    []Package `json:"packages"`     // in order of their folders
	Total       Package   `json:"total"`        // sums over all packages

	CommentWidth90 int `json:"comment_width_p90"` // columns that nine comment lines of ten keep to
	Exported       int `json:"exported"`
	Undocumented   int `json:"undocumented"` // of the exported names

	Functions  []Function `json:"-"`
	Structs    []Type     `json:"-"`
	Interfaces []Type     `json:"-"`

	LargestPackage   Package  `json:"largest_package"`
	MostComplex      Function `json:"most_complex_function"`
	LargestStruct    Type     `json:"largest_struct"`
	LargestInterface Type     `json:"largest_interface"`
}

// A Package has the figures of a folder. Lines of tests and of their scripts are not in Lines.
type Package struct {
	Folder   string `json:"folder"`
	Files    int    `json:"files"`
	Lines    int    `json:"lines"`
	Comments int    `json:"comments"` // lines that are comments
	Tests    int    `json:"tests"`    // lines of _test.go files
	Scripts  int    `json:"scripts"`  // lines of text below testdata
	Long     int    `json:"long"`     // functions of more than 80 lines
	Complex  int    `json:"complex"`  // functions of a complexity above 15
}

// A Function is one function or method of the source, tests left out.
type Function struct {
	Name       string `json:"name"`
	File       string `json:"file"`
	Line       int    `json:"line"`
	Lines      int    `json:"lines"`
	Complexity int    `json:"complexity"`
}

// A Type is a struct or an interface, with the number of its fields or methods.
type Type struct {
	Name    string `json:"name"`
	File    string `json:"file"`
	Line    int    `json:"line"`
	Members int    `json:"members"`
}

// Per10k is how many of n there are for each 10,000 lines of the package's source.
func (p Package) Per10k(n int) float64 {
	if p.Lines == 0 {
		return 0
	}
	return float64(n) * 10000 / float64(p.Lines)
}

// share is n for each line of the package's source.
func (p Package) share(n int) float64 { return p.Per10k(n) / 10000 }

// A tree collects a report.
type tree struct {
	root     string
	packages map[string]*Package
	widths   []int
	report   *Report
}

// Measure reads all Go files below root. Folders that begin with a dot, and folders vendor, are not
// looked into.
func Measure(root string) (*Report, error) {
	t := &tree{root: root, packages: map[string]*Package{}, report: &Report{}}
	if err := filepath.WalkDir(root, t.visit); err != nil {
		return nil, err
	}
	return t.finish(), nil
}

func (t *tree) visit(path string, d fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	if d.IsDir() {
		if path != t.root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "vendor") {
			return filepath.SkipDir
		}
		return nil
	}
	rel, err := filepath.Rel(t.root, path)
	if err != nil {
		return err
	}
	return t.file(filepath.ToSlash(rel), path)
}

// file counts one file into its package. rel is its path from the root.
func (t *tree) file(rel, path string) error {
	ext := filepath.Ext(rel)
	folder, _, script := strings.Cut("/"+rel, "/testdata/")
	switch {
	case script:
		if ext != "" && ext != ".txt" {
			return nil
		}
		b, err := os.ReadFile(path)
		t.at(strings.TrimPrefix(folder, "/")).Scripts += fullLines(b)
		return err
	case ext == ".go":
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return t.source(rel, b)
	case ext == ".md":
		t.seen(rel)
	}
	return nil
}

func (t *tree) source(rel string, src []byte) error {
	f, err := readGo(rel, src)
	if err != nil {
		return err
	}
	t.seen(rel)
	p := t.at(filepath.ToSlash(filepath.Dir(rel)))
	switch {
	case f.generated:
	case strings.HasSuffix(rel, "_test.go"):
		p.Tests += f.lines
	default:
		p.Files++
		p.Lines += f.lines
		p.Comments += f.comments
		for _, fn := range f.functions {
			p.Long += one(fn.Lines > longFunction)
			p.Complex += one(fn.Complexity > complexFunction)
		}
		t.widths = append(t.widths, f.widths...)
		r := t.report
		r.Functions = append(r.Functions, f.functions...)
		r.Structs = append(r.Structs, f.structs...)
		r.Interfaces = append(r.Interfaces, f.interfaces...)
		r.Exported += f.exported
		r.Undocumented += f.bare
	}
	return nil
}

// seen notes the folder at the root that a file lies in.
func (t *tree) seen(rel string) {
	if top, rest, _ := strings.Cut(rel, "/"); rest != "" && !slices.Contains(t.report.RootFolders, top) {
		t.report.RootFolders = append(t.report.RootFolders, top)
	}
}

func (t *tree) at(folder string) *Package {
	if t.packages[folder] == nil {
		t.packages[folder] = &Package{Folder: folder}
	}
	return t.packages[folder]
}

func fullLines(b []byte) int {
	n := 0
	for l := range bytes.Lines(b) {
		n += one(len(bytes.TrimSpace(l)) > 0)
	}
	return n
}

func (t *tree) finish() *Report {
	r := t.report
	slices.Sort(r.RootFolders)
	for _, folder := range slices.Sorted(maps.Keys(t.packages)) {
		p := *t.packages[folder]
		r.Packages = append(r.Packages, p)
		r.Total.Files += p.Files
		r.Total.Lines += p.Lines
		r.Total.Comments += p.Comments
		r.Total.Tests += p.Tests
		r.Total.Scripts += p.Scripts
		r.Total.Long += p.Long
		r.Total.Complex += p.Complex
	}
	slices.SortStableFunc(r.Functions, func(a, b Function) int { return cmp.Compare(b.Complexity, a.Complexity) })
	r.CommentWidth90 = percentile(t.widths, 90)
	r.LargestPackage = largest(r.Packages, func(p Package) int { return p.Lines })
	r.MostComplex = largest(r.Functions, func(f Function) int { return f.Complexity })
	r.LargestStruct = largest(r.Structs, func(t Type) int { return t.Members })
	r.LargestInterface = largest(r.Interfaces, func(t Type) int { return t.Members })
	return r
}

// percentile is the smallest value that p of 100 values are at or below (nearest rank); 0 of none.
func percentile(values []int, p int) int {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[max(0, (len(values)*p+99)/100-1)]
}

// largest is the first of the largest; the zero value of none.
func largest[T any](all []T, size func(T) int) (most T) {
	for i, x := range all {
		if i == 0 || size(x) > size(most) {
			most = x
		}
	}
	return most
}
