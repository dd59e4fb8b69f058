package weigh

import (
	"context"
	"runtime"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/token"
)

// asideBytes is how long a text is at least that is parsed aside. A shorter one takes a few
// milliseconds.
const asideBytes = 256 << 10

// Lanes bound how many long texts are parsed at once. The parsers cannot be interrupted: a
// statement that is told to end goes, and its lane is taken until the parser has come to its end.
type Lanes struct{ taken chan struct{} }

// Process are the lanes of this process, whose processors all its nodes share.
var Process = NewLanes(0)

// NewLanes makes lanes, for half of the processors if n is 0.
func NewLanes(n int) *Lanes {
	if n == 0 {
		n = max(1, runtime.GOMAXPROCS(0)/2)
	}
	return &Lanes{make(chan struct{}, n)}
}

// Taken is how many texts are parsed at the moment, most how many may be.
func (l *Lanes) Taken() (n, most int) { return len(l.taken), cap(l.taken) }

// Parse calls f, which parses a text of n bytes and touches nothing that the session uses, and
// waits for it, but no longer than the statement may go on: the error is the context's cause. Then
// nobody may look at what f makes, hold is asked for the memory that f takes meanwhile, and release
// is called when f has ended. If hold has none, Parse waits for f nevertheless.
func (l *Lanes) Parse(ctx context.Context, n int, hold func() (release func(), err error), f func()) error {
	if n < asideBytes || ctx.Done() == nil {
		f()
		return nil
	}
	select {
	case l.taken <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ended := make(chan any, 1)
	go func() {
		defer func() {
			<-l.taken
			ended <- recover()
		}()
		f()
	}()
	select {
	case panicked := <-ended:
		if panicked != nil {
			panic(panicked)
		}
		return nil
	case <-ctx.Done():
	}
	release, err := hold()
	if err != nil {
		<-ended
		return context.Cause(ctx)
	}
	go func() {
		<-ended
		release()
	}()
	return context.Cause(ctx)
}

// Memory accounts for what texts take once they are parsed, in bytes.
type Memory interface {
	Grow(n int64) error
	Shrink(n int64)
}

// errLists is the error of lists that take more than a statement may keep.
var errLists = mysql.NewSQLError(mysql.EROutOfSortMemory, "HY001", "Out of memory: the lists behind IN take more than the "+
	"statement may keep: join with a table, or split the statement")

// Admit refuses a text that would take too much to parse, and takes the memory that it needs until
// done is called. n is how much that is, 0 of a short text. listed is how much its lists take of
// what the statement may keep, which is most. An error of ask ends it.
func Admit(text string, mode func() token.Mode, ask func() error, mem func() Memory, most func() int64) (n, listed int64,
	done func(), err error) {
	if len(text) < leastWide && !starry(text, mostStars) {
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
