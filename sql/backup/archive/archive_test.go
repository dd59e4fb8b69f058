package archive

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

const (
	someID   = "20261123-210415.123456-0f3a"
	parentID = "20261122-210415.123456-0f3a"
)

func someManifest() *Manifest {
	sum := sha256.Sum256(nil)
	return &Manifest{ID: someID, Target: "DATABASE d", Timestamp: 1e18, Cluster: "c", Started: time.Unix(5, 0).UTC(),
		Finished: time.Unix(6, 0).UTC(), Regions: map[base.RegionID]string{1: "eu"},
		Tables: []Table{{Desc: []byte(`{"id":7}`), Counter: 3, Rows: 2, Alone: true,
			Streams: []Stream{{Shard: 1, Rows: []File{{"a.rows", 10, 20, 2, sum[:]}}, Keys: []File{{"a.keys", 10, 20, 2, sum[:]}}}}}}}
}

// TestIDs: ids are known as such, and order as moments do.
func TestIDs(t *testing.T) {
	last := ""
	for _, ts := range []base.Timestamp{0, 1e9, 1e18, 1e18 + 1000, 2e18} {
		id := NewID(ts)
		if !IsID(id) || id <= last {
			t.Errorf("%q follows %q", id, last)
		}
		last = id
	}
	for _, id := range []string{"", "..", "manifest", someID + "0", "20261323-210415.123456-0f3a", "20261123-210415.123456-0g3a",
		strings.Replace(someID, ".", "/", 1)} {
		if IsID(id) {
			t.Errorf("%q is taken for an id", id)
		}
	}
}

// TestManifests: what is written comes back, with and without a passphrase.
func TestManifests(t *testing.T) {
	for _, keys := range []*Keyring{nil, NewKeyring("sesame")} {
		key, err := keys.New()
		if err != nil {
			t.Fatal(err)
		}
		m := someManifest()
		b, err := m.Encode(key)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := DecodeManifest(m.ID, b, keys)
		if err != nil || !reflect.DeepEqual(got, m) {
			t.Errorf("got %+v, %v", got, err)
		}
		for i := range b {
			c := bytes.Clone(b)
			c[i] ^= 1
			if _, _, err := DecodeManifest(m.ID, c, keys); !isFileError(err) {
				t.Fatalf("byte %d was changed: %v", i, err)
			}
			if _, _, err := DecodeManifest(m.ID, b[:i], keys); !isFileError(err) {
				t.Fatalf("cut to %d bytes: %v", i, err)
			}
		}
		other := strings.Replace(m.ID, "0f3a", "0f3b", 1)
		if _, _, err := DecodeManifest(other, b, keys); !isFileError(err) {
			t.Errorf("in the place of another one: %v", err)
		}
	}
}

func isFileError(err error) bool {
	var f *FileError
	return errors.As(err, &f)
}

// TestChangingManifest: a manifest with a stream of changes comes back, in a format that releases
// before it refuse; others stay in the format of before.
func TestChangingManifest(t *testing.T) {
	m := someManifest()
	b, err := m.Encode(nil)
	if err != nil || b[len(manifestMagic)] != 1 {
		t.Fatalf("a full backup has format %d, %v", b[len(manifestMagic)], err)
	}
	m.Parent, m.Tables[0].Alone = parentID, false
	s := &m.Tables[0].Streams[0]
	s.Changes, s.Keys, s.Count, s.Sum = true, nil, 7, &Sum{1, 2}
	if b, err = m.Encode(nil); err != nil || b[len(manifestMagic)] != 3 {
		t.Fatalf("a backup of changes has format %d, %v", b[len(manifestMagic)], err)
	}
	got, _, err := DecodeManifest(m.ID, b, nil)
	if err != nil || !reflect.DeepEqual(got, m) || got.Tables[0].Streams[0].Number() != 7 {
		t.Errorf("got %+v, %v", got, err)
	}
	b[len(manifestMagic)] = Version + 1
	if _, _, err := DecodeManifest(m.ID, b, nil); !isFileError(err) || !strings.Contains(err.Error(), "use a newer one") {
		t.Errorf("a format of a newer release: %v", err)
	}
}

