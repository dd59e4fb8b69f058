package query

import (
	"errors"
	"fmt"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/bind"
)

// reasonOf is why a statement that could not be prepared is left to the engine. Errors of the user
// are among them: the engine words them.
func reasonOf(err error) string {
	if r, ok := bind.Reason(err); ok {
		return r
	}
	var me *mysql.SQLError
	if errors.As(err, &me) {
		if me.Num == 1235 {
			return me.Message
		}
		return fmt.Sprintf("error %d", me.Num)
	}
	return "error of the planner"
}
