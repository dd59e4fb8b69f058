package history

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// orderVersions finds what is known of the order in which versions replaced each other, per key,
// and gives it as succ edges. Sources, best first: timestamps (own or inferred), list reads,
// read-modify-write chains, the initial and the final state. Real time is left to the levels that
// have it.
func (x *index) orderVersions() *Violation {
	x.inferTimestamps()
	if v := x.resolveAbsent(); v != nil {
		return v
	}
	if v := x.checkAbsent(); v != nil {
		return v
	}
	if v := x.linkRMW(); v != nil {
		return v
	}
	for k := range x.keys {
		if v := x.orderKey(&x.keys[k]); v != nil {
			return v
		}
	}
	return nil
}

// endOfTime is the snapshot of the reader that NoLostWrites adds: it sees the newest versions, and
// proves no order.
const endOfTime = math.MaxUint64

// inferTimestamps bounds the timestamps of versions that have none by those of their readers: a
// version seen at S is the newest one at or below S, so it comes after every other version at or
// below S and before all above.
func (x *index) inferTimestamps() {
	for _, r := range x.reads {
		if r.ver == none {
			continue
		}
		v := &x.vers[r.ver]
		at := x.h.Txns[r.txn].readTS()
		if v.txn == none || at == 0 || at == endOfTime || v.ts != 0 && !v.inferred {
			continue
		}
		if v.ts == 0 || at < v.ts {
			v.ts, v.inferred = at, true
		}
	}
}

// resolveAbsent finds the version behind each read of an absent key: the initial one or a
// tombstone. If several are possible and neither timestamps nor real time tell, the read stays open
// and is counted as ambiguous.
func (x *index) resolveAbsent() *Violation {
	times := map[int32]*keyTimes{}
	for i := range x.reads {
		r := &x.reads[i]
		if r.ver != none {
			continue
		}
		info := &x.keys[r.key]
		candidates, only := x.absentVersions(info, r)
		if candidates == 1 && !info.maybeDeleted {
			r.ver = only
			continue
		}
		if candidates > 0 {
			r.ver = x.absentAt(info, r)
		}
		if r.ver == none && candidates > 0 && x.realTime && !info.maybeDeleted {
			if times[r.key] == nil {
				times[r.key] = x.newKeyTimes(info)
			}
			n, ver := x.absentByTime(info, times[r.key], r)
			switch n {
			case 0:
				return complain(x.h, KindLostRow, []int32{r.txn},
					"%s found no %s, but each time that it was absent had ended before, or began after",
					x.txnName(r.txn), info.name)
			case 1:
				r.ver = ver
			}
		}
		if r.ver == none {
			x.ambiguous++
		}
	}
	return nil
}

// absentVersions is how many versions a read of an absent key may have seen, and the last of them.
func (x *index) absentVersions(info *keyInfo, r *access) (n int, last int32) {
	last = none
	if init := info.vers[0]; x.vers[init].value == "" {
		n, last = 1, init
	}
	for _, d := range info.deletes {
		if x.vers[d].txn != r.txn {
			n, last = n+1, d
		}
	}
	return n, last
}

// keyTimes are the writers of a key in real time.
type keyTimes struct {
	returned []int64 // instants at which acknowledged writers returned, sorted
	newest   []int64 // newest[i]: the latest invocation among the writers of returned[:i+1]
	deletes  []int32 // tombstones by invocation of their writers
	// lastEnd[i] is the latest return among the writers of deletes[:i+1].
	lastEnd []int64
}

// end is when t is known to have taken effect.
func (x *index) end(t int32) int64 {
	if x.h.Txns[t].Outcome != Committed {
		return math.MaxInt64
	}
	return x.h.Txns[t].Return
}

func (x *index) newKeyTimes(info *keyInfo) *keyTimes {
	h, kt := x.h, &keyTimes{deletes: slices.Clone(info.deletes)}
	var writers []int32
	for _, id := range info.vers[1:] {
		if t := x.vers[id].txn; h.Txns[t].Outcome == Committed {
			writers = append(writers, t)
		}
	}
	slices.SortFunc(writers, func(a, b int32) int { return cmp.Compare(h.Txns[a].Return, h.Txns[b].Return) })
	newest := int64(math.MinInt64)
	for _, t := range writers {
		newest = max(newest, h.Txns[t].Invoke)
		kt.returned, kt.newest = append(kt.returned, h.Txns[t].Return), append(kt.newest, newest)
	}
	slices.SortFunc(kt.deletes, func(a, b int32) int {
		return cmp.Compare(h.Txns[x.vers[a].txn].Invoke, h.Txns[x.vers[b].txn].Invoke)
	})
	last := int64(math.MinInt64)
	for _, d := range kt.deletes {
		last = max(last, x.end(x.vers[d].txn))
		kt.lastEnd = append(kt.lastEnd, last)
	}
	return kt
}

