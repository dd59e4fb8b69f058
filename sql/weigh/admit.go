package weigh

import (
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/token"
)

// Memory accounts for what texts take once they are parsed, in bytes.
type Memory interface {
	Grow(n int64) error
	Shrink(n int64)
}

// errLists is the error of lists that take more than a statement may keep.
var errLists = mysql.NewSQLError(mysql.EROutOfSortMemory, "HY001", "Out of memory: the lists behind IN take more than the "+
	"statement may keep: join with a table, or split the statement")

// Short reports whether a text is admitted as it is.
func Short(text string) bool { return len(text) < leastWide && !starry(text, mostStars) }

// Admit refuses a text that would take too much to parse, and takes the memory that it needs until
// done is called. n is how much that is, 0 of a short text. listed is how much its lists take of
// what the statement may keep, which is most. An error of ask ends it.
func Admit(text string, mode func() token.Mode, ask func() error, mem func() Memory, most func() int64) (n, listed int64,
	done func(), err error) {
	if Short(text) {
		return 0, 0, func() {}, nil
	}
	w, err := Of(text, mode(), ask)
	if err == nil {
		err = w.Refused()
	}
	if err == nil && len(text) < Least {
		return 0, 0, func() {}, nil
	}
	if listed = int64(w.Listed) * listedBytes; err == nil && listed > most() {
		err = errLists
	}
	if err != nil {
		return 0, 0, nil, err
	}
	m := mem()
	n = int64(w.Tokens) * TokenBytes
	if err = m.Grow(n); err != nil {
		return 0, 0, nil, err
	}
	return n, listed, func() { m.Shrink(n) }, nil
}
