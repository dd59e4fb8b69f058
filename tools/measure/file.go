package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// tabWidth is how many columns a tab counts.
const tabWidth = 4

// A goFile is what one file of Go adds to the figures.
type goFile struct {
	lines     int   // not blank
	comments  int   // lines that hold a comment and nothing else
	widths    []int // of these lines, in columns
	generated bool

	functions  []Function
	structs    []Type
	interfaces []Type
	exported   int // names that other packages can use; none in commands
	bare       int // of these, without a comment
}

// A reader keeps what is needed while the declarations of one file are walked.
type reader struct {
	goFile
	fset  *token.FileSet
	path  string // as it is reported
	full  []int  // how many lines are not blank up to each line; full[0] is 0
	isLib bool   // not a command: its exported names count
}

// readGo measures one file. path is only for reports.
func readGo(path string, src []byte) (goFile, error) {
	r := reader{fset: token.NewFileSet(), path: path}
	syntax, err := parser.ParseFile(r.fset, path, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return goFile{}, err
	}
	r.generated = ast.IsGenerated(syntax)
	r.isLib = syntax.Name.Name != "main"
	r.countLines(strings.Split(string(src), "\n"), r.commentLines(syntax))
	for _, d := range syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			r.function(d)
		case *ast.GenDecl:
			r.declaration(d)
		}
	}
	return r.goFile, nil
}

// commentLines is the set of lines that a comment reaches.
func (r *reader) commentLines(syntax *ast.File) map[int]bool {
	lines := map[int]bool{}
	for _, group := range syntax.Comments {
		for _, c := range group.List {
			for l := r.line(c.Pos()); l <= r.line(c.End()); l++ {
				lines[l] = true
			}
		}
	}
	return lines
}

func (r *reader) line(p token.Pos) int { return r.fset.Position(p).Line }

func (r *reader) countLines(lines []string, commented map[int]bool) {
	r.full = make([]int, len(lines)+1)
	inBlock := false // inside /* */
	for i, l := range lines {
		text := strings.TrimSpace(l)
		r.full[i+1] = r.full[i]
		if text == "" {
			continue
		}
		r.full[i+1]++
		r.lines++
		if !commented[i+1] {
			inBlock = false
			continue
		}
		begins := strings.HasPrefix(text, "/*")
		if inBlock || begins || strings.HasPrefix(text, "//") {
			r.comments++
			r.widths = append(r.widths, columns(l))
		}
		inBlock = (inBlock || begins) && !strings.Contains(text, "*/")
	}
}

func columns(line string) int {
	n := 0
	for _, c := range strings.TrimRight(line, "\r") {
		if c == '\t' {
			n += tabWidth
		} else {
			n++
		}
	}
	return n
}

// size is how many lines of a node are not blank.
func (r *reader) size(n ast.Node) int { return r.full[r.line(n.End())] - r.full[r.line(n.Pos())-1] }

func (r *reader) function(d *ast.FuncDecl) {
	name, exported := d.Name.Name, d.Name.IsExported()
	if d.Recv != nil && len(d.Recv.List) > 0 {
		of := receiver(d.Recv.List[0].Type)
		name = of + "." + name
		exported = exported && ast.IsExported(of)
	}
	r.functions = append(r.functions, Function{name, r.path, r.line(d.Pos()), r.size(d), complexity(d)})
	r.export(exported, d.Doc)
}

// receiver is the name of a method's type.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	default:
		return "?"
	}
}

// complexity is McCabe's number of a function.
func complexity(f ast.Node) int {
	n := 1
	ast.Inspect(f, func(m ast.Node) bool {
		switch m := m.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			n += one(m.List != nil)
		case *ast.CommClause:
			n += one(m.Comm != nil)
		case *ast.BinaryExpr:
			n += one(m.Op == token.LAND || m.Op == token.LOR)
		}
		return true
	})
	return n
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// declaration counts types, constants and variables.
func (r *reader) declaration(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			r.export(s.Name.IsExported(), d.Doc, s.Doc, s.Comment)
			r.typ(s)
		case *ast.ValueSpec:
			for _, name := range s.Names {
				r.export(name.IsExported(), d.Doc, s.Doc, s.Comment)
			}
		}
	}
}

func (r *reader) typ(s *ast.TypeSpec) {
	t := Type{Name: s.Name.Name, File: r.path, Line: r.line(s.Pos())}
	switch of := s.Type.(type) {
	case *ast.StructType:
		t.Members = of.Fields.NumFields()
		r.structs = append(r.structs, t)
	case *ast.InterfaceType:
		t.Members = of.Methods.NumFields()
		r.interfaces = append(r.interfaces, t)
	}
}

// export counts a name, and whether one of its comments says something.
func (r *reader) export(exported bool, docs ...*ast.CommentGroup) {
	if !exported || !r.isLib {
		return
	}
	r.exported++
	for _, d := range docs {
		if d != nil {
			return
		}
	}
	r.bare++
}
