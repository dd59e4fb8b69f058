package owner

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/owner/evaluate"
	"github.com/godwitdb/godwit/owner/lead"
	"github.com/godwitdb/godwit/owner/state"
	"github.com/godwitdb/godwit/wire"
)

// quiet is a consensus group whose entries are applied when the test says so.
type quiet struct {
	r     *Replica
	mu    sync.Mutex
	index uint64
	queue []func()
}

func (q *quiet) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.queue)
}

func (q *quiet) Leader() (base.NodeID, uint64) { return 1, 1 }
func (q *quiet) Hops() int                     { return 0 }
func (q *quiet) FarCopies() int                { return 0 }
func (q *quiet) Propose(context.Context, *wire.Command, uint64) (any, uint64, error) {
	return nil, 0, base.Errorf(base.CodeInvalid, "not used")
}
func (q *quiet) ProposeAsync(cmd *wire.Command, term uint64, done func(any, uint64, error)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.index++
	i := q.index
	q.queue = append(q.queue, func() {
		b := q.r.store.NewBatch()
		defer b.Close()
		res, err := q.r.Apply(b, []group.Entry{{Index: i, Term: term, Cmd: cmd, Arrived: time.Now()}})
		if err == nil {
			b.SetApplied(q.r.id, i)
			err = b.Commit(false)
		}
		q.r.Applied(i)
		done(res[0], i, err)
	})
}
func (q *quiet) Enqueue(cmd *wire.Command, term uint64, done func(any, uint64, error)) {
	q.ProposeAsync(cmd, term, done)
}
func (q *quiet) ProposePlaced(cmd *wire.Command, term uint64, _ func(uint64), done func(any, uint64, error)) {
	q.ProposeAsync(cmd, term, done)
}
func (q *quiet) Committed(uint64, uint64) {}
func (q *quiet) Push()                    {}
func (q *quiet) PassOn(uint64)            {}

// Deposed is not used.
func (q *quiet) Deposed(uint64, base.NodeID) {}

func (q *quiet) Resigned(base.NodeID, uint64) {}
func (q *quiet) Stand(uint64, base.NodeID, uint64) error {
	return base.Errorf(base.CodeInvalid, "not used")
}
func (q *quiet) apply() {
	for q.waiting() > 0 {
		q.mu.Lock()
		f := q.queue[0]
		q.queue = q.queue[1:]
		q.mu.Unlock()
		f()
	}
}

type nowhere struct{}

func (nowhere) Leader(base.GroupID) base.NodeID            { return 0 }
func (nowhere) Replicas(base.GroupID) []base.NodeID        { return nil }
func (nowhere) Handle(wire.Kind, wan.Handler)              {}
func (nowhere) Send(base.NodeID, wire.Kind, wan.Msg) error { return nil }
func (nowhere) Call(context.Context, base.NodeID, wire.Kind, wan.Msg, wan.Msg) error {
	return base.Errorf(base.CodeUnavailable, "nobody is there")
}

// leader is a replica of the meta group that leads, over a quiet group.
func leader(t *testing.T) (*Replica, *quiet) {
	st, err := store.Open(store.Options{Dir: "db", FS: vfs.NewMem(), Simulation: true})
	if err != nil {
		t.Fatal(err)
	}
	s := NewSet(Config{Self: 1, Store: st, Clock: clock.New(clock.NewWall(0)), Transport: nowhere{}, Directory: nowhere{}})
	t.Cleanup(func() { s.Close(); _ = st.Close() })
	r, err := s.Add(base.MetaGroup)
	if err != nil {
		t.Fatal(err)
	}
	q := &quiet{r: r}
	r.Attach(q)
	now := r.clock.Latest()
	r.lead = lead.Leadership{State: lead.Serving, Term: 1, Floor: now,
		OwnLease: lead.OwnLease{LeaseEnd: now.Add(r.cfg.Lease), Until: time.Now().Add(r.cfg.Lease),
			Requested: now.Add(r.cfg.Lease)}}
	return r, q
}