// absentByTime counts the versions that an absent key can be: not one that had surely been replaced
// before the reader began (some writer was invoked after it was complete and returned before the
// reader was invoked), and none that was invoked after the reader had returned. It stops at two.
func (x *index) absentByTime(info *keyInfo, kt *keyTimes, r *access) (n int, ver int32) {
	reader := &x.h.Txns[r.txn]
	since := int64(math.MinInt64) // a version complete before this instant had been replaced
	if i := sort.Search(len(kt.returned), func(i int) bool { return kt.returned[i] >= reader.Invoke }); i > 0 && !reader.Stale {
		since = kt.newest[i-1]
	}
	ver = none
	if init := info.vers[0]; x.vers[init].value == "" && since == math.MinInt64 {
		n, ver = 1, init
	}
	readerEnd := x.end(r.txn)
	last := sort.Search(len(kt.deletes), func(i int) bool { return x.h.Txns[x.vers[kt.deletes[i]].txn].Invoke > readerEnd })
	for i := last - 1; i >= 0 && n < 2 && kt.lastEnd[i] >= since; i-- {
		d := kt.deletes[i]
		if t := x.vers[d].txn; t != r.txn && x.end(t) >= since {
			n, ver = n+1, d
		}
	}
	return n, ver
}

// absentAt uses timestamps: the version that the reader should have seen, or, if that one is not
// absent, the newest absent one before it (the reader is then late, and the graph shows whether
// that matters).
func (x *index) absentAt(info *keyInfo, r *access) int32 {
	at := x.h.Txns[r.txn].readTS()
	if at == 0 {
		return none
	}
	best, bestAbsent := info.vers[0], none
	if x.vers[best].value == "" {
		bestAbsent = best
	}
	for _, id := range info.vers[1:] {
		v := &x.vers[id]
		if v.ts == 0 {
			return none
		}
		if v.txn == r.txn || v.ts > at {
			continue
		}
		if v.ts > x.vers[best].ts || best == info.vers[0] {
			best = id
		}
		if v.value == "" && (bestAbsent == none || v.ts > x.vers[bestAbsent].ts) {
			bestAbsent = id
		}
	}
	if x.vers[best].value != "" && info.maybeDeleted {
		return none
	}
	return bestAbsent
}

// checkAbsent reports rows that vanished, and more inserts of one key than it was ever absent.
func (x *index) checkAbsent() *Violation {
	inserts := map[int32][]int32{}
	for _, r := range x.reads {
		info := &x.keys[r.key]
		if r.ver == none {
			deleters := len(info.deletes)
			if own, ok := x.own[r.txn][r.key]; ok && x.vers[own].value == "" {
				deleters--
			}
			if x.vers[info.vers[0]].value != "" && deleters == 0 && !info.maybeDeleted {
				return complain(x.h, KindLostRow, []int32{r.txn},
					"%s found no %s, which existed from the start (%s) and was never deleted",
					x.txnName(r.txn), info.name, x.vers[info.vers[0]].value)
			}
		}
		if r.ver != none && x.vers[r.ver].value != "" {
			continue
		}
		if own, ok := x.own[r.txn][r.key]; ok && x.vers[own].value != "" && !info.maybeDeleted {
			inserts[r.key] = append(inserts[r.key], r.txn)
			absences := len(info.deletes)
			if x.vers[info.vers[0]].value == "" {
				absences++
			}
			if len(inserts[r.key]) > absences {
				return complain(x.h, KindLostUpdate, inserts[r.key],
					"%d transactions found %s absent and inserted it, but it was absent only %d times",
					len(inserts[r.key]), info.name, absences)
			}
		}
	}
	return nil
}

func (x *index) linkRMW() *Violation {
	for _, r := range x.reads {
		own, ok := x.own[r.txn][r.key]
		if !ok || r.ver == none {
			continue
		}
		old := &x.vers[r.ver]
		if old.rmwNext != none {
			other := x.vers[old.rmwNext].txn
			return complain(x.h, KindLostUpdate, []int32{other, r.txn},
				"%s and %s both read %s=%s (left by %s) and both replaced it",
				x.txnName(other), x.txnName(r.txn), x.keys[r.key].name, orAbsent(old.value), x.txnName(old.txn))
		}
		old.rmwNext = own
		x.vers[own].rmwPrev = r.ver
	}
	return nil
}

