package session

import (
	"errors"
	"testing"

	"github.com/dolthub/vitess/go/mysql"
)

// Procedures may call themselves as often as the user allows, and others so deep that a stack bears
// it. The error says which of both it was.
func TestEnterProcedure(t *testing.T) {
	s := &Session{}
	enter := func(name string, recursions, want int) (end func()) {
		t.Helper()
		end, err := s.EnterProcedure("D", name, recursions)
		var me *mysql.SQLError
		switch {
		case want == 0 && err != nil:
			t.Fatal(err)
		case want != 0 && (!errors.As(err, &me) || me.Num != want):
			t.Fatalf("error %v, want number %d", err, want)
		}
		return end
	}
	end := enter("p", 0, 0)
	enter("P", 0, 1456)
	enter("p", 1, 0)()
	other := enter("q", 0, 0)
	enter("p", 0, 1456)
	other()
	end()
	for range mostProcedures {
		enter("p", mostProcedures, 0)
	}
	enter("q", mostProcedures, 1436)
}