// TestSums: what was added can be taken away, whatever is carried.
func TestSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		a, b := Sum{rng.Uint64(), rng.Uint64()}, Sum{rng.Uint64() | 1<<63, rng.Uint64() | 1<<63}
		c := a
		c.Add(b)
		if c == a {
			t.Fatal("nothing was added")
		}
		if c.Sub(b); c != a {
			t.Fatalf("%s + %s - %[2]s is %s", a, b, c)
		}
	}
}

// TestManifestsThatCannotBe: what a manifest says of files and its parent is looked at.
func TestManifestsThatCannotBe(t *testing.T) {
	file := func(m *Manifest) *File { return &m.Tables[0].Streams[0].Rows[0] }
	for what, fn := range map[string]func(*Manifest){
		"path":      func(m *Manifest) { file(m).Name = "../x" },
		"folder":    func(m *Manifest) { file(m).Name = "a/b" },
		"hidden":    func(m *Manifest) { file(m).Name = "." },
		"no name":   func(m *Manifest) { file(m).Name = "" },
		"itself":    func(m *Manifest) { file(m).Name = ManifestName },
		"twice":     func(m *Manifest) { file(m).Name = "a.keys" },
		"no size":   func(m *Manifest) { file(m).Size = 0 },
		"size":      func(m *Manifest) { file(m).Size = MostFile + 1 },
		"raw":       func(m *Manifest) { file(m).Raw = mostRaw + 1 },
		"negative":  func(m *Manifest) { file(m).Raw = -1 },
		"records":   func(m *Manifest) { file(m).Records = 0 },
		"checksum":  func(m *Manifest) { file(m).SHA256 = []byte{1} },
		"no parent": func(m *Manifest) { m.Tables[0].Alone, m.Tables[0].Streams[0] = false, Stream{Shard: 1, Changes: true} },
		"alone":     func(m *Manifest) { m.Parent, m.Tables[0].Streams[0] = parentID, Stream{Shard: 1, Changes: true} },
		"keys": func(m *Manifest) {
			m.Parent, m.Tables[0].Alone, m.Tables[0].Streams[0].Changes = parentID, false, true
		},
		"count": func(m *Manifest) {
			m.Parent, m.Tables[0].Alone, m.Tables[0].Streams[0] = parentID, false, Stream{Shard: 1, Changes: true, Count: -1}
		},
		"parent":      func(m *Manifest) { m.Parent = "../x" },
		"own parent":  func(m *Manifest) { m.Parent = m.ID },
		"late parent": func(m *Manifest) { m.Parent = strings.Replace(m.ID, "2026", "2027", 1) },
	} {
		m := someManifest()
		fn(m)
		b, err := m.Encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := DecodeManifest(someID, b, nil); !isFileError(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestPieces: records come back, of random lengths, with and without a passphrase.
func TestPieces(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	ring := NewKeyring("sesame")
	sealed, err := ring.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []*Key{nil, sealed} {
		for _, kind := range []Kind{RowPiece, KeyPiece} {
			for range 50 {
				roundTrip(t, rng, kind, key)
			}
		}
	}
}

func roundTrip(t *testing.T, rng *rand.Rand, kind Kind, key *Key) {
	t.Helper()
	e := Encoder{Kind: kind}
	var want []Record
	for i := range 1 + rng.IntN(200) {
		r := Record{PK: fmt.Appendf(nil, "%05d%s", i, strings.Repeat("x", rng.IntN(5))), TS: base.Timestamp(rng.Uint64() >> 1),
			Home: base.RegionID(rng.IntN(4)), Pinned: rng.IntN(2) == 0, Deleted: kind == RowPiece && rng.IntN(4) == 0}
		if kind == RowPiece && !r.Deleted {
			r.Value = bytes.Repeat([]byte{byte(i)}, rng.IntN(300))
		}
		want = append(want, r)
		e.Add(&r)
	}
	b, f, err := e.Finish(someID, "a"+kind.Suffix(), key)
	if err != nil {
		t.Fatal(err)
	}
	if e.Size() != 0 || f.Size != int64(len(b)) || f.Records != int64(len(want)) {
		t.Fatalf("%+v", f)
	}
	d, err := Open(someID, f, kind, b, key)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		var r Record
		ok, err := d.Next(&r)
		if !ok || err != nil || !bytes.Equal(r.PK, want[i].PK) || !bytes.Equal(r.Value, want[i].Value) || !r.Same(&want[i]) ||
			r.Deleted != want[i].Deleted {
			t.Fatalf("record %d is %+v, %v, %v; want %+v", i, r, ok, err, want[i])
		}
	}
	if ok, err := d.Next(new(Record)); ok || err != nil {
		t.Fatalf("behind the end: %v, %v", ok, err)
	}
	f.Records++
	if err := readAll(someID, f, kind, b, key); !isFileError(err) {
		t.Fatalf("a record less: %v", err)
	}
	if f.Records -= 2; f.Records > 0 {
		if err := readAll(someID, f, kind, b, key); !isFileError(err) {
			t.Fatalf("a record more: %v", err)
		}
	}
	f.Records++
	if key != nil {
		other := strings.Replace(someID, "0f3a", "0f3b", 1) // of another backup: only the seal says so
		if err := readAll(other, f, kind, b, key); !isFileError(err) {
			t.Fatalf("a piece of another backup: %v", err)
		}
	}
}

// readAll reads a piece to its end.
func readAll(id string, f File, kind Kind, b []byte, key *Key) error {
	d, err := Open(id, f, kind, b, key)
	for ok := true; err == nil && ok; {
		ok, err = d.Next(new(Record))
	}
	return err
}

// TestOrder: records out of order, and equal ones, are refused.
func TestOrder(t *testing.T) {
	for _, keys := range [][]string{{"b", "a"}, {"a", "a"}} {
		e := Encoder{Kind: KeyPiece}
		for _, k := range keys {
			e.Add(&Record{PK: []byte(k)})
		}
		b, f, err := e.Finish(someID, "a.keys", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := readAll(someID, f, KeyPiece, b, nil); !isFileError(err) {
			t.Errorf("%q: %v", keys, err)
		}
	}
}

// TestBombs: what claims to become large is refused before it does.
func TestBombs(t *testing.T) {
	small := compress(bytes.Repeat([]byte{0}, 50<<20))
	if _, err := decompress("x", small, 10<<20); !isFileError(err) {
		t.Errorf("got %v", err)
	}
}

// FuzzManifest: bytes that may be anything, as a file, and as the text in one, lead to an error or
// to a manifest that comes back.
func FuzzManifest(f *testing.F) {
	b, err := someManifest().Encode(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b, false)
	text, err := decompress("x", b[magicLen+1:len(b)-sha256.Size], mostManifest)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, true)
	f.Fuzz(func(t *testing.T, b []byte, text bool) {
		if text {
			b = append([]byte{'G', 'W', 'B', 'M', 'A', 'N', 'I', Version, 0}, compress(b)...)
			sum := sha256.Sum256(b)
			b = append(b, sum[:]...)
		}
		m, _, err := DecodeManifest(someID, b, nil)
		if err != nil {
			if !isFileError(err) {
				t.Fatal(err)
			}
			return
		}
		again, err := m.Encode(nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := DecodeManifest(someID, again, nil); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzPiece: bytes that may be anything, as a file, and as the records in one, lead to an error or
// to records that come back.
func FuzzPiece(f *testing.F) {
	for _, kind := range []Kind{RowPiece, KeyPiece, LogPiece} {
		e := Encoder{Kind: kind}
		for i := range 5 {
			e.Add(&Record{PK: fmt.Appendf(nil, "key%d", i), TS: 7, Home: 1, Deleted: kind == RowPiece && i == 2, Value: []byte("value")})
		}
		f.Add(bytes.Clone(e.buf), true, byte(kind), int64(5))
		b, _, err := e.Finish(someID, "a", nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, false, byte(kind), int64(5))
	}
	f.Fuzz(func(t *testing.T, b []byte, records bool, kind byte, n int64) {
		want := File{Name: "a", Raw: int64(len(b)), Records: n}
		if records {
			b = append([]byte{'G', 'W', 'B', 'D', 'A', 'T', 'A', Version, kind}, compress(b)...)
		} else {
			want.Raw = 1 << 20
		}
		sum := sha256.Sum256(b)
		want.Size, want.SHA256 = int64(len(b)), sum[:]
		d, err := Open(someID, want, Kind(kind), b, nil)
		e := Encoder{Kind: Kind(kind)}
		for err == nil {
			var r Record
			var ok bool
			if ok, err = d.Next(&r); !ok {
				break
			}
			e.Add(&r)
		}
		if err != nil {
			if !isFileError(err) {
				t.Fatal(err)
			}
			return
		}
		if e.n != n {
			t.Fatalf("%d records, want %d", e.n, n)
		}
	})
}
