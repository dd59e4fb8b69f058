package owner_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wire"
)

// machine is a replica that is driven by its log alone.
type machine struct {
	t     *testing.T
	store *store.Store
	set   *owner.Set
	r     *owner.Replica
	index uint64
}

func newMachine(t *testing.T, g base.GroupID) *machine {
	st, err := store.Open(store.Options{Dir: "db", FS: store.Memory(), Simulation: true})
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, store: st}
	m.set = owner.NewSet(owner.Config{Self: 1, Store: st, Clock: clock.New(clock.NewWall(0)), Transport: &phone{},
		Directory: &book{}})
	t.Cleanup(func() {
		m.set.Close()
		_ = st.Close()
	})
	if m.r, err = m.set.Add(g); err != nil {
		t.Fatal(err)
	}
	return m
}

// apply gives the replica an entry of a term.
func (m *machine) apply(term uint64, cmd *wire.Command) {
	m.t.Helper()
	m.index++
	b := m.store.NewBatch()
	defer b.Close()
	if _, err := m.r.Apply(b, []group.Entry{{Index: m.index, Term: term, Cmd: cmd, Arrived: time.Now()}}); err != nil {
		m.t.Fatal(err)
	}
	b.SetApplied(m.r.ID(), m.index)
	if err := b.Commit(false); err != nil {
		m.t.Fatal(err)
	}
	m.r.Applied(m.index)
}

// record is the replicated state as it lies in the store.
func (m *machine) record() []byte {
	m.t.Helper()
	b, ok, err := m.store.GetState(m.r.ID(), "owner")
	if err != nil || !ok {
		m.t.Fatalf("there is no record: %v", err)
	}
	return b
}

// reopen replaces the record and opens the replica again.
func (m *machine) reopen(record []byte) (*owner.Replica, error) {
	m.t.Helper()
	g := m.r.ID()
	m.set.Remove(g)
	b := m.store.NewBatch()
	defer b.Close()
	b.SetState(g, "owner", record)
	if err := b.Commit(false); err != nil {
		m.t.Fatal(err)
	}
	return m.set.Add(g)
}

var g1 = base.DataGroup(1, 1)

// TestStateRoundTrip: what a replica has learned from its log is there when it is opened again, and
// the same entries give the same record everywhere.
func TestStateRoundTrip(t *testing.T) {
	lease := func(holder base.NodeID, end base.Timestamp, virtual bool) *wire.Lease {
		return &wire.Lease{Holder: uint32(holder), End: uint64(end), LengthNs: uint64(3 * time.Second), Virtual: virtual}
	}
	for name, cmds := range map[string][]*wire.Command{
		"nothing": {{}},
		"closed":  {{Closed: 1 << 60}},
		"leases": {{Lease: lease(1, 5e9, false)}, {Lease: lease(2, 7e9, true)},
			{Lease: lease(1, 6e9, false), Ended: lease(2, 4e9, false)}},
		"vector": {{Vector: []*wire.GroupIndex{{Region: 2, Index: 9}, {Region: 7, Index: 1 << 40}}},
			{Vector: []*wire.GroupIndex{{Region: 2, Index: 3}}}},
		"a lease handed over": {{Lease: lease(1, 5e9, false)},
			{LeaseTransfer: &wire.LeaseTransfer{Target: 2, End: 9e9, LengthNs: 3e9, Virtual: true}}},
		"one that was superseded": {{LeaseTransfer: &wire.LeaseTransfer{Target: 2, End: 9e9, LengthNs: 3e9}},
			{Lease: lease(2, 12e9, false)}},
		"largest numbers": {{Closed: uint64(base.MaxTimestamp), Lease: lease(1<<32-1, base.MaxTimestamp, true),
			Vector: []*wire.GroupIndex{{Region: 15, Index: 1<<64 - 1}}}},
		"a region that there cannot be": {{Vector: []*wire.GroupIndex{{Region: 16, Index: 1}}}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newMachine(t, g1), newMachine(t, g1)
			for i, c := range cmds {
				a.apply(uint64(i+1), c)
				b.apply(uint64(i+1), c)
			}
			record := a.record()
			if string(record) != string(b.record()) {
				t.Errorf("the same log, two records: %x and %x", record, b.record())
			}
			r, err := a.reopen(record)
			if err != nil {
				t.Fatal(err)
			}
			if r.Closed() != b.r.Closed() {
				t.Errorf("closed up to %d, then %d", b.r.Closed(), r.Closed())
			}
			a.r = r
			a.apply(9, &wire.Command{})
			b.apply(9, &wire.Command{})
			if string(a.record()) != string(b.record()) {
				t.Errorf("opened again it goes on with %x, the other one with %x", a.record(), b.record())
			}
		})
	}
}

