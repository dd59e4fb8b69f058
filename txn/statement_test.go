package txn

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wire"
)

// The histories that break without FWD-2, FWD-4 and FWD-5. (lab/sim has those of FWD-1 and FWD-3.)
// In each a statement that adds one to a row is sent to another gateway, whose answer is lost.

// addOne executes a statement; of another gateway, if that is not nil.
func addOne(t *testing.T, db *DB, of *kv.Forwarded, keys ...base.Key) error {
	_, err := kv.Run(ctx(t), db, kv.Options{Statement: of}, func(x kv.Txn) error {
		rows, err := x.Get(ctx(t), keys, kv.LockExclusive)
		for i := range rows {
			x.Put(keys[i], num(toNum(rows[i].Value)+1), 0)
		}
		return err
	})
	return err
}

// settleOrRun is what the gateway does whose answer is lost: it finds out what became of the
// statement, and executes it itself if that has not committed.
func settleOrRun(t *testing.T, db *DB, name base.TxnID, g base.GroupID, meanwhile func(), keys ...base.Key) (ran bool) {
	t.Helper()
	got, err := db.Settle(ctx(t), name, g, time.Now(), base.Errorf(base.CodeUnavailable, "the answer is lost"))
	must(t, err)
	meanwhile()
	if !got.Committed {
		must(t, addOne(t, db, nil, keys...))
	}
	return !got.Committed
}

func answer() []byte { return []byte("one row") }

// TestStatementStrays is FWD-2: the row has moved to another group while its statement was on its
// way.
func TestStatementStrays(t *testing.T) {
	for _, broken := range []bool{false, true} {
		bubble(t, 3, 1, func(t *testing.T, c *cluster) {
			k := key(1, 1, 1, "a")
			put(t, c.db(1), k, string(num(0)))
			name, g, ok := c.db(3).NameStatement(k)
			if !ok {
				t.Fatal("nothing is known of the row")
			}
			_, err := do(ctx(t), c.db(2), kv.Options{}, func(x kv.Txn) error { x.Move(k, 2, kv.MoveOptions{}); return nil })
			must(t, err)
			if err = addOne(t, c.db(2), &kv.Forwarded{Name: name, Group: g, Answer: answer}, k); err == nil != broken {
				t.Errorf("broken %v: executed: %v", broken, err)
			}
			settleOrRun(t, c.db(3), name, g, func() {}, k)
			if n := toNum([]byte(get(t, c.db(3), k))); n == 1 == broken {
				t.Errorf("broken %v: the statement took effect %d times", broken, n)
			}
		}, func(c *cluster) { c.tc = func(cfg *Config) { cfg.Strays = broken } })
	}
}

// TestStatementHasVoted is FWD-4: of the two groups of the statement's rows one has voted when the
// gateway asks, and the other one votes after that.
func TestStatementHasVoted(t *testing.T) {
	for _, broken := range []bool{false, true} {
		bubble(t, 3, 2, func(t *testing.T, c *cluster) {
			g, h := base.DataGroup(1, 1), base.DataGroup(2, 2)
			rows := map[base.GroupID]base.Key{g: key(1, 1, 1, "a"), h: key(2, 2, 2, "b")}
			put(t, c.db(1), rows[g], string(num(0)))
			put(t, c.db(2), rows[h], string(num(0)))
			name, _, _ := c.db(3).NameStatement(rows[g])
			x := c.db(2).Begin(kv.Options{}).(*Txn)
			vote := func(of base.GroupID) error {
				q := &wire.CommitRequest{Group: uint32(of), Txn: &x.meta, Prepare: true, Participants: []uint32{uint32(g), uint32(h)},
					Writes: []*wire.Write{{Kind: wire.WriteKind_PUT, Key: rows[of], Value: num(1), Home: uint32(of.Region())}}}
				if of == g {
					q.Statement, q.Answer = name[:], answer()
				}
				resp, err := c.db(2).router.Commit(ctx(t), q)
				if err != nil {
					return err
				}
				return owner.ErrorOf(resp.Status)
			}
			must(t, vote(g))
			settleOrRun(t, c.db(3), name, g, func() {
				if err := vote(h); err == nil != broken {
					t.Errorf("broken %v: a vote after the statement was settled: %v", broken, err)
				}
			}, rows[g], rows[h])
			for _, k := range rows {
				if n := toNum([]byte(get(t, c.db(3), k))); n == 1 == broken {
					t.Errorf("broken %v: the statement took effect %d times", broken, n)
				}
			}
		}, func(c *cluster) { c.tc = func(cfg *Config) { cfg.VotesEnd = broken } })
	}
}

// TestStatementSettlesLate is FWD-5: the owner's clock is ahead, so the commit's timestamp is, and
// the owner would wait until that has passed everywhere. The gateway hears of the commit earlier.
func TestStatementSettlesLate(t *testing.T) {
	for _, broken := range []bool{false, true} {
		bubble(t, 3, 1, func(t *testing.T, c *cluster) {
			k := key(1, 2, 1, "a")
			put(t, c.db(2), k, string(num(0)))
			name, g, _ := c.db(1).NameStatement(k)
			executed := make(chan error, 1)
			go func() { executed <- addOne(t, c.db(2), &kv.Forwarded{Name: name, Group: g, Answer: answer}, k) }()
			time.Sleep(3 * oneWay) // its entry is committed
			if settleOrRun(t, c.db(1), name, g, func() {}, k) {
				t.Fatal("the statement had not committed")
			}
			x := c.db(3).Begin(kv.Options{ReadOnly: true, ReadTS: c.nodes[2].clock.Now()})
			defer x.Rollback(ctx(t))
			rows, err := x.Get(ctx(t), []base.Key{k}, kv.LockNone)
			must(t, err)
			if n := toNum(rows[0].Value); n == 1 == broken {
				t.Errorf("broken %v: a read that begins after the answer sees %d", broken, n)
			}
			must(t, <-executed)
		}, func(c *cluster) {
			c.skew = 200 * time.Millisecond
			c.tc = func(cfg *Config) { cfg.EarlyAnswers = broken }
		})
	}
}
