package history

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"
)

// mix says what a random history is made of.
type mix struct {
	txns, keys, ops int
	rmw             bool // every write follows a read of its key
	deletes, scans  bool
	timestamps      bool
	unknown         bool // some transactions abort or have an unknown outcome
	lists           bool // appends to and reads of lists
	slack           int64
}

func (m mix) String() string {
	return fmt.Sprintf("lists=%t,rmw=%t,deletes=%t,scans=%t,ts=%t,unknown=%t,slack=%d", m.lists, m.rmw, m.deletes,
		m.scans, m.timestamps, m.unknown, m.slack)
}

// serialHistory runs transactions one by one on a map and gives each an interval around its commit
// point. So it is strictly serializable by construction.
func serialHistory(rng *rand.Rand, m mix) *History {
	h := &History{Init: map[string]string{}}
	name := func(i int) string { return fmt.Sprintf("k%03d", i) }
	for i := 0; i < m.keys; i += 2 {
		h.Init[name(i)] = "init"
	}
	state := maps.Clone(h.Init)
	regions := []string{"A", "B", "C"}
	fresh := 0
	for i := 0; i < m.txns; i++ {
		at := int64(i+1) * 10
		t := Txn{ID: int64(i + 1), Client: i % 7, Region: regions[rng.IntN(3)], Outcome: Committed,
			Invoke: at - rng.Int64N(m.slack+1), Return: at + rng.Int64N(m.slack+1)}
		if rng.IntN(4) == 0 {
			t.Regions = []string{t.Region, regions[rng.IntN(3)]}
		}
		mine := maps.Clone(state)
		for n := 1 + rng.IntN(m.ops); n > 0; n-- {
			k := name(rng.IntN(m.keys))
			read := Op{Kind: OpRead, Key: k, Value: mine[k]}
			switch p := rng.IntN(10); {
			case p >= 6 && m.lists:
				fresh++
				k = "list" + k
				v := fmt.Sprintf("e%d", fresh)
				t.Ops = append(t.Ops, Op{Kind: OpAppend, Key: k, Value: v})
				mine[k] += "," + v
			case p >= 3 && m.lists:
				k = "list" + k
				t.Ops = append(t.Ops, Op{Kind: OpReadList, Key: k, List: elems(mine[k])})
			case p < 4:
				t.Ops = append(t.Ops, read)
			case p == 4 && m.scans:
				o := Op{Kind: OpScan, Key: name(rng.IntN(m.keys))}
				o.End = name(rng.IntN(m.keys) + 1)
				if o.End < o.Key {
					o.Key, o.End = o.End, ""
				}
				for j := 0; j < m.keys; j++ {
					if key := name(j); key >= o.Key && (o.End == "" || key < o.End) && mine[key] != "" {
						o.Rows = append(o.Rows, KV{key, mine[key]})
					}
				}
				t.Ops = append(t.Ops, o)
			case p == 5 && m.deletes:
				if m.rmw {
					t.Ops = append(t.Ops, read)
				}
				t.Ops = append(t.Ops, Op{Kind: OpDelete, Key: k})
				delete(mine, k)
			default:
				if m.rmw {
					t.Ops = append(t.Ops, read)
				}
				fresh++
				v := fmt.Sprintf("v%d", fresh)
				t.Ops = append(t.Ops, Op{Kind: OpWrite, Key: k, Value: v})
				mine[k] = v
			}
		}
		applied := true
		if m.unknown {
			switch rng.IntN(6) {
			case 0:
				t.Outcome, applied = Aborted, false
			case 1:
				t.Outcome, applied = Unknown, rng.IntN(2) == 0
			}
		}
		if m.timestamps && t.Outcome == Committed {
			t.Timestamp = uint64(at)
		}
		if applied {
			state = mine
		}
		h.Txns = append(h.Txns, t)
	}
	h.Final = lastElems(state)
	rng.Shuffle(len(h.Txns), func(i, j int) { h.Txns[i], h.Txns[j] = h.Txns[j], h.Txns[i] })
	return h
}

