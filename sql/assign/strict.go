package assign

import "github.com/dolthub/vitess/go/mysql"

// strictly are the warnings of expressions that strict mode makes errors of a change.
var strictly = map[int]bool{ErrIncorrect: true, ErrDivision: true, ErrOutOfRange: true, ErrTruncated: true, ErrNotOfType: true,
	1260: true, 1411: true, 1441: true, 3020: true}

// Strictly makes the first warning that is an error of strict mode the failure.
func Strictly(warn func(int, string), failure *error) func(int, string) {
	return func(code int, msg string) {
		if !strictly[code] {
			warn(code, msg)
		} else if *failure == nil {
			*failure = mysql.NewSQLError(code, States[code], "%s", msg)
		}
	}
}
