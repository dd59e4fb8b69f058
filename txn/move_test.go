package txn

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/owner/homing"
	"github.com/godwitdb/godwit/txn/mover"
)

// hopsOf runs a transaction and counts the WAN crossings it waited for.
func hopsOf(t *testing.T, db *DB, opts kv.Options, fn func(x kv.Txn) error) int {
	t.Helper()
	opts.Trace = &obs.Trace{}
	_, err := do(ctx(t), db, opts, fn)
	must(t, err)
	return opts.Trace.Hops()
}

func homeOf(t *testing.T, db *DB, k base.Key) base.RegionID {
	t.Helper()
	x := db.Begin(kv.Options{ReadOnly: true})
	defer x.Rollback(t.Context())
	rows, err := x.Get(t.Context(), []base.Key{k}, kv.LockNone)
	must(t, err)
	return rows[0].Home
}

// TestMoveTrips is the budget of PolyBase section 4.5 (there: two round trips):
// none extra when riding on a write, one and a quorum alone; afterwards the row is local.
func TestMoveTrips(t *testing.T) {
	bubble(t, 3, 2, func(t *testing.T, c *cluster) {
		a, b := key(1, 1, 1, "a"), key(1, 1, 1, "b")
		put(t, c.db(1), a, "a1", b, "b1")
		if n := hopsOf(t, c.db(2), kv.Options{}, func(x kv.Txn) error { x.Move(a, 2, kv.MoveOptions{}); return nil }); n != 4 {
			t.Errorf("moving a row alone took %d hops, want 4: to the owner and its quorum", n)
		}
		if n := hopsOf(t, c.db(2), kv.Options{}, func(x kv.Txn) error {
			x.Put(b, []byte("b2"), 0)
			x.Move(b, 2, kv.MoveOptions{})
			return nil
		}); n != 4 {
			t.Errorf("writing a foreign row and taking it home took %d hops, want 4 as without", n)
		}
		for _, k := range []base.Key{a, b} {
			if n := hopsOf(t, c.db(2), kv.Options{}, func(x kv.Txn) error {
				rows, err := x.Get(ctx(t), []base.Key{k}, kv.LockExclusive)
				if err == nil && rows[0].Home != 2 {
					err = fmt.Errorf("%v is at home in region %d", k, rows[0].Home)
				}
				x.Put(k, []byte("x3"), 0)
				return err
			}); n != 2 {
				t.Errorf("updating a row that has come home took %d hops, want 2: its quorum", n)
			}
		}
		if n := hopsOf(t, c.db(2), kv.Options{}, func(x kv.Txn) error { x.Move(a, 2, kv.MoveOptions{}); return nil }); n != 2 {
			t.Errorf("a repeated move took %d hops, want 2: an empty commit", n)
		}
		for r := 1; r <= 3; r++ {
			if v := get(t, c.db(r), a) + get(t, c.db(r), b); v != "x3x3" {
				t.Errorf("region %d reads %s", r, v)
			}
		}
		// The gap behind the row went along: what is inserted there belongs to the new owner's say.
		if n := hopsOf(t, c.db(2), kv.Options{}, func(x kv.Txn) error {
			return x.Insert(key(1, 1, 1, "b5"), []byte("new"), 0)
		}); n != 2 {
			t.Errorf("inserting behind the row took %d hops, want 2", n)
		}
	})
}

// TestMoveAbsent: there is nothing to move, and nothing is made.
func TestMoveAbsent(t *testing.T) {
	bubble(t, 2, 1, func(t *testing.T, c *cluster) {
		k, gone := key(1, 1, 1, "k"), key(1, 1, 1, "gone")
		put(t, c.db(1), gone, "1")
		_, err := kv.Run(ctx(t), c.db(1), kv.Options{}, func(x kv.Txn) error { x.Delete(gone); return nil })
		must(t, err)
		_, err = kv.Run(ctx(t), c.db(2), kv.Options{}, func(x kv.Txn) error {
			x.Move(k, 2, kv.MoveOptions{})
			x.Move(gone, 2, kv.MoveOptions{})
			return nil
		})
		must(t, err)
		if v := get(t, c.db(1), k) + get(t, c.db(1), gone); v != "--" {
			t.Errorf("read %s", v)
		}
		moves, n := c.nodes[0].set.Moves()
		if n != 0 {
			t.Errorf("moves %v", moves)
		}
	})
}

