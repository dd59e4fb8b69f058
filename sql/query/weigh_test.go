package query

import (
	"testing"

	sqle "github.com/dolthub/go-mysql-server"

	"github.com/godwitdb/godwit/sql/session"
)

// TestAdmitShort: a short text, as most are, is admitted without allocations.
func TestAdmitShort(t *testing.T) {
	r, s := &Runner{Engine: &sqle.Engine{}}, &session.Session{}
	n := testing.AllocsPerRun(100, func() {
		done, err := r.Admit(t.Context(), s, nil, "UPDATE carts SET items = ? WHERE user_id = ?")
		if err != nil {
			t.Fatal(err)
		}
		done()
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}
