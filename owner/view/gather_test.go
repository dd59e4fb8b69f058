package view

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/wire"
)

type nothingMissing struct{}

func (nothingMissing) Missing(w base.GroupIndex) []*wire.GroupIndex {
	return []*wire.GroupIndex{{Region: uint32(w.Region), Index: w.Index}}
}

// TestGatherWalks: a read of many keys answers as reads of each of them do, whether few or most of
// the keys are there, are this group's, and lie close together.
func TestGatherWalks(t *testing.T) {
	walked, ended := 0, 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 23))
		st, err := store.Open(store.Options{Dir: "db", FS: store.Memory(), Simulation: true})
		if err != nil {
			t.Fatal(err)
		}
		all := cursorKeys(r)
		fillCursor(t, st, r, all)
		all = slices.DeleteFunc(all, func(k base.Key) bool { return k.Shard() != 1 })
		of := &Group{ID: base.DataGroup(1, 1), Store: st, Missing: nothingMissing{}, NotesAll: true, MaxBytes: 1 << 20}
		q := &wire.ReadRequest{}
		for _, k := range all {
			q.Spans = append(q.Spans, &wire.Span{Start: k})
		}
		rd := st.NewPointReader()
		ask := func(spans []*wire.Span) (*Gather, *wire.ReadResponse) {
			resp := &wire.ReadResponse{}
			g := NewGather(of, rd, &wire.ReadRequest{Spans: spans}, base.MaxTimestamp, resp)
			g.Keep = true
			if err := g.Run(); err != nil {
				t.Fatal(err)
			}
			return g, resp
		}
		got, resp := ask(q.Spans)
		if got.walk.found > 0 {
			walked++
		}
		if got.walk.found > mostFound && got.walk.found < len(all) {
			ended++
		}
		var rows []*wire.KV
		var foreign []*wire.Foreign
		var own []Seen
		var need []*wire.GroupIndex
		for _, s := range q.Spans {
			one, answer := ask([]*wire.Span{s})
			rows, foreign = append(rows, answer.Rows...), append(foreign, answer.Foreign...)
			own, need = append(own, one.Own...), append(need, one.Need...)
		}
		if !reflect.DeepEqual(resp.Rows, rows) || !reflect.DeepEqual(resp.Foreign, foreign) {
			t.Fatalf("seed %d: %d rows and %d foreign keys, want %d and %d", seed, len(resp.Rows), len(resp.Foreign),
				len(rows), len(foreign))
		}
		if !reflect.DeepEqual(got.Own, own) || !reflect.DeepEqual(got.Need, need) {
			t.Fatalf("seed %d: other places", seed)
		}
		rd.Close()
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if walked < 10 || ended < 3 {
		t.Fatalf("%d walks, of which %d ended early: the test looks at nothing", walked, ended)
	}
}

