package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// TestWhatSmallClustersSurvive tests the promises of docs/design.md for clusters of few regions or
// nodes. A majority of the voters that package placement chose serves on. Without one, statements
// fail with a retryable error, which the status explains, nothing acknowledged is lost, and the
// cluster serves again when the nodes return.
func TestWhatSmallClustersSurvive(t *testing.T) {
	for _, c := range []struct {
		regions, nodes int // nodes of each
		down           []base.NodeID
		serves         bool
	}{
		{1, 2, []base.NodeID{2}, true}, // node 2 holds no replica: two nodes keep one of each shard
		{1, 2, []base.NodeID{1}, false},
		{1, 3, []base.NodeID{1}, true},
		{1, 3, []base.NodeID{3}, true},
		{1, 3, []base.NodeID{1, 2}, false},
		{2, 1, []base.NodeID{1}, false},
		{2, 1, []base.NodeID{2}, false},
		{2, 2, []base.NodeID{1}, true},
		{2, 2, []base.NodeID{3, 4}, true},
		{2, 2, []base.NodeID{1, 2}, false},
		{3, 1, []base.NodeID{1}, true},
		{3, 1, []base.NodeID{2, 3}, false},
	} {
		t.Run(fmt.Sprintf("%dx%d without %v", c.regions, c.nodes, c.down), func(t *testing.T) {
			onStageOf(t, c.regions, c.nodes, time.Hour, func(s *stage) { s.lose(c.regions, c.down, c.serves) })
		})
	}
}

// lose takes nodes away and brings them back.
func (s *stage) lose(regions int, down []base.NodeID, serves bool) {
	for r := 1; r <= regions; r++ {
		s.put(1, s.key(base.RegionID(r), 1), "before")
	}
	time.Sleep(time.Second)
	before := base.FromTime(time.Now().Add(-500 * time.Millisecond))
	for _, id := range down {
		s.hosts[id-1].crash()
	}
	time.Sleep(10 * time.Second)
	for _, h := range s.hosts {
		l := h.up()
		if l == nil {
			continue
		}
		for r := 1; r <= regions; r++ {
			key := s.key(base.RegionID(r), 1)
			_, err := s.within(20*time.Second, h, kv.Options{},
				func(t kv.Txn) error { t.Put(key, []byte("meanwhile"), 0); return nil })
			s.expect("a write", h, r, err, serves)
			_, err = s.within(20*time.Second, h, kv.Options{ReadOnly: true}, func(t kv.Txn) error {
				_, err := t.Get(context.Background(), []base.Key{key}, kv.LockNone)
				return err
			})
			s.expect("a strong read", h, r, err, serves)
			if l.node.Owners().Holds(1) { // snapshots that are complete here can still be read
				_, err = s.within(time.Second, h, kv.Options{ReadOnly: true, ReadTS: before}, func(t kv.Txn) error {
					rows, err := t.Get(context.Background(), []base.Key{key}, kv.LockNone)
					if err == nil && string(rows[0].Value) != "before" {
						s.t.Errorf("node %d shows %q of the time before", h.id, rows[0].Value)
					}
					return err
				})
				s.expect("a read of the time before", h, r, err, true)
			}
		}
		problems := strings.Join(l.node.Cluster().Status(context.Background()).Problems, "\n")
		if named := strings.Contains(problems, "without a leader"); named == serves {
			s.t.Errorf("node %d names a group without a leader: %v, want %v:\n%s", h.id, named, !serves, problems)
		}
	}
	for _, id := range down {
		s.hosts[id-1].boot()
	}
	for _, h := range s.hosts {
		for r := 1; r <= regions; r++ {
			key := s.key(base.RegionID(r), 1)
			_, err := s.within(liveBound, h, kv.Options{}, func(t kv.Txn) error {
				rows, err := t.Get(context.Background(), []base.Key{key}, kv.LockExclusive)
				if err == nil && rows[0].Value == nil {
					s.t.Errorf("the row of region %d is lost", r)
				}
				t.Put(key, []byte("after"), 0)
				return err
			})
			s.expect("a write after all are back", h, r, err, true)
		}
	}
}

// within runs a transaction through a node, repeated for as long as it may.
func (s *stage) within(d time.Duration, h *host, o kv.Options, fn func(kv.Txn) error) (base.Timestamp, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return kv.Run(ctx, h.up().node.DB(), o, fn)
}

func (s *stage) expect(what string, h *host, region int, err error, ok bool) {
	switch {
	case (err == nil) != ok:
		s.t.Errorf("%s of region %d through node %d: %v, want success: %v", what, region, h.id, err, ok)
	case err != nil:
		switch base.CodeOf(err) {
		case base.CodeUnavailable, base.CodeCanceled, base.CodeAmbiguous, base.CodeLockTimeout:
		default:
			s.t.Errorf("%s of region %d through node %d fails with %v, which says nothing of the outage", what, region, h.id, err)
		}
	}
}
