package history

import "fmt"

// explain turns a cycle of the graph into a Violation: edges through auxiliary nodes are joined,
// each gets its reason, and the cycle its name.
func (x *index) explain(g *graph, cycle []edge) *Violation {
	// Begin with the transaction that comes first in the history.
	first := 0
	for i, e := range cycle {
		if t, best := g.txn(e.from), g.txn(cycle[first].from); t != none && (best == none || t < best) {
			first = i
		}
	}
	cycle = append(append([]edge(nil), cycle[first:]...), cycle[:first]...)
	v := &Violation{}
	count := map[edgeKind]int{}
	for i := 0; i < len(cycle); {
		first := cycle[i]
		for i++; g.txn(cycle[i-1].to) == none; i++ {
		}
		from, to := g.txn(first.from), g.txn(cycle[i-1].to)
		count[first.kind]++
		v.Cycle = append(v.Cycle, Edge{x.h.Txns[from].ID, x.h.Txns[to].ID, kindNames[first.kind], x.why(from, to, first)})
		v.Txns = append(v.Txns, x.h.Txns[from])
	}
	anti := count[rw] + count[rwScan] + count[rwTime]
	switch {
	case anti > 1:
		v.Kind = "G2"
	case anti == 1:
		v.Kind = "G-single"
	case count[wr] > 0:
		v.Kind = "G1c"
	default:
		v.Kind = "G0"
	}
	if count[realtime]+count[wwTime]+count[rwTime] > 0 {
		v.Kind += "-realtime"
	} else if count[session] > 0 {
		v.Kind += "-session"
	}
	return v
}

func (x *index) why(from, to int32, e edge) string {
	h := x.h
	a, b := &h.Txns[from], &h.Txns[to]
	switch e.kind {
	case session:
		return fmt.Sprintf("client %d ran %s before %s", a.Client, a.Name(), b.Name())
	case realtime:
		return fmt.Sprintf("%s returned at %d, before %s was invoked at %d", a.Name(), a.Return, b.Name(), b.Invoke)
	}
	key := x.keys[e.label].name
	switch e.kind {
	case ww, wwTime:
		return fmt.Sprintf("%s wrote %s, %s the later version %s", a.Name(), x.left(from, e.label), b.Name(), x.left(to, e.label))
	case wr:
		return fmt.Sprintf("%s read %s, which %s wrote", b.Name(), x.left(from, e.label), a.Name())
	}
	saw := "-"
	for _, r := range x.reads {
		if r.txn == from && r.key == e.label && r.ver != none {
			saw = orAbsent(x.vers[r.ver].value)
		}
	}
	return fmt.Sprintf("%s read %s=%s, %s wrote the later version %s", a.Name(), key, saw, b.Name(), x.left(to, e.label))
}

// left prints what t left in key.
func (x *index) left(t, key int32) string {
	if id, ok := x.own[t][key]; ok {
		if x.vers[id].value == "" {
			return x.keys[key].name + "=- (deleted)"
		}
		return x.keys[key].name + "=" + x.vers[id].value
	}
	return x.keys[key].name
}