// TestMoveGapInUse: a soft move gives up where a hard one waits, and neither
// hands over a gap that somebody has locked (HOME-2).
func TestMoveGapInUse(t *testing.T) {
	bubble(t, 2, 1, func(t *testing.T, c *cluster) {
		a, z := key(1, 1, 1, "a"), key(1, 1, 1, "z")
		put(t, c.db(1), a, "1", z, "1")
		reader := c.db(1).Begin(kv.Options{})
		res, err := reader.Scan(ctx(t), kv.ScanRequest{Spans: []base.Span{{Start: key(1, 1, 1, "m"), End: z}},
			Lock: kv.LockShared})
		must(t, err)
		if len(res.Rows) != 0 {
			t.Fatal(res.Rows)
		}
		_, err = do(ctx(t), c.db(2), kv.Options{}, func(x kv.Txn) error {
			x.Put(a, []byte("2"), 0)
			x.Move(a, 2, kv.MoveOptions{Soft: true})
			return nil
		})
		must(t, err)
		if h := homeOf(t, c.db(1), a); h != 1 {
			t.Errorf("the row moved to region %d with a gap that is locked", h)
		}
		var wg sync.WaitGroup
		defer wg.Wait()
		moved := make(chan struct{})
		wg.Go(func() {
			_, err := kv.Run(ctx(t), c.db(2), kv.Options{}, func(x kv.Txn) error { x.Move(a, 2, kv.MoveOptions{}); return nil })
			if err != nil {
				t.Error(err)
			}
			close(moved)
		})
		time.Sleep(2 * time.Second)
		select {
		case <-moved:
			t.Error("the row moved with a gap that is locked")
		default:
		}
		_, err = reader.Commit(ctx(t))
		must(t, err)
		<-moved
		if h := homeOf(t, c.db(1), a); h != 2 {
			t.Errorf("the row is at home in region %d, want 2", h)
		}
	})
}

// TestMovePin: a pin is kept by writes and moves until it is taken off.
func TestMovePin(t *testing.T) {
	bubble(t, 2, 1, func(t *testing.T, c *cluster) {
		k := key(1, 1, 1, "k")
		put(t, c.db(1), k, "1")
		pinned := func(want bool) {
			t.Helper()
			x := c.db(1).Begin(kv.Options{})
			defer x.Rollback(ctx(t))
			rows, err := x.Get(ctx(t), []base.Key{k}, kv.LockShared)
			must(t, err)
			if rows[0].Label.Pinned() != want {
				t.Errorf("pinned %v, want %v", rows[0].Label.Pinned(), want)
			}
		}
		pinned(false)
		move := func(to base.RegionID, p kv.Pin) {
			_, err := kv.Run(ctx(t), c.db(1), kv.Options{},
				func(x kv.Txn) error { x.Move(k, to, kv.MoveOptions{Pin: p}); return nil })
			must(t, err)
		}
		move(1, kv.PinOn)
		pinned(true)
		put(t, c.db(2), k, "2")
		pinned(true)
		move(2, kv.PinKeep)
		pinned(true)
		move(2, kv.PinOff)
		pinned(false)
		if h := homeOf(t, c.db(1), k); h != 2 {
			t.Errorf("home %d", h)
		}
	})
}

// eager moves every row to whoever touches it.
type eager struct {
	moved chan homing.Move
	home  *atomic.Int64 // accesses by the region where the row is
}

func (e eager) Accessed(a homing.Access) homing.Verdict {
	if a.From == a.Home {
		e.home.Add(1)
	}
	if a.Pinned || a.From == a.Home {
		return homing.Verdict{}
	}
	return homing.Verdict{To: a.From, Reason: []byte("eager")}
}

func (e eager) Moved(m homing.Move) {
	select {
	case e.moved <- m:
	default:
	}
}

