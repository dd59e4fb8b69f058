package placing

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
)

var (
	reCreate = regexp.MustCompile("(?is)^CREATE\\s+PLACEMENT\\s+(IF\\s+NOT\\s+EXISTS\\s+)?(`[^`]+`|[\\w$]+)" +
		`\s+REGIONS\s*\(([^()]*)\)(?:\s+VOTERS\s+(\d{1,4}))?(?:\s+READ\s+REPLICAS\s+IN\s*\(([^()]*)\))?` +
		`(?:\s+SURVIVE\s+(?:(NODE)|(REGION)|(\d{1,4})\s+REGIONS?))?$`)
	reRegionName = regexp.MustCompile(`^(?:'([^']+)'|"([^"]+)"|([\w.-]+))$`)
)

// Create is a CREATE PLACEMENT as it is written.
type Create struct {
	Lenient bool // IF NOT EXISTS
	parts   []string
}

// ParseCreate parses a CREATE PLACEMENT; nil if the text is none.
func ParseCreate(q string) *Create {
	m := reCreate.FindStringSubmatch(q)
	if m == nil {
		return nil
	}
	return &Create{Lenient: m[1] != "", parts: m}
}

// Spec is what the statement asks for. Its errors say what it cannot mean.
func (c *Create) Spec() (spec base.PlacementSpec, err error) {
	m := c.parts
	spec.Name = strings.Trim(m[2], "`")
	if strings.EqualFold(spec.Name, "NONE") || len(spec.Name) > 64 {
		return spec, schema.Invalid("a placement cannot be called " + spec.Name + ": a name has 64 characters at most, and is not NONE")
	}
	if spec.Regions, err = regionNames(m[3], "REGIONS"); err != nil {
		return spec, err
	}
	if m[4] != "" {
		if spec.Voters, err = strconv.Atoi(m[4]); err != nil || spec.Voters == 0 {
			return spec, schema.Invalid("VOTERS takes the number of regions that vote, 3 or more, and not " + m[4])
		}
	}
	if m[5] != "" {
		if spec.Readers, err = regionNames(m[5], "READ REPLICAS IN"); err != nil {
			return spec, err
		}
	}
	switch {
	case m[6] != "":
		spec.Survive = base.SurviveNode
	case m[7] != "":
		spec.Survive = 1
	case m[8] != "":
		if spec.Survive, err = strconv.Atoi(m[8]); err != nil || spec.Survive == 0 {
			return spec, schema.Invalid("SURVIVE takes NODE, REGION or a number of REGIONS from 1 on, and not " + m[8])
		}
	}
	return spec, nil
}

// Names are the names of regions, in quotes or not.
func Names(t *base.Topology, regions []base.RegionID, quote string) string {
	var names []string
	for _, r := range regions {
		names = append(names, quote+t.RegionName(r)+quote)
	}
	return strings.Join(names, ", ")
}

// ShowCreate is a placement in the syntax that makes it.
func ShowCreate(t *base.Topology, name string) ([]sql.Row, error) {
	p := t.PlacementByName(name)
	if p == nil {
		return nil, schema.Invalid("there is no placement " + name + ": SHOW PLACEMENTS lists them")
	}
	q := "CREATE PLACEMENT `" + p.Name + "` REGIONS (" + Names(t, p.All(), "'") + ")"
	if p.Set != nil && len(p.Regions) > 1 {
		q += " VOTERS " + strconv.Itoa(len(p.Regions))
	}
	if p.Set != nil && len(p.Set.Readers) > 0 {
		q += " READ REPLICAS IN (" + Names(t, p.Set.Readers, "'") + ")"
	}
	if p.Set != nil && len(p.Regions) == 1 {
		q += " SURVIVE NODE"
	}
	return []sql.Row{{p.Name, q}}, nil
}

// regionNames are the regions of a list as it is written.
func regionNames(list, clause string) (regions []string, err error) {
	for _, r := range strings.Split(list, ",") {
		m := reRegionName.FindStringSubmatch(strings.TrimSpace(r))
		if m == nil {
			return nil, schema.Invalid(clause + " takes names of regions, as in ('eu-west', 'eu-south'), and not " + strings.TrimSpace(r))
		}
		regions = append(regions, m[1]+m[2]+m[3])
	}
	return regions, nil
}
