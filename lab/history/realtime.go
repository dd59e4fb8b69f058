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
	ws := g.writersInTime(x, k)
	for _, r := range readers {
		if r.ver == none {
			continue
		}
		w := x.vers[r.ver].txn
		if w == none || w == r.txn {
			continue // the initial version is ordered before all others already
		}
		if x.h.Txns[w].Outcome == Committed {
			_, writes := x.own[r.txn][k]
			ws.after(w, r.txn, writes)
		}
		if !x.h.Txns[r.txn].Stale {
			ws.before(w, r.txn)
		}
	}
}

// writersInTime are the writers of a key in real time, with auxiliary nodes that stand for many of
// them at once.
type writersInTime struct {
	g                  *graph
	k                  int32
	txns               []Txn
	byInvoke, byReturn []int32 // byReturn: those that have committed
	// suffix[i] leads to every writer of byInvoke[i:]; every writer of byReturn[:i+1] leads to
	// prefix[i].
	suffix, prefix []int32
}

func (g *graph) writersInTime(x *index, k int32) *writersInTime {
	ws := &writersInTime{g: g, k: k, txns: x.h.Txns}
	for _, v := range x.keys[k].vers[1:] {
		t := x.vers[v].txn
		ws.byInvoke = append(ws.byInvoke, t)
		if ws.txns[t].Outcome == Committed {
			ws.byReturn = append(ws.byReturn, t)
		}
	}
	sort.Slice(ws.byInvoke, func(a, b int) bool { return ws.invoke(a) < ws.invoke(b) })
	sort.Slice(ws.byReturn, func(a, b int) bool { return ws.ret(a) < ws.ret(b) })
	ws.suffix, ws.prefix = make([]int32, len(ws.byInvoke)), make([]int32, len(ws.byReturn))
	for i := len(ws.byInvoke) - 1; i >= 0; i-- {
		ws.suffix[i] = g.aux()
		g.add(ws.suffix[i], ws.byInvoke[i], inner, none)
		if i+1 < len(ws.byInvoke) {
			g.add(ws.suffix[i], ws.suffix[i+1], inner, none)
		}
	}
	for i := range ws.byReturn {
		ws.prefix[i] = g.aux()
		g.add(ws.byReturn[i], ws.prefix[i], wwTime, k)
		if i > 0 {
			g.add(ws.prefix[i-1], ws.prefix[i], inner, none)
		}
	}
	return ws
}

func (ws *writersInTime) invoke(i int) int64 { return ws.txns[ws.byInvoke[i]].Invoke }
func (ws *writersInTime) ret(i int) int64    { return ws.txns[ws.byReturn[i]].Return }

// after orders the writers invoked after w, whose version r has read, after r. writes: r writes the
// key, too.
func (ws *writersInTime) after(w, r int32, writes bool) {
	from := sort.Search(len(ws.byInvoke), func(i int) bool { return ws.invoke(i) > ws.txns[w].Return })
	for n := 0; writes && from < len(ws.byInvoke) && ws.invoke(from) <= ws.txns[r].Invoke; from, n = from+1, n+1 {
		// The shared node would lead R to itself.
		if n < maxExplicit {
			ws.g.add(r, ws.byInvoke[from], rwTime, ws.k)
		}
	}
	if from < len(ws.byInvoke) {
		ws.g.add(r, ws.suffix[from], rwTime, ws.k)
	}
}

// before orders the writers that returned before r was invoked before w, whose version r has read.
// Before w's own return the shared node is safe; between that and r's invocation name the writers.
func (ws *writersInTime) before(w, r int32) {
	upTo := ws.txns[r].Invoke
	split := upTo
	if ws.txns[w].Outcome == Committed {
		split = min(split, ws.txns[w].Return)
	}
	i := sort.Search(len(ws.byReturn), func(i int) bool { return ws.ret(i) >= split })
	if i > 0 {
		ws.g.add(ws.prefix[i-1], w, inner, none)
	}
	for n := 0; i < len(ws.byReturn) && ws.ret(i) < upTo && n < maxExplicit; i, n = i+1, n+1 {
		ws.g.add(ws.byReturn[i], w, wwTime, ws.k)
	}
}
