// Package adviser makes the facts that policy/advice judges from what the nodes of a cluster count
// and keep: digests of statements, the heat of rows, definitions of tables, and recordings. It asks
// nobody: package node does.
package adviser

import (
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/advice"
	"github.com/godwitdb/godwit/policy/crossing"
	"github.com/godwitdb/godwit/sql/bind/tree"
	"github.com/godwitdb/godwit/sql/digest"
	"github.com/godwitdb/godwit/sql/recording"
	"github.com/godwitdb/godwit/sql/rowuse"
	"github.com/godwitdb/godwit/sql/schema"
)

// RegionIndex is a region's place in the topology, by which the adviser numbers them.
func RegionIndex(t *base.Topology, id base.RegionID) int {
	return slices.IndexFunc(t.Regions, func(r base.Region) bool { return r.ID == id })
}

// TableOf is a table as the adviser knows tables.
func TableOf(t *base.Topology, o schema.Outline) advice.Table {
	quote := func(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }
	a := advice.Table{Name: tableKey(o.DB, o.Name), Quote: quote(o.DB) + "." + quote(o.Name), Key: o.Key, Unique: o.Unique,
		Indexes: o.Indexes, Single: o.Single, UniqueNames: o.UniqueNames, Parent: o.Linked}
	a.Async = o.Locality.Async
	switch l := o.Locality; {
	case l.IsTable():
		a.Locality, a.Region = advice.ByTable, max(0, RegionIndex(t, l.Region))
	case l.IsGlobal():
		a.Locality = advice.Global
	case l.IsMultiMaster():
		a.Locality = advice.MultiMaster
	}
	return a
}

func tableKey(db, name string) string { return strings.ToLower(db + "." + name) }

// UseOf is what a digest does with tables; false: nothing that the adviser knows.
func UseOf(f *advice.Facts, r *digest.Row) (u advice.Use, ok bool) {
	acc, ok := tree.AccessOf(r.Text)
	if !ok || r.Count == 0 {
		return u, false
	}
	count := float64(r.Count)
	u = advice.Use{Digest: r.Text, Schema: r.Schema, Hash: r.Digest(), Locks: acc.Looks, Past: acc.Past, Inside: float64(r.Inside) / count, Count: r.Count,
		Rows: float64(r.Affected+r.Sent) / count, Crossed: r.Crossed, Least: millis(r.Min), P50: millis(r.P50), P99: millis(r.P99), Mean: millis(r.Mean()),
		Trips: float64(r.Hops) / 2 / count, Bytes: float64(r.Bytes) / count}
	switch {
	case acc.Verb == "insert" && !acc.Looks:
		u.Kind = advice.Insert
	case acc.Verb != "select":
		u.Kind = advice.Write
	}
	for _, x := range acc.Tables {
		if u.Kind != advice.Read && !x.Changed {
			continue // read on the way, which the figures do not tell apart
		}
		db := x.DB
		if db == "" {
			db = r.Schema
		}
		name := tableKey(db, x.Name)
		i := slices.IndexFunc(f.Tables, func(t advice.Table) bool { return t.Name == name })
		if i < 0 {
			return u, false // a view, or a table that is gone
		}
		u.Tables, u.Equal = append(u.Tables, name), x.Equal
		u.Whole = u.Whole || !names(x.Equal, &f.Tables[i], u.Kind) || len(acc.Tables) > 1
	}
	return u, len(u.Tables) > 0
}

// names reports whether columns that have values name rows by a key. Reads look in all regions even
// for rows that a unique index names.
func names(equal []string, t *advice.Table, k advice.Kind) bool {
	covers := func(key []string) bool {
		return len(key) > 0 && !slices.ContainsFunc(key, func(c string) bool { return !slices.Contains(equal, c) })
	}
	return covers(t.Key) || k != advice.Read && slices.ContainsFunc(t.Unique, covers)
}

// HeatUse is how much the regions use the rows of a table that live in one region, by their ids.
type HeatUse struct {
	Table string                    `json:"table"`
	Home  base.RegionID             `json:"home"`
	Heat  map[base.RegionID]float64 `json:"heat"`
}

// Heat sums up how much the regions use rows, by table and home.
type Heat struct {
	Uses []HeatUse
	t    *base.Topology
	at   map[heatKey]int
}

type heatKey struct {
	table string
	home  base.RegionID
}

// NewHeat begins a sum.
func NewHeat(t *base.Topology) *Heat { return &Heat{t: t, at: map[heatKey]int{}} }

// Add adds a row: of is its heat by region.
func (s *Heat) Add(table string, home base.RegionID, of func(base.RegionID) float64) {
	k := heatKey{strings.ToLower(table), home}
	i, ok := s.at[k]
	if !ok {
		i = len(s.Uses)
		s.at[k] = i
		s.Uses = append(s.Uses, HeatUse{Table: k.table, Home: home, Heat: map[base.RegionID]float64{}})
	}
	for _, r := range s.t.Regions {
		if x := of(r.ID); x > 0 {
			s.Uses[i].Heat[r.ID] += x
		}
	}
}

