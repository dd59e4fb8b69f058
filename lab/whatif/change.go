package whatif

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/sql/recording"
)

// Change is what would be different. The zero value is the cluster as it is.
type Change struct {
	// Add and Drop are regions. Matrix are round trips that take the place of those that were
	// measured; it has to have those of regions that are added.
	Add, Drop []string
	Matrix    *matrix.Matrix
	// Do are statements that are executed before clients come, Session those that each client
	// executes first.
	Do, Session []string
	// Localities are clauses by table, as database.table.
	Localities map[string]string
	// Clients moves shares of the clients of one region to another one.
	Clients []Move
}

// Move is of a share of the clients of a region, up to 1.
type Move struct {
	From, To string
	Share    float64
}

// plan is a cluster to be played.
type plan struct {
	f *recording.File
	c Change
	// regions of the cluster, with their nodes.
	regions []recording.Region
	m       *matrix.Matrix
	// at is where the clients of each session are, by name, and gateway the region, by its place in
	// regions, that serves it, which is trip away.
	at      []string
	gateway []int
	trip    []time.Duration
}

func invalid(format string, args ...any) error { return base.Errorf(base.CodeInvalid, format, args...) }

// planned is what a change makes of a recording.
func planned(f *recording.File, c Change) (*plan, error) {
	p := &plan{f: f, c: c}
	for _, name := range c.Drop {
		if !slices.ContainsFunc(f.Regions, func(r recording.Region) bool { return r.Name == name }) {
			return nil, invalid("the cluster has no region %s to drop", name)
		}
		if i := slices.IndexFunc(f.Placements, func(q string) bool { return strings.Contains(q, "'"+name+"'") }); i >= 0 {
			return nil, invalid("region %s is in a placement, so it cannot be dropped: %s", name, f.Placements[i])
		}
	}
	nodes := 1
	for _, r := range f.Regions {
		nodes = max(nodes, r.Nodes)
		if !slices.Contains(c.Drop, r.Name) {
			p.regions = append(p.regions, r)
		}
	}
	for _, name := range c.Add {
		if slices.ContainsFunc(f.Regions, func(r recording.Region) bool { return r.Name == name }) {
			return nil, invalid("the cluster has the region %s already", name)
		}
		p.regions = append(p.regions, recording.Region{Name: name, Nodes: nodes})
	}
	if len(p.regions) == 0 {
		return nil, invalid("no region is left")
	}
	if err := p.distances(); err != nil {
		return nil, err
	}
	return p, p.place()
}

// distances make the matrix of the regions that there are.
func (p *plan) distances() error {
	m := &matrix.Matrix{}
	for i, a := range p.regions {
		m.Names = append(m.Names, a.Name)
		m.RTT = append(m.RTT, make([]time.Duration, len(p.regions)))
		for j, b := range p.regions {
			d, ok := p.between(a.Name, b.Name)
			if !ok {
				return invalid("how far is %s from %s? Name a file with round trips (--matrix)", a.Name, b.Name)
			}
			m.RTT[i][j] = d
		}
	}
	p.m = m
	return nil
}

// between is the round trip between two regions, of the cluster or not.
func (p *plan) between(a, b string) (time.Duration, bool) {
	if a == b {
		return 0, true
	}
	if m := p.c.Matrix; m != nil {
		if i, j := slices.Index(m.Names, a), slices.Index(m.Names, b); i >= 0 && j >= 0 {
			return m.RoundTrip(i, j), true
		}
	}
	at := func(name string) int {
		return slices.IndexFunc(p.f.Regions, func(r recording.Region) bool { return r.Name == name })
	}
	if i, j := at(a), at(b); i >= 0 && j >= 0 {
		return time.Duration(p.f.RTT[i][j] * float64(time.Millisecond)), true
	}
	if m, err := matrix.Open(matrix.AWS); err == nil {
		if i, j := slices.Index(m.Names, a), slices.Index(m.Names, b); i >= 0 && j >= 0 && m.RTT[i][j] > 0 {
			return m.RoundTrip(i, j), true
		}
	}
	return 0, false
}

// place says where the clients are, and who serves them.
func (p *plan) place() error {
	seen := map[string]int{}
	for _, s := range p.f.Sessions {
		if s.Region < 0 || s.Region >= len(p.f.Regions) {
			return invalid("the recording has a session of region %d, and %d regions", s.Region, len(p.f.Regions))
		}
		from := p.f.Regions[s.Region].Name
		at := from
		n := float64(seen[from])
		seen[from]++
		share := 0.0
		for _, m := range p.c.Clients {
			// Every so many sessions one moves, so that shares add up whatever their order is.
			if m.From == from && at == from {
				share += m.Share
				if int((n+1)*share+1e-9) > int(n*share+1e-9) {
					at = m.To
				}
			}
		}
		gateway, trip, err := p.serving(at)
		if err != nil {
			return err
		}
		p.at, p.gateway, p.trip = append(p.at, at), append(p.gateway, gateway), append(p.trip, trip)
	}
	return nil
}

// serving is the region that serves clients of a place: the one there, or else the nearest.
func (p *plan) serving(at string) (region int, trip time.Duration, err error) {
	type near struct {
		region int
		trip   time.Duration
	}
	var all []near
	for i, r := range p.regions {
		if d, ok := p.between(at, r.Name); ok {
			all = append(all, near{i, d})
		}
	}
	if len(all) == 0 {
		return 0, 0, invalid("how far is %s from the regions? Name a file with round trips (--matrix)", at)
	}
	n := slices.MinFunc(all, func(a, b near) int { return cmp.Compare(a.trip, b.trip) })
	return n.region, n.trip, nil
}

// instead is the region that rows of another one are at home in, if that is gone.
func (p *plan) instead(region string) int {
	if i, _, err := p.serving(region); err == nil {
		return i
	}
	return 0
}

// clause is the locality of a table, as CREATE TABLE takes it.
func (p *plan) clause(t *recording.Table) string {
	placement := ""
	if t.Placement != "" {
		placement = " " + t.Placement
	}
	if c, ok := p.c.Localities[strings.ToLower(t.DB+"."+t.Name)]; ok {
		if !strings.Contains(strings.ToUpper(c), "REGIONAL") {
			placement = "" // such tables lie everywhere
		}
		return placement + " LOCALITY " + c + replication(t.Async)
	}
	switch t.Locality {
	case "table":
		return placement + fmt.Sprintf(" LOCALITY REGIONAL BY TABLE IN '%s'", p.regions[p.instead(t.Region)].Name) + replication(t.Async)
	case "global":
		return " LOCALITY GLOBAL"
	case "multi":
		return " LOCALITY MULTI MASTER"
	}
	return placement + replication(t.Async)
}

func replication(async bool) string {
	if async {
		return " REPLICATION ASYNC"
	}
	return ""
}
