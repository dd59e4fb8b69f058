package kill_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/variables"

	"github.com/godwitdb/godwit/sql/admit"
	"github.com/godwitdb/godwit/sql/kill"
)

type session struct {
	*sql.BaseSession
	kill.State
}

// TestKillReachesTheWhole: a statement that is killed while the engine's list does not know it, as
// our own engine has left it and go-mysql-server has not begun it, is killed all the same; the one
// after it is not.
func TestKillReachesTheWhole(t *testing.T) {
	variables.InitStatusVariables() // connections are counted
	l := &kill.List{ProcessList: sqle.NewProcessList(), Sessions: &sync.Map{}}
	all := map[uint32]*session{}
	for id := uint32(7); id <= 8; id++ {
		l.AddConnection(id, "here")
		all[id] = &session{BaseSession: sql.NewBaseSessionWithClientServer("", sql.Client{}, id)}
		l.Sessions.Store(id, all[id])
	}
	pid := uint64(0)
	begin := func(id uint32) *sql.Context {
		pid++
		ctx, err := l.BeginQuery(sql.NewContext(context.Background(), sql.WithPid(pid), sql.WithSession(all[id])), "SELECT 1")
		if err != nil {
			t.Fatal(err)
		}
		return ctx
	}
	_, st := all[7].Begin(t.Context(), kill.Kind{})
	all[8].Begin(t.Context(), kill.Kind{})
	other, first := begin(8), begin(7)
	if first.Err() != nil {
		t.Error("a statement is killed that was not")
	}
	l.EndQuery(first)
	l.Kill(7)
	second := begin(7)
	if second.Err() == nil {
		t.Error("the second part of a statement that was killed goes on")
	}
	l.EndQuery(second)
	_ = st.Over(nil)
	if other.Err() != nil {
		t.Error("the statement of another connection was killed")
	}
	l.Kill(7) // nothing runs
	l.Kill(9)
	all[7].Begin(t.Context(), kill.Kind{})
	third := begin(7)
	if third.Err() != nil {
		t.Error("a statement was killed before it began")
	}
	l.Kill(7)
	if third.Err() == nil {
		t.Error("KILL does not end what is listed")
	}
}

// TestKillAtTheGate: a statement that waits until it may begin ends when it is killed, before it is
// let in, and also if it was killed before it began to wait. Others go on waiting.
func TestKillAtTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		variables.InitStatusVariables()
		l := &kill.List{ProcessList: sqle.NewProcessList(), Sessions: &sync.Map{}}
		gate := admit.NewGate(1)
		gate.Least, gate.Delay = 1, func() time.Duration { return time.Second }
		ends := map[uint32]time.Duration{}
		begin := time.Now()
		var mu sync.Mutex
		var wg sync.WaitGroup
		enter := func(id uint32, want error) {
			s := &session{BaseSession: sql.NewBaseSessionWithClientServer("", sql.Client{}, id)}
			l.Sessions.Store(id, s)
			s.Begin(t.Context(), kill.Kind{})
			if id == 9 {
				l.Kill(id)
			}
			wg.Go(func() {
				_, err := s.Enter(t.Context(), gate, "a", false)
				if err != want {
					t.Errorf("statement of %d: %v, want %v", id, err, want)
				}
				mu.Lock()
				ends[id] = time.Since(begin)
				mu.Unlock()
			})
			synctest.Wait()
		}
		enter(1, nil)
		time.Sleep(25 * time.Millisecond) // now there is a bound
		enter(7, kill.ErrInterrupted)
		enter(8, nil)
		enter(9, kill.ErrInterrupted)
		time.Sleep(5 * time.Millisecond)
		l.Kill(7)
		wg.Wait()
		if ends[1] != 0 || ends[7] != 30*time.Millisecond || ends[8] <= ends[7] || ends[9] != 25*time.Millisecond {
			t.Errorf("the waits ended at %v", ends)
		}
		if n := gate.Stats().Waiting; n != 0 {
			t.Errorf("%d still wait", n)
		}
	})
}

// TestKillBetweenAttempts: a statement that waits for its next attempt, or is about to, ends when
// it is killed.
func TestKillBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		variables.InitStatusVariables()
		l := &kill.List{ProcessList: sqle.NewProcessList(), Sessions: &sync.Map{}}
		s := &session{BaseSession: sql.NewBaseSessionWithClientServer("", sql.Client{}, 7)}
		l.Sessions.Store(uint32(7), s)
		s.Begin(t.Context(), kill.Kind{})
		begin := time.Now()
		if err := s.Wait(t.Context(), 20*time.Millisecond); err != nil || time.Since(begin) != 20*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		time.AfterFunc(5*time.Millisecond, func() { l.Kill(7) })
		for range 2 {
			if err := s.Wait(t.Context(), time.Hour); err != kill.ErrInterrupted || time.Since(begin) != 25*time.Millisecond {
				t.Errorf("killed: %v after %v", err, time.Since(begin))
			}
		}
	})
}

// guest is a client of a test.
type guest struct{ runs, gone bool }

func (g *guest) Runs() bool { return g.runs }
func (g *guest) Gone() bool { return g.gone }

// TestWatchGone: a statement ends within 60 ms of its client's going, and of its own begin; others
// go on. Who is at rest is left alone.
func TestWatchGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		clients := map[uint32]*guest{1: {}, 2: {gone: true}, 3: {}}
		ended := map[uint32]time.Duration{}
		ctx, cancel := context.WithCancel(t.Context())
		begin := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			kill.WatchGone(ctx, func(each func(uint32, kill.Client)) {
				mu.Lock()
				defer mu.Unlock()
				for id, c := range clients {
					each(id, c)
				}
			}, func(id uint32) {
				if ended[id] == 0 {
					ended[id] = time.Since(begin)
				}
			})
		})
		change := func(at time.Duration, f func()) {
			time.Sleep(time.Until(begin.Add(at)))
			mu.Lock()
			defer mu.Unlock()
			f()
		}
		change(100*time.Millisecond, func() { clients[1].runs, clients[3].runs = true, true })
		change(161*time.Millisecond, func() { clients[1].gone = true })
		change(300*time.Millisecond, func() { clients[2].runs = true })
		change(time.Second, func() { clients[3].runs, clients[3].gone = false, true })
		time.Sleep(time.Second)
		cancel()
		wg.Wait()
		if len(ended) != 2 || ended[1] < 161*time.Millisecond || ended[1] > 180*time.Millisecond || ended[2] < 300*time.Millisecond ||
			ended[2] > 345*time.Millisecond {
			t.Errorf("ended: %v", ended)
		}
	})
}
