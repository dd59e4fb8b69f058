package history

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// bruteForce is the definition: is there an order of the effective transactions, some of the
// unknown ones among them or not, that explains every answer and keeps the order that the level
// demands? Exponential.
type bruteForce struct {
	h     *History
	level Level
	must  [][]bool // must[a][b]: a before b
	dead  map[string]bool
	ts    bool // writers of a key must follow their timestamps
	// readers too: the checker believes them where it infers the place of a version that has no
	// timestamp.
	readers bool
}

func (b *bruteForce) possible() bool {
	n := len(b.h.Txns)
	b.dead = map[string]bool{}
	b.must = make([][]bool, n)
	for i := range b.must {
		b.must[i] = make([]bool, n)
		for j := range b.must[i] {
			b.must[i][j] = i != j && b.mustPrecede(&b.h.Txns[i], &b.h.Txns[j])
		}
	}
	return b.place(make([]bool, n), maps.Clone(b.h.Init))
}

func (b *bruteForce) mustPrecede(x, y *Txn) bool {
	if b.ts && x.Timestamp != 0 && y.Timestamp != 0 && x.Timestamp < y.Timestamp {
		for k := range written(x) {
			if written(y)[k] || b.readers && touched(y, k) {
				return true
			}
		}
		for k := range written(y) {
			if b.readers && touched(x, k) {
				return true
			}
		}
	}
	if x.Outcome != Committed || x.Return >= y.Invoke {
		return false
	}
	switch b.level {
	case LevelStrictSerializable:
		return true
	case LevelSessionSerializable:
		return x.Client == y.Client
	case LevelRelay:
		for _, r := range x.regions() {
			if slices.Contains(y.regions(), r) {
				return true
			}
		}
		for k := range written(x) {
			if touched(y, k) {
				return true
			}
		}
	}
	return false
}

func written(t *Txn) map[string]bool {
	w := map[string]bool{}
	for _, o := range t.Ops {
		if o.writes() {
			w[o.Key] = true
		}
	}
	return w
}

func touched(t *Txn, k string) bool {
	for _, o := range t.Ops {
		if o.Kind == OpScan && k >= o.Key && (o.End == "" || k < o.End) || o.Kind != OpScan && o.Key == k {
			return true
		}
	}
	return false
}

func (b *bruteForce) place(done []bool, state map[string]string) bool {
	key := fmt.Sprint(done, state)
	if b.dead[key] {
		return false
	}
	finished := true
	for i := range b.h.Txns {
		finished = finished && (done[i] || b.h.Txns[i].Outcome != Committed)
	}
	if finished && (b.h.Final == nil || maps.Equal(lastElems(state), b.h.Final)) {
		return true
	}
next:
	for i := range b.h.Txns {
		t := &b.h.Txns[i]
		if done[i] || t.Outcome == Aborted {
			continue
		}
		for j := range b.h.Txns {
			// An unknown transaction left out may be placed later or never; one placed after i must
			// not be bound before it.
			if b.must[j][i] && !done[j] && b.h.Txns[j].Outcome == Committed || b.must[i][j] && done[j] {
				continue next
			}
		}
		if after, ok := run(t, state); ok {
			done[i] = true
			if b.place(done, after) {
				return true
			}
			done[i] = false
		}
	}
	b.dead[key] = true
	return false
}

// run executes t serially and compares the answers.
func run(t *Txn, state map[string]string) (map[string]string, bool) {
	s := maps.Clone(state)
	for _, o := range t.Ops {
		switch o.Kind {
		case OpRead:
			if s[o.Key] != o.Value {
				return nil, false
			}
		case OpReadList:
			if !slices.Equal(elems(s[o.Key]), o.List) {
				return nil, false
			}
		case OpAppend:
			s[o.Key] += "," + o.Value
		case OpScan:
			n := 0
			for k := range s {
				if k >= o.Key && (o.End == "" || k < o.End) {
					n++
				}
			}
			if n != len(o.Rows) {
				return nil, false
			}
			for _, r := range o.Rows {
				if s[r.Key] != r.Value {
					return nil, false
				}
			}
		case OpWrite:
			s[o.Key] = o.Value
		case OpDelete:
			delete(s, o.Key)
		}
	}
	return s, true
}