func (x *index) orderKey(info *keyInfo) *Violation {
	if len(info.vers) == 1 {
		info.total = true
		return nil
	}
	timed := make([]int32, 0, len(info.vers))
	for _, id := range info.vers[1:] {
		if x.vers[id].ts != 0 {
			timed = append(timed, id)
		}
	}
	sort.SliceStable(timed, func(i, j int) bool {
		a, b := &x.vers[timed[i]], &x.vers[timed[j]]
		if a.ts != b.ts {
			return a.ts < b.ts
		}
		return a.inferred && !b.inferred
	})
	// Two inferred places may coincide; which of them is first is then not known.
	kept := timed[:0]
	for _, id := range timed {
		v := &x.vers[id]
		if len(kept) > 0 {
			if p := &x.vers[kept[len(kept)-1]]; p.ts == v.ts && p.inferred == v.inferred {
				if v.inferred {
					continue
				}
				return complain(x.h, KindTimestamp, []int32{p.txn, v.txn}, "%s and %s both wrote %s at timestamp %d",
					x.txnName(p.txn), x.txnName(v.txn), info.name, v.ts)
			}
		}
		kept = append(kept, id)
	}
	if len(kept) == len(info.vers)-1 {
		info.total = true
		x.chain(info.vers[0], kept)
		if last := kept[len(kept)-1]; info.final != none && info.final != last {
			return complain(x.h, KindLostWrite, []int32{x.vers[last].txn, x.vers[info.final].txn},
				"%s by %s is the newest version, but the final state has %s=%s",
				x.left(x.vers[last].txn, x.vers[last].key), x.txnName(x.vers[last].txn), info.name,
				orAbsent(x.vers[info.final].value))
		}
		return nil
	}
	return x.orderPartly(info, kept)
}

func (x *index) chain(first int32, rest []int32) {
	for _, id := range rest {
		x.vers[first].succ = append(x.vers[first].succ, id)
		first = id
	}
}

// orderPartly orders a key of which not all timestamps are known. A read-modify-write chain is
// tight: no other version lies inside it. So all others come after the chain that starts with the
// initial version, and before the one that ends with the final version.
func (x *index) orderPartly(info *keyInfo, timed []int32) *Violation {
	p := partOrder{x: x, info: info, hasPred: make(map[int32]bool, len(info.vers))}
	for i := 1; i < len(timed); i++ {
		p.link(timed[i-1], timed[i])
	}
	for _, id := range info.vers {
		if next := x.vers[id].rmwNext; next != none {
			p.link(id, next)
		}
	}
	p.fromInitial()
	if info.final == none {
		return nil
	}
	if v := p.toFinal(); v != nil {
		return v
	}
	info.total = x.isChain(info)
	return nil
}

// partOrder is the order of a key's versions while it is being found.
type partOrder struct {
	x       *index
	info    *keyInfo
	hasPred map[int32]bool
}

func (p *partOrder) link(a, b int32) {
	p.x.vers[a].succ = append(p.x.vers[a].succ, b)
	p.hasPred[b] = true
}

// fromInitial orders all versions after the chain that starts with the initial one.
func (p *partOrder) fromInitial() {
	x, init := p.x, p.info.vers[0]
	tail, tight := init, map[int32]bool{init: true}
	follow := func() {
		for x.vers[tail].rmwNext != none && !tight[x.vers[tail].rmwNext] {
			tail = x.vers[tail].rmwNext
			tight[tail] = true
		}
	}
	follow()
	// The longest list read is the order of all versions up to its last element: everything else
	// comes later.
	for _, e := range p.info.longest {
		ref := x.writes[valueID{x.vers[init].key, e}]
		if ref.ver == none || tight[ref.ver] {
			continue // an intermediate element, or one that the chain has already
		}
		p.link(tail, ref.ver)
		tail = ref.ver
		tight[tail] = true
	}
	follow()
	for _, id := range p.info.vers {
		if !p.hasPred[id] && !tight[id] {
			p.link(tail, id)
		}
	}
}

// toFinal orders all versions before the chain that ends with the final one.
func (p *partOrder) toFinal() *Violation {
	x, info := p.x, p.info
	head := info.final
	for back := map[int32]bool{head: true}; ; back[head] = true {
		prev := x.vers[head].rmwPrev
		if prev == none || back[prev] {
			break
		}
		head = prev
	}
	for _, id := range info.vers {
		if id == info.final || id == head || len(x.vers[id].succ) != 0 {
			continue
		}
		if head == info.vers[0] {
			return complain(x.h, KindLostWrite, []int32{x.vers[id].txn, x.vers[info.final].txn},
				"the final state has %s=%s, and nothing lies between the initial version and that one, so %s by %s was lost",
				info.name, orAbsent(x.vers[info.final].value), x.left(x.vers[id].txn, x.vers[id].key), x.txnName(x.vers[id].txn))
		}
		p.link(id, head)
	}
	return nil
}

// isChain reports whether succ leads from the initial version through all others.
func (x *index) isChain(info *keyInfo) bool {
	n, id := 1, info.vers[0]
	for ; len(x.vers[id].succ) == 1 && n < len(info.vers); n++ {
		id = x.vers[id].succ[0]
	}
	return n == len(info.vers) && len(x.vers[id].succ) == 0
}
