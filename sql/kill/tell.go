package kill

import (
	"sync/atomic"
	"time"

	"github.com/dolthub/vitess/go/mysql"
)

// What is killed ends by itself, mostly at once. But a commit that has been sent is not taken back,
// and a definition that was made is taken back first: either may take as long as an ocean is wide.
// A client need not wait for that. It is told after tellAfter, and the statement goes on to its
// end; the session's next one waits for it.

// tellAfter is how long after KILL, or after its time was over, a client waits for its statement.
const tellAfter = 75 * time.Millisecond

// Teller tells a client how its statement has ended, before it has.
type Teller interface {
	// Answer numbers the answer that the client waits for.
	Answer() uint64
	// Tell gives that answer, in place of the statement. It does nothing if the statement has begun
	// to answer; else it calls why, and the statement cannot answer any more when why is called.
	Tell(answer uint64, why func() *mysql.SQLError)
}

// What is known of what a statement has done.
const (
	// uncommitted: nothing was committed, and Commits is called before anything will be.
	uncommitted int32 = iota
	// committing: a commit may have been sent.
	committing
	// givenUp: the client was told that nothing was done.
	givenUp
)

// fate is what may be said of a statement that has not ended, and to whom.
type fate struct {
	teller Teller // nil: nobody is told
	answer atomic.Uint64
	is     atomic.Int32
	// gated: Commits is called before all that the statement commits; else before it is executed.
	gated bool
}

// unknown is the answer where a commit has been sent.
var unknown = mysql.NewSQLError(mysql.ERUnknownError, mysql.SSUnknownSQLState,
	"The outcome of the commit is unknown: the statement was killed while it was being committed, and that goes on. "+
		"The next statement of this session waits until it is known; check the data before you repeat the transaction")

// TellBy has the session's client told by t from the next statement on.
func (r *State) TellBy(t Teller) { r.fate.teller = t }

// Tellable reports whether somebody tells the client.
func (r *State) Tellable() bool { return r.fate.teller != nil }

// begin begins a statement of which KILL may tell. It is called before the statement runs.
func (f *fate) begin(gated, waits bool) {
	f.gated = gated
	f.is.Store(uncommitted)
	f.answer.Store(0)
	if waits {
		f.waits()
	}
}

func (f *fate) waits() {
	if f.teller != nil {
		f.answer.Store(f.teller.Answer())
	}
}

// ClientWaits says that the client has sent all that the statement needs, and only waits for its
// answer, from now on.
func (r *State) ClientWaits() {
	r.fate.waits()
	if r.state.Load() == killed {
		r.tellSoon(r.fate.answer.Load())
	}
}

// tellSoon tells the client of a statement that was killed, if it waits for that answer.
func (r *State) tellSoon(answer uint64) {
	if answer != 0 {
		time.AfterFunc(tellAfter, func() { r.fate.tell(answer, ErrInterrupted) })
	}
}

// Commits says that a commit will be sent, or that the statement has done what it is to do in a
// transaction. The error is [ErrInterrupted] if the client was told that nothing was done: so it
// must not be.
func (r *State) Commits() error {
	if r.fate.is.CompareAndSwap(uncommitted, committing) || r.fate.is.Load() != givenUp {
		return nil
	}
	return ErrInterrupted
}

// Executes is called when a plan is about to be executed. The error is that of Commits.
func (r *State) Executes() error {
	if r.fate.gated {
		return nil
	}
	return r.Commits()
}

// Again says that what Commits was called for has not been committed; or that it has, and another
// statement of the same procedure begins.
func (r *State) Again() {
	if r.fate.gated {
		r.Undoes()
	}
}

// Undoes says that nothing of the statement will be there when it has ended, unless Commits is
// called.
func (r *State) Undoes() { r.fate.is.CompareAndSwap(committing, uncommitted) }

// GivenUp reports whether the client was told that nothing was done.
func (r *State) GivenUp() bool { return r.fate.is.Load() == givenUp }

// tell tells the client: with the error e, unless a commit may have been sent.
func (f *fate) tell(answer uint64, e *mysql.SQLError) {
	f.teller.Tell(answer, func() *mysql.SQLError {
		if f.is.CompareAndSwap(uncommitted, givenUp) {
			return e
		}
		return unknown
	})
}
