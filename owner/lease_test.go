package owner

import (
	"context"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/clock"
	"github.com/godwitdb/godwit/group"
	"github.com/godwitdb/godwit/store"
	"github.com/godwitdb/godwit/wan"
	"github.com/godwitdb/godwit/wire"
)

// quiet is a consensus group whose entries are applied when the test says so.
type quiet struct {
	r     *Replica
	index uint64
	queue []func()
}

func (q *quiet) Leader() (base.NodeID, uint64) { return 1, 1 }
func (q *quiet) Hops() int                     { return 0 }
func (q *quiet) Propose(context.Context, *wire.Command, uint64) (any, uint64, error) {
	return nil, 0, base.Errorf(base.CodeInvalid, "not used")
}
func (q *quiet) ProposeAsync(cmd *wire.Command, term uint64, done func(any, uint64, error)) {
	q.index++
	i := q.index
	q.queue = append(q.queue, func() {
		b := q.r.store.NewBatch()
		defer b.Close()
		res, err := q.r.Apply(b, []group.Entry{{Index: i, Term: term, Cmd: cmd}})
		if err == nil {
			b.SetApplied(q.r.id, i)
			err = b.Commit(false)
		}
		q.r.Applied(i)
		done(res[0], i, err)
	})
}
func (q *quiet) apply() {
	for len(q.queue) > 0 {
		f := q.queue[0]
		q.queue = q.queue[1:]
		f()
	}
}

type nowhere struct{}

func (nowhere) Leader(base.GroupID) base.NodeID     { return 0 }
func (nowhere) Replicas(base.GroupID) []base.NodeID { return nil }
func (nowhere) Handle(wire.Kind, wan.Handler)       {}
func (nowhere) Call(context.Context, base.NodeID, wire.Kind, wan.Msg, wan.Msg) error {
	return base.Errorf(base.CodeUnavailable, "nobody is there")
}

// TestPulseHidesNothing is I6: while a commit is in flight, what a leader tells
// by pulse, as of its applied index, lies below that commit; what the commit's own entry says may not.
func TestPulseHidesNothing(t *testing.T) {
	st, err := store.Open(store.Options{Dir: "db", FS: vfs.NewMem(), Simulation: true})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	s := NewSet(Config{Self: 1, Store: st, Clock: clock.New(clock.NewWall(0)), Transport: nowhere{}, Directory: nowhere{}})
	defer s.Close()
	r, err := s.Add(base.MetaGroup)
	if err != nil {
		t.Fatal(err)
	}
	q := &quiet{r: r}
	r.Attach(q)
	r.mu.Lock()
	now := r.clock.Latest()
	r.lead = leadership{term: 1, serving: true, leaseEnd: now.Add(r.cfg.Lease), asked: now.Add(r.cfg.Lease), floor: now}
	id := base.MakeTxnID(now, 1, 1)
	x, err := r.admit(&wire.TxnMeta{Id: id[:]}, 0)
	r.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	w := &wire.Write{Key: append(base.IndexPrefix(0, 16, 0, 0), 'k'), Value: []byte("v")}
	e := &evaluation{r: r, q: &wire.CommitRequest{Txn: &wire.TxnMeta{Id: id[:]}, Writes: []*wire.Write{w}}, writes: []*wire.Write{w}}
	done, err := r.propose(x, 1, e)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		l := r.Lead()
		if l == nil || base.Timestamp(l.Closed) >= e.ts || r.Closed() >= e.ts {
			t.Fatalf("a commit at %s is in flight, and the pulse says %v", e.ts, l)
		}
	}
	q.apply()
	if p := <-done; p.err != nil || r.Closed() < e.ts {
		t.Fatalf("applied: %v, closed %s, want at least %s", p.err, r.Closed(), e.ts)
	}
}