// TestDamagedState: a record that was cut off, or is of a version to come, is refused with a word
// on what to do, and nothing panics.
func TestDamagedState(t *testing.T) {
	m := newMachine(t, g1)
	m.apply(1, &wire.Command{Closed: 1 << 50, Vector: []*wire.GroupIndex{{Region: 3, Index: 300}},
		Lease: &wire.Lease{Holder: 2, End: 1 << 51, LengthNs: 3e9}})
	m.apply(1, &wire.Command{LeaseTransfer: &wire.LeaseTransfer{Target: 3, End: 1 << 52, LengthNs: 3e9, Virtual: true}})
	whole := m.record()
	// After the join and the transfer come leases, as many as there are: the record may end there.
	const least = 1 + 8 + 1 + 17
	for n := range whole {
		r, err := m.reopen(whole[:n])
		switch {
		case err == nil && n < least:
			t.Errorf("%d of %d bytes are taken for a whole record", n, len(whole))
		case err != nil && base.CodeOf(err) != base.CodeCorrupt:
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		case err == nil && r.Closed() != 1<<50:
			t.Errorf("%d of %d bytes: closed up to %d", n, len(whole), r.Closed())
		}
	}
	for _, version := range []byte{0, 4, 255} {
		if _, err := m.reopen(append([]byte{version}, whole[1:]...)); base.CodeOf(err) != base.CodeCorrupt {
			t.Errorf("version %d: %v", version, err)
		}
	}
	for i := range whole { // any bit may have changed: it is refused or read, never a panic
		for bit := range 8 {
			bad := append([]byte(nil), whole...)
			bad[i] ^= 1 << bit
			if _, err := m.reopen(bad); err != nil && base.CodeOf(err) != base.CodeCorrupt {
				t.Errorf("bit %d of byte %d: %v", bit, i, err)
			}
		}
	}
}

// TestOldStates: records of versions 1 and 2 are read.
func TestOldStates(t *testing.T) {
	for version := byte(1); version <= 2; version++ {
		m := newMachine(t, g1)
		b := []byte{version}
		put := func(vs ...uint64) {
			for _, v := range vs {
				b = binary.AppendUvarint(b, v)
			}
		}
		put(1<<50, 1<<49) // closed, last
		for range 16 {
			put(0)
		}
		for holder := uint64(1); holder <= 2; holder++ {
			if put(holder, 1<<51, 1); version == 2 {
				put(3e9)
			}
		}
		r, err := m.reopen(b)
		if err != nil {
			t.Fatalf("version %d: %v", version, err)
		}
		if r.Closed() != 1<<50 {
			t.Errorf("version %d: closed up to %d", version, r.Closed())
		}
		m.r = r
		m.apply(1, &wire.Command{})
		if now := m.record(); now[0] != 3 {
			t.Errorf("version %d is written on as version %d", version, now[0])
		}
	}
}

