package sharding

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
)

const tableRE = "(?:(`[^`]+`|[\\w$]+)\\s*\\.\\s*)?(`[^`]+`|[\\w$]+)"

var (
	reSplit = regexp.MustCompile("(?is)^(EXPLAIN\\s+)?ALTER\\s+TABLE\\s+" + tableRE +
		`\s+(?:SPLIT\s+INTO\s+(\d{1,6})\s+(?:SHARDS|TABLETS)|UNSPLIT(?:\s+ALL)?)$`)
	reShow = regexp.MustCompile("(?is)^SHOW\\s+SHARDS(?:\\s+(?:FROM|IN)\\s+(?:TABLE\\s+)?" + tableRE + ")?$")
)

// Order is what a statement about shards asks for.
type Order struct {
	// Show asks for the shards of a table, or for all if none is named; Explain asks what a change
	// would cost. Else it is a change.
	Show, Explain bool
	DB, Table     string // as they are written; may be empty
	// Into is set if the table is to have N shards of its own, and not if it is to share those of
	// others again.
	Into bool
	N    int
}

// Parse parses a statement about shards, without what ends it; nil if it is none.
func Parse(q string) *Order {
	if m := reShow.FindStringSubmatch(q); m != nil {
		return &Order{Show: true, DB: unquoted(m[1]), Table: unquoted(m[2])}
	}
	m := reSplit.FindStringSubmatch(q)
	if m == nil {
		return nil
	}
	return &Order{Explain: m[1] != "", DB: unquoted(m[2]), Table: unquoted(m[3]), Into: m[4] != "", N: Count(m[4])}
}

func unquoted(s string) string { return strings.Trim(s, "`") }

// Count is the number of shards that a SPLIT INTO names; 0 for an empty text, which is none.
func Count(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// Clause is what SHOW CREATE TABLE says of a table's own shards; nil: nothing.
func Clause(l schema.Locality) []string {
	if l.Split == 0 {
		return nil
	}
	return []string{fmt.Sprintf("SPLIT INTO %d SHARDS", l.Split)}
}

// Kind is the change in the words of the statement that makes it.
func (o *Order) Kind() string {
	if !o.Into {
		return "UNSPLIT"
	}
	return fmt.Sprintf("SPLIT INTO %d SHARDS", o.N)
}

// Of is the locality that the order gives a table. Errors: what no table can be split into, and
// tables that cannot be split.
func (o *Order) Of(l schema.Locality) (schema.Locality, error) {
	if l.Split = o.N; o.Into && o.N == 0 {
		return l, schema.Invalid("a table is split into 1 shard of its own or more: UNSPLIT has it share those of others again")
	}
	return l, l.Check()
}

// Taken says which sets of shards tables have, besides some others.
func Taken(s *schema.Snapshot, others []int) func(before int) bool {
	used := map[int]bool{}
	for _, n := range others {
		used[n] = true
	}
	for _, t := range s.ByID {
		for _, p := range t.Desc.Locality.Families() {
			used[p.Own] = true
		}
	}
	return func(before int) bool { return used[before] }
}

// Behind is a table's own shards, by its placements and copy sets.
func Behind(l schema.Locality) map[base.PlacementID]int {
	out := map[base.PlacementID]int{}
	for _, p := range l.Families() {
		out[p.ID] = p.Own
	}
	return out
}
