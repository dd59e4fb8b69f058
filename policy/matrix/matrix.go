// Package matrix reads latency matrices: which regions there are and how far
// apart. It holds a few measured ones (data/README.md has the sources), and is
// pure: no files, no clock. A [Trace] is a matrix that changes with time.
//
// A matrix is CSV. The header names the regions; row i, column j is the round
// trip from i to j in milliseconds, in the order of the header. A blank cell was
// not measured and takes the value of the opposite direction. One-way latency
// is taken as half the round trip of the direction.
package matrix

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/csv"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Matrix is a set of named regions and the round trips between them.
type Matrix struct {
	Names []string
	// RTT[i][j] is the round trip measured from i to j. RTT[i][i] is what the
	// source says about one region: 0 if it says nothing.
	RTT [][]time.Duration
}

// maxRTT is larger than any round trip on Earth; more means another unit.
const maxRTT = 10 * time.Second

const unmeasured time.Duration = -1

// Parse reads CSV. name is for error messages, which are of CodeInvalid.
func Parse(r io.Reader, name string) (*Matrix, error) {
	p := parser{name: name}
	cr := csv.NewReader(r)
	cr.FieldsPerRecord = -1
	cr.TrimLeadingSpace = true
	recs, err := cr.ReadAll()
	if err != nil {
		return nil, p.fail("%v", err)
	}
	if len(recs) < 2 {
		return nil, p.fail("it needs a header with the names of the regions, and one row of round-trip times (ms) per region")
	}
	if err := p.header(recs[0]); err != nil {
		return nil, err
	}
	if n := p.m.Len(); len(recs)-1 != n {
		return nil, p.fail("the header names %d regions, but there are %d rows: it must be square, "+
			"in the order of the header, without names in the rows", n, len(recs)-1)
	}
	for _, rec := range recs[1:] {
		if err := p.row(rec); err != nil {
			return nil, err
		}
	}
	p.m.mirror()
	return &p.m, nil
}

// A parser has read a matrix down to some line.
type parser struct {
	name string
	m    Matrix
}

func (p *parser) fail(format string, args ...any) error {
	return base.Errorf(base.CodeInvalid, "latency matrix "+strings.ReplaceAll(p.name, "%", "%%")+": "+format, args...)
}

// header reads the names of the regions.
func (p *parser) header(rec []string) error {
	for i, s := range rec {
		s = strings.TrimSpace(strings.TrimPrefix(s, "\ufeff"))
		if s == "" {
			return p.fail("column %d of the header has no name", i+1)
		}
		if j := slices.Index(p.m.Names, s); j >= 0 {
			return p.fail("region %q is in columns %d and %d", s, j+1, i+1)
		}
		p.m.Names = append(p.m.Names, s)
	}
	return nil
}

// row reads the round trips from the next region.
func (p *parser) row(rec []string) error {
	i, n := len(p.m.RTT), p.m.Len()
	if len(rec) != n {
		return p.fail("line %d (%s) has %d values instead of %d", i+2, p.m.Names[i], len(rec), n)
	}
	row := make([]time.Duration, n)
	for j, s := range rec {
		rtt, err := p.rtt(strings.TrimSpace(s), p.m.Names[i], p.m.Names[j])
		if err != nil {
			return err
		}
		row[j] = rtt
	}
	p.m.RTT = append(p.m.RTT, row)
	return nil
}

// rtt reads one round trip in milliseconds.
func (p *parser) rtt(s, from, to string) (time.Duration, error) {
	if s == "" {
		return unmeasured, nil
	}
	ms, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil:
		return 0, p.fail("from %s to %s: %q is not a number of milliseconds", from, to, s)
	case math.IsNaN(ms) || ms < 0 || ms > float64(maxRTT/time.Millisecond):
		return 0, p.fail("from %s to %s: %s ms is not a round-trip time (0 to %v; the unit is ms)", from, to, s, maxRTT)
	}
	return time.Duration(math.Round(ms * float64(time.Millisecond))), nil
}

// mirror takes what was not measured from the other direction, and a region's way to itself as 0.
func (m *Matrix) mirror() {
	for i := range m.RTT {
		if m.RTT[i][i] < 0 {
			m.RTT[i][i] = 0
		}
		for j := range i {
			a, b := &m.RTT[i][j], &m.RTT[j][i]
			if *a < 0 {
				*a = *b
			}
			if *b < 0 {
				*b = *a
			}
		}
	}
}

// Len is the number of regions.
func (m *Matrix) Len() int { return len(m.Names) }

// First takes the first n regions.
func (m *Matrix) First(n int) (*Matrix, error) {
	if n < 1 || n > m.Len() {
		return nil, base.Errorf(base.CodeInvalid, "the latency matrix has 1 to %d regions to choose from, not %d", m.Len(), n)
	}
	return m.Pick(m.Names[:n]...)
}

