package owner_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wire"
)

// oldMachine is a replica of a build that knows the first cluster version alone.
func oldMachine(t *testing.T, breaks owner.Breaks) *machine {
	st, err := store.Open(store.Options{Dir: "db", FS: store.Memory(), Simulation: true, Knows: base.VersionFirst})
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, store: st}
	m.set = owner.NewSet(owner.Config{Self: 1, Store: st, Clock: clock.New(clock.NewWall(0)), Transport: &phone{},
		Directory: &book{}, Breaks: breaks})
	t.Cleanup(func() {
		m.set.Close()
		_ = st.Close()
	})
	if m.r, err = m.set.Add(g1); err != nil {
		t.Fatal(err)
	}
	return m
}

// tryApply gives the replica entries as they come from a log.
func (m *machine) tryApply(cmds ...*wire.Command) error {
	var ents []group.Entry
	for i, c := range cmds {
		b, err := c.MarshalVT()
		if err != nil {
			m.t.Fatal(err)
		}
		read := new(wire.Command)
		if err := read.UnmarshalVT(b); err != nil {
			m.t.Fatal(err)
		}
		ents = append(ents, group.Entry{Index: m.index + uint64(i) + 1, Term: 1, Cmd: read, Arrived: time.Now()})
	}
	b := m.store.NewBatch()
	defer b.Close()
	_, err := m.r.Apply(b, ents)
	return err
}

// TestEntryOfNewerBuild plays the history of VERSION-3: a log has an entry with a part that an
// older build does not know. That build stops before it, having applied nothing behind it. One that
// skips what it does not know goes on, and its replica is another one than the others'.
func TestEntryOfNewerBuild(t *testing.T) {
	fine := &wire.Command{Closed: 5}
	needs := &wire.Command{Closed: 6, Needs: uint32(base.VersionFirst) + 1}
	// A command of a build to come, with a part 99.
	raw, err := fine.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	raw = protowire.AppendBytes(protowire.AppendTag(raw, 99, protowire.BytesType), []byte("merge"))
	part := new(wire.Command)
	if err := part.UnmarshalVT(raw); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cmd  *wire.Command
		want string
	}{
		"needs": {needs, "entry 2 needs cluster version 7, and this build knows versions up to 6"},
		"part":  {part, "entry 2 has a part that this build does not know"},
	} {
		t.Run(name, func(t *testing.T) {
			m := oldMachine(t, owner.Breaks{})
			err := m.tryApply(fine, c.cmd)
			if base.CodeOf(err) != base.CodeInvalid || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "newer build") {
				t.Errorf("%v, want %q", err, c.want)
			}
			if m.r.Closed() != 0 {
				t.Errorf("something of the batch was applied: closed up to %d", m.r.Closed())
			}
			if err := m.tryApply(fine); err != nil {
				t.Errorf("what it knows: %v", err)
			}
			if err := oldMachine(t, owner.Breaks{SkipUnknown: true}).tryApply(fine, c.cmd); err != nil {
				t.Errorf("the broken variant stops, too: %v", err)
			}
		})
	}
	if err := newMachine(t, g1).tryApply(fine, needs); err != nil {
		t.Errorf("a build that knows the version: %v", err)
	}
}
