package history

import (
	"slices"
	"sort"
	"strings"
)

// none marks the absence of an index; as a version's transaction it stands for the initial state.
const none = int32(-1)

// version is what an effective transaction (or the initial state) left in a key.
type version struct {
	txn   int32
	key   int32
	value string // "" for a tombstone or an initially absent key
	ts    uint64 // 0 if not known
	// inferred: ts is not the version's own but the smallest timestamp at which a reader saw it, an
	// upper bound.
	inferred bool
	// rmwNext is the version written by the transaction that read this one: nothing can lie between
	// the two.
	rmwNext, rmwPrev int32
	// succ are versions that come after this one; their transitive closure is what is known of the
	// version order.
	succ []int32
}

// access is an external read: the version of a key that a transaction saw and had not written
// itself.
type access struct {
	txn, key int32
	ver      int32 // none while it is not clear which tombstone an absent key is
	scan     bool
}

type keyInfo struct {
	name    string
	vers    []int32 // vers[0] is the initial version
	deletes []int32 // tombstones among vers
	// maybeDeleted: a transaction of unknown outcome, otherwise unseen, may have deleted the key.
	maybeDeleted bool
	// total: succ of every version is its only and direct successor.
	total bool
	// longest is the longest list read; listBy is its reader.
	longest []string
	listBy  int32
	final   int32 // the version in the final state, none if not known
}

type valueID struct {
	key   int32
	value string
}

type writeRef struct {
	txn   int32
	ver   int32 // set for final writes of effective transactions
	final bool
}

type finalWrite struct {
	key   int32
	value string
}

// index is the digest of a history: writers, readers of each version, and the order in which
// versions replace each other.
type index struct {
	h         *History
	keyID     map[string]int32
	keys      []keyInfo
	sorted    []int32 // keys in order of name
	writes    map[valueID]writeRef
	finals    [][]finalWrite // by transaction
	effective []bool
	vers      []version
	own       []map[int32]int32 // by transaction, key to its version; nil for readers
	reads     []access
	ambiguous int
	// realTime: the level keeps the operations on one key in real time, which helps to tell
	// tombstones apart.
	realTime bool
}

// newIndex digests h. It reports what is wrong with single reads (dirty, intermediate, garbage,
// internal) and returns the first such violation, in order of transactions.
func newIndex(h *History, realTime bool) (*index, *Violation) {
	if err := h.Validate(); err != nil {
		return nil, &Violation{Kind: KindMalformed, Detail: strings.TrimPrefix(err.Error(), "history: ")}
	}
	x := &index{h: h, realTime: realTime, keyID: map[string]int32{}, writes: make(map[valueID]writeRef, 2*len(h.Txns))}
	if v := x.collectWrites(); v != nil {
		return nil, v
	}
	x.findEffective()
	x.makeVersions()
	if v := x.collectReads(); v != nil {
		return nil, v
	}
	if v := x.resolveFinal(); v != nil {
		return nil, v
	}
	if v := x.orderVersions(); v != nil {
		return nil, v
	}
	return x, nil
}

func (x *index) key(name string) int32 {
	id, ok := x.keyID[name]
	if !ok {
		id = int32(len(x.keys))
		x.keyID[name] = id
		x.keys = append(x.keys, keyInfo{name: name, listBy: none, final: none})
	}
	return id
}

func (x *index) register(key int32, value string, t int32) *Violation {
	id := valueID{key, value}
	if prev, dup := x.writes[id]; dup {
		return complain(x.h, KindDuplicateWrite, []int32{prev.txn, t},
			"value %q was written to %s twice (by %s and %s): values must be unique", value, x.keys[key].name,
			x.txnName(prev.txn), x.txnName(t))
	}
	x.writes[id] = writeRef{txn: t, ver: none, final: true}
	return nil
}

func (x *index) txnName(t int32) string {
	if t == none {
		return "the initial state"
	}
	return x.h.Txns[t].Name()
}

func (x *index) collectWrites() *Violation {
	h := x.h
	for k, v := range h.Init {
		if v != "" {
			if v := x.register(x.key(k), v, none); v != nil {
				return v
			}
		}
	}
	for k := range h.Final {
		x.key(k)
	}
	x.finals = make([][]finalWrite, len(h.Txns))
	last := map[int32]int{} // key to index in finals of the transaction being examined
	for i := range h.Txns {
		clear(last)
		for j := range h.Txns[i].Ops {
			if v := x.collectOp(int32(i), &h.Txns[i].Ops[j], last); v != nil {
				return v
			}
		}
	}
	x.sorted = make([]int32, len(x.keys))
	for i := range x.sorted {
		x.sorted[i] = int32(i)
	}
	slices.SortFunc(x.sorted, func(a, b int32) int { return strings.Compare(x.keys[a].name, x.keys[b].name) })
	return nil
}

