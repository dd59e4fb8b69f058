package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// protocolSources are the packages on which the outcome of a seed rests, and the simulation itself.
var protocolSources = []string{"base", "wire", "kv", "policy", "mechanism", "owner", "txn", "cluster", "node",
	"lab/sim", "lab/history"}

// soakRecord says how many seeds a state of the sources has seen, from a first one on. It lies in a
// file of its own for each state and first seed, outside of the repository, so a run that was
// stopped goes on where it was, and several may run at the same time.
type soakRecord struct {
	Sources string   `json:"sources"` // hash
	First   uint64   `json:"first"`
	Seen    uint64   `json:"seen"` // seeds from First, the whole set of runs for each
	Failed  []uint64 `json:"failed"`
	path    string
}

// openSoak reads the record of the sources below root, or begins one.
func openSoak(dir, root string, first uint64) (*soakRecord, error) {
	sum, err := hashSources(root)
	if err != nil {
		return nil, err
	}
	r := &soakRecord{Sources: sum, First: first, path: filepath.Join(dir, fmt.Sprintf("soak-%s-%d.json", sum[:16], first))}
	b, err := os.ReadFile(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return nil, err
	}
	return r, json.Unmarshal(b, r)
}

// saw notes that the next seed was run.
func (r *soakRecord) saw(failed bool) error {
	if failed {
		r.Failed = append(r.Failed, r.First+r.Seen)
	}
	r.Seen++
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	next := r.path + ".new"
	if err := os.WriteFile(next, b, 0o644); err != nil {
		return err
	}
	return os.Rename(next, r.path)
}

func (r *soakRecord) String() string {
	s := fmt.Sprintf("%d seeds seen since the last change of a protocol package (sources %s, "+
		"from seed %d), %d failed", r.Seen, r.Sources[:16], r.First, len(r.Failed))
	if len(r.Failed) > 0 {
		s += fmt.Sprint(": ", r.Failed)
	}
	return s
}

// hashSources is a hash of the Go files below root that count, tests left out but for the
// simulation's own.
func hashSources(root string) (string, error) {
	h := sha256.New()
	for _, dir := range protocolSources {
		var files []string
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return "", err
		}
		slices.Sort(files)
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				return "", err
			}
			name, _ := filepath.Rel(root, f)
			fmt.Fprintf(h, "%s %d\n", filepath.ToSlash(name), len(b))
			h.Write(b)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// TestAllSoak runs the whole set of a seed (mixed, gray, and by turns SQL and MULTI MASTER tables)
// for as many seeds as asked for, beginning behind those that the sources have seen. It is what
// make soak-all runs. GODWIT_SOAK names the directory of the records.
func TestAllSoak(t *testing.T) {
	dir := os.Getenv("GODWIT_SOAK")
	if dir == "" || !flagGiven("seeds") {
		t.Skip("make soak-all runs it: neither GODWIT_SOAK nor -seeds is given")
	}
	r, err := openSoak(dir, filepath.Join("..", ".."), *flagFirst)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(r)
	for range *flagSeeds {
		s := r.First + r.Seen
		ok := t.Run(fmt.Sprint(s), func(t *testing.T) { seed(t, Pick(s)) })
		ok = t.Run(fmt.Sprint("gray/", s), func(t *testing.T) { seed(t, PickGray(s)) }) && ok
		if s%2 == 0 {
			ok = t.Run(fmt.Sprint("sql/", s), func(t *testing.T) { seed(t, PickSQL(s)) }) && ok
		} else {
			ok = t.Run(fmt.Sprint("epochs/", s), func(t *testing.T) { seed(t, PickEpochs(s)) }) && ok
		}
		if err := r.saw(!ok); err != nil {
			t.Fatal(err)
		}
		if r.Seen%100 == 0 || !ok {
			fmt.Printf("%v; %v\n", r, &seen)
		}
	}
	fmt.Printf("%v; %v\n", r, &seen)
	if len(r.Failed) > 0 {
		t.Error(r)
	}
}

// TestSoakRecord: a run goes on where the last one stopped, and begins anew after a change of a
// protocol package, not of another one.
func TestSoakRecord(t *testing.T) {
	root, dir := t.TempDir(), filepath.Join(t.TempDir(), "records")
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range protocolSources {
		write(p+"/a.go", "package a")
	}
	open := func(seen, failed int) *soakRecord {
		t.Helper()
		r, err := openSoak(dir, root, 7)
		if err != nil {
			t.Fatal(err)
		}
		if int(r.Seen) != seen || len(r.Failed) != failed {
			t.Fatalf("%v: not %d seen, %d failed", r, seen, failed)
		}
		return r
	}
	r := open(0, 0)
	for i := range 3 {
		if err := r.saw(i == 1); err != nil {
			t.Fatal(err)
		}
	}
	if r = open(3, 1); r.Failed[0] != 8 {
		t.Errorf("%v: not seed 8", r)
	}
	write("sql/server/a.go", "package b")
	write("owner/a_test.go", "package b")
	open(3, 1)
	write("owner/sub/b.go", "package b")
	open(0, 0)
	if r, err := openSoak(dir, root, 8); err != nil || r.Seen != 0 || r.First != 8 {
		t.Fatalf("%v, %v: not a record of its own", r, err)
	}
	if err := os.Remove(filepath.Join(root, "owner/sub/b.go")); err != nil {
		t.Fatal(err)
	}
	open(3, 1)
}
