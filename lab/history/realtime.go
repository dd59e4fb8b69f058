package history

import "sort"

// Real time orders A before B iff A.Return < B.Invoke. That is an interval order: n transactions
// can have n²/2 pairs. The sparse form has one auxiliary node per run of returns: a transaction
// that returns leads into the newest node, each node leads to the next, and a node leads to the
// transactions invoked after it.

// orderByRealTime adds the real-time order from sources to targets (transaction indexes).
func (g *graph) orderByRealTime(x *index, sources, targets []int32) {
	h := x.h
	returns := make([]int32, 0, len(sources))
	for _, t := range sources {
		if h.Txns[t].Outcome == Committed { // an unknown one may still be running
			returns = append(returns, t)
		}
	}
	if len(returns) == 0 {
		return
	}
	sort.Slice(returns, func(a, b int) bool { return h.Txns[returns[a]].Return < h.Txns[returns[b]].Return })
	invokes := make([]int32, 0, len(targets))
	for _, t := range targets {
		if !h.Txns[t].Stale {
			invokes = append(invokes, t)
		}
	}
	sort.Slice(invokes, func(a, b int) bool { return h.Txns[invokes[a]].Invoke < h.Txns[invokes[b]].Invoke })

	barrier, open, i := none, false, 0
	for _, t := range invokes {
		for ; i < len(returns) && h.Txns[returns[i]].Return < h.Txns[t].Invoke; i++ {
			if !open {
				next := g.aux()
				if barrier != none {
					g.add(barrier, next, inner, none)
				}
				barrier, open = next, true
			}
			g.add(returns[i], barrier, realtime, none)
		}
		if barrier != none {
			g.add(barrier, t, inner, none)
		}
		open = false
	}
}

// maxExplicit bounds the edges that inferFromRealTime adds one by one. More are needed only when
// that many writers of a key were concurrent with one transaction, or when the history is badly
// wrong anyway. Leaving edges out can hide a violation, but never invent one.
const maxExplicit = 64

// inferFromRealTime completes the version order of a key that nothing else orders, for levels that
// keep each key's operations in real time. For a reader R of the version of W:
//
//   - a writer invoked after W returned made a later version: R -rw-> it;
//   - a writer that returned before R was invoked made an earlier version than W, or is W: it -ww->
//     W.
func (g *graph) inferFromRealTime(x *index, k int32, readers []access) {
	h, info := x.h, &x.keys[k]
	var byInvoke, byReturn []int32
	for _, v := range info.vers[1:] {
		t := x.vers[v].txn
		byInvoke = append(byInvoke, t)
		if h.Txns[t].Outcome == Committed {
			byReturn = append(byReturn, t)
		}
	}
	invoke := func(i int) int64 { return h.Txns[byInvoke[i]].Invoke }
	ret := func(i int) int64 { return h.Txns[byReturn[i]].Return }
	sort.Slice(byInvoke, func(a, b int) bool { return invoke(a) < invoke(b) })
	sort.Slice(byReturn, func(a, b int) bool { return ret(a) < ret(b) })

	// suffix[i] leads to every writer of byInvoke[i:]; every writer of byReturn[:i+1] leads to
	// prefix[i].
	suffix, prefix := make([]int32, len(byInvoke)), make([]int32, len(byReturn))
	for i := len(byInvoke) - 1; i >= 0; i-- {
		suffix[i] = g.aux()
		g.add(suffix[i], byInvoke[i], inner, none)
		if i+1 < len(byInvoke) {
			g.add(suffix[i], suffix[i+1], inner, none)
		}
	}
	for i := range byReturn {
		prefix[i] = g.aux()
		g.add(byReturn[i], prefix[i], wwTime, k)
		if i > 0 {
			g.add(prefix[i-1], prefix[i], inner, none)
		}
	}
	for _, r := range readers {
		if r.ver == none {
			continue
		}
		w := x.vers[r.ver].txn
		if w == none || w == r.txn {
			continue // the initial version is ordered before all others already
		}
		if h.Txns[w].Outcome == Committed {
			from := sort.Search(len(byInvoke), func(i int) bool { return invoke(i) > h.Txns[w].Return })
			_, writes := x.own[r.txn][k]
			for n := 0; writes && from < len(byInvoke) && invoke(from) <= h.Txns[r.txn].Invoke; from, n = from+1, n+1 {
				// R writes the key too; the shared node would lead R to itself.
				if n < maxExplicit {
					g.add(r.txn, byInvoke[from], rwTime, k)
				}
			}
			if from < len(byInvoke) {
				g.add(r.txn, suffix[from], rwTime, k)
			}
		}
		if h.Txns[r.txn].Stale {
			continue
		}
		// Before W's own return the shared node is safe; between that and R's invocation name the
		// writers.
		upTo := h.Txns[r.txn].Invoke
		split := upTo
		if h.Txns[w].Outcome == Committed && h.Txns[w].Return < split {
			split = h.Txns[w].Return
		}
		i := sort.Search(len(byReturn), func(i int) bool { return ret(i) >= split })
		if i > 0 {
			g.add(prefix[i-1], w, inner, none)
		}
		for n := 0; i < len(byReturn) && ret(i) < upTo && n < maxExplicit; i, n = i+1, n+1 {
			g.add(byReturn[i], w, wwTime, k)
		}
	}
}
