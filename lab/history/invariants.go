package history

import (
	"fmt"
	"slices"
	"sort"
)

// BankTotal checks that every effective transaction that saw the whole span [start, end) by one
// range read saw values that add up to total. decode turns a value into its amount (values are
// unique, so they carry more than the amount). Range reads that follow a write of the same
// transaction are left out.
func BankTotal(h *History, start, end string, total int64, decode func(value string) (int64, error)) *Violation {
	x, v := newIndex(h, false)
	for i := 0; v == nil && i < len(h.Txns); i++ {
		if x.effective[i] {
			v = x.bankTotals(int32(i), start, end, total, decode)
		}
	}
	if v != nil {
		v.Level = "bank invariant"
	}
	return v
}

// bankTotals checks the totals that one transaction saw.
func (x *index) bankTotals(t int32, start, end string, total int64, decode func(value string) (int64, error)) *Violation {
	for _, o := range x.h.Txns[t].Ops {
		if o.writes() {
			break // from here on it sees its own writes, perhaps only one leg of a transfer
		}
		if o.Kind != OpScan || o.Key > start || o.End != "" && (end == "" || o.End < end) {
			continue
		}
		sum := int64(0)
		for _, r := range o.Rows {
			if r.Key < start || end != "" && r.Key >= end {
				continue
			}
			amount, err := decode(r.Value)
			if err != nil {
				return &Violation{Kind: KindMalformed, Detail: fmt.Sprintf("value %q of %s: %v", r.Value, r.Key, err)}
			}
			sum += amount
		}
		if sum != total {
			return complain(x.h, KindTotal, []int32{t}, "%s saw a total of %d in [%s,%s), want %d", x.txnName(t), sum,
				start, end, total)
		}
	}
	return nil
}

// NoLostWrites checks that every write of an effective transaction (acknowledged, or of unknown
// outcome and seen in part) is in the final state or was replaced by a later version. Without
// timestamps, what is later follows from read-modify-write chains and real time; where neither
// shows it, the write passes.
func NoLostWrites(h *History) *Violation {
	const level = "durability of acknowledged writes"
	if h.Final == nil {
		return &Violation{Level: level, Kind: KindMalformed,
			Detail: "the final state is missing: read it when all has settled and call SetFinal"}
	}
	final := h.Final
	// The final state must not count as a source of the version order that it is compared with. It
	// does count as a witness for transactions of unknown outcome, hence the reader at the end of
	// time.
	probe := &History{Txns: append([]Txn(nil), h.Txns...), Init: h.Init}
	reader := Txn{Outcome: Committed, Snapshot: endOfTime}
	for i := range h.Txns {
		t := &h.Txns[i]
		reader.ID = max(reader.ID, t.ID+1)
		reader.Invoke = max(reader.Invoke, t.Invoke+1, t.Return+1)
	}
	reader.Return = reader.Invoke
	keys := map[string]bool{}
	for k := range h.Final {
		keys[k] = true
	}
	for k := range h.Init {
		keys[k] = true
	}
	for i := range h.Txns {
		for _, o := range h.Txns[i].Ops {
			if o.writes() {
				keys[o.Key] = true
			}
		}
	}
	sorted := make([]string, 0, len(keys))
	for k := range keys {
		sorted = append(sorted, k)
	}
	sort.Strings(sorted)
	for _, k := range sorted {
		reader.Ops = append(reader.Ops, Op{Kind: OpRead, Key: k, Value: final[k]})
	}
	probe.Txns = append(probe.Txns, reader)
	x, v := newIndex(probe, true)
	if v != nil {
		v.Level = level
		return v
	}
	for _, r := range x.reads[len(x.reads)-len(reader.Ops):] {
		if v := x.lostWrite(r); v != nil {
			v.Level = level
			return v
		}
	}
	return nil
}

