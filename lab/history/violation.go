package history

import (
	"fmt"
	"strings"
)

// The kinds of a Violation that are not cycles. Cycles are named G0, G1c, G-single, G2, each also
// with the suffix -realtime or -session, and "lost-update" where two transactions replaced the same
// version.
const (
	KindMalformed      = "malformed-history" // a mistake of the test: see History.Validate
	KindDuplicateWrite = "duplicate-write"   // one unique value written or shown twice
	KindGarbageRead    = "garbage-read"      // a value that nobody ever wrote to this key
	KindDirtyRead      = "dirty-read"        // G1a: a value of an aborted transaction
	KindIntermediate   = "intermediate-read" // G1b: a value that its writer itself replaced
	KindInternal       = "internal"          // a transaction did not see its own write
	// one transaction saw two versions of a key that it had not written
	KindNonRepeatable = "non-repeatable-read"
	KindLostRow       = "lost-row" // absent, though it existed and nobody deleted it
	// two transactions read one version and both replaced it
	KindLostUpdate = "lost-update"
	KindListOrder  = "incompatible-order"  // two reads of one list disagree about its order
	KindTimestamp  = "duplicate-timestamp" // two versions of one key at one timestamp
	// a read does not match its place in timestamp order
	KindCommitOrder     = "commit-order"
	KindNotLinearizable = "not-linearizable"
	KindTotal           = "bank-total"
	KindLostWrite       = "lost-write"
	KindSnapshotBack    = "snapshot-went-back"
	KindTorn            = "torn-read"
)

// Edge is one step of a cycle: From must come before To.
type Edge struct {
	From, To int64 // transaction ids
	// Kind is "ww", "wr", "rw", "rw(range)", "session" or "realtime".
	Kind string
	// Why says in a sentence what the edge rests on.
	Why string
}

// Violation is proof that no database of the level could have produced the history. It is an error.
type Violation struct {
	// Level is what was checked, e.g. "strict serializability".
	Level string
	// Kind is one of the Kind constants or the name of a cycle.
	Kind string
	// Detail is one sentence; empty for cycles.
	Detail string
	// Cycle is set for cycles; its last edge ends where its first begins.
	Cycle []Edge
	// Txns are the transactions involved, in the order in which the text names them.
	Txns []Txn
}

// Error is the full explanation, so that a violation can be returned as an error.
func (v *Violation) Error() string { return v.String() }

// String is the full explanation, several lines.
func (v *Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s violated: %s", v.Level, v.Kind)
	if v.Detail != "" {
		fmt.Fprintf(&b, ": %s", v.Detail)
	}
	if len(v.Cycle) > 0 {
		fmt.Fprintf(&b, ": cycle of %d transactions", len(v.Cycle))
		for _, e := range v.Cycle {
			fmt.Fprintf(&b, "\n  T%d -%s-> T%d: %s", e.From, e.Kind, e.To, e.Why)
		}
	}
	if len(v.Txns) > 0 {
		b.WriteString("\nwhere")
		for i := range v.Txns {
			fmt.Fprintf(&b, "\n  %s", v.Txns[i].String())
		}
	}
	return b.String()
}

// complain makes a violation that names transactions by index.
func complain(h *History, kind string, txns []int32, format string, args ...any) *Violation {
	v := &Violation{Kind: kind, Detail: fmt.Sprintf(format, args...)}
	for i, t := range txns {
		dup := t < 0
		for _, prev := range txns[:i] {
			dup = dup || prev == t
		}
		if !dup {
			v.Txns = append(v.Txns, h.Txns[t])
		}
	}
	return v
}
