package store

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/godwitdb/godwit/base"
)

var (
	keyA = EncryptionKey(bytes.Repeat([]byte{0xa1}, 32))
	keyB = EncryptionKey(bytes.Repeat([]byte{0xb2}, 16))
)

func openKey(fs vfs.FS, dir string, key, old EncryptionKey) (*Store, error) {
	return Open(Options{Dir: dir, FS: fs, Simulation: true, Logger: quiet(), Key: key, OldKey: old})
}

// secretRow is in rows, log entries, records and transactions.
const secretRow = "the quick brown secret"

func writeSecrets(t *testing.T, s *Store, from, n uint64) {
	t.Helper()
	g := base.DataGroup(1, 1)
	l, err := s.Log(g)
	must(t, err)
	for i := from; i < from+n; i++ {
		commit(t, s, i%7 == 0 || i == from+n-1, func(b *Batch) {
			es := entries(i, i, 1, 10)
			es[0].Data = []byte(secretRow)
			must(t, l.Append(b, hard(1, 1, i), es))
			b.PutVersion(Version{Key: crashKey(i), TS: base.Timestamp(i), Value: secretValue(i),
				Writer: base.GroupIndex{Region: 1, Index: i}})
			b.SetTxn(g, base.MakeTxnID(base.Timestamp(i), 1, 1), []byte(secretRow))
			b.SetApplied(g, i)
		})
	}
	must(t, s.SetLocal("secret", []byte(secretRow), true))
}

// secretValue cannot be compressed to nothing: damage to a table is damage to rows.
func secretValue(i uint64) []byte {
	rng := rand.New(rand.NewPCG(i, 0))
	v := []byte(secretRow)
	for range 50 {
		v = binary.LittleEndian.AppendUint64(v, rng.Uint64())
	}
	return v
}

func checkSecrets(t *testing.T, s *Store, n uint64) {
	t.Helper()
	r := s.NewReader()
	defer r.Close()
	for i := uint64(1); i <= n; i++ {
		v, ok, err := r.Get(crashKey(i), base.MaxTimestamp)
		if err != nil || !ok || !bytes.Equal(v.Value, secretValue(i)) {
			t.Fatalf("row %d: %d bytes, %v, %v", i, len(v.Value), ok, err)
		}
	}
	if got, _, err := s.GetLocal("secret"); err != nil || string(got) != secretRow {
		t.Fatalf("%q, %v", got, err)
	}
}

// TestEncrypted: nothing that is written is on the disk as it is, in whatever file; it is there
// with the key, also with a new one, and not without.
func TestEncrypted(t *testing.T) {
	dir := t.TempDir()
	s, err := openKey(nil, dir, keyA, nil)
	must(t, err)
	writeSecrets(t, s, 1, 300)
	must(t, s.Flush())
	writeSecrets(t, s, 301, 300)
	checkSecrets(t, s, 600)
	must(t, s.Close())
	kinds := map[string]bool{}
	for _, path := range files(t, dir, "*") {
		b, err := os.ReadFile(path)
		must(t, err)
		for _, word := range []string{secretRow, "secret", "cockroach", "leveldb", "godwit store"} {
			if bytes.Contains(b, []byte(word)) {
				t.Errorf("%s shows %q", path, word)
			}
		}
		kinds[filepath.Ext(path)] = true
	}
	if !kinds[".sst"] || !kinds[".log"] {
		t.Fatalf("files %v", kinds)
	}

	for _, c := range []struct {
		key, old EncryptionKey
		say      string
	}{{nil, nil, "--encryption-key"}, {keyB, nil, "--encryption-old-key"}, {keyB, keyB, "--encryption-old-key"}} {
		if s, err := openKey(nil, dir, c.key, c.old); err == nil {
			s.Close()
			t.Errorf("opened with %x and %x", c.key, c.old)
		} else if base.CodeOf(err) != base.CodeInvalid || !strings.Contains(err.Error(), c.say) {
			t.Errorf("with %x and %x: %v", c.key, c.old, err)
		}
	}
	for _, c := range []struct{ key, old EncryptionKey }{{keyA, nil}, {keyB, keyA}, {keyB, keyA}, {keyB, nil}} {
		s, err := openKey(nil, dir, c.key, c.old)
		must(t, err)
		checkSecrets(t, s, 600)
		must(t, s.Verify())
		must(t, s.Close())
	}
	if s, err := openKey(nil, dir, keyA, nil); err == nil {
		s.Close()
		t.Error("opened with the key that was replaced")
	}
}