// TestAgainstBruteForce: a violation is never reported where an order exists; and where the version
// order is known (read-modify-write or timestamps, no tombstones) a violation is always reported
// where none exists.
func TestAgainstBruteForce(t *testing.T) {
	for _, m := range mixes {
		t.Run(m.String(), func(t *testing.T) {
			good, bad := 0, 0
			for seed := uint64(0); seed < 400; seed++ {
				rng := rand.New(rand.NewPCG(seed, 3))
				m := m
				m.txns, m.keys, m.ops = 2+rng.IntN(5), 1+rng.IntN(3), 1+rng.IntN(3)
				if m.timestamps {
					// which tombstone was seen is then decided by timestamps, not by search
					m.deletes = false
				}
				h := serialHistory(rng, m)
				for n := rng.IntN(3); n > 0; n-- {
					mutate(rng, h)
				}
				if rng.IntN(2) == 0 {
					h.Final = nil
				}
				for l := LevelSerializable; l <= LevelStrictSerializable; l++ {
					b := &bruteForce{h: h, level: l, ts: m.timestamps, readers: m.unknown}
					possible := b.possible()
					v, st := Check(h, l)
					if possible {
						good++
					} else {
						bad++
					}
					if possible && v != nil {
						t.Fatalf("seed %d: an order exists for %s, but: %v\n%s", seed, l, v, dump(h))
					}
					complete := st.AmbiguousReads == 0 && (m.rmw && !m.deletes || m.timestamps && !m.unknown)
					if complete && !possible && v == nil {
						t.Fatalf("seed %d: no order exists for %s, accepted\n%s", seed, l, dump(h))
					}
				}
			}
			if good < 100 || bad < 20 {
				t.Fatalf("%d good and %d bad histories: the test has no teeth", good, bad)
			}
		})
	}
}

// TestAgainstClosure compares the sparse graph, Tarjan and the doubled graph of snapshot isolation
// with dense matrices and the cubic transitive closure.
func TestAgainstClosure(t *testing.T) {
	verdicts := map[string]int{}
	for seed := uint64(0); seed < 1500; seed++ {
		rng := rand.New(rand.NewPCG(seed, 4))
		m := mixes[int(seed)%len(mixes)]
		m.txns, m.keys, m.ops = 3+rng.IntN(8), 1+rng.IntN(4), 1+rng.IntN(4)
		h := serialHistory(rng, m)
		for n := rng.IntN(4); n > 0; n-- {
			mutate(rng, h)
		}
		x, v := newIndex(h, false)
		if v != nil {
			continue
		}
		n := len(h.Txns)
		dep, anti := matrix(n), matrix(n)
		for i := range x.vers {
			later := x.laterVersions(int32(i))
			for _, s := range later {
				if a := x.vers[i].txn; a != none && a != x.vers[s].txn {
					dep[a][x.vers[s].txn] = true
				}
			}
			for _, r := range x.reads {
				if r.ver != int32(i) {
					continue
				}
				if a := x.vers[i].txn; a != none {
					dep[a][r.txn] = true
				}
				for _, s := range later {
					if x.vers[s].txn != r.txn {
						anti[r.txn][x.vers[s].txn] = true
					}
				}
			}
		}
		all, si := matrix(n), matrix(n)
		for a := range n {
			for b := range n {
				all[a][b] = dep[a][b] || anti[a][b]
				si[a][b] = si[a][b] || dep[a][b]
				for c := range n {
					si[a][c] = si[a][c] || dep[a][b] && anti[b][c]
				}
			}
		}
		for _, c := range []struct {
			level Level
			m     [][]bool
		}{{LevelSerializable, all}, {LevelSnapshotIsolation, si}} {
			v, _ := Check(h, c.level)
			want := cyclicByClosure(c.m)
			verdicts[fmt.Sprint(c.level, want)]++
			if (v != nil) != want {
				t.Fatalf("seed %d: %s: cycle by closure %t, found %v\n%s", seed, c.level, want, v, dump(h))
			}
		}
	}
	for _, w := range []string{"serializability true", "serializability false", "snapshot isolation true",
		"snapshot isolation false"} {
		if verdicts[w] < 20 {
			t.Errorf("only %d histories with %s: the test has no teeth", verdicts[w], w)
		}
	}
}

func matrix(n int) [][]bool {
	m := make([][]bool, n)
	for i := range m {
		m[i] = make([]bool, n)
	}
	return m
}

func cyclicByClosure(m [][]bool) bool {
	for k := range m {
		for i := range m {
			for j := range m {
				m[i][j] = m[i][j] || m[i][k] && m[k][j]
			}
		}
	}
	for i := range m {
		if m[i][i] {
			return true
		}
	}
	return false
}
