// Package waits says who waits for whom: which transactions have the locks that others wait for. It
// knows one node's lock tables at a time; the caller puts those of all nodes together.
package waits

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/sql/server"
)

// Wait is a transaction that waits for another one.
type Wait struct {
	Group  string        `json:"group"`
	Span   string        `json:"span"`
	Mode   string        `json:"mode"` // of the lock that is wanted
	Table  string        `json:"table,omitempty"`
	Waiter string        `json:"waiter"`
	Holder string        `json:"holder"`
	Age    time.Duration `json:"age"` // of the transaction that waits
}

// Topics are what the database godwit shows of waits.
var Topics = []server.Topic{{Name: "lock_waits", Comment: "transactions that wait for others to release locks, in all groups",
	Columns: []server.TopicColumn{{Name: "waiting_txn", Kind: server.TopicText}, {Name: "holding_txn", Kind: server.TopicText},
		{Name: "group_name", Kind: server.TopicText}, {Name: "table_name", Kind: server.TopicText}, {Name: "span", Kind: server.TopicText},
		{Name: "mode", Kind: server.TopicText}, {Name: "age_ms", Kind: server.TopicFloat}}}}

// Blockers names the transactions that have what a transaction waits for; none if it waits for
// nobody. Those before it in the queue of a lock are not among them.
func Blockers(all []owner.LockRow, l owner.LockRow) (names []string) {
	for _, h := range all {
		if l.Waiting && !h.Waiting && h.Txn != l.Txn && h.Span.Overlaps(l.Span) && !slices.Contains(names, h.Txn.String()) {
			names = append(names, h.Txn.String())
		}
	}
	return names
}

// Text is Blockers as a value of SQL: NULL if there are none.
func Text(all []owner.LockRow, l owner.LockRow) any {
	if names := Blockers(all, l); names != nil {
		return strings.Join(names, ", ")
	}
	return nil
}

// Of are the waits in the lock tables of the groups that a node leads, at most limit. table names
// the table of a row; its answer is a string, or nil.
func Of(replicas []*owner.Replica, limit int, table func(owner.LockRow) any) (out []Wait) {
	for _, r := range replicas {
		all := r.Locks(limit)
		for _, l := range all {
			for _, h := range Blockers(all, l) {
				w := Wait{Group: r.ID().String(), Span: l.Span.String(), Mode: l.Mode.String(), Waiter: l.Txn.String(), Holder: h}
				w.Table, _ = table(l).(string)
				if l.Age != 0 {
					w.Age = time.Since(l.Age.Time())
				}
				if len(out) == limit {
					return out
				}
				out = append(out, w)
			}
		}
	}
	return out
}

// Rows are the rows of lock_waits, the oldest first.
func Rows(all []Wait) (rows [][]any) {
	slices.SortFunc(all, func(a, b Wait) int {
		return cmp.Or(cmp.Compare(b.Age, a.Age), cmp.Compare(a.Waiter, b.Waiter), cmp.Compare(a.Holder, b.Holder), cmp.Compare(a.Span, b.Span))
	})
	for _, w := range all {
		var table any
		if w.Table != "" {
			table = w.Table
		}
		rows = append(rows, []any{w.Waiter, w.Holder, w.Group, table, w.Span, w.Mode, float64(w.Age.Microseconds()) / 1000})
	}
	return rows
}