// TestEncryptLater: a store that was not encrypted is from its next start, file by file.
func TestEncryptLater(t *testing.T) {
	dir := t.TempDir()
	s, err := openKey(nil, dir, nil, nil)
	must(t, err)
	writeSecrets(t, s, 1, 300)
	must(t, s.Close())
	s, err = openKey(nil, dir, keyA, nil)
	must(t, err)
	checkSecrets(t, s, 300)
	must(t, s.Flush())
	must(t, s.Compact())
	checkSecrets(t, s, 300)
	must(t, s.Close())
	for _, path := range files(t, dir, "*.sst") {
		b, err := os.ReadFile(path)
		must(t, err)
		if bytes.Contains(b, []byte(secretRow)) {
			t.Errorf("%s is not encrypted", path)
		}
	}
	s, err = openKey(nil, dir, keyA, nil)
	must(t, err)
	checkSecrets(t, s, 300)
	must(t, s.Close())
}

// TestDamagedKeys: damage to the file of the data keys, and to headers, is said, and nothing is
// made anew in its place.
func TestDamagedKeys(t *testing.T) {
	dir := t.TempDir()
	s, err := openKey(nil, dir, keyA, nil)
	must(t, err)
	writeSecrets(t, s, 1, 300)
	must(t, s.Flush())
	must(t, s.Close())
	path := filepath.Join(dir, keysFile)
	whole, err := os.ReadFile(path)
	must(t, err)
	refused := func(what string, code base.Code, says string) {
		t.Helper()
		s, err := openKey(nil, dir, keyA, nil)
		if err == nil {
			s.Close()
			t.Fatalf("%s: it opens", what)
		}
		if base.CodeOf(err) != code || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for at := range whole {
		b := slices.Clone(whole)
		b[at] ^= 1
		must(t, os.WriteFile(path, b, 0o600))
		s, err := openKey(nil, dir, keyA, nil)
		if err == nil {
			s.Close()
			t.Fatalf("it opens with byte %d flipped: %s", at, b)
		} else if !strings.Contains(err.Error(), keysFile) && !strings.Contains(err.Error(), "key") {
			t.Errorf("byte %d: %v", at, err)
		}
	}
	must(t, os.WriteFile(path, whole[:len(whole)/2], 0o600))
	refused("half a file", base.CodeCorrupt, "damaged")
	must(t, os.Remove(path))
	refused("no file", base.CodeCorrupt, "missing")
	must(t, os.WriteFile(path, whole, 0o600))

	manifest := files(t, dir, "MANIFEST-*")[0]
	edit(t, manifest, func(b []byte) []byte { b[15] ^= 1; return b })
	refused("a header", base.CodeCorrupt, "MANIFEST")
	edit(t, manifest, func(b []byte) []byte { b[15] ^= 1; return b })

	table := files(t, dir, "*.sst")[0]
	edit(t, table, func(b []byte) []byte { b[15] ^= 1; return b })
	s, err = openKey(nil, dir, keyA, nil)
	if err == nil {
		v, serr := s.Survey()
		if serr != nil || len(v.Files) != 1 {
			t.Errorf("the survey finds %+v, %v", v, serr)
		}
		must(t, s.Close())
	} else if base.CodeOf(err) != base.CodeCorrupt {
		t.Error(err)
	}
}

// TestEncryptedCrash: whatever a crash leaves of an encrypted store opens, has all that was synced,
// and no log that lost its end. Keys are replaced at some of the starts, which a crash may
// interrupt.
func TestEncryptedCrash(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 6))
		fs := vfs.NewCrashableMem()
		key, other := keyA, keyB
		synced := uint64(0)
		for life := range 6 {
			s, err := openKey(fs, "d", key, other)
			if err != nil {
				t.Fatalf("seed %d, life %d: %v", seed, life, err)
			}
			if why := s.LostTail(); why != "" {
				t.Fatalf("seed %d, life %d: %s", seed, life, why)
			}
			if synced > 0 {
				checkSecrets(t, s, synced)
			}
			n := uint64(1 + rng.IntN(60))
			writeSecrets(t, s, synced+1, n)
			synced += n
			if rng.IntN(2) == 0 {
				must(t, s.Flush())
			}
			next := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 0, RNG: rng})
			must(t, s.Close())
			if rng.IntN(2) == 0 { // the key is replaced, and the process dies before it writes
				key, other = other, key
				if s, err = openKey(next, "d", key, other); err != nil {
					t.Fatalf("seed %d, life %d: replace the key: %v", seed, life, err)
				}
				again := next.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(3) * 50, RNG: rng})
				must(t, s.Close())
				next = again
			}
			fs = next
		}
	}
}

