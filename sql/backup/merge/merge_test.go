package merge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/backup/archive"
)

// change is a version of a key of shard 1 and table 7.
func change(key string, ts base.Timestamp, value string) Change {
	k := archive.LogKey(1, 7, []byte(key), ts)
	return Change{Record: archive.Record{PK: k[:len(k)-8], TS: ts, Home: base.RegionID(ts % 3), Pinned: ts%2 == 0, Deleted: value == "",
		Value: []byte(value)}, File: int(ts % 100)}
}

// open is how many files of a directory this process has open; -1: the system does not tell.
func open(t *testing.T, dir string) (n int) {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	for _, e := range fds {
		if to, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); err == nil && strings.HasPrefix(to, dir) {
			n++
		}
	}
	return n
}

// none waits until no file of a directory is open or has a name.
func none(t *testing.T, dir string) {
	t.Helper()
	for range 500 {
		if open(t, dir) <= 0 {
			break
		}
		time.Sleep(10 * time.Millisecond) // files are closed aside
	}
	names, err := os.ReadDir(dir)
	if n := open(t, dir); n > 0 || err != nil || len(names) > 0 {
		t.Errorf("%d files are open, and there are %v, %v", n, names, err)
	}
}

// TestSorter: however little memory there is, the newest version of each key comes back as it was,
// in the order of keys; a map is the judge. Files are gone afterwards, and say nothing meanwhile.
func TestSorter(t *testing.T) {
	for _, most := range []int{1 << 30, 4000, 300} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			dir := t.TempDir()
			s := NewSorter(t.Context(), dir, most)
			rng := rand.New(rand.NewPCG(1, uint64(most)))
			want := map[string]Change{}
			for i := range 5000 {
				v := fmt.Sprint("value ", i, strings.Repeat("x", rng.IntN(40)))
				if rng.IntN(5) == 0 {
					v = ""
				}
				c := change(fmt.Sprintf("%0*d", 1+rng.IntN(6), rng.IntN(700)), base.Timestamp(rng.IntN(1e9)*10_000+i), v)
				if was, ok := want[string(c.PK)]; !ok || was.TS < c.TS {
					want[string(c.PK)] = c
				}
				if err := s.Add(c); err != nil {
					t.Fatal(err)
				}
			}
			if n := s.Files(); (n > 0) != (most < 1<<30) || n > 3*fanIn {
				t.Errorf("%d files", n)
			}
			c, err := s.Changes()
			if err != nil {
				t.Fatal(err)
			}
			n, last := 0, ""
			for ; !c.Done && err == nil; err = c.Next() {
				got, was := c.Change, want[string(c.Change.PK)]
				if string(got.PK) <= last || got.TS != was.TS || string(got.Value) != string(was.Value) || got.Home != was.Home ||
					got.Pinned != was.Pinned || got.Deleted != was.Deleted || got.File != was.File {
					t.Fatalf("%q behind %q: %+v, want %+v", got.PK, last, got, was)
				}
				n, last = n+1, string(got.PK)
			}
			if err != nil || n != len(want) {
				t.Errorf("%d keys, want %d, %v", n, len(want), err)
			}
			s.Close()
			none(t, dir)
		})
	}
}

// TestSorterEnds: a sorter ends with its context, and leaves no file; so it is without a directory.
func TestSorterEnds(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := NewSorter(ctx, dir, 300)
	var err error
	for i := 0; err == nil; i++ {
		if i == 1000 {
			if n := open(t, dir); n == 0 {
				t.Error("no file is open: this tests nothing")
			}
			cancel()
		}
		err = s.Add(change(fmt.Sprint(i), base.Timestamp(i+1), "value"))
	}
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	s.Close()
	none(t, dir)
	s = NewSorter(t.Context(), filepath.Join(dir, "none"), 300)
	defer s.Close()
	for err = nil; err == nil; {
		err = s.Add(change("x", 1, "value"))
	}
	if !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestDamagedChange: a version in a file that is not what was written is an error.
func TestDamagedChange(t *testing.T) {
	c := change("key", 5, "value")
	b := c.append(nil)
	var got Change
	if err := got.decode(b); err != nil || string(got.Value) != "value" || string(got.PK) != string(c.PK) {
		t.Errorf("%+v, %v", got, err)
	}
	for n := range len(b) - len("value") {
		if got.decode(b[:n]) == nil {
			t.Errorf("%d bytes of %d are a version", n, len(b))
		}
	}
	s := NewSorter(t.Context(), t.TempDir(), 1)
	defer s.Close()
	if err := s.Add(c); err != nil {
		t.Fatal(err)
	}
	other := NewSorter(t.Context(), t.TempDir(), 1)
	defer other.Close()
	if err := other.Add(c); err != nil {
		t.Fatal(err)
	}
	s.runs[0][0].key = other.runs[0][0].key
	if _, err := s.Changes(); err == nil {
		t.Error("a file that is read with another key is as it was")
	}
}

// TestEach: rows of two places and changes, also of shards that no place has, come in order; what
// was changed counts instead of what there was.
func TestEach(t *testing.T) {
	piece := func(keys ...string) *Rows {
		e := archive.Encoder{Kind: archive.RowPiece}
		for _, k := range keys {
			e.Add(&archive.Record{PK: []byte(k), TS: 1, Value: []byte("old " + k)})
		}
		b, f, err := e.Finish("id", "x.rows", nil)
		if err != nil {
			t.Fatal(err)
		}
		c := &Cursor{Left: []archive.File{f}, In: func(err error) error { return err },
			Read: func(context.Context, archive.File) (*archive.Decoder, error) {
				return archive.Open("id", f, archive.RowPiece, b, nil)
			}}
		if err := c.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		return &Rows{Cursors: []*Cursor{c}}
	}
	s := NewSorter(t.Context(), t.TempDir(), 200)
	defer s.Close()
	late := archive.LogKey(0, 9, []byte("z"), 9)
	for _, c := range []Change{change("b", 5, "new b"), change("c", 6, ""), change("c", 5, "lost"), change("d", 7, "new d"), change("e", 7, ""),
		{Record: archive.Record{PK: late[:len(late)-8], TS: 9, Value: []byte("first")}}} {
		if err := s.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	changes, err := s.Changes()
	if err != nil {
		t.Fatal(err)
	}
	closed := 0
	shards := []Shard{
		{ID: 2, Table: 7, Open: func(context.Context) ([]*Rows, error) { return []*Rows{piece("b", "c")}, nil }},
		{ID: 1, Table: 7, Open: func(context.Context) ([]*Rows, error) { return []*Rows{piece("a", "c", "f"), piece("b")}, nil }},
	}
	for i := range shards {
		shards[i].Close = func(rows []*Rows) error {
			for _, r := range rows {
				closed += int(r.Number)
			}
			return nil
		}
	}
	var got []string
	err = Each(t.Context(), shards, changes, func(id base.TableID, r *archive.Record, d *archive.Decoder, _ int) error {
		got = append(got, fmt.Sprintf("%d %s %s %v", id, r.PK, r.Value, d == nil))
		return nil
	})
	want := []string{"9 z first true", "7 a old a false", "7 b new b true", "7 d new d true", "7 f old f false", "7 b old b false", "7 c old c false"}
	if !slices.Equal(got, want) || err != nil || closed != 6 {
		t.Errorf("%q, %v, %d rows\nwant %q", got, err, closed, want)
	}
}
