package wan

import (
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// TestOneProcessPerNode: while a process is heard as a node, another one with a copy of its store
// is refused, and takes nothing from it. When the first has ended or gone silent, the other may
// speak.
func TestOneProcessPerNode(t *testing.T) {
	make1 := func(self base.NodeID, process uint64) *TCP {
		tr, err := NewTCP(TCPOptions{Self: self, Region: 1, ClusterID: "c", Listen: "127.0.0.1:0", Process: process,
			RetryMin: time.Millisecond, RetryMax: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		tr.Handle(wire.KindRead, echo)
		start(t, tr)
		t.Cleanup(func() { tr.Close() })
		return tr
	}
	server := make1(1, 1)
	ask := func(tr *TCP) error {
		tr.SetPeer(1, server.Addr().String(), 1)
		return tr.Call(t.Context(), 1, wire.KindRead, kv(1, nil), nil)
	}
	original, copied := make1(2, 11), make1(2, 12)
	if err := ask(original); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := ask(copied); err == nil || !strings.Contains(err.Error(), "another process runs as node 2") || !NeverRan(err) {
			t.Fatal(err)
		}
		if err := ask(original); err != nil {
			t.Fatal(err)
		}
	}
	if n := original.Stats()[0].Connects; n != 1 {
		t.Fatalf("the original had to connect %d times", n)
	}
	if !server.Other(2, 12) || server.Other(2, 11) || server.Other(3, 12) || !server.Other(1, 12) || server.Other(2, 0) {
		t.Fatal("who is heard as whom")
	}
	// The machine of the original has lost its power: its connections are there, and silent.
	server.smu.Lock()
	for _, c := range server.slots {
		c.heard.Store(time.Now().Add(-2 * heardFor).UnixNano())
	}
	server.smu.Unlock()
	if err := retry(ask, copied); err != nil {
		t.Fatal(err)
	}
	if err := ask(original); err == nil {
		t.Fatal("the original speaks beside the copy that has taken its place")
	}
	// A process that ended has no connections.
	copied.Close()
	if err := retry(ask, original); err != nil {
		t.Fatal(err)
	}
}

// retry asks until the pause after a failed dial is over, and ended connections are noticed.
func retry(ask func(*TCP) error, tr *TCP) (err error) {
	for range 1000 {
		if err = ask(tr); err == nil {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return err
}
