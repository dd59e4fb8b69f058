package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/base"
)

// writeDir makes a store on the disk with tables and a log tail, and returns the number of rows.
func writeDir(t *testing.T, dir string, key EncryptionKey) uint64 {
	t.Helper()
	s, err := Open(Options{Dir: dir, Simulation: true, Logger: quiet(), Key: key})
	must(t, err)
	l, err := s.Log(base.DataGroup(1, 1))
	must(t, err)
	const rows = 2000
	for i := uint64(1); i <= rows; i++ {
		if i%20 == 1 {
			commit(t, s, i > rows-100, func(b *Batch) { must(t, l.Append(b, hard(1, 1, i+19), entries(i, i+19, 1, 50))) })
		}
		commit(t, s, false, func(b *Batch) {
			b.PutVersion(Version{Key: crashKey(i), TS: base.Timestamp(i), Value: bytes.Repeat([]byte("v"), 60),
				Writer: base.GroupIndex{Region: 1, Index: i}})
			b.SetTxn(base.DataGroup(1, 1), base.MakeTxnID(base.Timestamp(i), 1, 1), []byte("committed"))
			b.SetApplied(base.DataGroup(1, 1), i)
		})
		if i == rows/2 {
			must(t, s.Flush())
		}
	}
	must(t, s.Close())
	return rows
}

// files lists the newest file first.
func files(t *testing.T, dir, pattern string) []string {
	t.Helper()
	fs, err := filepath.Glob(filepath.Join(dir, pattern))
	must(t, err)
	for i, j := 0, len(fs)-1; i < j; i, j = i+1, j-1 {
		fs[i], fs[j] = fs[j], fs[i]
	}
	if len(fs) == 0 {
		t.Fatalf("no %s in %s", pattern, dir)
	}
	return fs
}

func edit(t *testing.T, path string, fn func(b []byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, fn(b), 0o644))
}

func flip(at float64) func([]byte) []byte {
	return func(b []byte) []byte {
		b[int(float64(len(b)-1)*at)] ^= 0x40
		return b
	}
}

// TestDamagedFiles damages files of a closed store in every way a disk does; what must not happen
// is a store that opens, reads without an error and lacks acknowledged data.
func TestDamagedFiles(t *testing.T) {
	type tc struct {
		name   string
		damage func(t *testing.T, dir string)
		file   string // the message names it
		torn   bool   // a clean recovery of a prefix is right
	}
	cases := []tc{
		{name: "table removed", file: "type sstable", damage: func(t *testing.T, d string) {
			must(t, os.Remove(files(t, d, "*.sst")[0]))
		}},
		{name: "table cut", file: ".sst", damage: func(t *testing.T, d string) {
			edit(t, files(t, d, "*.sst")[0], func(b []byte) []byte { return b[:len(b)/2] })
		}},
		{name: "table emptied", file: ".sst", damage: func(t *testing.T, d string) {
			edit(t, files(t, d, "*.sst")[0], func(b []byte) []byte { return nil })
		}},
		{name: "MANIFEST removed", file: "MANIFEST", damage: func(t *testing.T, d string) {
			must(t, os.Remove(files(t, d, "MANIFEST-*")[0]))
		}},
		{name: "MANIFEST emptied", file: "MANIFEST", damage: func(t *testing.T, d string) {
			edit(t, files(t, d, "MANIFEST-*")[0], func(b []byte) []byte { return nil })
		}},
		{name: "MANIFEST cut", damage: func(t *testing.T, d string) {
			edit(t, files(t, d, "MANIFEST-*")[0], func(b []byte) []byte { return b[:len(b)/2] })
		}},
		{name: "MANIFEST flipped", damage: func(t *testing.T, d string) { edit(t, files(t, d, "MANIFEST-*")[0], flip(0.3)) }},
		{name: "markers removed", damage: func(t *testing.T, d string) {
			for _, f := range files(t, d, "marker.*") {
				must(t, os.Remove(f))
			}
		}},
		{name: "manifest marker removed", damage: func(t *testing.T, d string) {
			for _, f := range files(t, d, "marker.manifest*") {
				must(t, os.Remove(f))
			}
		}},
		{name: "log tail cut", torn: true, damage: func(t *testing.T, d string) {
			edit(t, files(t, d, "*.log")[0], func(b []byte) []byte { return b[:len(b)-200] })
		}},
		{name: "log tail garbled", torn: true, damage: func(t *testing.T, d string) {
			edit(t, files(t, d, "*.log")[0], func(b []byte) []byte {
				return append(b[:len(b)-100], bytes.Repeat([]byte{0xa5}, 100)...)
			})
		}},
		{name: "newest log removed", file: ".log", damage: func(t *testing.T, d string) {
			must(t, os.Remove(files(t, d, "*.log")[0]))
		}},
		{name: "log blanked in the middle", file: ".log", damage: func(t *testing.T, d string) {
			edit(t, files(t, d, "*.log")[0], func(b []byte) []byte { clear(b[len(b)/3 : len(b)/2]); return b })
		}},
		{name: "log flipped in the middle", file: ".log", damage: func(t *testing.T, d string) {
			edit(t, files(t, d, "*.log")[0], flip(0.5))
		}},
	}
	for i := range 8 {
		at := float64(i) / 8
		cases = append(cases, tc{name: fmt.Sprintf("table flipped at %.2f", at), file: ".sst",
			damage: func(t *testing.T, d string) { edit(t, files(t, d, "*.sst")[0], flip(at)) }})
	}
	check := func(key EncryptionKey, c tc) func(t *testing.T) {
		return func(t *testing.T) {
			dir := t.TempDir()
			rows := writeDir(t, dir, key)
			c.damage(t, dir)
			err := openAndRead(dir, rows, c.torn, key)
			if c.torn {
				must(t, err)
				return
			}
			if base.CodeOf(err) == base.CodeUnavailable && strings.Contains(err.Error(), "damaged") {
				return // it opens, and gives nothing of the shard before it is fetched from another node
			}
			if base.CodeOf(err) != base.CodeCorrupt {
				t.Fatalf("got %v, want corrupt", err)
			}
			if !strings.Contains(err.Error(), c.file) || !strings.Contains(err.Error(), "replace this node's store") {
				t.Errorf("the message does not name %q or what to do: %v", c.file, err)
			}
			t.Log(err)
		}
	}
	for _, c := range cases {
		t.Run(c.name, check(nil, c))
		t.Run(c.name+", encrypted", check(keyA, c))
	}
}

