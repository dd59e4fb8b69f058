package kv_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/kv"
)

// parts are the interfaces of a transaction and their methods.
var parts = map[string][]string{}

func init() {
	for _, t := range []reflect.Type{
		reflect.TypeFor[kv.Txn](), reflect.TypeFor[kv.EpochTxn](), reflect.TypeFor[kv.Reader](), reflect.TypeFor[kv.Prefetcher](),
		reflect.TypeFor[kv.Writer](), reflect.TypeFor[kv.Patcher](), reflect.TypeFor[kv.Mover](),
		reflect.TypeFor[kv.Savepoints](),
		reflect.TypeFor[kv.Snapshots](), reflect.TypeFor[kv.Pinner](), reflect.TypeFor[kv.Ender](),
	} {
		for i := range t.NumMethod() {
			parts[t.Name()] = append(parts[t.Name()], t.Method(i).Name)
		}
	}
}

// structs are what the files of one package declare: which interfaces of a transaction a struct
// embeds, and which methods a type has.
type structs struct {
	embeds, methods map[string][]string
}

func (s *structs) add(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if t, ok := spec.(*ast.TypeSpec); ok {
					s.addType(t)
				}
			}
		case *ast.FuncDecl:
			if d.Recv != nil {
				r := nameOf(d.Recv.List[0].Type)
				s.methods[r] = append(s.methods[r], d.Name.Name)
			}
		}
	}
}

func (s *structs) addType(t *ast.TypeSpec) {
	st, ok := t.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range st.Fields.List {
		name := nameOf(f.Type)
		if of, ok := strings.CutPrefix(name, "kv."); ok && len(f.Names) == 0 && parts[of] != nil {
			s.embeds[t.Name.Name] = append(s.embeds[t.Name.Name], of)
		}
	}
}

func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return nameOf(e.X)
	case *ast.IndexExpr:
		return nameOf(e.X)
	case *ast.SelectorExpr:
		return nameOf(e.X) + "." + e.Sel.Name
	}
	return ""
}

// leaks says of each struct which methods pass by it although it overrides others of the same
// interface.
func (s *structs) leaks() (out []string) {
	for name, embedded := range s.embeds {
		for _, part := range embedded {
			var missing []string
			for _, m := range parts[part] {
				if !slices.Contains(s.methods[name], m) {
					missing = append(missing, m)
				}
			}
			if n := len(missing); n > 0 && n < len(parts[part]) {
				out = append(out, fmt.Sprintf("%s embeds kv.%s and overrides some of its methods, "+
					"but %v reach the inner transaction past it: "+
					"hold the transaction in a field, and write every method", name, part, missing))
			}
		}
	}
	return out
}

// TestWrappersCoverEveryMethod reads the module for wrappers of transactions that a new method of
// the interface would pass by silently.
func TestWrappersCoverEveryMethod(t *testing.T) {
	packages := map[string]*structs{}
	files := token.NewFileSet()
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != ".." && (strings.HasPrefix(e.Name(), ".") || e.Name() == "testdata"):
			return filepath.SkipDir
		case e.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		if packages[dir] == nil {
			packages[dir] = &structs{map[string][]string{}, map[string][]string{}}
		}
		packages[dir].add(f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < 20 {
		t.Fatalf("only %d packages were read: where is the module?", len(packages))
	}
	for dir, s := range packages {
		for _, l := range s.leaks() {
			t.Errorf("%s: %s", dir, l)
		}
	}
}

// TestLeakIsSeen has the check look at a wrapper that it must refuse, and at two that it must not.
func TestLeakIsSeen(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "wrap.go", `package p
		type leaky struct { kv.Mover; n int }
		func (l *leaky) Move(base.Key, base.RegionID, kv.MoveOptions) {}
		type user struct { kv.Txn }
		func (u user) get() {}
		type whole struct { kv.Savepoints }
		func (w *whole) Savepoint() int { return 0 }
		func (w *whole) RollbackTo(int) {}
	`, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &structs{map[string][]string{}, map[string][]string{}}
	s.add(f)
	if l := s.leaks(); len(l) != 1 || !strings.Contains(l[0], "leaky embeds kv.Mover") || !strings.Contains(l[0], "[Fence]") {
		t.Fatalf("leaks: %q", l)
	}
}

// TestPartsMakeTheWhole demands that every method of a transaction is in exactly one of the small
// interfaces; only its name is its own.
func TestPartsMakeTheWhole(t *testing.T) {
	in := map[string]int{}
	for name, methods := range parts {
		if name != "Txn" && name != "EpochTxn" {
			for _, m := range methods {
				in[m]++
			}
		}
	}
	for _, m := range parts["Txn"] {
		if m != "ID" && in[m] != 1 {
			t.Errorf("%s is in %d of the small interfaces", m, in[m])
		}
		delete(in, m)
	}
	for m := range in {
		t.Errorf("%s is in a small interface, but not in Txn", m)
	}
}
