package private_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/kv/private"
)

// budget is a bound of bytes.
type budget struct{ used, most int64 }

var errMost = errors.New("over the bound")

func (b *budget) Grow(n int64) error {
	if b.used+n > b.most {
		return errMost
	}
	b.used += n
	return nil
}

func (b *budget) Shrink(n int64) { b.used -= n }

const plenty = 1 << 40

var (
	own    = base.MakeTableID(base.FirstPrivate+7, 0)
	stored = base.MakeTableID(200, 1)
)

func key(id base.TableID, n int) base.Key {
	return base.AppendUint64(base.IndexPrefix(1, id, 0, 0), uint64(n))
}

// pair is the same transaction twice: with private rows, and, as the model, with stored ones.
type pair struct {
	t      *testing.T
	r      *rand.Rand
	db     *memkv.DB
	store  *private.Store
	a, b   kv.Txn
	points int // savepoints
}

func (p *pair) begin() {
	if p.a != nil {
		p.a.Rollback(context.Background())
		p.b.Rollback(context.Background())
	}
	p.a, p.b, p.points = private.Route(p.db.Begin(kv.Options{}), p.store), p.db.Begin(kv.Options{}), 0
}

// rows shows rows without what only stored ones have.
func rows(rs []kv.Row) (out string) {
	for _, r := range rs {
		out += fmt.Sprintf("%x=%q(%v) ", []byte(r.Key[base.IndexPrefixLen:]), r.Value, r.Value == nil)
	}
	return out
}

func (p *pair) same(what, a, b string) {
	if a != b {
		p.t.Fatalf("%s:\nprivate %s\nstored  %s", what, a, b)
	}
}

func (p *pair) get() {
	var as, bs []base.Key
	for range 1 + p.r.IntN(4) {
		n := p.r.IntN(40)
		as, bs = append(as, key(own, n)), append(bs, key(stored, n))
	}
	a, err1 := p.a.Get(context.Background(), as, kv.LockExclusive)
	b, err2 := p.b.Get(context.Background(), bs, kv.LockExclusive)
	p.same(fmt.Sprint("get, ", err1, err2), rows(a), rows(b))
}

// scan reads spans to their end, in batches, with writes between them.
func (p *pair) scan() {
	var as, bs []base.Span
	at := 0
	for range 1 + p.r.IntN(3) {
		lo := at + p.r.IntN(10)
		hi := lo + 1 + p.r.IntN(15)
		at = hi
		as = append(as, base.Span{Start: key(own, lo), End: key(own, hi)})
		bs = append(bs, base.Span{Start: key(stored, lo), End: key(stored, hi)})
	}
	if p.r.IntN(4) == 0 {
		as, bs = append(as, base.PointSpan(key(own, at+1))), append(bs, base.PointSpan(key(stored, at+1)))
	}
	x := &kv.ScanRequest{Spans: as, Reverse: p.r.IntN(2) == 0, Merge: p.r.IntN(2) == 0, Lock: kv.LockExclusive,
		Limit: p.r.IntN(5), MaxBytes: 1 + p.r.IntN(200)}
	y := *x
	y.Spans = bs
	next := &y
	for batch := 0; x != nil || next != nil; batch++ {
		if x == nil || next == nil {
			p.t.Fatalf("after %d batches, one scan goes on: private %v, stored %v", batch, x, next)
		}
		ra, err := p.a.Scan(context.Background(), *x)
		if err != nil {
			p.t.Fatal(err)
		}
		rb, err := p.b.Scan(context.Background(), *next)
		if err != nil {
			p.t.Fatal(err)
		}
		p.same(fmt.Sprintf("batch %d of %v", batch, x.Spans), rows(ra.Rows), rows(rb.Rows))
		x, next = ra.Next, rb.Next
	}
}

func (p *pair) write() {
	n, v := p.r.IntN(40), []byte(fmt.Sprint("v", p.r.IntN(1000)))
	switch p.r.IntN(5) {
	case 0, 1:
		p.a.Put(key(own, n), v, 0)
		p.b.Put(key(stored, n), v, 0)
	case 2:
		p.a.Delete(key(own, n))
		p.b.Delete(key(stored, n))
	case 3:
		if _, err := p.b.Get(context.Background(), []base.Key{key(stored, n)}, kv.LockExclusive); err != nil {
			p.t.Fatal(err)
		}
		e1, e2 := p.a.Insert(key(own, n), v, 0), p.b.Insert(key(stored, n), v, 0)
		if base.CodeOf(e1) != base.CodeOf(e2) {
			p.t.Fatalf("insert: private %v, stored %v", e1, e2)
		}
	case 4:
		p.a.Update(key(own, n), nil, nil)
		p.b.Update(key(stored, n), nil, nil)
	}
}