// TestReplaceKeysCrash: a crash at any step of writing the keys leaves the old ones or the new
// ones.
func TestReplaceKeysCrash(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	fs := vfs.NewCrashableMem()
	must(t, fs.MkdirAll("d", 0o700))
	root, err := fs.OpenDir("")
	must(t, err)
	must(t, errors.Join(root.Sync(), root.Close()))
	keys, err := openKeys(fs, "d", keyA, nil, time.Unix(1000, 0))
	must(t, err)
	for step := range 6 {
		n := 0
		stop := errors.New("crash")
		faulty := &stepFS{FS: fs, do: func() error {
			if n++; n > step {
				return stop
			}
			return nil
		}}
		later := time.Unix(1000, 0).Add(newDataKey + time.Hour)
		_, err := openKeys(faulty, "d", keyB, keyA, later)
		if step < 5 && !errors.Is(err, stop) {
			t.Fatalf("step %d: %v", step, err)
		}
		crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
		got, err := openKeys(crashed, "d", keyB, keyA, time.Unix(1000, 0))
		must(t, err)
		if len(got) < 1 || len(got) > 2 || !bytes.Equal(got[0].Key, keys[0].Key) {
			t.Errorf("step %d: keys %+v", step, got)
		}
	}
}

// stepFS asks before each change.
type stepFS struct {
	vfs.FS
	do func() error
}

func (f *stepFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.do(); err != nil {
		return nil, err
	}
	file, err := f.FS.Create(name, c)
	return &stepFile{file, f}, err
}

func (f *stepFS) Rename(a, b string) error {
	if err := f.do(); err != nil {
		return err
	}
	return f.FS.Rename(a, b)
}

func (f *stepFS) OpenDir(name string) (vfs.File, error) {
	if err := f.do(); err != nil {
		return nil, err
	}
	return f.FS.OpenDir(name)
}

type stepFile struct {
	vfs.File
	fs *stepFS
}

func (f *stepFile) Write(p []byte) (int, error) {
	if err := f.fs.do(); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f *stepFile) Sync() error {
	if err := f.fs.do(); err != nil {
		return err
	}
	return f.File.Sync()
}

// TestEncryptedFile: an encrypted file is a file.
func TestEncryptedFile(t *testing.T) {
	mem := vfs.NewMem()
	e, err := newEncryptFS(mem, "d", keyA, nil)
	must(t, err)
	f, err := e.Create("d/f", "x")
	must(t, err)
	var want []byte
	rng := rand.New(rand.NewPCG(3, 3))
	for range 40 {
		p := bytes.Repeat([]byte{byte(rng.Uint32())}, rng.IntN(20_000))
		want = append(want, p...)
		n, err := f.Write(p)
		must(t, err)
		if n != len(p) {
			t.Fatalf("%d of %d", n, len(p))
		}
	}
	must(t, f.Close())
	f, err = e.Open("d/f")
	must(t, err)
	got, err := io.ReadAll(f)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Error("another content")
	}
	for range 50 {
		at := rng.IntN(len(want))
		p := make([]byte, rng.IntN(5000))
		n, err := f.ReadAt(p, int64(at))
		if !bytes.Equal(p[:n], want[at:min(len(want), at+len(p))]) || (err != nil) != (at+len(p) > len(want)) {
			t.Fatalf("%d bytes at %d: %d, %v", len(p), at, n, err)
		}
	}
	must(t, f.Close())
	info, err := e.Stat("d/f")
	must(t, err)
	under, err := mem.Stat("d/f")
	must(t, err)
	if info.Size() != int64(len(want)) || under.Size() != info.Size()+fileHeaderLen {
		t.Errorf("%d bytes, below %d", info.Size(), under.Size())
	}
	f, err = e.ReuseForWrite("d/f", "d/g", "x") // of the old content nothing is left
	must(t, err)
	must(t, f.Close())
	if info, err := e.Stat("d/g"); err != nil || info.Size() != 0 {
		t.Errorf("%v, %v", info, err)
	}
	short, err := mem.Create("d/h", "x") // a crash left a part of the header
	must(t, err)
	_, err = short.Write([]byte(headerMagic[:5]))
	must(t, errors.Join(err, short.Close()))
	f, err = e.Open("d/h")
	must(t, err)
	if b, err := io.ReadAll(f); err != nil || len(b) != 0 {
		t.Errorf("%q, %v", b, err)
	}
	must(t, f.Close())
}

func TestReadKey(t *testing.T) {
	dir := t.TempDir()
	write := func(text string, mode os.FileMode) string {
		path := filepath.Join(dir, fmt.Sprint("k", rand.Uint64()))
		must(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	if k, err := ReadKey(write(hex.EncodeToString(keyA)+"\n", 0o600)); err != nil || !bytes.Equal(k, keyA) {
		t.Errorf("%x, %v", k, err)
	}
	for text, mode := range map[string]os.FileMode{"ab": 0o600, "x" + hex.EncodeToString(keyA)[1:]: 0o600, hex.EncodeToString(keyB): 0o644} {
		if _, err := ReadKey(write(text, mode)); base.CodeOf(err) != base.CodeInvalid {
			t.Errorf("%q of mode %v: %v", text, mode, err)
		}
	}
	if _, err := ReadKey(filepath.Join(dir, "none")); err == nil {
		t.Error("no file")
	}
}