// collectOp takes the keys of an operation, and what it writes. last has where in its transaction's
// finals a key is.
func (x *index) collectOp(t int32, o *Op, last map[int32]int) *Violation {
	if o.Kind == OpScan {
		for _, r := range o.Rows {
			x.key(r.Key)
		}
		return nil
	}
	k := x.key(o.Key)
	if !o.writes() {
		return nil
	}
	value := ""
	if o.Kind != OpDelete {
		value = o.Value
		if v := x.register(k, value, t); v != nil {
			return v
		}
	}
	at, again := last[k]
	if !again {
		last[k] = len(x.finals[t])
		x.finals[t] = append(x.finals[t], finalWrite{k, value})
		return nil
	}
	prev := &x.finals[t][at]
	if ref, ok := x.writes[valueID{k, prev.value}]; ok && prev.value != "" {
		ref.final = false
		x.writes[valueID{k, prev.value}] = ref
	}
	prev.value = value
	return nil
}

// findEffective marks the committed transactions and those of unknown outcome whose writes an
// effective transaction or the final state shows.
func (x *index) findEffective() {
	h := x.h
	x.effective = make([]bool, len(h.Txns))
	var todo []int32
	saw := func(key, value string) {
		if value == "" {
			return
		}
		ref, ok := x.writes[valueID{x.keyID[key], value}]
		if ok && ref.txn != none && h.Txns[ref.txn].Outcome == Unknown && !x.effective[ref.txn] {
			x.effective[ref.txn] = true
			todo = append(todo, ref.txn)
		}
	}
	for i := range h.Txns {
		if h.Txns[i].Outcome == Committed {
			x.effective[i] = true
			todo = append(todo, int32(i))
		}
	}
	for k, v := range h.Final {
		saw(k, v)
	}
	for len(todo) > 0 {
		t := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for j := range h.Txns[t].Ops {
			h.Txns[t].Ops[j].eachSeen(saw)
		}
	}
}

// eachSeen calls fn for what the operation read.
func (o *Op) eachSeen(fn func(key, value string)) {
	switch o.Kind {
	case OpRead:
		fn(o.Key, o.Value)
	case OpReadList:
		for _, e := range o.List {
			fn(o.Key, e)
		}
	case OpScan:
		for _, r := range o.Rows {
			fn(r.Key, r.Value)
		}
	}
}

func (x *index) makeVersions() {
	h := x.h
	add := func(t, k int32, value string, ts uint64) int32 {
		id := int32(len(x.vers))
		x.vers = append(x.vers, version{txn: t, key: k, value: value, ts: ts, rmwNext: none, rmwPrev: none})
		x.keys[k].vers = append(x.keys[k].vers, id)
		if value != "" {
			ref := x.writes[valueID{k, value}]
			ref.ver = id
			x.writes[valueID{k, value}] = ref
		} else if t != none {
			x.keys[k].deletes = append(x.keys[k].deletes, id)
		}
		return id
	}
	for k := range x.keys {
		add(none, int32(k), h.Init[x.keys[k].name], 0)
	}
	x.own = make([]map[int32]int32, len(h.Txns))
	for i := range h.Txns {
		for _, f := range x.finals[i] {
			if !x.effective[i] {
				if f.value == "" && h.Txns[i].Outcome == Unknown {
					x.keys[f.key].maybeDeleted = true
				}
				continue
			}
			if x.own[i] == nil {
				x.own[i] = make(map[int32]int32, len(x.finals[i]))
			}
			x.own[i][f.key] = add(int32(i), f.key, f.value, h.Txns[i].Timestamp)
		}
	}
}

// span returns the keys in [start, end), in order.
func (x *index) span(start, end string) []int32 {
	lo := sort.Search(len(x.sorted), func(i int) bool { return x.keys[x.sorted[i]].name >= start })
	hi := len(x.sorted)
	if end != "" {
		hi = sort.Search(len(x.sorted), func(i int) bool { return x.keys[x.sorted[i]].name >= end })
	}
	return x.sorted[lo:max(lo, hi)]
}

// resolveFinal finds the version of each key in the final state.
func (x *index) resolveFinal() *Violation {
	if x.h.Final == nil {
		return nil
	}
	for k := range x.keys {
		info := &x.keys[k]
		value := x.h.Final[info.name]
		if value == "" {
			init := info.vers[0]
			switch {
			case x.vers[init].value == "" && len(info.deletes) == 0 && !info.maybeDeleted:
				info.final = init
			case x.vers[init].value != "" && len(info.deletes) == 1 && !info.maybeDeleted:
				info.final = info.deletes[0]
			}
			continue
		}
		ref, v := x.checkSeen(none, int32(k), value)
		if v != nil {
			return v
		}
		info.final = ref.ver
	}
	return nil
}