func (p *pair) step() {
	ctx := context.Background()
	switch n := p.r.IntN(20); {
	case n < 9:
		p.write()
	case n < 12:
		p.get()
	case n < 15:
		p.scan()
	case n < 17:
		if a, b := p.a.Savepoint(), p.b.Savepoint(); a != b {
			p.t.Fatalf("savepoint %d, not %d", a, b)
		}
		p.points++
	case n < 18 && p.points > 0:
		to := p.r.IntN(p.points)
		p.a.RollbackTo(to)
		p.b.RollbackTo(to)
		p.points = to + 1
	case n < 19:
		if p.r.IntN(2) == 0 {
			_, e1 := p.a.Commit(ctx)
			_, e2 := p.b.Commit(ctx)
			if e1 != nil || e2 != nil {
				p.t.Fatalf("commit: private %v, stored %v", e1, e2)
			}
		}
		p.begin()
	}
}

// TestLikeStored has random operations on private rows give what they give on stored ones.
func TestLikeStored(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			b := &budget{most: plenty}
			p := &pair{t: t, r: rand.New(rand.NewPCG(seed, 1)), db: memkv.New(2), store: private.NewStore(b)}
			p.begin()
			for range 600 {
				p.step()
				if b.used != p.store.Bytes() {
					t.Fatalf("%d bytes are accounted for, %d are kept", b.used, p.store.Bytes())
				}
			}
			p.begin() // rolls back
			p.scan()
			p.a.Delete(key(own, 1)) // what the log keeps is given back, too
			if _, err := p.a.Commit(context.Background()); err != nil {
				t.Fatal(err)
			}
			p.store.Drop(own)
			if b.used != 0 || p.store.Keys(own) != 0 {
				t.Fatalf("%d bytes and %d keys are left of a table that was dropped", b.used, p.store.Keys(own))
			}
		})
	}
}

func put(t *testing.T, tx kv.Txn, id base.TableID, ns ...int) {
	t.Helper()
	for _, n := range ns {
		tx.Put(key(id, n), []byte{byte(n)}, 0)
	}
}

