package session

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// A session keeps user variables and prepared statements until it ends. What they take counts to
// the memory of the node's statements, and is bounded for each session.

const (
	// mostKept is what they may take: one value of the default max_allowed_packet, and 1 MiB.
	mostKept = 65 << 20
	// mostPrepared is how many statements a session may prepare: MySQL's default of
	// max_prepared_stmt_count, which bounds all sessions together there.
	mostPrepared = 16382
	// keptBytes is what each takes besides its name and value.
	keptBytes = 256
	// byteOfText is about what a byte of a statement takes once it is parsed.
	byteOfText = 32
	// mostOfVariable is how long the value of a system variable may be.
	mostOfVariable = 64 << 10
)

// kept is what a session keeps, by what it is.
type kept struct {
	budget Budget
	of     map[string]int64
	used   int64
	// texts are the statements that were prepared by the protocol, by their texts; live is how many
	// of them the client had when it was last asked.
	texts map[string]bool
	live  int
}

func errKept() error {
	return mysql.NewSQLError(1041, "HY000", "Out of memory: the variables and prepared statements of a session may take %d MiB: "+
		"set variables to NULL, and close statements", mostKept>>20)
}

// keep notes that something takes n bytes. forced: the bound of the session does not count.
func (s *Session) keep(what string, n int64, forced bool) error {
	k := &s.kept
	if k.of == nil {
		k.of, k.budget = map[string]int64{}, unbounded{}
		if s.env != nil && s.env.Memory != nil {
			k.budget = s.env.Memory()
		}
	}
	n += int64(len(what)) + keptBytes
	was := k.of[what]
	if more := n - was; more <= 0 {
		k.shrink(what, -more)
		return nil
	} else if !forced && k.used+more > mostKept || k.budget.Grow(more) != nil {
		return errKept()
	} else {
		k.used += more
	}
	k.of[what] = n
	return nil
}

// shrink notes that something takes n bytes less.
func (k *kept) shrink(what string, n int64) {
	if n == 0 {
		return
	}
	if k.of[what] -= n; k.of[what] <= 0 {
		delete(k.of, what)
	}
	k.used -= n
	k.budget.Shrink(n)
}

func (k *kept) release() {
	if k.budget != nil {
		k.budget.Release()
	}
	*k = kept{}
}

// UserVariables are the names of the session's user variables, in order. Only its own goroutine may
// ask.
func (s *Session) UserVariables() (names []string) {
	for what := range s.kept.of {
		if name, is := strings.CutPrefix(what, "@"); is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// sizeOfValue is about what the value of a variable takes.
func sizeOfValue(ctx *sql.Context, v any) int64 {
	switch v := v.(type) {
	case string:
		return int64(len(v))
	case []byte:
		return int64(len(v))
	case sql.JSONWrapper:
		if text, err := types.JsonToMySqlString(ctx, v); err == nil {
			return 4 * int64(len(text))
		}
	case types.GeometryValue:
		return 2 * int64(len(v.Serialize()))
	}
	return 0
}

// MayPrepare is why another statement may not be prepared; nil: it may. live are the texts of the
// statements that the protocol has open: others that it has prepared were closed since.
func (s *Session) MayPrepare(live func(yield func(text string) bool)) error {
	k := &s.kept
	if len(k.texts) >= 2*k.live+64 || s.Full() != nil {
		open := map[string]bool{}
		for text := range live {
			open[text] = true
		}
		for text := range k.texts {
			if !open[text] {
				delete(k.texts, text)
				s.UnprepareQuery(text)
			}
		}
		k.live = len(open)
	}
	return s.Full()
}

// Full is why the session may keep no more prepared statements; nil: it may.
func (s *Session) Full() error {
	switch {
	case len(s.prepared) >= mostPrepared:
		return mysql.NewSQLError(1461, "42000", "Can't create more than max_prepared_stmt_count statements (current value: %d)",
			mostPrepared)
	case s.kept.used >= mostKept:
		return errKept()
	}
	return nil
}

// ByProtocol notes that the protocol has prepared a statement, which it may close without a word.
func (s *Session) ByProtocol(text string) {
	if s.kept.texts == nil {
		s.kept.texts = map[string]bool{}
	}
	s.kept.texts[text] = true
}

// keepPrepared notes what a prepared statement takes, by the text or the name that it is found by.
// Where it is too much for the session, the next one is refused; where it is for the node, this one
// is forgotten.
func (s *Session) keepPrepared(key string, stmt sqlparser.Statement) {
	n := len(key)
	if n < 1000 && !strings.ContainsRune(key, ' ') { // a name
		n = len(sqlparser.String(stmt))
	}
	if s.keep("prepared "+key, byteOfText*int64(n), true) != nil {
		delete(s.prepared, key)
	}
}