// TestGatherDrops: an answer that drops nearly all rows has the others, ends at some time, and goes
// on where it ended, in both directions, at the owner and at a replica.
func TestGatherDrops(t *testing.T) {
	st, err := store.Open(store.Options{Dir: "db", FS: store.Memory(), Simulation: true})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	const rows, each = maxDropped + 5000, 10_000
	section := base.IndexPrefix(1, 7<<20, 0, 0)
	b := st.NewBatch()
	for i := range rows {
		v := []byte("no")
		if i%each == 0 {
			v = []byte("yes")
		}
		b.PutVersion(store.Version{Key: base.AppendUint64(section.Clone(), uint64(i)), TS: 5, Value: v,
			Label: base.MakeLabel(1, 1, 1), Writer: base.GroupIndex{Region: 1, Index: 1}})
	}
	if err := b.Commit(false); err != nil {
		t.Fatal(err)
	}
	b.Close()
	of := &Group{ID: base.DataGroup(1, 1), Store: st, Missing: nothingMissing{}, MaxBytes: 1 << 20}
	rd := st.NewPointReader()
	defer rd.Close()
	for _, all := range []bool{false, true} {
		for _, reverse := range []bool{false, true} {
			span := &wire.Span{Start: section, End: section.PrefixEnd()}
			got, answers := 0, 0
			for more := true; more; answers++ {
				resp := &wire.ReadResponse{}
				g := NewGather(of, rd, &wire.ReadRequest{Spans: []*wire.Span{span}, Reverse: reverse}, 9, resp)
				g.All = all
				g.Drops = func(v []byte) bool { return string(v) == "no" }
				if err := g.Run(); err != nil {
					t.Fatal(err)
				}
				for _, r := range resp.Rows {
					if string(r.Value) != "yes" {
						t.Fatalf("all %v: a row of %q", all, r.Value)
					}
				}
				if g.seen > maxDropped {
					t.Fatalf("%d keys for one answer", g.seen)
				}
				got += len(resp.Rows)
				if more = len(resp.Resume) > 0; reverse {
					span.End = resp.Resume
				} else {
					span.Start = resp.Resume
				}
			}
			if want := (rows + each - 1) / each; got != want || answers != 2 {
				t.Errorf("all %v, reverse %v: %d rows of %d, %d answers", all, reverse, got, want, answers)
			}
		}
	}
}

// TestFixedOwner: what lies in front of a range or a key of an index keyed by home is not looked
// at: the section has one owner. In front of another index's it is.
func TestFixedOwner(t *testing.T) {
	st, err := store.Open(store.Options{Dir: "db", FS: store.Memory(), Simulation: true})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	b := st.NewBatch()
	fixed, moving := base.IndexPrefix(1, 7<<20, base.ByHome|2, 1), base.IndexPrefix(1, 7<<20, 3, 0)
	for _, section := range []base.Key{fixed, moving} {
		w := base.GroupIndex{Region: 2, Index: 9}
		b.PutVersion(store.Version{Key: base.AppendUint64(section.Clone(), 10), TS: 5, Value: []byte("v"),
			Label: base.MakeLabel(2, 2, 9), Writer: w})
	}
	if err := b.Commit(false); err != nil {
		t.Fatal(err)
	}
	b.Close()
	of := &Group{ID: base.DataGroup(1, 1), Store: st, Missing: nothingMissing{}, MaxBytes: 1 << 20}
	rd := st.NewPointReader()
	defer rd.Close()
	for _, section := range []base.Key{fixed, moving} {
		lo, hi := base.AppendUint64(section.Clone(), 20), base.AppendUint64(section.Clone(), 30)
		for _, s := range []*wire.Span{{Start: lo, End: hi}, {Start: lo}} {
			resp := &wire.ReadResponse{}
			if err := NewGather(of, rd, &wire.ReadRequest{Spans: []*wire.Span{s}}, base.MaxTimestamp, resp).Run(); err != nil {
				t.Fatal(err)
			}
			if foreign := len(resp.Foreign) > 0; foreign != (section.Index() == 3) {
				t.Errorf("index %x, %v: foreign %v", section.Index(), s, foreign)
			}
		}
		c := NewCursor(rd)
		got, err := c.Locate(lo)
		c.Close()
		if want, _ := Locate(rd, lo); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("index %x: the cursor finds %+v, %v, want %+v", section.Index(), got, err, want)
		}
		replica := NewGather(of, rd, &wire.ReadRequest{Spans: []*wire.Span{{Start: lo}}}, base.Timestamp(9), &wire.ReadResponse{})
		replica.All, replica.AsOf = true, true
		if err := replica.Run(); err != nil {
			t.Fatal(err)
		}
		if want := base.DataGroup(1, base.RegionID(map[bool]int{true: 2, false: 1}[section.Index() == 3])); replica.Homes != 1<<want.Region() {
			t.Errorf("index %x: homes %b", section.Index(), replica.Homes)
		}
	}
}
