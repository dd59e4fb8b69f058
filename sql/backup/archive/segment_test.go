package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/godwitdb/godwit/base"
)

func someSegment() (folder string, s *Segment) {
	const to = base.Timestamp(1_800_000_000_000_000_000)
	e := Encoder{Kind: LogPiece}
	e.Add(&Record{PK: LogKey(1, 17, []byte("a"), 7), TS: 7, Home: 1, Value: []byte("v")})
	_, f, err := e.Finish(LogFolder(to), "a.log", nil)
	if err != nil {
		panic(err)
	}
	return LogFolder(to), &Segment{ID: NewID(to), Target: "CLUSTER", Whole: true, Cluster: "c", From: to - 1000, To: to,
		Regions: map[base.RegionID]string{1: "eu"}, Defs: []json.RawMessage{[]byte(`{"a":1}`), []byte(`{}`)},
		States:   []State{{At: to - 5, Databases: []int{0}, Tables: []int{1}}, {At: to, Objects: []StateObject{{Kind: 2, Def: 1}}}},
		Counters: map[uint64]uint64{3: 4}, Pieces: []File{f}}
}

// TestSegment: a segment comes back as it was, and one that says what cannot be is refused.
func TestSegment(t *testing.T) {
	key, err := NewKeyring("sesame").New()
	if err != nil {
		t.Fatal(err)
	}
	keys := KeyringOf([]Secret{key.Secret()})
	folder, s := someSegment()
	b, err := s.Encode(folder, key)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := DecodeSegment(folder, s.ID, b, keys)
	if err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, _, err := DecodeSegment(folder, s.ID, b, nil); !isFileError(err) {
		t.Errorf("without a key: %v", err)
	}
	if other := NewKeyring("sesame"); other != nil {
		strange, err := other.New()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := DecodeSegment(folder, s.ID, b, KeyringOf([]Secret{strange.Secret()})); !isFileError(err) {
			t.Errorf("with another key: %v", err)
		}
	}
	for what, change := range map[string]func(*Segment){
		"an empty period":      func(s *Segment) { s.From = s.To },
		"another folder":       func(s *Segment) { s.To += 1 << 50; s.States = nil },
		"a state before":       func(s *Segment) { s.States[0].At = s.From },
		"a state behind":       func(s *Segment) { s.States[1].At = s.To + 1 },
		"states out of order":  func(s *Segment) { s.States[0].At = s.To },
		"an unknown table":     func(s *Segment) { s.States[0].Tables[0] = 2 },
		"a negative database":  func(s *Segment) { s.States[0].Databases[0] = -1 },
		"an unknown object":    func(s *Segment) { s.States[1].Objects[0].Def = 9 },
		"a file elsewhere":     func(s *Segment) { s.Pieces[0].Name = "../x" },
		"a file of no records": func(s *Segment) { s.Pieces[0].Records = 0 },
		"one file twice":       func(s *Segment) { s.Pieces = append(s.Pieces, s.Pieces[0]) },
	} {
		_, x := someSegment()
		x.ID = s.ID
		change(x)
		b, err := x.Encode(folder, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := DecodeSegment(folder, s.ID, b, nil); !isFileError(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestLogKeys: the versions of a key follow on each other, the newest first, and between those of
// the keys beside it.
func TestLogKeys(t *testing.T) {
	var last []byte
	for _, k := range [][]byte{LogKey(1, 17, []byte("a"), 9), LogKey(1, 17, []byte("a"), 3), LogKey(1, 17, []byte("b"), 5),
		LogKey(1, 18, []byte("a"), 9), LogKey(2, 1, nil, 9)} {
		if bytes.Compare(k, last) <= 0 {
			t.Errorf("%x is not behind %x", k, last)
		}
		last = k
	}
	d := &Decoder{file: "x"}
	shard, table, pk, err := d.LogRow(&Record{PK: LogKey(2, 18, []byte("key"), 9), TS: 9})
	if shard != 2 || table != 18 || string(pk) != "key" || err != nil {
		t.Errorf("%d, %d, %q, %v", shard, table, pk, err)
	}
	for _, r := range []Record{{PK: []byte("short"), TS: 9}, {PK: LogKey(2, 18, nil, 9), TS: 8}} {
		if _, _, _, err := d.LogRow(&r); !isFileError(err) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// document is a file of JSON as it is stored without a key.
func document(magic string, text []byte) []byte {
	b := append(append([]byte(magic), Version, 0), compress(text)...)
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

func FuzzSegment(f *testing.F) {
	folder, s := someSegment()
	text, err := json.Marshal(s)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, true)
	f.Add(document(segmentMagic, text), false)
	f.Fuzz(func(t *testing.T, b []byte, text bool) {
		if text {
			b = document(segmentMagic, b)
		}
		got, _, err := DecodeSegment(folder, s.ID, b, nil)
		if err != nil {
			if !isFileError(err) {
				t.Fatal(err)
			}
			return
		}
		for _, x := range got.States { // what readers rely on
			for _, i := range append(x.Databases, x.Tables...) {
				_ = got.Defs[i]
			}
			for _, o := range x.Objects {
				_ = got.Defs[o.Def]
			}
		}
	})
}

func FuzzPart(f *testing.F) {
	_, s := someSegment()
	text, err := json.Marshal(&Part{Stream: Stream{Shard: 1, Rows: s.Pieces}, Next: []byte("k"), All: 3})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, true)
	f.Add(document(partMagic, text), false)
	f.Fuzz(func(t *testing.T, b []byte, text bool) {
		if text {
			b = document(partMagic, b)
		}
		p, err := DecodePart(someID, "a.part", b, nil)
		if err != nil && !isFileError(err) {
			t.Fatal(err)
		}
		if err == nil && p.Done != (p.Next == nil) {
			t.Errorf("%+v", p)
		}
	})
}
