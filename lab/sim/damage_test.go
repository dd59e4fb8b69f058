package sim

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// TestDamagedTable: a bit flips in the tables of a node that leads, or in each kilobyte of them.
// Once it reads there, it hands its leads over, drops what is damaged, fetches it from another node
// and leads again; meanwhile rows of its region can be read through the other nodes. Nothing that
// was acknowledged is missing, also when the others are gone afterwards.
func TestDamagedTable(t *testing.T) {
	for name, every := range map[string]int{"one bit": 1 << 40, "each kilobyte": 1000} {
		t.Run(name, func(t *testing.T) { damagedTable(t, every) })
	}
}

func damagedTable(t *testing.T, every int) {
	onStage(t, 3, time.Hour, func(s *stage) {
		bad := s.hosts[1]
		for n := range 300 {
			s.put(2, s.key(bad.region, n), strings.Repeat(fmt.Sprint(n), 200))
		}
		if err := bad.up().store.Flush(); err != nil {
			t.Fatal(err)
		}
		bad.damageTables(t, every)
		read := func(h *host, n int) error {
			_, err := s.within(5*time.Second, h, kv.Options{ReadOnly: true}, func(x kv.Txn) error {
				rows, err := x.Get(context.Background(), []base.Key{s.key(bad.region, n)}, kv.LockNone)
				if err == nil && string(rows[0].Value) != strings.Repeat(fmt.Sprint(n), 200) {
					t.Errorf("node %d reads %q", h.id, rows[0].Value)
				}
				return err
			})
			return err
		}
		if err := bad.up().store.Verify(); err == nil {
			t.Fatal("the damage is not found")
		}
		s.expectLeads(bad, false, 3*time.Second)
		for _, h := range s.hosts {
			if h != bad {
				if err := read(h, 150); err != nil {
					t.Errorf("node %d cannot read a row of region %d: %v", h.id, bad.region, err)
				}
			}
		}
		time.Sleep(10 * time.Second)
		if err := bad.up().store.Verify(); err != nil {
			v, serr := bad.up().store.Survey()
			t.Errorf("the store is still damaged: %v; a survey finds %+v, %v; wanted %+v; health %+v", err, v, serr,
				bad.up().store.Wanted(), bad.up().node.Cluster().Health())
		}
		for n := range 300 {
			if err := read(bad, n); err != nil {
				t.Errorf("node %d cannot read row %d: %v", bad.id, n, err)
			}
		}
		if said := bad.up().node.Cluster().Health(); !strings.Contains(fmt.Sprint(said), "was repaired from node") {
			t.Errorf("the node's health says nothing of the repair: %+v", said)
		}
		s.expectLeads(bad, true, 30*time.Second)
	})
}

// damageTables flips a bit of each table on a host's disk a third from its begin, and one in each
// so many bytes.
func (h *host) damageTables(t *testing.T, every int) {
	t.Helper()
	names, err := h.fs.List("db")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		path := h.fs.PathJoin("db", name)
		f, err := h.fs.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		g, err := h.fs.OpenReadWrite(path, "test")
		if err != nil {
			t.Fatal(err)
		}
		for at := len(data) / 3 % every; at < len(data); at += every {
			if _, err := g.WriteAt([]byte{data[at] ^ 0x10}, int64(at)); err != nil {
				t.Fatal(err)
			}
		}
		g.Close()
		n++
	}
	if n == 0 {
		t.Fatal("there are no tables")
	}
}
