package statements

import (
	"errors"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/session"
)

func newSession() (*Recorder, *session.Session) {
	session.InitSystemVariables()
	s := session.New(sql.NewBaseSession(), &session.Env{DB: memkv.New(1, "eu")})
	s.LongQuery = time.Hour
	return New(slog.New(slog.DiscardHandler), func(*session.Session) string { return "eu" },
		func(*session.Session) net.Addr { return nil }), s
}

// TestEnd: what a session has spent since a statement began is the statement's, and nothing of the
// statement before it.
func TestEnd(t *testing.T) {
	r, s := newSession()
	s.SetCurrentDatabase("d")
	for range 2 {
		s.Trace.AddHops(7) // of something else
		b := r.Begin(s, "", nil, time.Now())
		s.BeginTry(false)
		s.BeginTry(true)
		s.Trace.AddHops(2)
		s.Trace.AddBytes(1, 100)
		s.Trace.AddMoves(3)
		s.Answered(&sqltypes.Result{Rows: make([][]sqltypes.Value, 4)})
		s.Answered(&sqltypes.Result{RowsAffected: 5})
		c := b.Cost(s, "select")
		if err := b.End(s, "SELECT 1", &c, nil); err != nil {
			t.Fatal(err)
		}
	}
	b := r.Begin(s, "", nil, time.Now())
	refused := errors.New("refused")
	if err := b.Fail(s, "SELECT 2", refused); err != refused {
		t.Errorf("the error became %v", err)
	}
	s.Remote = true // a gateway elsewhere counts it
	b = r.Begin(s, "", nil, time.Now())
	_ = b.Fail(s, "SELECT 3", nil)
	rows := r.Table.Rows()
	if len(rows) != 1 {
		t.Fatalf("%d digests", len(rows))
	}
	got := rows[0].Totals
	if got.Count != 3 || got.Errors != 1 || got.Hops != 4 || got.Bytes != 200 || got.Moves != 6 || got.Retries != 2 ||
		got.Sent != 8 || got.Affected != 10 || got.Crossed != 2 || rows[0].Schema != "d" {
		t.Errorf("got %+v", rows[0])
	}
}

// TestEndAllocates: to record a statement whose text is known takes no allocation.
func TestEndAllocates(t *testing.T) {
	r, s := newSession()
	if n := testing.AllocsPerRun(100, func() { one(r, s) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func one(r *Recorder, s *session.Session) {
	b := r.Begin(s, "", nil, time.Now())
	c := b.Cost(s, "select")
	_ = b.End(s, "SELECT c FROM sbtest1 WHERE id = ?", &c, nil)
}

// BenchmarkEnd is all that a statement costs more for being counted.
func BenchmarkEnd(b *testing.B) {
	r, s := newSession()
	b.ReportAllocs()
	for b.Loop() {
		one(r, s)
	}
}

// TestAnswers: a statement counts for each region that has answered it, and for the node's own if
// none has; what answered the statement before it does not count.
func TestAnswers(t *testing.T) {
	var a Answers
	a.note(1, 2, 0, time.Second)
	a.note(1, 2, 1<<3|1<<14, time.Second)
	a.note(1, 2, 1<<3|1<<20, time.Second)
	a.note(99, 2, 0, time.Second)
	a.note(1, 99, 0, time.Second)
	want := []Answer{{1, 2, 1, time.Second}, {1, 3, 2, 2 * time.Second}, {1, 14, 1, time.Second}}
	if got := a.All(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	r, s := newSession()
	r.Here = 1
	b := r.Begin(s, "", nil, time.Now())
	s.Trace.AddRegion(3)
	_ = b.Fail(s, "SELECT 1", nil)
	s.Trace.AddRegion(4) // of what nobody waits for
	b = r.Begin(s, "", nil, time.Now())
	_ = b.Fail(s, "SELECT 1", nil)
	var by []base.RegionID
	for _, x := range r.Answers.All() {
		by = append(by, x.By)
	}
	if !slices.Equal(by, []base.RegionID{1, 3}) {
		t.Errorf("answered by %v", by)
	}
}