// TestPolicyMoves: the policy's word is carried out with the transaction's own
// write where it made one, else in the background; every replica learns of the move and its reason.
func TestPolicyMoves(t *testing.T) {
	pol := eager{make(chan homing.Move, 100), new(atomic.Int64)}
	movers := map[base.NodeID]*mover.Mover{}
	bubble(t, 3, 2, func(t *testing.T, c *cluster) {
		for _, n := range c.nodes {
			movers[n.id] = mover.New(n.db, &n.db.stats.Moved, nil)
			defer movers[n.id].Close()
		}
		locked, blind, read := key(1, 1, 1, "locked"), key(1, 1, 1, "blind"), key(2, 1, 1, "read")
		only, dropped := key(2, 1, 1, "only locked"), key(2, 1, 1, "rolled back")
		put(t, c.db(1), locked, "1", blind, "1", read, "1", only, "1", dropped, "1")
		before := pol.home.Load()
		if n := hopsOf(t, c.db(2), kv.Options{}, func(x kv.Txn) error {
			rows, err := x.Get(ctx(t), []base.Key{locked}, kv.LockExclusive)
			if err != nil || rows[0].Advice != 2 {
				return fmt.Errorf("advice %d, %v", rows[0].Advice, err)
			}
			x.Put(locked, []byte("2"), 0)
			x.Move(locked, rows[0].Advice, kv.MoveOptions{Soft: true})
			return nil
		}); n != 6 {
			t.Errorf("%d hops, want 6: read, commit, quorum", n)
		}
		if n := hopsOf(t, c.db(2), kv.Options{Follow: true},
			func(x kv.Txn) error { x.Put(blind, []byte("2"), 0); return nil }); n != 4 {
			t.Errorf("%d hops, want 4: commit and quorum", n)
		}
		get(t, c.db(3), read)
		lock := func(x kv.Txn, k base.Key) error {
			_, err := x.Get(ctx(t), []base.Key{k}, kv.LockExclusive)
			return err
		}
		if n := hopsOf(t, c.db(2), kv.Options{}, func(x kv.Txn) error { return lock(x, only) }); n != 2 {
			t.Errorf("%d hops, want 2: the lock", n)
		}
		x := c.db(2).Begin(kv.Options{})
		must(t, lock(x, dropped))
		x.Rollback(ctx(t))
		time.Sleep(time.Second)
		if n := pol.home.Load() - before; n != 0 {
			t.Errorf("moving rows counts as %d uses by the region that they leave", n)
		}
		for k, want := range map[string]base.RegionID{string(locked): 2, string(blind): 2, string(read): 3,
			string(only): 2, string(dropped): 1} {
			if h := homeOf(t, c.db(1), base.Key(k)); h != want {
				t.Errorf("%v is at home in region %d, want %d", base.Key(k), h, want)
			}
		}
		for _, n := range c.nodes {
			moves, total := n.set.Moves()
			if total < 3 || string(moves[0].Reason) != "eager" || moves[0].From != 1 || moves[0].To != 2 ||
				string(moves[0].Key) != string(locked) {
				t.Errorf("node %d knows of %d moves: %+v", n.id, total, moves)
			}
		}
	}, func(c *cluster) {
		c.oc = func(o *owner.Config) {
			o.Homes = pol
			self := o.Self
			o.Proposed = func(p homing.Proposal) { movers[self].Propose(p) }
		}
	})
}

// TestFigure8 is PolyBase's Figure 8: a region that lags behind another one's log takes a key for
// free that is taken, because the delete between them hides whose gap it lies in. Here a tombstone
// keeps its owner, and owners wait for what made them so: the second insert of E finds the first.
func TestFigure8(t *testing.T) {
	for _, wait := range []bool{false, true} {
		figure8(t, wait)
	}
}

func figure8(t *testing.T, wait bool) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		k := func(name string) base.Key { return key(1, 1, 1, name) }
		insert := func(region int, name string) error {
			_, err := kv.Run(ctx(t), c.db(region), kv.Options{},
				func(x kv.Txn) error { return x.Insert(k(name), []byte(fmt.Sprint(name, region)), 0) })
			return err
		}
		take := func(region int, name string) {
			t.Helper()
			_, err := kv.Run(ctx(t), c.db(region), kv.Options{}, func(x kv.Txn) error {
				x.Move(k(name), base.RegionID(region), kv.MoveOptions{})
				return nil
			})
			must(t, err)
		}
		// Region 3 hears of region 2's log seconds late; requests and answers come through as ever,
		// on the way via region 1's knowledge.
		slow := c.net.Path(2, 3)
		slow.Delay = 4 * time.Second
		c.net.SetPath(2, 3, slow)
		must(t, insert(1, "A"))
		take(2, "A")
		must(t, insert(2, "C"))
		take(1, "A")
		must(t, insert(1, "B"))
		must(t, insert(2, "E"))
		_, err := kv.Run(ctx(t), c.db(2), kv.Options{}, func(x kv.Txn) error { x.Delete(k("C")); return nil })
		must(t, err)
		must(t, insert(1, "D"))
		if r := c.nodes[2].set.Replica(base.DataGroup(1,
			2)); r.AppliedIndex() >= c.nodes[1].set.Replica(base.DataGroup(1, 2)).AppliedIndex() {
			t.Fatal("region 3 does not lag: this shows nothing")
		}
		take(3, "D")
		if wait {
			time.Sleep(time.Second) // region 3 learns what it owns now before it learns of E
		}
		if err := insert(3, "E"); base.CodeOf(err) != base.CodeExists {
			t.Errorf("E was inserted twice: %v", err)
		}
		time.Sleep(10 * time.Second)
		for r := 1; r <= 3; r++ {
			got := ""
			for _, n := range []string{"A", "B", "C", "D", "E"} {
				got += get(t, c.db(r), k(n)) + " "
			}
			if got != "A1 B1 - D1 E2 " {
				t.Errorf("region %d reads %s", r, got)
			}
		}
	})
}
