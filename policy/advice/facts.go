package advice

import (
	"cmp"
	"fmt"
	"slices"
)

// Locality is what decides where the rows of a table live.
type Locality uint8

// The localities.
const (
	ByRow Locality = iota
	ByTable
	Global
	MultiMaster
)

// Place is where the rows of a table live, and how they replicate.
type Place struct {
	Locality Locality
	Region   int // of ByTable
	Async    bool
	// In is who has copies; nil: all regions, as in [Facts].Voters.
	In *Copies
}

// Led is the share of the rows at home in each region that is led in each other one:
// Led[home][region].
type Led [][]float64

// Kind is what a statement does with a table.
type Kind uint8

// The kinds of uses.
const (
	Read Kind = iota
	Write
	Insert // of new rows
)

// String is the kind as it is shown: inserts are writes.
func (k Kind) String() string {
	if k == Read {
		return "read"
	}
	return "write"
}

// Table is what is known of a table.
type Table struct {
	Name  string // db.table
	Quote string // the name as SQL has it
	Place
	// Key are the primary key's columns; Unique those of each other unique index, Indexes those of
	// each other one.
	Key             []string
	Unique, Indexes [][]string
	UniqueNames     []string // of Unique
	// Parent: other tables' foreign keys lead to it, or its own lead elsewhere.
	Parent bool
	// Homes is where the rows live that each region uses: Homes[asker][home], of any scale. An
	// empty row: nothing is known of that asker.
	Homes [][]float64
	// Rows is where those rows would live if the table, which is not, were BY ROW ([RowHomes]);
	// nil: that is not known.
	Rows *RowUses
	// Single says why the table cannot be MULTI MASTER; empty: it can.
	Single string
}

// Use is what the statements of one digest from one region have cost.
type Use struct {
	Region int
	Digest string // its text
	Schema string // the current database of its sessions
	Hash   string // what names the digest in SQL
	Tables []string
	Kind   Kind
	// Whole: the conditions name no row by the primary key, so rows of all regions may be meant.
	Whole bool
	// Locks: a read that locks, which waits for owners.
	Locks bool
	// Past: a read of the past.
	Past bool
	// Inside is the share of statements that were part of a transaction, so that COMMIT waited.
	Inside float64
	// Rows are those that a statement changes or returns, on average.
	Rows float64
	// Equal are the columns of which the conditions demand values.
	Equal []string
	Count uint64
	// Crossed counts those that waited for the WAN.
	Crossed uint64
	// Least, P50, P99 and Mean are ms. Trips are round trips over the WAN that were waited for,
	// Bytes what was sent there, on average.
	Least, P50, P99, Mean, Trips, Bytes float64
}

// Facts are what an adviser looks at.
type Facts struct {
	Regions []string
	RTT     [][]float64 // ms, by the numbers of regions
	Voters  []int       // of a group, by region
	Meta    int         // where the meta group is led
	Tick    float64     // ms between two closed timestamps
	Epoch   float64     // the least ms between two epochs
	Lead    float64     // ms that the timestamps of GLOBAL writes lie ahead
	Beat    float64     // ms between two heartbeats
	Age     []float64   // ms, how old the rows of the replicas in a region are
	Tables  []Table
	Uses    []Use
	// Strict: a setting has transactions cross regions with locks. Relays: those of a region's
	// clients do so without, and look at other regions' rows as others do (nil: none); CouldRelay:
	// they would if the setting was left alone. Crossing is the share of a region's transactions
	// that cross.
	Strict             bool
	Relays, CouldRelay []bool
	Crossing           []float64
	// Led is where rows are led; nil: all at home.
	Led Led
	// Stops are settings that keep leads from where they would go.
	Stops []Stop
	// Placeable: tables may have a placement. Placements are those that there are.
	Placeable  bool
	Placements []Named
	// Others are texts of statements that are no uses, as the adviser does not know what they do.
	Others []string

	was *Facts // as it is: these are supposed
}

// quorum is the time from a leader's region to the nearest majority of the voters of rows.
func (f *Facts) quorum(p Place, l int) float64 {
	order := make([]int, 0, len(f.Regions))
	voters, need := f.voters(p), 0
	for r := range f.Regions {
		order = append(order, r)
		need += voters[r]
	}
	need = need/2 + 1
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(f.RTT[l][a], f.RTT[l][b]) })
	for _, r := range order {
		if need -= voters[r]; need <= 0 {
			return f.RTT[l][r]
		}
	}
	return 0
}

// read is what a strong read of rows that are led in region l takes in region g.
func (f *Facts) read(p Place, g, l int) cost {
	rt := f.RTT[g][l]
	switch wait := rt/2 + f.Tick/2; {
	case g == l:
		return cost{}
	case wait < rt && p.In.holds(g):
		return cost{wait, 0.5}
	}
	return cost{rt, 1}
}

// write is what a change of rows that are led in region l takes from region g: the way there, and
// the quorum.
func (f *Facts) write(p Place, g, l int) (way, quorum cost) {
	if rt := f.RTT[g][l]; rt > 0 {
		way = cost{rt, 1}
	}
	if q := f.quorum(p, l); q > 0 && !p.Async {
		quorum = cost{q, 1}
	}
	return way, quorum
}

// exchange is what a commit of a MULTI MASTER table takes: the batches of all reach all, and the
// word that a majority has them comes back. The round waits for the farthest pair, whoever commits.
func (f *Facts) exchange() cost {
	all := 0.0
	for _, row := range f.RTT {
		all = max(all, slices.Max(row))
	}
	if all == 0 {
		return cost{}
	}
	return cost{f.Epoch/2 + all, 1}
}

// Clause is how SQL says it.
func (f *Facts) Clause(p Place) string {
	switch p.Locality {
	case ByTable:
		return fmt.Sprintf("REGIONAL BY TABLE IN '%s'", f.Regions[p.Region])
	case Global:
		return "GLOBAL"
	case MultiMaster:
		return "MULTI MASTER"
	}
	return "REGIONAL BY ROW"
}

func (f *Facts) table(name string) *Table {
	if i := slices.IndexFunc(f.Tables, func(t Table) bool { return t.Name == name }); i >= 0 {
		return &f.Tables[i]
	}
	return nil
}