var metaRow = append(base.IndexPrefix(0, 16, 0, 0), 'k')

// proposal proposes a write of metaRow and returns what was assigned.
func proposal(t *testing.T, r *Replica, seq uint32, prepare bool) (*evaluation, chan proposed) {
	id := base.MakeTxnID(r.clock.Now(), 1, seq)
	r.mu.Lock()
	x, err := r.admit(&wire.TxnMeta{Id: id[:]}, 0)
	r.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	w := &wire.Write{Key: metaRow, Value: []byte("v")}
	q := &wire.CommitRequest{Txn: &wire.TxnMeta{Id: id[:]}, Writes: []*wire.Write{w}, Prepare: prepare}
	e := &evaluation{r: r, q: q, by: byLock{}, x: x, term: 1, Findings: evaluate.Findings{Writes: q.Writes}}
	done, err := r.propose(e)
	if err != nil {
		t.Fatal(err)
	}
	return e, done
}

// TestFloor is OWN-2 and OWN-3: after a snapshot was read, nothing commits at or below it, whatever
// the clocks say.
func TestFloor(t *testing.T) {
	r, _ := leader(t)
	at := r.clock.Latest().Add(r.cfg.Lease / 2)
	resp := r.Read(t.Context(), &wire.ReadRequest{ReadTs: uint64(at), Spans: []*wire.Span{{Start: metaRow}}})
	if err := ErrorOf(resp.Status); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if e, _ := proposal(t, r, uint32(i), i == 1); e.ts <= at {
			t.Errorf("read at %s, then assigned %s", at, e.ts)
		}
	}
}

// TestVoteBound is OWN-9: a vote ends with the lease that protects what was read.
func TestVoteBound(t *testing.T) {
	r, _ := leader(t)
	if e, _ := proposal(t, r, 1, true); e.hi == 0 || e.hi > r.lead.LeaseEnd {
		t.Errorf("voted below %s under a lease until %s", e.hi, r.lead.LeaseEnd)
	}
}

// TestHeartbeatHidesNothing is OWN-6: while a commit is in flight, what a leader tells by
// heartbeat, as of its applied index, lies below that commit; what the commit's own entry says may
// not.
func TestHeartbeatHidesNothing(t *testing.T) {
	r, q := leader(t)
	e, done := proposal(t, r, 1, false)
	for range 3 {
		l := r.Lead()
		if l == nil || base.Timestamp(l.Closed) >= e.ts || r.Closed() >= e.ts {
			t.Fatalf("a commit at %s is in flight, and the heartbeat says %v", e.ts, l)
		}
	}
	q.apply()
	if p := <-done; p.err != nil || r.Closed() < e.ts {
		t.Fatalf("applied: %v, closed %s, want at least %s", p.err, r.Closed(), e.ts)
	}
}

// TestLeaseCounts: a lease, the end of one and a lease transfer count from when their entries came,
// not from when they are applied.
func TestLeaseCounts(t *testing.T) {
	r, _ := leader(t)
	lease := &wire.Lease{Holder: 2, End: 1 << 51, LengthNs: 3e9}
	for i, cmd := range []*wire.Command{{Lease: lease}, {Ended: lease},
		{LeaseTransfer: &wire.LeaseTransfer{Target: 2, End: 1 << 52, LengthNs: 3e9}}} {
		came := time.Now().Add(-time.Duration(i+1) * time.Minute)
		b := r.store.NewBatch()
		_, err := r.Apply(b, []group.Entry{{Index: uint64(i + 1), Term: 1, Cmd: cmd, Arrived: came}})
		b.Close()
		if err != nil {
			t.Fatal(err)
		}
		got := r.rep.Leases[2].Learned
		if cmd.LeaseTransfer != nil {
			got = r.rep.Transfer.Learned
		}
		if !got.Equal(came) {
			t.Errorf("%v counts from %v, not %v", cmd, got, came)
		}
	}
}

