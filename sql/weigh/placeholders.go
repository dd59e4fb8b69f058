package weigh

import (
	"strings"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/token"
)

// errPlaceholders is MySQL's error of a statement with more placeholders than the protocol counts.
var errPlaceholders = mysql.NewSQLError(1390, "HY000", "Prepared statement contains too many placeholders")

// mostPlaceholders is how many the protocol library can read the values of. MySQL's 65,535 overflow
// its length of the bitmap of NULLs, and more are counted modulo 65,536.
const mostPlaceholders = 65_528

// Placeholders refuses a statement that is prepared by the protocol with too many placeholders.
func Placeholders(text string) error {
	if strings.Count(text, "?") <= mostPlaceholders {
		return nil
	}
	n := 0
	for _, t := range token.Scan(text, token.Mode{}) {
		if t.Kind == token.Param {
			n++
		}
	}
	if n > mostPlaceholders {
		return errPlaceholders
	}
	return nil
}
