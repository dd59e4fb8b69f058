package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/lab/bench/cost"
	"github.com/godwitdb/godwit/lab/bench/faults"
	"github.com/godwitdb/godwit/lab/bench/gaussdb"
	"github.com/godwitdb/godwit/lab/bench/geococo"
	"github.com/godwitdb/godwit/lab/bench/geolm"
	"github.com/godwitdb/godwit/lab/bench/peers"
	"github.com/godwitdb/godwit/lab/bench/polybase"
	"github.com/godwitdb/godwit/lab/bench/relay"
	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/lab/bench/tpch"
)

// all are the benchmarks of this build.
func all() []rig.Bench {
	return []rig.Bench{
		polybase.Bench(), geolm.Bench(), relay.Bench(), relay.CRDB(), gaussdb.Bench(), gaussdb.Switch(),
		gaussdb.Compression(), geococo.Bench(), peers.Bench(), peers.MariaDB(), peers.Security(), faults.Bench(),
		tpch.Bench(), cost.Bench(),
	}
}

// All returns the benchmarks by name.
func All() []rig.Bench {
	bs := all()
	slices.SortFunc(bs, func(a, b rig.Bench) int { return strings.Compare(a.Name, b.Name) })
	return bs
}

// Find returns the benchmark of that name; the error lists those that exist.
func Find(name string) (rig.Bench, error) {
	var names []string
	for _, b := range All() {
		if b.Name == name {
			return b, nil
		}
		names = append(names, b.Name)
	}
	return rig.Bench{}, fmt.Errorf("there is no benchmark %q: this build has %s", name, strings.Join(names, ", "))
}