func elems(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// lastElems replaces lists by their last elements, as in History.Final.
func lastElems(state map[string]string) map[string]string {
	s := maps.Clone(state)
	for k, v := range s {
		if e := elems(v); len(e) > 0 {
			s[k] = e[len(e)-1]
		}
	}
	return s
}

// mutate makes one read of an effective transaction show another value that the key had.
func mutate(rng *rand.Rand, h *History) bool {
	values := map[string][]string{}
	for k, v := range h.Init {
		values[k] = append(values[k], v)
	}
	for _, t := range h.Txns {
		for _, o := range t.Ops {
			if o.Kind == OpWrite {
				values[o.Key] = append(values[o.Key], o.Value)
			}
		}
	}
	for try := 0; try < 50; try++ {
		t := &h.Txns[rng.IntN(len(h.Txns))]
		if len(t.Ops) == 0 || t.Outcome != Committed {
			continue
		}
		o := &t.Ops[rng.IntN(len(t.Ops))]
		if o.Kind == OpReadList && len(o.List) > 0 {
			o.List = o.List[:rng.IntN(len(o.List))]
			return true
		}
		if o.Kind != OpRead {
			continue
		}
		old := values[o.Key]
		if len(old) == 0 {
			continue
		}
		if v := old[rng.IntN(len(old))]; v != o.Value {
			o.Value = v
			return true
		}
	}
	return false
}

var mixes = []mix{
	{rmw: true, slack: 25},
	{rmw: true, scans: true, slack: 60},
	{rmw: true, scans: true, deletes: true, unknown: true, slack: 25},
	{scans: true, slack: 25},
	{scans: true, deletes: true, unknown: true, slack: 25},
	{timestamps: true, scans: true, slack: 25},
	{timestamps: true, scans: true, unknown: true, slack: 40},
	{timestamps: true, scans: true, deletes: true, unknown: true, slack: 25},
	{slack: 0},
	{lists: true, slack: 25},
	{lists: true, timestamps: true, unknown: true, slack: 40},
	{rmw: true, deletes: true, slack: 5},
}

// TestSerialAccepted: what ran serially is accepted by every checker, whatever the overlap.
func TestSerialAccepted(t *testing.T) {
	for _, m := range mixes {
		t.Run(m.String(), func(t *testing.T) {
			for seed := uint64(0); seed < 60; seed++ {
				m := m
				m.txns, m.keys, m.ops = 10+int(seed)*3, 2+int(seed%13), 1+int(seed%6)
				h := serialHistory(rand.New(rand.NewPCG(seed, 1)), m)
				for l := LevelSnapshotIsolation; l <= LevelStrictSerializable; l++ {
					if v, _ := Check(h, l); v != nil {
						t.Fatalf("seed %d: %v", seed, v)
					}
				}
				for _, v := range []*Violation{NoLostWrites(h), NoTornReads(h), CommitOrder(h), MonotoneSnapshots(h)} {
					if v != nil {
						t.Fatalf("seed %d: %v", seed, v)
					}
				}
			}
		})
	}
}

// TestMutationRejected: with one read changed and the version order known, the strict check rejects
// unless the brute force of TestAgainstBruteForce could explain it; here the intervals do not
// overlap, so every change matters.
func TestMutationRejected(t *testing.T) {
	for _, m := range []mix{{rmw: true, scans: true}, {timestamps: true, scans: true}, {scans: true},
		{rmw: true, unknown: true}, {rmw: true, deletes: true}, {lists: true}} {
		t.Run(m.String(), func(t *testing.T) {
			n := 0
			for seed := uint64(0); seed < 200; seed++ {
				m := m
				m.txns, m.keys, m.ops = 30, 5, 4
				rng := rand.New(rand.NewPCG(seed, 2))
				h := serialHistory(rng, m)
				if !mutate(rng, h) {
					continue
				}
				n++
				if v, st := Check(h, LevelStrictSerializable); v == nil && st.AmbiguousReads == 0 {
					t.Fatalf("seed %d: accepted\n%s", seed, dump(h))
				}
			}
			if n < 100 {
				t.Fatalf("only %d histories were changed", n)
			}
		})
	}
}

func dump(h *History) string {
	s := fmt.Sprintf("init %v\nfinal %v\n", h.Init, h.Final)
	for i := range h.Txns {
		s += h.Txns[i].String() + "\n"
	}
	return s
}
