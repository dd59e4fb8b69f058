// Package sharding words what statements say and show of shards: what each holds and serves, and
// what it would cost to give a table others (docs/protocol.md, SPLIT-1 to SPLIT-4).
package sharding

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
)

// Use is what a shard holds and serves, as the nodes that can be reached say.
type Use struct {
	Shard base.ShardID
	// Bytes are those of the largest copy on disk, of one table or of all. What is still in memory
	// does not count. Negative: no node that holds the shard has said so.
	Bytes int64
	// Reads and Writes are requests per second to the leaders of its groups, of all tables.
	Reads, Writes float64
	// Leaders are those of its groups; 0: there is none.
	Leaders map[base.GroupID]base.NodeID
}

// Split is what splitting a table would do.
type Split struct {
	Table, Into string
	Now, Then   int // shards
	Rows        int64
	Bytes       int64 // of one copy on disk, with index entries, or an estimate
	Copies      int   // of each row
	Estimated   bool
}

// Cost is what an order would do to a table, by what its present shards hold.
func Cost(t *base.Topology, def *schema.Table, to schema.Locality, o *Order, uses []Use) *Split {
	s := &Split{Table: def.Desc.DB + "." + def.Desc.Name, Now: len(def.Shards())}
	s.Then = len(to.Families()) * to.ShardCount(t.Shards)
	if def.Desc.Locality.Split == to.Split {
		return s
	}
	s.Into = o.Kind()
	for _, u := range uses {
		s.Bytes += max(0, u.Bytes)
		s.Copies = max(s.Copies, len(t.ShardReplicas(u.Shard)))
	}
	return s
}

// Estimate takes what a sample says of the rows of a table with so many indexes, where that is more
// than what lies on disk: rows in memory take no room there yet.
func (s *Split) Estimate(rows, rowBytes float64, indexes int) {
	if s.Into == "" {
		return
	}
	s.Rows = int64(rows)
	// An entry has the columns of its index and those of the key, say a quarter of the row.
	if n := int64(rows * rowBytes * (1 + float64(indexes)/4)); n > s.Bytes {
		s.Bytes, s.Estimated = n, true
	}
}

// CostSchema are the columns of EXPLAIN ALTER TABLE ... SPLIT.
func CostSchema() sql.Schema {
	s := sql.Schema{}
	for _, n := range []string{"table_name", "change_to", "notes"} {
		s = append(s, &sql.Column{Name: n, Type: types.LongText, Nullable: true})
	}
	for _, n := range []string{"shards_now", "shards_then", "rows_to_write", "bytes_to_write", "copies", "bytes_on_all_disks"} {
		s = append(s, &sql.Column{Name: n, Type: types.Int64, Nullable: true})
	}
	s[2], s[len(s)-1] = s[len(s)-1], s[2]
	return s
}

// Row is the split as a row of EXPLAIN.
func (s *Split) Row() sql.Row {
	notes := "each row and index entry is written again, beside readers and writers; as much disk is needed until the old ones " +
		"are removed"
	switch {
	case s.Into == "":
		notes = "nothing is written: the table is like this"
	case s.Estimated:
		notes += "; bytes are estimated from a sample of rows"
	}
	return sql.Row{s.Table, s.Into, s.Bytes * int64(s.Copies), int64(s.Now), int64(s.Then), s.Rows, s.Bytes, int64(s.Copies), notes}
}

// Schema are the columns of SHOW SHARDS.
func Schema() sql.Schema {
	col := func(name string, t sql.Type) *sql.Column { return &sql.Column{Name: name, Type: t, Nullable: true} }
	return sql.Schema{col("shard", types.Int64), col("own_of", types.LongText), col("placement", types.LongText),
		col("state", types.LongText), col("groups", types.LongText), col("leaders", types.LongText), col("nodes", types.LongText),
		col("bytes", types.Int64), col("rows", types.Int64), col("reads_per_s", types.Float64), col("writes_per_s", types.Float64)}
}

// Rows are shards as rows of SHOW SHARDS. owners are the tables that have them for themselves, as
// far as the user may know, and each says how many rows of a table a shard has; negative if that is
// not known.
func Rows(t *base.Topology, uses []Use, owners map[base.ShardID]string, each int64) (out []sql.Row) {
	slices.SortFunc(uses, func(a, b Use) int { return int(a.Shard) - int(b.Shard) })
	for i := range uses {
		u := &uses[i]
		var groups, leaders []string
		for _, g := range sortedGroups(u.Leaders) {
			groups = append(groups, g.String())
			leaders = append(leaders, nodeText(u.Leaders[g]))
		}
		var nodes []string
		for _, n := range t.ShardReplicas(u.Shard) {
			nodes = append(nodes, nodeText(n))
		}
		r := sql.Row{int64(u.Shard), nil, nil, state(t, u.Shard, owners), strings.Join(groups, ", "), strings.Join(leaders, ", "),
			strings.Join(nodes, ", "), nil, nil, u.Reads, u.Writes}
		if of := owners[u.Shard]; of != "" {
			r[1] = of
		}
		if p := t.PlacementOf(u.Shard); p != nil {
			r[2] = p.Name
		}
		if u.Bytes >= 0 {
			r[7] = u.Bytes
		}
		if each >= 0 {
			r[8] = each
		}
		out = append(out, r)
	}
	return out
}

// state says whether the shard is shared by tables, or of one alone.
func state(t *base.Topology, s base.ShardID, owners map[base.ShardID]string) string {
	o := t.OwnOf(s)
	switch _, taken := owners[s]; {
	case o == nil && t.IsAsync(s):
		return "shared, asynchronous"
	case o == nil:
		return "shared"
	case o.Opening:
		return "opening"
	case taken:
		return "own"
	}
	return "free"
}

func sortedGroups(of map[base.GroupID]base.NodeID) (out []base.GroupID) {
	for g := range of {
		out = append(out, g)
	}
	slices.Sort(out)
	return out
}

func nodeText(n base.NodeID) string {
	if n == 0 {
		return "none"
	}
	return fmt.Sprint(n)
}

// Owners are the tables that have shards for themselves, by shard: their names, or "" if seen says
// that the user may not know of them.
func Owners(s *schema.Snapshot, seen func(*schema.Table) bool) map[base.ShardID]string {
	out := map[base.ShardID]string{}
	for _, t := range s.ByID {
		d := t.Desc
		if d.Locality.Split == 0 {
			continue
		}
		name := ""
		if seen(t) {
			name = d.DB + "." + d.Name
		}
		for _, x := range t.Shards() {
			out[x] = name
		}
	}
	return out
}