// keysOf are the keys of a table that a transaction sees.
func keysOf(t *testing.T, tx kv.Txn, id base.TableID) (out []byte) {
	t.Helper()
	res, err := tx.Scan(context.Background(), kv.ScanRequest{Spans: []base.Span{{Start: key(id, 0), End: key(id, 1000)}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range res.Rows {
		out = append(out, r.Value...)
	}
	return out
}

// TestScanSeesItsFirstBatch: what is written while a scan goes on is not in its later batches.
func TestScanSeesItsFirstBatch(t *testing.T) {
	tx := private.Route(memkv.New(1).Begin(kv.Options{}), private.NewStore(&budget{most: plenty}))
	put(t, tx, own, 1, 2, 3, 4)
	res, err := tx.Scan(context.Background(), kv.ScanRequest{Limit: 1,
		Spans: []base.Span{{Start: key(own, 0), End: key(own, 1000)}}})
	if err != nil || res.Next == nil {
		t.Fatal(res, err)
	}
	put(t, tx, own, 5)
	tx.Delete(key(own, 3))
	next := *res.Next
	next.Limit = 0
	if res, err = tx.Scan(context.Background(), next); err != nil || len(res.Rows) != 3 || res.Next != nil {
		t.Fatalf("%v, %v: want the three rows that there were", res, err)
	}
	if got := keysOf(t, tx, own); string(got) != "\x01\x02\x04\x05" {
		t.Fatalf("a new scan sees %v", got)
	}
}

// TestMixedKeys: one call may be about rows of both kinds.
func TestMixedKeys(t *testing.T) {
	tx := private.Route(memkv.New(1).Begin(kv.Options{}), private.NewStore(&budget{most: plenty}))
	put(t, tx, own, 1)
	put(t, tx, stored, 2)
	got, err := tx.Get(context.Background(), []base.Key{key(stored, 2), key(own, 1), key(own, 9), key(stored, 9)}, kv.LockShared)
	want := []string{"\x02", "\x01", "", ""}
	if err != nil || len(got) != len(want) {
		t.Fatal(got, err)
	}
	for i, r := range got {
		if string(r.Value) != want[i] || (r.Value == nil) != (want[i] == "") {
			t.Errorf("row %d is %s", i, rows(got[i:i+1]))
		}
	}
	span := func(id base.TableID) base.Span { return base.Span{Start: key(id, 0), End: key(id, 9)} }
	if ok, err := tx.Ahead(context.Background(), []base.Key{key(own, 1), key(stored, 1)}, []base.Span{span(own)},
		kv.LockShared); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if !tx.Kept(span(own), kv.LockExclusive) || !tx.Kept(base.PointSpan(key(stored, 1)), kv.LockShared) ||
		tx.Kept(span(stored), kv.LockShared) {
		t.Fatal("what is kept")
	}
	if _, err := tx.Scan(context.Background(), kv.ScanRequest{Spans: []base.Span{span(own), span(stored)}}); err == nil {
		t.Fatal("one scan of both kinds")
	}
}

// TestDropStays: a table that is dropped does not come back, and other tables do.
func TestDropStays(t *testing.T) {
	b := &budget{most: plenty}
	s, db := private.NewStore(b), memkv.New(1)
	other := own + 16
	tx := private.Route(db.Begin(kv.Options{}), s)
	put(t, tx, own, 1, 2)
	put(t, tx, other, 1, 2)
	if _, err := tx.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	tx = private.Route(db.Begin(kv.Options{}), s)
	mark := tx.Savepoint()
	put(t, tx, own, 3)
	tx.Delete(key(other, 1))
	s.Drop(own)
	put(t, tx, other, 9)
	tx.RollbackTo(mark)
	if got := keysOf(t, tx, other); string(got) != "\x01\x02" || s.Keys(own) != 0 {
		t.Fatalf("%v, and %d keys of the table that was dropped", got, s.Keys(own))
	}
	tx.Rollback(context.Background())
	s.Drop(other)
	if b.used != 0 {
		t.Fatalf("%d bytes are left", b.used)
	}
}

// TestDiscard: what a transaction discards goes when it commits, and stays when it does not.
func TestDiscard(t *testing.T) {
	s, db := private.NewStore(&budget{most: plenty}), memkv.New(1)
	tx := private.Route(db.Begin(kv.Options{}), s)
	put(t, tx, own, 1, 2, 3, 4)
	if _, err := tx.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, commit := range []bool{false, true} {
		tx = private.Route(db.Begin(kv.Options{}), s)
		tx.Discard(base.Span{Start: key(own, 2), End: key(own, 4)})
		if !commit {
			tx.Rollback(context.Background())
		} else if _, err := tx.Commit(context.Background()); err != nil {
			t.Fatal(err)
		}
		want := "\x01\x02\x03\x04"
		if commit {
			want = "\x01\x04"
		}
		if got := keysOf(t, private.Route(db.Begin(kv.Options{}), s), own); string(got) != want {
			t.Fatalf("commit %v: %v", commit, got)
		}
	}
}

// TestCommitFails: private rows are as before the transaction if it does not commit.
func TestCommitFails(t *testing.T) {
	s, db := private.NewStore(&budget{most: plenty}), memkv.New(1)
	tx := private.Route(db.Begin(kv.Options{}), s)
	put(t, tx, own, 1)
	if _, err := tx.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	tx = private.Route(db.Begin(kv.Options{}), s)
	put(t, tx, own, 2)
	tx.Delete(key(own, 1))
	if err := tx.Insert(key(stored, 5), []byte("mine"), 0); err != nil {
		t.Fatal(err)
	}
	other := db.Begin(kv.Options{})
	put(t, other, stored, 5)
	if _, err := other.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Commit(context.Background()); base.CodeOf(err) != base.CodeExists {
		t.Fatal(err)
	}
	if got := keysOf(t, private.Route(db.Begin(kv.Options{}), s), own); string(got) != "\x01" {
		t.Fatal(got)
	}
}

// TestFull: over the bound nothing is written, a rollback to the savepoint before gives everything
// back, and a commit without one fails.
func TestFull(t *testing.T) {
	b := &budget{most: 1000}
	s, db := private.NewStore(b), memkv.New(1)
	tx := private.Route(db.Begin(kv.Options{}), s)
	put(t, tx, own, 1)
	mark := tx.Savepoint()
	for n := range 50 {
		put(t, tx, own, n)
	}
	if tx.Full() == nil || b.used > b.most {
		t.Fatalf("%v with %d bytes of %d", tx.Full(), b.used, b.most)
	}
	tx.RollbackTo(mark)
	if got := keysOf(t, tx, own); tx.Full() != nil || string(got) != "\x01" {
		t.Fatal(tx.Full(), got)
	}
	put(t, tx, own, 2)
	if _, err := tx.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	tx = private.Route(db.Begin(kv.Options{}), s)
	for n := range 50 {
		put(t, tx, own, n)
	}
	if _, err := tx.Commit(context.Background()); !errors.Is(err, errMost) {
		t.Fatal(err)
	}
	if got := keysOf(t, private.Route(db.Begin(kv.Options{}), s), own); string(got) != "\x01\x02" {
		t.Fatal(got)
	}
	s.Close()
	if b.used != 0 {
		t.Fatalf("%d bytes are left", b.used)
	}
}