// TestDamagedRecords: records of transactions, and of the clock mode, that make no sense.
func TestDamagedRecords(t *testing.T) {
	id := base.MakeTxnID(7, 1, 1)
	vote := (&wire.Vote{Txn: id[:], Lo: 5, Hi: 9, Participants: []uint32{uint32(g1)}})
	body, err := vote.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	prepared := append([]byte{byte(wire.TxnState_PREPARED)}, body...)
	committed := append([]byte{byte(wire.TxnState_COMMITTED)}, 0, 0, 0, 0, 0, 0, 0, 7)
	for name, c := range map[string]struct {
		rec []byte
		ok  bool
	}{
		"vote":               {prepared, true},
		"vote, cut":          {prepared[:len(prepared)-1], false},
		"vote without vote":  {prepared[:1], false},
		"commit":             {committed, true},
		"commit with bound":  {append(committed[:9:9], 1), true},
		"commit, odd flags":  {append(committed[:9:9], 4), false},
		"commit, no flags":   {append(committed[:9:9], 0), false},
		"statement":          {append(committed[:9:9], 2, 'a', 'b'), true},
		"statement, bound":   {append(committed[:9:9], 3), true},
		"commit, cut":        {committed[:8], false},
		"commit, too long":   {append(committed[:9:9], 1, 1), false},
		"abort":              {[]byte{byte(wire.TxnState_ABORTED)}, true},
		"abort, too long":    {[]byte{byte(wire.TxnState_ABORTED), 0}, false},
		"nothing":            {[]byte{}, false},
		"a state to come":    {[]byte{9}, false},
		"unknown is no word": {[]byte{byte(wire.TxnState_UNKNOWN)}, false},
	} {
		m := newMachine(t, g1)
		b := m.store.NewBatch()
		b.SetTxn(g1, id, c.rec)
		if err := b.Commit(false); err != nil {
			t.Fatal(err)
		}
		b.Close()
		m.set.Remove(g1)
		if _, err := m.set.Add(g1); c.ok != (err == nil) || err != nil && base.CodeOf(err) != base.CodeCorrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := newMachine(t, base.MetaGroup)
	b := m.store.NewBatch()
	b.SetState(base.MetaGroup, "clock", []byte{0xff, 0xff})
	if err := b.Commit(false); err != nil {
		t.Fatal(err)
	}
	b.Close()
	m.set.Remove(base.MetaGroup)
	if _, err := m.set.Add(base.MetaGroup); base.CodeOf(err) != base.CodeCorrupt {
		t.Errorf("a damaged record of the clock mode: %v", err)
	}
}

// TestMalformedEntries: an entry that no leader proposes stops the replica, and does not change it.
func TestMalformedEntries(t *testing.T) {
	for name, cmd := range map[string]*wire.Command{
		"commit":   {Commit: &wire.TxnCommit{Txn: []byte("short")}},
		"vote":     {Prepare: &wire.Vote{Txn: nil}},
		"decision": {Decide: &wire.Decide{Txn: []byte("x")}},
		"refusal":  {Refuse: []byte("seventeen bytes!!")},
	} {
		m := newMachine(t, g1)
		b := m.store.NewBatch()
		_, err := m.r.Apply(b, []group.Entry{{Index: 1, Term: 1, Cmd: cmd}})
		b.Close()
		if base.CodeOf(err) != base.CodeCorrupt {
			t.Errorf("%s with a malformed name: %v", name, err)
		}
	}
	// A decision must bring a value for each patch of its vote.
	m := newMachine(t, g1)
	id := base.MakeTxnID(7, 1, 1)
	m.apply(1, &wire.Command{Prepare: &wire.Vote{Txn: id[:], Lo: 5, Hi: 6, Slot: 5, Participants: []uint32{uint32(g1)},
		Writes: []*wire.Write{{Key: keyOf("a"), Patch: &wire.Patch{}}, {Key: keyOf("b"), Patch: &wire.Patch{}}}}})
	for _, values := range [][][]byte{nil, {[]byte("1")}, {[]byte("1"), []byte("2"), []byte("3")}} {
		b := m.store.NewBatch()
		_, err := m.r.Apply(b, []group.Entry{{Index: 2, Term: 1,
			Cmd: &wire.Command{Decide: &wire.Decide{Txn: id[:], Commit: true, Ts: 5, Values: values}}}})
		b.Close()
		// The vote is taken off before the values are looked at: an entry like that stops the
		// replica for good.
		if base.CodeOf(err) != base.CodeCorrupt {
			t.Errorf("%d values for two patches: %v", len(values), err)
		}
		m = newMachine(t, g1)
		m.apply(1, &wire.Command{Prepare: &wire.Vote{Txn: id[:], Lo: 5, Hi: 6, Slot: 5, Participants: []uint32{uint32(g1)},
			Writes: []*wire.Write{{Key: keyOf("a"), Patch: &wire.Patch{}}, {Key: keyOf("b"), Patch: &wire.Patch{}}}}})
	}
}
