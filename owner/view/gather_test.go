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