// TestUnusableDirectory: a directory that cannot be made or written is not called damaged, and
// nobody is told to throw it away.
func TestUnusableDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o644))
	for _, dir := range []string{file, filepath.Join(file, "below"), "/proc/godwit"} {
		_, err := Open(Options{Dir: dir, Simulation: true, Logger: quiet()})
		if base.CodeOf(err) != base.CodeInvalid || !strings.Contains(err.Error(), "choose a directory") {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

var errLost = errors.New("acknowledged data is missing without an error")

func openAndRead(dir string, rows uint64, torn bool, key EncryptionKey) error {
	s, err := Open(Options{Dir: dir, Simulation: true, Logger: quiet(), Key: key})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Verify(); err != nil {
		return err
	}
	applied, err := s.Applied(base.DataGroup(1, 1))
	if err != nil {
		return err
	}
	l, err := s.Log(base.DataGroup(1, 1))
	if err != nil {
		return err
	}
	last, err := l.LastIndex()
	if err != nil {
		return err
	}
	r := s.NewReader()
	defer r.Close()
	it := r.Iter(base.Span{Start: userKey(1, 1, ""), End: userKey(1, 2, "")}, base.MaxTimestamp, IterOptions{})
	defer it.Close()
	n := uint64(0)
	for it.Next() {
		n++
	}
	if err := it.Err(); err != nil {
		return err
	}
	if n != applied || last < applied || !torn && n != rows {
		return fmt.Errorf("%w: %d rows, applied index %d, log ends at %d", errLost, n, applied, last)
	}
	return nil
}

func TestNewerFormatIsRefused(t *testing.T) {
	dir := t.TempDir()
	writeDir(t, dir, nil)
	s, err := Open(Options{Dir: dir, Simulation: true, Logger: quiet()})
	must(t, err)
	must(t, s.setLocal(localFormat, binary.AppendUvarint(nil, FormatVersion+1), true))
	must(t, s.Close())
	_, err = Open(Options{Dir: dir, Simulation: true, Logger: quiet()})
	if base.CodeOf(err) != base.CodeInvalid || !strings.Contains(err.Error(), "or newer") {
		t.Fatalf("got %v", err)
	}
	t.Log(err)
}

// TestFormatIsChosen: a store is written in the format of its cluster's version, so that the
// program of before can open it until that is raised, and takes its snapshots; and not afterwards.
func TestFormatIsChosen(t *testing.T) {
	dir := t.TempDir()
	open := func(knows base.ClusterVersion) (*Store, error) {
		return Open(Options{Dir: dir, Simulation: true, Logger: quiet(), Knows: knows})
	}
	format := func(want, set base.ClusterVersion) {
		t.Helper()
		s, err := open(0)
		must(t, err)
		if s.Format() != want {
			t.Errorf("format %d, want %d", s.Format(), want)
		}
		if set != 0 {
			must(t, s.SetFormat(set))
		}
		if err := s.SetFormat(base.VersionNewest + 1); base.CodeOf(err) != base.CodeInvalid {
			t.Errorf("a format that is not known: %v", err)
		}
		must(t, s.Close())
	}
	format(base.VersionFirst, 0)
	s, err := open(base.VersionFirst)
	must(t, err)
	if err := s.SetFormat(base.VersionNewest); base.CodeOf(err) != base.CodeInvalid {
		t.Errorf("the program of before writes the new format: %v", err)
	}
	must(t, s.Close())
	format(base.VersionFirst, base.VersionNewest)
	if _, err := open(base.VersionFirst); base.CodeOf(err) != base.CodeInvalid || !strings.Contains(err.Error(), "or newer") {
		t.Errorf("the program of before opens the new format: %v", err)
	}
	format(base.VersionNewest, base.VersionFirst)
	s, err = open(base.VersionFirst)
	must(t, err)
	must(t, s.Close())
}

func TestNewerEngineIsRefused(t *testing.T) {
	dir := t.TempDir()
	writeDir(t, dir, nil)
	old := files(t, dir, "marker.format-version.*")[0]
	must(t, os.Rename(old, filepath.Join(dir, "marker.format-version.000999.999")))
	_, err := Open(Options{Dir: dir, Simulation: true, Logger: quiet()})
	if base.CodeOf(err) != base.CodeInvalid {
		t.Fatalf("got %v", err)
	}
	t.Log(err)
}

func TestTwoProcesses(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(Options{Dir: dir, Logger: quiet()})
	must(t, err)
	_, err = Open(Options{Dir: dir, Logger: quiet()})
	if base.CodeOf(err) != base.CodeUnavailable {
		t.Errorf("opening twice: %v", err)
	}
	t.Log(err)
	must(t, s.Close())
}

func TestLocalRecords(t *testing.T) {
	dir := t.TempDir()
	for i := range 2 {
		s, err := Open(Options{Dir: dir, Logger: quiet()})
		must(t, err)
		v, ok, err := s.GetLocal("identity")
		must(t, err)
		if ok != (i > 0) || ok && string(v) != "cluster/node" {
			t.Fatalf("life %d: %q %v", i, v, ok)
		}
		must(t, s.SetLocal("identity", []byte("cluster/node"), true))
		if err := s.SetLocal("format", nil, true); base.CodeOf(err) != base.CodeInvalid {
			t.Errorf("the format record can be overwritten: %v", err)
		}
		must(t, s.Close())
	}
}

// TestBadEnd: a log that ends in something that is no record makes every group suspect, over
// restarts and until its group says otherwise; one that ends, or goes on with zeros, does not
// (RECOVER-1).
func TestBadEnd(t *testing.T) {
	g := base.DataGroup(1, 1)
	for name, c := range map[string]struct {
		damage  func(b []byte) []byte
		suspect bool
	}{
		"whole":             {func(b []byte) []byte { return b }, false},
		"zeros behind":      {func(b []byte) []byte { return append(b, make([]byte, 5000)...) }, false},
		"last row flipped":  {func(b []byte) []byte { b[len(b)-50] ^= 0x40; return b }, true},
		"600 bytes are cut": {func(b []byte) []byte { return b[:len(b)-600] }, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeDir(t, dir, nil)
			edit(t, files(t, dir, "*.log")[0], c.damage)
			for range 2 {
				s, err := Open(Options{Dir: dir, Simulation: true, Logger: quiet()})
				must(t, err)
				why, err := s.Suspicion(g)
				must(t, err)
				if (why != "") != c.suspect {
					t.Errorf("suspect: %q, want %v", why, c.suspect)
				}
				must(t, s.Close())
			}
			s, err := Open(Options{Dir: dir, Simulation: true, Logger: quiet()})
			must(t, err)
			defer s.Close()
			commit(t, s, true, func(b *Batch) { b.SetSuspicion(g, "") })
			if why, err := s.Suspicion(g); err != nil || why != "" {
				t.Errorf("still suspect: %q, %v", why, err)
			}
		})
	}
}
