package session

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/wire"
)

// used is a statement of which every fact is known. The test of it fails for a field that is not
// set, so that a new field is thought of here.
func used() Statement {
	return Statement{
		CallOff: func() {}, Place: 1, Unpublished: []base.IndexID{1},
		Syntax: Syntax{Tree: &sqlparser.Select{}, IndexNames: map[string]string{}, Shortened: []string{"x"}, Binds: map[string]*querypb.BindVariable{}, Lock: kv.LockExclusive,
			Call: true, Truncate: true},
		Snap: &schema.Snapshot{}, Planned: true, Writes: true, Asked: true, Grants: noGrants{}, Locks: true, Blind: true, PerRow: true, Hold: true, inCall: true, Zone: time.UTC,
		Create: TableOptions{Comment: "c"}, View: "v", ViewDB: "d", Views: 1, Duplicate: "dup",
		ViewDefiner: &schema.Account{Name: "n"}, Trigger: true, Refusal: errors.New("no"), RefusalOf: "not allowed", Explained: sql.Node(nil),
		Reserved: map[schema.CounterID][]uint64{{Key: 1}: {7}},
		CheckKey: func(base.TableID, sql.RowIter) sql.RowIter { return nil }, Prefetch: 1, Columns: 1, Answer: &sqltypes.Result{}, undo: func() {}, newest: 1,
		Triggers: &schema.Database{}, Firing: &Firing{}, Body: &Trigger{}, Scope: 1, Account: &schema.Account{Name: "n"},
		refreshed: true, fresh: true,
	}
}

type noGrants struct{ Grants }

// unset are fields that no value can be made of here.
var unset = map[string]bool{"Explained": true}

// TestStatementIsMadeAnew: no fact of a statement is left in the one after it, but for the syntax,
// which the parser has noted before the engine begins to plan.
func TestStatementIsMadeAnew(t *testing.T) {
	s := New(sql.NewBaseSession(), &Env{})
	v := reflect.ValueOf(used())
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && !unset[name] {
			t.Errorf("the test does not set %s", name)
		}
	}
	s.Stmt = used()
	if err := s.ValidateSession(sql.NewContext(t.Context(), sql.WithSession(s))); err != nil {
		t.Fatal(err)
	}
	if want := (Statement{Syntax: used().Syntax}); !reflect.DeepEqual(s.Stmt, want) {
		t.Errorf("planning begins with %+v", s.Stmt)
	}
	s.Stmt, s.cmd = used(), command{calls: 1, readers: 2}
	if err := s.CommandBegin(); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(s.Stmt, Statement{}) || s.cmd != (command{}) {
		t.Errorf("a command begins with %+v, %+v", s.Stmt, s.cmd)
	}
}

// TestSpeculationSeesTheCatalog: a speculative execution knows the catalog and the lock of the
// statement, and nothing of what the one before it has decided.
func TestSpeculationSeesTheCatalog(t *testing.T) {
	st := used()
	got := st.speculative()
	want := Statement{Syntax: Syntax{Lock: kv.LockExclusive}, Snap: st.Snap, Writes: true, fresh: true}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it begins with %+v", got)
	}
}

// TestForwardedStatementBeginsASeries: a statement that another gateway has forwarded counts its
// own attempts, not those of the statement that the session has executed before.
func TestForwardedStatementBeginsASeries(t *testing.T) {
	s := New(sql.NewBaseSession(), &Env{})
	s.attempt = attempts{age: 5, tries: kv.RelayTries, touched: &kv.Touched{}}
	s.committed = 3
	s.BeginForwarded(&wire.ForwardRequest{Age: 9})
	if s.attempt != (attempts{age: 9}) || s.committed != 0 {
		t.Errorf("it begins with %+v, %d commits", s.attempt, s.committed)
	}
	if s.RetryAge() != 9 {
		t.Errorf("its transaction has age %d", s.RetryAge())
	}
	s.BeginForwarded(&wire.ForwardRequest{})
	if s.RetryAge() != 0 {
		t.Errorf("a first attempt has age %d", s.RetryAge())
	}
	// It was lost where it was executed: the next attempt here has its age.
	s.attempt = attempts{age: 5, tries: 2, touched: &kv.Touched{}}
	s.EndForwarded(0, 0, true, 11)
	if !s.Lost() || s.attempt != (attempts{age: 11}) {
		t.Errorf("after a loss elsewhere: lost %v, %+v", s.Lost(), s.attempt)
	}
}
