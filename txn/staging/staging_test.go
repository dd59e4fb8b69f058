package staging

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// world is groups that log pieces, each after a while.
type world struct {
	t     *testing.T
	owner func(key string, asked base.GroupID) base.GroupID
	fails func(g base.GroupID, piece uint32) error

	mu     sync.Mutex
	logged map[base.GroupID][][]string
	busy   map[base.GroupID]bool
	most   int // pieces under way at once
}

func (w *world) Piece(g base.GroupID) *wire.CommitRequest {
	return &wire.CommitRequest{Group: uint32(g)}
}

func (w *world) Misplaced([]*wire.Foreign) {}

func (w *world) Log(ctx context.Context, q *wire.CommitRequest) (foreign []*wire.Foreign, err error) {
	g := base.GroupID(q.Group)
	w.mu.Lock()
	if w.busy[g] {
		w.t.Errorf("group %v gets piece %d before the one before is logged", g, q.Stage)
	}
	w.busy[g] = true
	n := 0
	for _, b := range w.busy {
		if b {
			n++
		}
	}
	w.most = max(w.most, n)
	w.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		err = base.Ended(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy[g] = false
	if err != nil {
		return nil, err
	}
	if w.fails != nil {
		if err := w.fails(g, q.Stage); err != nil {
			return nil, err
		}
	}
	var keys []string
	for _, x := range q.Writes {
		if o := w.owner(string(x.Key), g); o != g {
			foreign = append(foreign, &wire.Foreign{Span: &wire.Span{Start: x.Key}, Group: uint32(o)})
		}
		keys = append(keys, string(x.Key))
	}
	if len(foreign) > 0 {
		return foreign, base.Errorf(base.CodeWrongOwner, "not mine")
	}
	if int(q.Stage) != len(w.logged[g])+1 {
		w.t.Errorf("group %v gets piece %d behind %d", g, q.Stage, len(w.logged[g]))
	}
	w.logged[g] = append(w.logged[g], keys)
	return nil, nil
}

// play runs a stager over a world in virtual time.
func play(t *testing.T, w *world, limits Limits, f func(t *testing.T, s *Stager)) {
	synctest.Test(t, func(t *testing.T) {
		w.t, w.logged, w.busy = t, map[base.GroupID][][]string{}, map[base.GroupID]bool{}
		f(t, New(w, limits))
	})
}

func add(t *testing.T, s *Stager, g base.GroupID, key string) error {
	return s.Add(t.Context(), g, &wire.Write{Key: []byte(key)}, 10)
}

// TestPieces: each key is in one piece of its owner, whoever was thought to be, and pieces of one
// group follow each other.
func TestPieces(t *testing.T) {
	w := &world{owner: func(key string, asked base.GroupID) base.GroupID {
		switch key[0] {
		case 'a':
			return 1
		case 'b':
			return 2
		}
		return asked
	}}
	play(t, w, Limits{Bytes: 50, Writes: 100, Reroutes: 5}, func(t *testing.T, s *Stager) {
		begin := time.Now()
		for i := range 60 {
			for g, p := range []string{"a", "b", "c"} {
				if err := add(t, s, base.GroupID(1+(g+i/20)%3), fmt.Sprint(p, i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if took := time.Since(begin); took == 0 {
			t.Error("there is no bound of the pieces that wait")
		}
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.Size() != 0 {
			t.Errorf("%d bytes are left", s.Size())
		}
		seen := map[string]base.GroupID{}
		for g, pieces := range w.logged {
			if s.Pieces()[g] != uint32(len(pieces)) {
				t.Errorf("group %v: %d pieces of %d", g, s.Pieces()[g], len(pieces))
			}
			for _, k := range slices.Concat(pieces...) {
				if seen[k] != 0 {
					t.Errorf("%s is in two pieces", k)
				}
				seen[k] = g
			}
		}
		if len(seen) != 180 || seen["a30"] != 1 || seen["b45"] != 2 {
			t.Errorf("%d keys are logged, a30 in %v, b45 in %v", len(seen), seen["a30"], seen["b45"])
		}
		if w.most < 2 || w.most > 3 {
			t.Errorf("%d groups log at once", w.most)
		}
	})
}

// TestFailure: behind a piece that fails no other one is sent.
func TestFailure(t *testing.T) {
	w := &world{owner: func(_ string, asked base.GroupID) base.GroupID { return asked }}
	w.fails = func(g base.GroupID, piece uint32) error {
		if piece == 3 {
			return base.Errorf(base.CodeExists, "it exists")
		}
		return nil
	}
	play(t, w, Limits{Bytes: 10, Writes: 100, Reroutes: 5}, func(t *testing.T, s *Stager) {
		var err error
		for i := 0; err == nil && i < 100; i++ {
			err = add(t, s, 1, fmt.Sprint(i))
		}
		if base.CodeOf(err) != base.CodeExists {
			t.Errorf("it fails with %v", err)
		}
		s.Await()
		if n := len(w.logged[1]); n != 2 {
			t.Errorf("%d pieces are logged", n)
		}
		if err := s.Flush(t.Context()); base.CodeOf(err) != base.CodeExists {
			t.Errorf("the end fails with %v", err)
		}
	})
}

// TestAwait: pieces that wait for their turn are not sent once the transaction is over.
func TestAwait(t *testing.T) {
	w := &world{owner: func(_ string, asked base.GroupID) base.GroupID { return asked }}
	play(t, w, Limits{Bytes: 10, Writes: 100, Reroutes: 5}, func(t *testing.T, s *Stager) {
		ctx, cancel := context.WithCancel(t.Context())
		for i := range ahead {
			if err := s.Add(ctx, 1, &wire.Write{Key: []byte(fmt.Sprint(i))}, 10); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		time.AfterFunc(100*time.Millisecond, cancel)
		if err := s.Add(ctx, 1, &wire.Write{Key: []byte("x")}, 10); base.CodeOf(err) != base.CodeCanceled {
			t.Errorf("it waits for its turn: %v", err)
		}
		s.Await()
		if took := time.Since(begin); took != 100*time.Millisecond || len(w.logged[1]) != 0 {
			t.Errorf("after %v %d pieces are logged", took, len(w.logged[1]))
		}
	})
}
