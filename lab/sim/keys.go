package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/base"
)

// A section is the keys of one table in one shard. The history knows a key as
// "<section>.<number>", in the order of the real keys.
type section struct {
	name   string
	prefix base.Key
	home   base.RegionID // owner of its first gap; 0 in the meta shard
}

func (s *section) key(n int) string { return fmt.Sprintf("%s.%03d", s.name, n) }

// keyspace maps the names of the history to keys of the database.
type keyspace struct {
	sections []*section
	keys     map[string]base.Key
	names    map[string]string
	// belongs are the placements, by section, of tables whose rows have several.
	belongs map[string]base.PlacementID
}

// Sequence numbers of the tables, far from those of the system.
const (
	tableMixed = 1000
	tableList  = 1001
	tableBank  = 1002
	tableMeta  = 1003
	tableProbe = 1004
	tableRows  = 1005
)

func newKeyspace() *keyspace {
	return &keyspace{keys: map[string]base.Key{}, names: map[string]string{}, belongs: map[string]base.PlacementID{}}
}

// add makes a section of n keys.
func (ks *keyspace) add(name string, seq uint64, shard base.ShardID, home base.RegionID, n int) *section {
	s := &section{name: name, prefix: base.IndexPrefix(shard, base.MakeTableID(seq, home), 0, 0), home: home}
	ks.fill(s, n)
	return s
}

// fill gives a section n keys.
func (ks *keyspace) fill(s *section, n int) {
	ks.sections = append(ks.sections, s)
	for i := range n {
		k := base.AppendInt64(s.prefix.Clone(), int64(i))
		ks.keys[s.key(i)], ks.names[string(k)] = k, s.key(i)
	}
}

// parts groups all sections that one read covers: all at once, or apart. If every read goes to an
// owner, reading all sections at one snapshot may take longer than old versions are kept.
func (ks *keyspace) parts(apart bool) [][]*section {
	if !apart {
		return [][]*section{ks.sections}
	}
	var out [][]*section
	for _, s := range ks.sections {
		out = append(out, []*section{s})
	}
	return out
}

// grid makes one section per shard and home region.
func (ks *keyspace) grid(letter string, seq uint64, cfg *Config, n int) []*section {
	var out []*section
	for sh := 1; sh <= cfg.Shards; sh++ {
		for r := 1; r <= cfg.Regions-cfg.Late; r++ {
			out = append(out, ks.add(fmt.Sprintf("%s%d%d", letter, sh, r), seq, base.ShardID(sh), base.RegionID(r), n))
		}
		for r := 1; r <= cfg.Placed; r++ {
			if cfg.Sets == nil {
				out = append(out, ks.add(fmt.Sprintf("%sp%d%d", letter, sh, r), seq, placedShard(cfg, sh), base.RegionID(r), n))
			}
		}
	}
	if cfg.Sections != nil {
		out = append(out, cfg.Sections(ks, letter, seq, n)...)
	}
	return out
}

// span is the range [from, to) of a section by number; to < 0 is to its end.
func (ks *keyspace) span(s *section, from, to int) (sp base.Span, start, end string) {
	sp, start = base.Span{Start: s.prefix, End: s.prefix.PrefixEnd()}, s.name+"."
	end = s.name + "/" // the byte after '.'
	if from > 0 {
		sp.Start, start = base.AppendInt64(s.prefix.Clone(), int64(from)), s.key(from)
	}
	if to >= 0 {
		sp.End, end = base.AppendInt64(s.prefix.Clone(), int64(to)), s.key(to)
	}
	return sp, start, end
}

// all are the names in order.
func (ks *keyspace) all() []string {
	out := make([]string, 0, len(ks.keys))
	for n := range ks.keys {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// of is the section of a name.
func (ks *keyspace) of(name string) *section {
	sec, _, _ := strings.Cut(name, ".")
	for _, s := range ks.sections {
		if s.name == sec {
			return s
		}
	}
	return nil
}