// TestOutlivesLease is OWN-1: a new leader serves only when the lease of another holder has
// certainly ended, unless that holder revoked it.
func TestOutlivesLease(t *testing.T) {
	for _, revoked := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			r, q := leader(t)
			r.cfg.NoEarlyClose = true // as in all groups but this one
			end := r.clock.Latest().Add(2 * time.Second)
			r.lead = lead.Leadership{}
			r.rep.Leases[2] = state.Lease{End: end, Revoked: revoked, Learned: time.Now()}
			r.Leading(1, 1)
			time.Sleep(time.Second)
			synctest.Wait()
			if asked := q.waiting() > 0; asked != revoked {
				t.Errorf("revoked %v: after 1 s of 2 s the new leader asks for its lease: %v", revoked, asked)
			}
			time.Sleep(1100 * time.Millisecond)
			synctest.Wait()
			q.apply()
			synctest.Wait()
			if _, ok := r.Serving(); !ok {
				t.Errorf("revoked %v: it does not serve after the lease", revoked)
			}
			if r.lead.Floor < end {
				t.Errorf("revoked %v: its floor %s is below the old lease's end %s", revoked, r.lead.Floor, end)
			}
		})
	}
}

// TestClosesBeforeItServes is OWN-15: a new leader of the meta group closes timestamps as soon as
// it has a lease, below the undecided votes of its log. It serves only when its predecessor's lease
// has ended.
func TestClosesBeforeItServes(t *testing.T) {
	for _, undecided := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			r, q := leader(t)
			now := r.clock.Latest()
			end, lo := now.Add(2*time.Second), now.Add(50*time.Millisecond)
			r.lead = lead.Leadership{}
			r.rep.Leases[2] = state.Lease{End: end, Learned: time.Now()}
			if undecided {
				id := base.MakeTxnID(now, 1, 1)
				r.rep.Prepared[id] = &wire.Vote{Txn: id[:], Lo: uint64(lo)}
			}
			r.Leading(1, 1)
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
			if r.Lead() != nil || r.closeNow(now, false) {
				t.Error("it closes something before its lease is applied")
			}
			q.apply()
			synctest.Wait()
			l := r.Lead()
			if _, serves := r.Serving(); serves || l == nil {
				t.Fatalf("with a lease of its own, while its predecessor's goes on: it serves: %v, says %v", serves, l)
			}
			if closed := base.Timestamp(l.Closed); undecided != (closed < lo) || !undecided && closed < now {
				t.Errorf("undecided vote at %s: %v: it closes %s", lo, undecided, closed)
			}
			closed := r.Closed()
			time.Sleep(2100 * time.Millisecond)
			synctest.Wait()
			q.apply()
			synctest.Wait()
			if _, serves := r.Serving(); !serves || r.lead.Floor < max(end, closed) {
				t.Errorf("after its predecessor's lease: serves %v, floor %s, the lease ended at %s, closed was %s",
					serves, r.lead.Floor, end, closed)
			}
		})
	}
}

// TestLostGateway: a gateway lives and sends its heartbeats, but hears nothing, so that it can
// neither use its locks nor give them back. Its transactions lose them after half a second. One
// that can be reached keeps its own for a transaction that says nothing.
func TestLostGateway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, _ := leader(t)
		r.cfg.Lost = func(n base.NodeID) bool { return n == 2 }
		admit := func(gateway base.NodeID) base.TxnID {
			id := base.MakeTxnID(r.clock.Now(), gateway, 1)
			r.mu.Lock()
			defer r.mu.Unlock()
			x, err := r.admit(&wire.TxnMeta{Id: id[:]}, 0)
			if err != nil {
				t.Fatal(err)
			}
			r.leave(x)
			return id
		}
		lost, late := admit(2), admit(3)
		for i, want := range []int{2, 1, 1} {
			r.expire(time.Now())
			if n := len(r.ByID); n != want || r.ByID[late] == nil || (r.ByID[lost] != nil) != (i == 0) {
				t.Errorf("after %d looks %d transactions hold their locks, want %d", i+1, n, want)
			}
			time.Sleep(600 * time.Millisecond)
		}
	})
}
