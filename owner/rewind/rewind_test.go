package rewind_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/owner/rewind"
	"github.com/godwitdb/godwit/wire"
)

var g = base.DataGroup(1, 1)

func key(name string) base.Key {
	return append(base.IndexPrefix(1, base.MakeTableID(3000, 1), 0, 0), name...)
}

func id(n uint32) base.TxnID { return base.MakeTxnID(1, 1, n) }

// history gives a replica of g a log with a commit below the cut of 100 and all kinds of
// transactions above it, and returns the store without the replica.
func history(t *testing.T) *store.Store {
	st, err := store.Open(store.Options{Dir: "db", FS: store.Memory(), Simulation: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	set := owner.NewSet(owner.Config{Self: 1, Store: st, Clock: clock.New(clock.NewWall(0)), Transport: nobody{},
		Directory: nobody{}})
	defer set.Close()
	r, err := set.Add(g)
	if err != nil {
		t.Fatal(err)
	}
	index := uint64(0)
	apply := func(c *wire.Command) {
		index++
		b := st.NewBatch()
		defer b.Close()
		if _, err := r.Apply(b, []group.Entry{{Index: index, Term: 1, Cmd: c}}); err != nil {
			t.Fatal(err)
		}
		b.SetApplied(g, index)
		if err := b.Commit(false); err != nil {
			t.Fatal(err)
		}
		r.Applied(index)
	}
	commit := func(n uint32, ts uint64, keys ...string) {
		x := id(n)
		apply(&wire.Command{Ts: ts, Commit: &wire.TxnCommit{Txn: x[:], Writes: writes(keys)}})
	}
	vote := func(n uint32, lo, depends uint64, with base.GroupID, keys ...string) {
		x := id(n)
		apply(&wire.Command{Prepare: &wire.Vote{Txn: x[:], Lo: lo, Hi: lo + 50, Depends: depends,
			Writes: writes(keys), Participants: []uint32{uint32(g), uint32(with)}}})
	}
	decide := func(n uint32, commit bool, ts uint64) {
		x := id(n)
		apply(&wire.Command{Decide: &wire.Decide{Txn: x[:], Commit: commit, Ts: ts}})
	}
	near, far := base.DataGroup(2, 1), base.DataGroup(1, 2)
	commit(1, 90, "a")
	commit(2, 110, "a", "b")
	vote(3, 120, 80, near, "c") // undecided, of groups that are lost together
	vote(4, 121, 80, far, "d")  // undecided, but another region relies on it
	vote(5, 122, 105, far, "e") // rests on what is above the cut
	vote(6, 123, 80, near, "f")
	decide(6, true, 130)
	vote(7, 124, 80, near, "h")
	decide(7, false, 0)
	vote(8, 95, 80, near, "i") // its timestamp may lie below the cut
	// large ones: one that has not voted, one that has, and one of which a piece is settled
	stage := func(n, piece uint32, keys ...string) {
		x := id(n)
		apply(&wire.Command{Stage: &wire.Stage{Txn: x[:], Piece: piece, Writes: writes(keys)}})
	}
	pieces := func(n uint32, lo uint64) {
		x := id(n)
		stage(n, 1, fmt.Sprint("x", n), fmt.Sprint("y", n))
		stage(n, 2, fmt.Sprint("z", n))
		if lo > 0 {
			apply(&wire.Command{Prepare: &wire.Vote{Txn: x[:], Lo: lo, Hi: lo + 50, Pieces: 2, Participants: []uint32{uint32(g)}}})
		}
	}
	pieces(9, 0)
	pieces(10, 140)
	pieces(11, 150)
	x := id(11)
	apply(&wire.Command{Settle: &wire.Settle{Txn: x[:], Ts: 150, Piece: 1}})
	return st
}

func writes(keys []string) (out []*wire.Write) {
	for _, k := range keys {
		out = append(out, &wire.Write{Key: key(k), Value: []byte("v"), Label: uint64(base.MakeLabel(1, 0, 0))})
	}
	return out
}

// mixed: groups of region 1 are lost together.
func mixed(participants []uint32) bool {
	for _, p := range participants {
		if base.GroupID(p).Region() != 1 {
			return true
		}
	}
	return false
}

// state is what is left in a store: versions, and how transactions stand.
func state(t *testing.T, st *store.Store) string {
	var out []string
	if err := st.EachVersion(1, func(v *store.Version) error {
		out = append(out, fmt.Sprintf("%s@%d", string(v.Key[base.IndexPrefixLen:]), v.TS))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := st.ScanTxns(g, base.TxnID{}, base.TxnID{}, func(x base.TxnID, rec []byte) error {
		s := strings.ToLower(wire.TxnState(rec[0]).String())
		for n := uint32(1); n < 12; n++ {
			if id(n) == x {
				out = append(out, fmt.Sprintf("t%d %s", n, s))
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, ", ")
}

// TestSource (REPL-2): the copy that the new incarnation begins with keeps what lies at or below
// the cut, and votes that other regions rely on and that rest on nothing above it. Everything else
// is discarded and listed.
func TestSource(t *testing.T) {
	st := history(t)
	var lost rewind.Lost
	err := rewind.Run(rewind.Node{Self: 1, Store: st, Mixed: mixed},
		rewind.Rewinding{Group: g, Incarnation: 1, Cut: 100, Source: true},
		func(l rewind.Lost) error { lost = l; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if got, want := state(t, st), "a@90, t1 committed, t3 aborted, t4 prepared, t5 aborted, t7 aborted, t8 aborted, "+
		"t9 aborted, t10 aborted, t11 aborted"; got != want {
		t.Errorf("left is\n%s, want\n%s", got, want)
	}
	var list []string
	for _, x := range lost.List {
		list = append(list, fmt.Sprintf("@%d unsure %v, %d rows", x.TS, x.Unsure, x.Rows()))
	}
	if got, want := strings.Join(list, "; "), "@110 unsure false, 2 rows; @120 unsure true, 1 rows; "+
		"@130 unsure false, 1 rows; @140 unsure true, 3 rows; @150 unsure true, 3 rows"; got != want {
		t.Errorf("lost are\n%s, want\n%s", got, want)
	}
	if lost.Txns != 5 || lost.Rows != 10 || lost.Group != g || lost.Node != 1 {
		t.Errorf("the report says %+v", lost)
	}
	if n, err := st.Incarnation(g); err != nil || n != 1 {
		t.Errorf("incarnation %d, %v", n, err)
	}
}

// TestReportFirst: if the report cannot be kept, nothing is changed.
func TestReportFirst(t *testing.T) {
	st := history(t)
	before, no := state(t, st), errors.New("the disk is full")
	err := rewind.Run(rewind.Node{Self: 1, Store: st, Mixed: mixed},
		rewind.Rewinding{Group: g, Incarnation: 1, Cut: 100, Source: true},
		func(rewind.Lost) error { return no })
	if !errors.Is(err, no) {
		t.Errorf("it says %v", err)
	}
	if after := state(t, st); after != before {
		t.Errorf("before\n%s, after\n%s", before, after)
	}
}

// nobody is a network without other nodes.
type nobody struct{}

func (nobody) Leader(base.GroupID) base.NodeID            { return 0 }
func (nobody) Replicas(base.GroupID) []base.NodeID        { return nil }
func (nobody) Handle(wire.Kind, wan.Handler)              {}
func (nobody) Send(base.NodeID, wire.Kind, wan.Msg) error { return nil }
func (nobody) Call(context.Context, base.NodeID, wire.Kind, wan.Msg, wan.Msg) error {
	return base.Errorf(base.CodeUnavailable, "nobody is there")
}
