package leader

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/godwitdb/godwit/base"
)

// ParsePins reads "s1@r2=5 meta=1": groups and the nodes that are to lead them.
func ParsePins(s string) (map[base.GroupID]base.NodeID, error) {
	out := map[base.GroupID]base.NodeID{}
	for _, f := range strings.Fields(s) {
		name, node, ok := strings.Cut(f, "=")
		g, err := base.ParseGroup(name)
		n, err2 := strconv.ParseUint(node, 10, 16)
		if !ok || err != nil || err2 != nil || n == 0 {
			return nil, base.Errorf(base.CodeInvalid, "leader.pin: %q is not GROUP=NODE, like s1@r2=5", f)
		}
		out[g] = base.NodeID(n)
	}
	return out, nil
}

// FormatPins is the other way round.
func FormatPins(pins map[base.GroupID]base.NodeID) string {
	var out []string
	for g, n := range pins {
		out = append(out, fmt.Sprintf("%v=%d", g, n))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
