package sim

import (
	"fmt"
	"slices"
	"testing"

	"github.com/godwitdb/godwit/base"
)

// oneWayCuts are all sets of directions between regions in which some path is cut in one direction
// only, and that leave a majority connected by whole paths; one of each shape: region 1, which
// leads the meta group, keeps its place in it.
func oneWayCuts(regions int) (out []graph) {
	var ways [][2]base.RegionID
	for a := 1; a <= regions; a++ {
		for b := 1; b <= regions; b++ {
			if a != b {
				ways = append(ways, [2]base.RegionID{base.RegionID(a), base.RegionID(b)})
			}
		}
	}
	seen := map[string]bool{}
	for n := 1; n < 1<<len(ways); n++ {
		g, half := graph{oneWay: true}, false
		for i, w := range ways {
			if n>>i&1 != 0 {
				g.cut = append(g.cut, w)
			}
		}
		for _, c := range g.cut {
			half = half || !slices.Contains(g.cut, [2]base.RegionID{c[1], c[0]})
		}
		most := 0
		for a := 1; a <= regions; a++ {
			most = max(most, len(g.reach(base.RegionID(a), regions)))
		}
		if !half || 2*most <= regions {
			continue
		}
		if name := g.shape(regions); !seen[name] {
			seen[name] = true
			out = append(out, g)
		}
	}
	return out
}

// ring cuts all paths of so many regions but those of a ring.
func ring(regions int) (g graph) {
	for a := 1; a <= regions; a++ {
		for b := a + 2; b <= regions; b++ {
			if b%regions+1 != a {
				g.cut = append(g.cut, [2]base.RegionID{base.RegionID(a), base.RegionID(b)})
			}
		}
	}
	return g
}

// TestOneWayCuts plays all cuts of three regions in which a path works in one direction only, and
// of four at full length: whoever is in a majority that is connected by whole paths goes on,
// whatever else it hears or is heard by.
func TestOneWayCuts(t *testing.T) {
	sets := map[int][]graph{3: oneWayCuts(3)}
	if long() {
		sets[4] = oneWayCuts(4)
	}
	for _, regions := range []int{3, 4} {
		all := sets[regions]
		t.Logf("%d graphs of %d regions", len(all), regions)
		const together = 8
		for i, part := range slices.Collect(slices.Chunk(all, together)) {
			t.Run(fmt.Sprint(regions, " regions, ", i), func(t *testing.T) {
				cutStage(t, regions, nil, func(s *stage, l *cutLoad) {
					for _, g := range part {
						s.judge(l, g, false)
					}
				})
			})
		}
	}
}

// TestRings: of four and five regions each reaches its two neighbours only.
func TestRings(t *testing.T) {
	for _, regions := range []int{4, 5} {
		cutStage(t, regions, nil, func(s *stage, l *cutLoad) { s.judge(l, ring(regions), false) })
	}
}