// lostWrite compares the last version that the final reader saw of a key with the acknowledged
// ones.
func (x *index) lostWrite(r access) *Violation {
	info := &x.keys[r.key]
	after := x.successors(r.ver)
	for _, id := range info.vers[1:] {
		if id == r.ver {
			continue
		}
		w := &x.vers[id]
		if !after[id] && !x.replacedTooEarly(r, w) && !x.lostToNothing(r, w) {
			continue
		}
		seen, txns := "-", []int32{w.txn}
		if r.ver != none {
			seen = orAbsent(x.vers[r.ver].value)
			txns = append(txns, x.vers[r.ver].txn)
		}
		return complain(x.h, KindLostWrite, txns, "%s=%s was left by %s and not replaced since, but the final state has %s=%s",
			info.name, orAbsent(w.value), x.txnName(w.txn), info.name, seen)
	}
	return nil
}

// successors are the versions known to come after a version; none if that is not known.
func (x *index) successors(of int32) map[int32]bool {
	after := map[int32]bool{}
	if of == none {
		return after
	}
	for todo := []int32{of}; len(todo) > 0; {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, s := range x.vers[id].succ {
			if !after[s] {
				after[s] = true
				todo = append(todo, s)
			}
		}
	}
	return after
}

// replacedTooEarly: the final version was acknowledged before the transaction of w began, so it
// cannot have replaced w.
func (x *index) replacedTooEarly(r access, w *version) bool {
	if r.ver == none || x.vers[r.ver].txn == none || x.keys[r.key].total {
		return false
	}
	f := &x.h.Txns[x.vers[r.ver].txn]
	return f.Outcome == Committed && f.Return < x.h.Txns[w.txn].Invoke
}

// lostToNothing: the final state has no row, and no delete can have removed w.
func (x *index) lostToNothing(r access, w *version) bool {
	info := &x.keys[r.key]
	if r.ver != none || info.maybeDeleted {
		return false
	}
	if w.value == "" {
		return len(info.deletes) == 0
	}
	// Which tombstone is unknown: the write is lost if every delete ended before it began.
	for _, d := range info.deletes {
		if t := &x.h.Txns[x.vers[d].txn]; t.Outcome != Committed || t.Return >= x.h.Txns[w.txn].Invoke {
			return false
		}
	}
	return true
}

// MonotoneSnapshots checks that the snapshots served to one client never go back: of two
// transactions of which the first returned before the second was invoked, the second has no smaller
// snapshot. Transactions without one are ignored.
func MonotoneSnapshots(h *History) *Violation {
	last := map[int]int32{}
	for _, t := range h.sortByInvoke() {
		txn := &h.Txns[t]
		if txn.Snapshot == 0 {
			continue
		}
		p, ok := last[txn.Client]
		if ok && h.Txns[p].Outcome != Unknown && h.Txns[p].Return <= txn.Invoke && h.Txns[p].Snapshot > txn.Snapshot {
			v := complain(h, KindSnapshotBack, []int32{p, t}, "client %d was served snapshot %d and then %d",
				txn.Client, h.Txns[p].Snapshot, txn.Snapshot)
			v.Level = "monotone snapshots"
			return v
		}
		last[txn.Client] = t
	}
	return nil
}

// NoTornReads checks that no transaction saw one write of a transaction and, in another key, a
// version older than that same transaction's: a snapshot shows all or none of it. Every level here
// implies it; its explanation is shorter.
func NoTornReads(h *History) *Violation {
	const level = "atomic visibility"
	x, v := newIndex(h, false)
	if v != nil {
		v.Level = level
		return v
	}
	pos := x.positions()
	seen := map[int32]int32{} // key to the version that the reader saw
	for lo := 0; lo < len(x.reads); {
		t, hi := x.reads[lo].txn, lo
		clear(seen)
		for ; hi < len(x.reads) && x.reads[hi].txn == t; hi++ {
			if x.reads[hi].ver != none {
				seen[x.reads[hi].key] = x.reads[hi].ver
			}
		}
		group := x.reads[lo:hi]
		lo = hi
		for _, r := range group {
			if r.ver == none || x.vers[r.ver].txn == none || x.vers[r.ver].txn == t {
				continue
			}
			w := x.vers[r.ver].txn
			for _, f := range x.finals[w] {
				saw, ok := seen[f.key]
				if !ok || !x.later(pos, saw, x.own[w][f.key]) {
					continue
				}
				v := complain(h, KindTorn, []int32{t, w}, "%s saw %s of %s, but in %s the older version %s",
					x.txnName(t), x.left(w, r.key), x.txnName(w), x.keys[f.key].name, orAbsent(x.vers[saw].value))
				v.Level = level
				return v
			}
		}
	}
	return nil
}

