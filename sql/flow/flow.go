// Package flow says which statements may write rows while they still read others.
//
// Most keep all changes in memory before the first one is written: what a statement writes must be
// invisible to its own reads, and no row may be changed twice. Where that is certain beforehand,
// changes are written some thousand at a time, and the transaction logs them meanwhile
// (kv.Streamer). So the statement keeps no more of them in memory, and the log is written while the
// statement computes.
package flow

import (
	"slices"
	"strings"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/opt"
	"github.com/godwitdb/godwit/sql/schema"
)

// May reports whether a change of one table, with the plan of its query, may do so. The caller
// sees to what follows the rows: foreign keys, triggers, functions that are called. A scan does not
// meet what its transaction writes after its first batch. Each row is written once, and
//
//   - an INSERT reads another table than it writes, and takes no row that is in the way for good;
//   - an UPDATE or DELETE has no subquery and no join, so that one scan yields each of its rows
//     once. It does not move rows that it is still to come to: no key changes, and no entry of an
//     index over which it comes to the rows.
func May(c *bind.Change, p *opt.Plan, def *schema.Table) bool {
	if p == nil || len(c.Targets) != 1 || c.Joined || c.Ignore || !plain(def) {
		return false
	}
	if n := c.Insert; n != nil {
		return !n.Values && !n.Replace && len(n.Updates) == 0 && !slices.ContainsFunc(c.Uses, func(u bind.Use) bool {
			return names(u, def)
		})
	}
	return len(c.Uses) <= 1 && !slices.ContainsFunc(c.Uses, func(u bind.Use) bool { return !names(u, def) }) &&
		staysInPlace(c.Targets[0], p, def)
}

// names reports whether a statement reads the table, or where its rows live (t__homes).
func names(u bind.Use, def *schema.Table) bool {
	return strings.EqualFold(u.DB, def.Desc.DB) &&
		(strings.EqualFold(u.Name, def.Desc.Name) || strings.EqualFold(u.Name, def.Desc.Name+"__homes"))
}

// plain reports whether rows of the table are written with nothing but their own entries, in
// transactions that lock.
func plain(def *schema.Table) bool {
	kind := def.Desc.Locality.Kind
	return def.Next == nil && !def.HasFulltext() && kind != schema.Global && kind != schema.MultiMaster
}

// staysInPlace reports whether the changed rows lie behind those that the plan is still to come to.
func staysInPlace(t *bind.Target, p *opt.Plan, def *schema.Table) bool {
	indexed := false
	for _, s := range t.Sets {
		for _, x := range def.Indexes {
			if slices.ContainsFunc(x.Cols, func(c schema.IndexPos) bool { return c.Pos == s.Col }) {
				if indexed = true; x.Desc.Unique() {
					return false // which of two rows is in the way of the other hangs on their order
				}
			}
		}
		if def.InPK(s.Col) {
			return false
		}
	}
	scans, byRow := 0, true
	p.Each(func(p *opt.Plan) {
		if p.Scan != nil {
			scans++
			byRow = byRow && p.Op == opt.OpScan && (p.Index == "" || isPrimary(p))
		}
	})
	return scans == 1 && (byRow || !indexed)
}

// isPrimary reports whether a scan reads the rows by their own key.
func isPrimary(p *opt.Plan) bool {
	return slices.ContainsFunc(p.Scan.Table.Indexes(), func(x algebra.Index) bool { return x.Primary && x.Name == p.Index })
}

// Entries are the indexes of which each entry is written once: those whose entries name their row.
// An entry of a unique index may go from one row to another.
func Entries(def *schema.Table) (out []base.IndexID) {
	for _, x := range def.Indexes {
		if x.Desc.Stored() && !x.Desc.Unique() {
			out = append(out, x.Desc.Key())
		}
	}
	return out
}
