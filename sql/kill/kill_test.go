package kill_test

import (
	"context"
	"testing"
	"time"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/variables"

	"github.com/godwitdb/godwit/sql/kill"
)

// TestKillReachesTheWhole: a statement that is killed while the engine's list does not know it, as
// our own engine has left it and go-mysql-server has not begun it, is killed all the same; the one
// after it is not.
func TestKillReachesTheWhole(t *testing.T) {
	variables.InitStatusVariables() // connections are counted
	l := kill.New(sqle.NewProcessList())
	l.AddConnection(7, "here")
	l.AddConnection(8, "there")
	begin := func(ctx context.Context, pid uint64) *sql.Context {
		sctx := sql.NewContext(ctx, sql.WithPid(pid), sql.WithSession(sql.NewBaseSessionWithClientServer("", sql.Client{}, 7)))
		sctx, err := l.BeginQuery(sctx, "SELECT 1")
		if err != nil {
			t.Fatal(err)
		}
		return sctx
	}
	ctx, over := l.Begin(context.Background(), 7, 0, nil)
	other, overOther := l.Begin(context.Background(), 8, time.Hour, nil)
	defer overOther()
	first := begin(ctx, 1)
	l.EndQuery(first)
	l.Kill(7)
	second := begin(ctx, 2)
	if second.Err() == nil {
		t.Error("the second part of a statement that was killed goes on")
	}
	l.EndQuery(second)
	over()
	if other.Err() != nil {
		t.Error("the statement of another connection was killed")
	}
	l.Kill(7) // nothing runs
	ctx, over = l.Begin(context.Background(), 7, 0, nil)
	defer over()
	if begin(ctx, 3).Err() != nil {
		t.Error("a statement was killed before it began")
	}
	l.Kill(7)
	if ctx.Err() == nil {
		t.Error("KILL does not end what is listed")
	}
}