// positions numbers the versions of totally ordered keys; 0 for all others.
func (x *index) positions() []int32 {
	pos := make([]int32, len(x.vers))
	for k := range x.keys {
		if !x.keys[k].total {
			continue
		}
		for n, id := int32(1), x.keys[k].vers[0]; ; n++ {
			pos[id] = n
			if len(x.vers[id].succ) == 0 {
				break
			}
			id = x.vers[id].succ[0]
		}
	}
	return pos
}

// later reports whether version b is known to come after version a of the same key.
func (x *index) later(pos []int32, a, b int32) bool {
	if pos[a] != 0 {
		return pos[b] > pos[a]
	}
	return slices.Contains(x.laterVersions(a), b)
}

// laterBound bounds the search for later versions of a key that is only partly ordered; a reader
// further behind is found by the levels.
const laterBound = 100

func (x *index) laterVersions(id int32) []int32 {
	var later []int32
	seen := map[int32]bool{id: true}
	for todo := []int32{id}; len(todo) > 0 && len(later) < laterBound; {
		at := todo[0]
		todo = todo[1:]
		for _, s := range x.vers[at].succ {
			if !seen[s] {
				seen[s] = true
				later = append(later, s)
				todo = append(todo, s)
			}
		}
	}
	return later
}

// CommitOrder replays the history in the order of its timestamps: every read must see the newest
// version at or below the timestamp at which it was served (Txn.Snapshot, else the commit
// timestamp), so a snapshot shows exactly the transactions up to it. This is stronger than
// serializability: it also says that the timestamps tell the truth. Transactions without a
// timestamp, and keys of which a writer has none, are skipped.
func CommitOrder(h *History) *Violation {
	const level = "timestamp order"
	x, v := newIndex(h, false)
	if v != nil {
		v.Level = level
		return v
	}
	order := make([][]int32, len(x.keys))
	for k := range x.keys {
		vers := x.keys[k].vers
		known := !x.keys[k].maybeDeleted
		for _, id := range vers[1:] {
			known = known && x.vers[id].ts != 0 && !x.vers[id].inferred
		}
		if !known {
			continue
		}
		sorted := append([]int32(nil), vers...)
		sort.SliceStable(sorted[1:], func(a, b int) bool { return x.vers[sorted[1+a]].ts < x.vers[sorted[1+b]].ts })
		order[k] = sorted
	}
	for _, r := range x.reads {
		at := h.Txns[r.txn].readTS()
		if at == 0 || order[r.key] == nil {
			continue
		}
		vers := order[r.key]
		n := sort.Search(len(vers)-1, func(i int) bool { return x.vers[vers[1+i]].ts > at })
		want := vers[n]
		if own, ok := x.own[r.txn][r.key]; ok && want == own {
			want = vers[n-1]
		}
		saw := ""
		if r.ver != none {
			saw = x.vers[r.ver].value
		}
		if x.vers[want].value != saw {
			writers := []int32{r.txn, x.vers[want].txn}
			v := complain(h, KindCommitOrder, writers, "%s read %s=%s at timestamp %d, where the newest version is %s, by %s",
				x.txnName(r.txn), x.keys[r.key].name, orAbsent(saw), at, orAbsent(x.vers[want].value),
				x.txnName(x.vers[want].txn))
			v.Level = level
			return v
		}
	}
	return nil
}