// Pick takes the named regions, in that order. All pairs must have been measured.
func (m *Matrix) Pick(names ...string) (*Matrix, error) {
	if len(names) == 0 {
		return nil, base.Errorf(base.CodeInvalid, "no region was chosen; there are %s", strings.Join(m.Names, ", "))
	}
	idx := make([]int, len(names))
	for i, name := range names {
		idx[i] = slices.Index(m.Names, name)
		if idx[i] < 0 {
			return nil, base.Errorf(base.CodeInvalid, "region %q is not in the latency matrix; there are %s", name,
				strings.Join(m.Names, ", "))
		}
		if slices.Contains(names[:i], name) {
			return nil, base.Errorf(base.CodeInvalid, "region %q is chosen twice", name)
		}
	}
	out := &Matrix{Names: slices.Clone(names)}
	for i, a := range idx {
		row := make([]time.Duration, len(idx))
		for j, b := range idx {
			row[j] = m.RTT[a][b]
		}
		out.RTT = append(out.RTT, row)
		if j := slices.Index(row, unmeasured); j >= 0 {
			return nil, base.Errorf(base.CodeInvalid, "the round trip between %s and %s was not measured: fill it in, "+
				"or choose other regions", names[i], names[j])
		}
	}
	return out, nil
}

// OneWay is the delay from i to j: half the round trip.
func (m *Matrix) OneWay(i, j int) time.Duration { return m.RTT[i][j] / 2 }

// OneWays are all one-way delays (row: from); the diagonal is 0, since what
// happens inside a region is not the matrix's business.
func (m *Matrix) OneWays() [][]time.Duration {
	out := make([][]time.Duration, m.Len())
	for i := range out {
		out[i] = make([]time.Duration, m.Len())
		for j := range out[i] {
			if i != j {
				out[i][j] = m.OneWay(i, j)
			}
		}
	}
	return out
}

// RoundTrip is the time from i to j and back.
func (m *Matrix) RoundTrip(i, j int) time.Duration { return m.OneWay(i, j) + m.OneWay(j, i) }

// Quorum is the round trip from i to its nearest majority (itself included):
// what a synchronous commit of a leader there waits for.
func (m *Matrix) Quorum(i int) time.Duration {
	d := make([]time.Duration, m.Len())
	for j := range d {
		if i != j {
			d[j] = m.RoundTrip(i, j)
		}
	}
	slices.Sort(d)
	return d[m.Len()/2]
}

//go:embed data/*.csv data/*.csv.gz
var data embed.FS

// The embedded matrices.
const (
	AWS    = "aws_cloudping_p50" // 33 AWS regions, medians of 2025
	AWSP90 = "aws_cloudping_p90" // the same, 90th percentiles
	// 21 AWS regions, ICMP, 2022: many detours are faster than the direct path
	AWS2022   = "skyplane_aws_2022"
	Clouds    = "skyplane_clouds_2022" // 69 regions of AWS, Azure and GCP, ICMP, 2022
	PlanetLab = "planetlab490"         // 490 hosts of PlanetLab, medians
	Relay     = "relay_paper_ec2"      // Table 3 of the Relay paper
	ThreeCity = "gaussdb_threecity"    // the triangle of GaussDB-Global
)

// Builtin lists the names of the embedded matrices.
func Builtin() []string {
	return []string{AWS, AWSP90, AWS2022, Clouds, PlanetLab, Relay, ThreeCity}
}

// Open returns an embedded matrix.
func Open(name string) (*Matrix, error) {
	if !slices.Contains(Builtin(), name) {
		return nil, base.Errorf(base.CodeInvalid, "there is no built-in latency matrix %q; there are %s", name,
			strings.Join(Builtin(), ", "))
	}
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	return Parse(f, name)
}

// open reads an embedded file, packed or not.
func open(name string) (io.Reader, error) {
	if b, err := data.ReadFile("data/" + name + ".csv"); err == nil {
		return bytes.NewReader(b), nil
	}
	b, err := data.ReadFile("data/" + name + ".csv.gz")
	if err != nil {
		return nil, err
	}
	return gzip.NewReader(bytes.NewReader(b))
}

// spread orders AWS regions so that the first n of them are an interesting
// cluster for every n: two continents from two on, four from five on.
var spread = []string{
	"us-east-1", "us-west-2", "eu-west-1", "ap-northeast-1", "sa-east-1", "ap-southeast-2", "eu-central-1",
}

// DefaultRegions is the number of regions of a cluster nobody said anything about.
const DefaultRegions = 5

// Default is a spread of n AWS regions: us-east-1, us-west-2, eu-west-1,
// ap-northeast-1, sa-east-1, ap-southeast-2, eu-central-1, cut after n.
func Default(n int) (*Matrix, error) {
	if n < 1 || n > len(spread) {
		return nil, base.Errorf(base.CodeInvalid, "1 to %d regions, not %d", len(spread), n)
	}
	m, err := Open(AWS)
	if err != nil {
		return nil, err
	}
	return m.Pick(spread[:n]...)
}
