package rowuse

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/sql/bind/tree"
	"github.com/godwitdb/godwit/sql/recording"
)

// MaxRows is how many rows of a table a sample has.
const MaxRows = 2048

// Row is how often the clients of a node have used a row; to insert it is no use.
type Row struct {
	Hash   uint64 `json:"h"`
	Reads  uint32 `json:"r,omitempty"`
	Writes uint32 `json:"w,omitempty"`
	// Made: one of these has inserted it.
	Made bool `json:"made,omitempty"`
}

// Table is a sample of the rows of a table that the clients of a node have used.
type Table struct {
	Name string `json:"name"` // db.table, in lower case
	Rows []Row  `json:"rows"` // by their hashes
	// Cut: rows with hashes above the last one were left out.
	Cut bool `json:"cut,omitempty"`
	// Named are statements that name rows by the primary key; Unnamed those that do not.
	Named   uint64 `json:"named"`
	Unnamed uint64 `json:"unnamed"`
}

// Of samples what a node has kept. keyOf are the columns of a table's primary key, by its name in
// lower case, as db.table; nil: the table is of no interest.
func Of(t *recording.Taken, keyOf func(table string) []string) ([]Table, error) {
	all, err := t.All()
	if err != nil {
		return nil, err
	}
	texts := make([]*tree.Keys, len(t.Texts))
	counts := map[string]*count{}
	for i := range all {
		s := &all[i]
		if s.Trait || s.Failed {
			continue
		}
		p := texts[s.Text]
		if p == nil {
			p = tree.KeysOf(t.Texts[s.Text].Text, t.Texts[s.Text].Schema, keyOf)
			texts[s.Text] = p
		}
		if p.Table == "" {
			continue
		}
		c := counts[p.Table]
		if c == nil {
			c = &count{rows: map[uint64]*Row{}}
			counts[p.Table] = c
		}
		c.add(p, s.Literals)
	}
	var out []Table
	for name, c := range counts {
		out = append(out, c.sample(name))
	}
	slices.SortFunc(out, func(a, b Table) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// count is of one table.
type count struct {
	rows           map[uint64]*Row
	named, unnamed uint64
}

func (c *count) add(p *tree.Keys, literals []recording.Literal) {
	if len(p.Rows) == 0 || len(literals) != p.Params {
		c.unnamed++
		return
	}
	c.named++
	for _, key := range p.Rows {
		h := hash(p.Table, key, literals)
		r := c.rows[h]
		if r == nil {
			r = &Row{Hash: h}
			c.rows[h] = r
		}
		switch {
		case p.Inserts:
			r.Made = true
		case p.Reads:
			r.Reads++
		default:
			r.Writes++
		}
	}
}

func (c *count) sample(name string) Table {
	t := Table{Name: name, Named: c.named, Unnamed: c.unnamed}
	for _, r := range c.rows {
		t.Rows = append(t.Rows, *r)
	}
	slices.SortFunc(t.Rows, func(a, b Row) int { return cmp.Compare(a.Hash, b.Hash) })
	if len(t.Rows) > MaxRows {
		t.Rows, t.Cut = t.Rows[:MaxRows], true
	}
	return t
}

// hash names a row. Literals of one value are written alike, as a rule: 5 and '5' are.
func hash(table string, key []int, literals []recording.Literal) uint64 {
	h := fnv.New64a()
	write := func(s string) { _, _ = h.Write(append([]byte(s), 0)) }
	write(table)
	for _, i := range key {
		text := literals[i].Text
		if n := len(text); n > 1 && (text[0] == '\'' || text[0] == '"') && text[n-1] == text[0] {
			text = text[1 : n-1]
		}
		write(text)
	}
	// FNV's high bits hardly depend on the end of what is hashed, and samples are made by them.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// Shared is how often each region uses each row of a sample of a table.
type Shared struct {
	Reads, Writes [][]float64 // by row and region
	// Made is the region that has inserted a row; -1: none of these.
	Made []int
	// Named is the share of statements that name rows by the primary key.
	Named float64
}

// Part is what a node of a region has sampled.
type Part struct {
	Region int
	Tables []Table
}

// Merge puts the samples of nodes together, by tables. Hashes that one node has left out count at
// no other one.
func Merge(regions int, parts []Part) map[string]*Shared {
	type sum struct {
		Shared
		at             map[uint64]int
		most           uint64
		named, unnamed uint64
	}
	by := map[string]*sum{}
	each := func(f func(region int, t *Table, s *sum)) {
		for i := range parts {
			for j := range parts[i].Tables {
				t := &parts[i].Tables[j]
				s := by[t.Name]
				if s == nil {
					s = &sum{at: map[uint64]int{}, most: ^uint64(0)}
					by[t.Name] = s
				}
				f(parts[i].Region, t, s)
			}
		}
	}
	each(func(_ int, t *Table, s *sum) {
		s.named, s.unnamed = s.named+t.Named, s.unnamed+t.Unnamed
		if t.Cut && len(t.Rows) > 0 {
			s.most = min(s.most, t.Rows[len(t.Rows)-1].Hash)
		}
	})
	each(func(region int, t *Table, s *sum) {
		for _, r := range t.Rows {
			if r.Hash > s.most || region < 0 || region >= regions {
				continue
			}
			i, ok := s.at[r.Hash]
			if !ok {
				i = len(s.Made)
				s.at[r.Hash] = i
				s.Reads, s.Writes = append(s.Reads, make([]float64, regions)), append(s.Writes, make([]float64, regions))
				s.Made = append(s.Made, -1)
			}
			s.Reads[i][region] += float64(r.Reads)
			s.Writes[i][region] += float64(r.Writes)
			if r.Made {
				s.Made[i] = region
			}
		}
	})
	out := map[string]*Shared{}
	for name, s := range by {
		s.Shared.Named = float64(s.named) / max(1, float64(s.named+s.unnamed))
		out[name] = &s.Shared
	}
	return out
}
