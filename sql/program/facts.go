package program

import (
	"slices"
	"strings"

	"github.com/godwitdb/godwit/sql/token"
)

// Facts are what the text of a function says of its effects, which may be more than it has.
type Facts struct {
	// Reads: it reads tables. Writes: it may change or lock rows, or it calls procedures.
	Reads, Writes bool
	// Volatile: it may have another value each time, whatever the tables hold. Ordered: what it
	// does depends on the rows before.
	Volatile, Ordered bool
	// Names are the names in it, in lower case: those of functions and views are among them.
	Names []string
}

// volatile are native functions that have another value at each call, or effects.
var volatile = []string{"rand", "uuid", "uuid_short", "sleep", "benchmark", "get_lock", "release_lock", "release_all_locks",
	"sysdate", "last_insert_id", "row_count", "found_rows", "nextval", "lastval", "setval"}

// factsOf reads the body of a function.
func factsOf(ts []token.Token) (f Facts) {
	for i, t := range ts {
		called := i+1 < len(ts) && ts[i+1].Is("(")
		switch {
		case t.Is("delete", "update", "call", "create", "drop", "alter", "truncate", "load", "share"),
			t.Is("insert", "replace") && !called:
			f.Writes = true
		case t.Is("select", "with", "table"):
			f.Reads = true
		case t.Kind == token.UserVar:
			f.Volatile, f.Ordered = true, true
		case called && t.Is(volatile...), t.Is("global", "session", "local", "persist"),
			t.Kind == token.SysVar && i > 0 && ts[i-1].Is("set", ","):
			f.Volatile = true
		}
		if t.Named() && !slices.Contains(f.Names, t.Lower) {
			f.Names = append(f.Names, t.Lower)
		}
	}
	f.Volatile, f.Ordered, f.Reads = f.Volatile || f.Writes, f.Ordered || f.Writes, f.Reads || f.Writes
	return f
}

// Add adds what something does that the function uses.
func (f *Facts) Add(o Facts) {
	f.Reads, f.Writes = f.Reads || o.Reads, f.Writes || o.Writes
	f.Volatile, f.Ordered = f.Volatile || o.Volatile, f.Ordered || o.Ordered
}

// FactsOf are those of the text of a query.
func FactsOf(text string, m token.Mode) Facts { return factsOf(token.Scan(strings.TrimSpace(text), m)) }
