package kill_test

import (
	"context"
	"sync"
	"testing"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/variables"

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
	_, st := all[7].Begin(t.Context(), 0, nil)
	all[8].Begin(t.Context(), 0, nil)
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
	all[7].Begin(t.Context(), 0, nil)
	third := begin(7)
	if third.Err() != nil {
		t.Error("a statement was killed before it began")
	}
	l.Kill(7)
	if third.Err() == nil {
		t.Error("KILL does not end what is listed")
	}
}