// Rows are what the adviser says of facts: one for each advice, region and kind of statements.
func Rows(f *advice.Facts) (rows [][]any) {
	round := func(x float64) float64 { return math.Round(x*100) / 100 }
	for i, a := range advice.Advise(*f) {
		for _, e := range a.Effects {
			b, c, lost := e.Before, e.After, any(a.GivesUp)
			if a.GivesUp == "" {
				lost = nil
			}
			rows = append(rows, []any{i + 1, a.Kind, a.Subject, a.Why, lost, a.Do, round(a.Saves / 1000),
				f.Regions[e.Region], e.Kind.String(), e.Statements, round(b.P50), round(c.P50), round(b.P99), round(c.P99), round(b.Mean), round(c.Mean),
				round(b.Trips), round(c.Trips), round(b.Bytes), round(c.Bytes)})
		}
	}
	return rows
}

// millis is a time in ms.
func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// AddHomes tells of each table where the rows live that each region uses.
func AddHomes(f *advice.Facts, t *base.Topology, all []HeatUse) {
	for _, x := range all {
		i := slices.IndexFunc(f.Tables, func(a advice.Table) bool { return a.Name == x.Table })
		home := RegionIndex(t, x.Home)
		if i < 0 || home < 0 {
			continue
		}
		if f.Tables[i].Homes == nil {
			for range t.Regions {
				f.Tables[i].Homes = append(f.Tables[i].Homes, make([]float64, len(t.Regions)))
			}
		}
		for r, heat := range x.Heat {
			if asker := RegionIndex(t, r); asker >= 0 {
				f.Tables[i].Homes[asker][home] += heat
			}
		}
	}
}

// rowUsesFor is how long a sample of the rows that clients use is taken for new: it takes some
// tens of ms of a processor to make one.
const rowUsesFor = 15 * time.Second

// RowUses is the newest sample of the rows that a node's clients have used. The zero value is ready
// for use.
type RowUses struct {
	mu     sync.Mutex
	at     time.Time
	tables []rowuse.Table
}

// Sampled is a sample, and whose it is.
type Sampled struct {
	Node   base.NodeID    `json:"node"`
	Tables []rowuse.Table `json:"tables"`
	// Seen are the node's transactions of late, and Relays says whether they cross regions without
	// locks now.
	Seen   crossing.Seen `json:"seen"`
	Relays bool          `json:"relays"`
}

// Of samples what a node has kept of statements on tables that are not BY ROW.
func (u *RowUses) Of(outlines []schema.Outline, kept func() recording.Taken) ([]rowuse.Table, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.at.IsZero() && time.Since(u.at) < rowUsesFor {
		return u.tables, nil
	}
	keys := map[string][]string{}
	for _, o := range outlines {
		if l := o.Locality; l.IsTable() || l.IsGlobal() || l.IsMultiMaster() {
			keys[tableKey(o.DB, o.Name)] = o.Key
		}
	}
	u.tables, u.at = nil, time.Now()
	if len(keys) == 0 {
		return nil, nil
	}
	taken := kept()
	var err error
	u.tables, err = rowuse.Of(&taken, func(table string) []string { return keys[table] })
	return u.tables, err
}

// AddRowUses tells of each table that is not BY ROW where its rows would live if it were.
func AddRowUses(f *advice.Facts, t *base.Topology, all []Sampled) {
	var parts []rowuse.Part
	for _, s := range all {
		parts = append(parts, rowuse.Part{Region: RegionIndex(t, t.RegionOf(s.Node)), Tables: s.Tables})
	}
	for name, s := range rowuse.Merge(len(t.Regions), parts) {
		for i := range f.Tables {
			x := &f.Tables[i]
			if x.Name != name || x.Locality == advice.ByRow {
				continue
			}
			now := f.Meta
			if x.Locality == advice.ByTable {
				now = x.Region
			}
			x.Rows = advice.RowHomes(s.Reads, s.Writes, s.Made, s.Named, now)
		}
	}
}

// AddTiers tells how the transactions of each region cross others. able says whether they can do so
// without locks at all.
func AddTiers(f *advice.Facts, t *base.Topology, all []Sampled, p crossing.Params, able bool) {
	f.Strict = p.Setting == crossing.Strict && able
	f.Relays, f.CouldRelay, f.Crossing = make([]bool, len(t.Regions)), make([]bool, len(t.Regions)), make([]float64, len(t.Regions))
	for r := range t.Regions {
		var seen crossing.Seen
		nodes, relays := 0, 0
		for _, s := range all {
			if RegionIndex(t, t.RegionOf(s.Node)) != r {
				continue
			}
			nodes++
			if s.Relays {
				relays++
			}
			seen.Transactions += s.Seen.Transactions
			seen.Crossed += s.Seen.Crossed
		}
		f.Relays[r] = nodes > 0 && relays == nodes
		if seen.Transactions >= p.Least {
			f.Crossing[r] = float64(seen.Crossed) / float64(seen.Transactions)
			f.CouldRelay[r] = seen.Crossed > 0 && f.Crossing[r] < p.Above
		}
	}
}
