package lock

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/godwitdb/godwit/base"
)

func tid(n int) base.TxnID { return base.MakeTxnID(base.Timestamp(n), 1, 0) }

func name(id base.TxnID) string { return fmt.Sprintf("t%d", uint64(id.Start())) }

// twin is the table of doc.go written down as plainly as possible.
type twin struct {
	granted, waiting []*twinReq // in order of arrival
	seq              int
}

type twinReq struct {
	txn  base.TxnID
	age  base.Timestamp
	span base.Span
	mode Mode
	how  Policy
	jump bool
	seq  int
}

func (a *twinReq) older(b *twinReq) bool {
	if a.age != b.age {
		return a.age < b.age
	}
	return string(a.txn[:]) < string(b.txn[:])
}
func (a *twinReq) before(b *twinReq) bool {
	return a.jump && !b.jump || a.jump == b.jump && a.seq < b.seq
}
func (a *twinReq) clash(b *twinReq) bool {
	return a.txn != b.txn && a.span.Overlaps(b.span) && (a.mode == Exclusive || b.mode == Exclusive)
}

func (w *twin) covered(id base.TxnID, s base.Span, m Mode) bool {
	for _, g := range w.granted {
		if g.txn == id && g.mode >= m && contains(g.span, s) {
			return true
		}
	}
	return false
}

func (w *twin) blockers(r *twinReq) (out []*twinReq) {
	for _, g := range w.granted {
		if g.clash(r) {
			out = append(out, g)
		}
	}
	for _, v := range w.waiting {
		if v != r && v.clash(r) && v.before(r) {
			out = append(out, v)
		}
	}
	return out
}

func (w *twin) grant(r *twinReq) {
	for _, g := range w.granted {
		if g.txn == r.txn && compareSpans(g.span, r.span) == 0 {
			g.mode = max(g.mode, r.mode)
			return
		}
	}
	w.granted = append(w.granted, r)
}

// reaches reports whether the transaction of a waits for that of b, directly or
// through others; with older, only through transactions older than b.
func (w *twin) reaches(a, b base.TxnID, older *twinReq, seen map[base.TxnID]bool) bool {
	seen[a] = true
	for _, v := range w.waiting {
		if v.txn != a {
			continue
		}
		for _, x := range w.blockers(v) {
			if x.txn == b || !seen[x.txn] && (older == nil || x.older(older)) && w.reaches(x.txn, b, older, seen) {
				return true
			}
		}
	}
	return false
}

// youngest reports whether r's transaction is the youngest of a cycle.
func (w *twin) youngest(r *twinReq) bool { return w.reaches(r.txn, r.txn, r, map[base.TxnID]bool{}) }

func (w *twin) cycle() *twinReq {
	for _, v := range w.waiting {
		if w.reaches(v.txn, v.txn, nil, map[base.TxnID]bool{}) {
			return v
		}
	}
	return nil
}

// acquire is told whom the table killed: where there are several cycles, it may choose with which
// it begins.
func (w *twin) acquire(r *twinReq, killed []string) (out Outcome, granted, died []string) {
	if w.covered(r.txn, r.span, r.mode) {
		return Granted, nil, nil
	}
	w.seq++
	r.seq = w.seq
	r.jump = r.mode == Exclusive && w.covered(r.txn, r.span, Shared)
	bl := w.blockers(r)
	for _, b := range bl {
		if r.how == NoWait || r.how == WaitDie && !r.older(b) {
			return Died, nil, nil
		}
	}
	before := slices.Clone(w.waiting)
	if r.jump {
		for _, v := range slices.Clone(w.waiting) {
			if v.how == WaitDie && v.clash(r) && r.before(v) && !v.older(r) {
				died = append(died, v.String())
				w.waiting = remove(w.waiting, v)
			}
		}
	}
	if len(bl) == 0 {
		w.grant(r)
	} else {
		w.waiting = append(w.waiting, r)
		if w.youngest(r) {
			w.waiting = before
			return Died, nil, nil
		}
		out = Waiting
	}
	for _, k := range killed[min(len(died), len(killed)):] {
		i := slices.IndexFunc(w.waiting, func(v *twinReq) bool { return v.String() == k && w.youngest(v) })
		if i < 0 {
			return out, nil, append(died, "but not "+k)
		}
		died = append(died, k)
		w.waiting = slices.Delete(w.waiting, i, i+1)
	}
	woken := w.wake()
	if out == Waiting && !slices.Contains(w.waiting, r) {
		woken = remove(woken, r.String())
		out = Granted
	}
	return out, woken, died
}

func (w *twin) wake() (out []string) {
	for again := true; again; {
		again = false
		for _, v := range slices.Clone(w.waiting) {
			if len(w.blockers(v)) == 0 {
				w.waiting = remove(w.waiting, v)
				w.grant(v)
				out = append(out, v.String())
				again = true
			}
		}
	}
	return out
}

func (w *twin) release(id base.TxnID) []string {
	w.granted = slices.DeleteFunc(w.granted, func(r *twinReq) bool { return r.txn == id })
	w.waiting = slices.DeleteFunc(w.waiting, func(r *twinReq) bool { return r.txn == id })
	return w.wake()
}

func (w *twin) rows() (out []string) {
	for _, r := range w.granted {
		out = append(out, "g "+r.String())
	}
	for _, r := range w.waiting {
		out = append(out, "w "+r.String())
	}
	sort.Strings(out)
	return out
}

func (a *twinReq) String() string { return fmt.Sprint(name(a.txn), " ", a.mode, " ", show(a.span)) }

func show(s base.Span) string {
	if s.IsPoint() {
		return string(s.Start)
	}
	return fmt.Sprintf("[%s,%s)", s.Start, s.End)
}

func names(ws []*Waiter) (out []string) {
	for _, w := range ws {
		out = append(out, fmt.Sprint(name(w.txn.id), " ", w.mode, " ", show(w.node.span)))
	}
	return out
}

func sorted(s []string) string { sort.Strings(s); return strings.Join(s, "; ") }

// TestTwin drives the table and its twin with the same random calls.
func TestTwin(t *testing.T) {
	for seed := uint64(0); seed < 600; seed++ {
		rng := rand.New(rand.NewPCG(seed, 1))
		tab, tw := New(Limits{}), &twin{}
		waiters := map[string]*Waiter{} // twinReq string + seq
		reqs := map[*Waiter]*twinReq{}
		keys := 2 + rng.IntN(12)
		policies := [][]Policy{{Detect}, {WaitDie, WaitDie, WaitDie, NoWait}, {Detect, NoWait, WaitDie}}[seed%3]
		key := func(i int) base.Key { return base.Key{byte('a' + i)} }
		settle := func(ev Events) {
			for _, v := range append(ev.Granted, ev.Died...) {
				delete(waiters, fmt.Sprint(reqs[v].seq))
			}
		}
		for step := 0; step < 300; step++ {
			fail := func(what string, got, want any) {
				t.Fatalf("seed %d step %d: %s\n got %v\nwant %v\nrows %v", seed, step, what, got, want, tw.rows())
			}
			id := 1 + rng.IntN(6)
			switch op := rng.IntN(10); {
			case op < 7:
				a := rng.IntN(keys)
				span := base.PointSpan(key(a))
				if rng.IntN(3) == 0 {
					span.End = key(a + 1 + rng.IntN(keys))
				}
				mode := Shared
				if rng.IntN(2) == 0 {
					mode = Exclusive
				}
				how := policies[rng.IntN(len(policies))]
				age := base.Timestamp(id % 5)
				out, w, ev, err := tab.Acquire(Request{Txn: tid(id), Age: age, Span: span, Mode: mode, Policy: how})
				if err != nil {
					t.Fatal(err)
				}
				r := &twinReq{txn: tid(id), age: age, span: span, mode: mode, how: how}
				wout, wg, wd := tw.acquire(r, names(ev.Died))
				if out != wout || sorted(names(ev.Granted)) != sorted(wg) || sorted(names(ev.Died)) != sorted(wd) {
					fail(r.String(), fmt.Sprint(out, names(ev.Granted), names(ev.Died)), fmt.Sprint(wout, wg, wd))
				}
				if w != nil {
					reqs[w], waiters[fmt.Sprint(r.seq)] = r, w
				}
				settle(ev)
			case op < 8 && len(waiters) > 0:
				ids := make([]string, 0, len(waiters))
				for s := range waiters {
					ids = append(ids, s)
				}
				sort.Strings(ids)
				s := ids[rng.IntN(len(ids))]
				w := waiters[s]
				delete(waiters, s)
				tw.waiting = remove(tw.waiting, reqs[w])
				ev := tab.Cancel(w)
				if want := tw.wake(); sorted(names(ev.Granted)) != sorted(want) {
					fail("cancel", names(ev.Granted), want)
				}
				settle(ev)
			default:
				ev := tab.Release(tid(id))
				if want := tw.release(tid(id)); sorted(names(ev.Granted)) != sorted(want) {
					fail("release", names(ev.Granted), want)
				}
				for s, w := range waiters {
					if w.txn.id == tid(id) {
						delete(waiters, s)
					}
				}
				settle(ev)
			}
			var got []string
			for _, r := range tab.Rows(0) {
				p := "g "
				if r.Waiting {
					p = "w "
				}
				got = append(got, fmt.Sprint(p, name(r.Txn), " ", r.Mode, " ", show(r.Span)))
			}
			if sorted(got) != sorted(tw.rows()) {
				fail("rows", got, tw.rows())
			}
			check(t, tw)
		}
		for id := 1; id <= 6; id++ {
			tab.Release(tid(id))
		}
		if l, w, x := tab.Counts(); l != 0 || w != 0 || x != 0 || tab.tree.root != nil || len(tab.points) != 0 ||
			tab.ranges != 0 {
			t.Fatalf("seed %d: %d locks, %d waiting, %d transactions left", seed, l, w, x)
		}
	}
}

// check tests LOCK-1, LOCK-3 and LOCK-4 on the twin, which equals the table.
func check(t *testing.T, w *twin) {
	for i, a := range w.granted {
		for _, b := range w.granted[:i] {
			if a.clash(b) {
				t.Fatalf("LOCK-1: %v and %v", a, b)
			}
		}
	}
	for _, v := range w.waiting {
		bl := w.blockers(v)
		if len(bl) == 0 {
			t.Fatalf("LOCK-4: %v waits for nothing", v)
		}
		for _, b := range bl {
			if v.how == WaitDie && !v.older(b) {
				t.Fatalf("LOCK-3: %v waits for older %v", v, b)
			}
		}
	}
	if v := w.cycle(); v != nil {
		t.Fatalf("LOCK-3: %v waits for itself: %v", v, w.rows())
	}
}

// TestScripts runs the stories of testdata. A transaction's age is its number. Requests are under
// Detect where they do not say otherwise.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		tab := New(Limits{PerTxn: 4, Total: 8, Waiting: 3})
		waiting := map[string]*Waiter{}
		policy := Detect
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var b strings.Builder
			txn := func() base.TxnID {
				var n int
				d.ScanArgs(t, "txn", &n)
				return tid(n)
			}
			span := func() base.Span {
				var s string
				d.ScanArgs(t, "span", &s)
				from, to, ok := strings.Cut(s, "-")
				if !ok {
					return base.PointSpan(base.Key(s))
				}
				return base.Span{Start: base.Key(from), End: base.Key(to)}
			}
			events := func(ev Events) {
				for _, s := range names(ev.Granted) {
					fmt.Fprintln(&b, "granted:", s)
				}
				for _, s := range names(ev.Died) {
					fmt.Fprintln(&b, "died:", s)
				}
			}
			switch d.Cmd {
			case "wait-die":
				policy = WaitDie
			case "lock":
				r := Request{Txn: txn(), Span: span(), Mode: Shared, Policy: policy}
				if d.HasArg("nowait") {
					r.Policy = NoWait
				}
				r.Age = r.Txn.Start()
				if d.HasArg("x") {
					r.Mode = Exclusive
				}
				out, w, ev, err := tab.Acquire(r)
				if err != nil {
					return err.Error() + "\n"
				}
				fmt.Fprintln(&b, out)
				if w != nil {
					waiting[name(r.Txn)] = w
					for _, id := range tab.Blockers(w) {
						fmt.Fprintln(&b, "  waits for", name(id))
					}
					if older, _ := tab.Older(w); older {
						fmt.Fprintln(&b, "  one of them is older")
					}
				}
				events(ev)
			case "cancel":
				events(tab.Cancel(waiting[name(txn())]))
			case "release":
				events(tab.Release(txn()))
			case "rows":
				for _, r := range tab.Rows(0) {
					fmt.Fprint(&b, show(r.Span), " ", name(r.Txn), " ", r.Mode)
					if r.Waiting {
						fmt.Fprint(&b, " waiting")
					}
					fmt.Fprintln(&b)
				}
			default:
				t.Fatalf("unknown command %s", d.Cmd)
			}
			if b.Len() == 0 {
				return "ok\n"
			}
			return b.String()
		})
	})
}

func BenchmarkPoint(b *testing.B) {
	for _, held := range []int{0, 10000} {
		for _, ranges := range []int{0, 100} {
			b.Run(fmt.Sprintf("held=%d/ranges=%d", held, ranges), func(b *testing.B) {
				tab := New(Limits{})
				for i := range held {
					tab.Acquire(Request{Txn: tid(1 << 30), Age: 1 << 30,
						Span: base.PointSpan(base.Key(fmt.Sprintf("table/index/%08d", i*7))), Mode: Shared})
				}
				for i := range ranges {
					tab.Acquire(Request{Txn: tid(1<<30 + i), Age: 1 << 30, Mode: Shared,
						Span: base.Span{Start: base.Key(fmt.Sprintf("table/index/%08d", i*70)),
							End: base.Key(fmt.Sprintf("table/index/%08d", i*70+500))}})
				}
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					i++
					id := tid(i)
					k := base.Key(fmt.Sprintf("table/other/%08d", i%100000))
					tab.Acquire(Request{Txn: id, Age: base.Timestamp(i), Span: base.PointSpan(k), Mode: Exclusive})
					tab.Release(id)
				}
			})
		}
	}
}

// A transaction takes over the locks of another one: who waits for these goes on waiting, and what
// the other one waited for is not asked for any more.
func TestRename(t *testing.T) {
	a, b, c, d := base.TxnID{1}, base.TxnID{2}, base.TxnID{3}, base.TxnID{4}
	at := func(k string) base.Span { return base.PointSpan(base.Key(k)) }
	tab := New(Limits{})
	ask := func(id base.TxnID, age base.Timestamp, s base.Span, m Mode) (Outcome, *Waiter) {
		t.Helper()
		out, w, _, err := tab.Acquire(Request{Txn: id, Age: age, Span: s, Mode: m})
		if err != nil {
			t.Fatal(err)
		}
		return out, w
	}
	whole := base.Span{Start: base.Key("m"), End: base.Key("p")}
	ask(a, 1, at("k"), Exclusive)
	ask(a, 1, at("l"), Shared)
	ask(a, 1, whole, Exclusive)
	ask(c, 3, at("x"), Exclusive)
	if out, _ := ask(a, 1, at("x"), Exclusive); out != Waiting {
		t.Fatal("two have x")
	}
	_, waits := ask(d, 4, at("k"), Exclusive)
	ask(b, 2, at("l"), Shared)
	tab.Ending(a, true)
	if ev := tab.Rename(a, b, 2); len(ev.Granted) > 0 || !waits.queued {
		t.Errorf("who waited has it: %v", ev)
	}
	for _, s := range []base.Span{at("k"), whole, at("n")} {
		if !tab.Holds(b, s, Exclusive) || tab.Holds(a, s, Shared) {
			t.Errorf("%v is not the new one's", s)
		}
	}
	if n := tab.Count(b); n != 3 || tab.Count(a) != 0 {
		t.Errorf("it has %d locks", n)
	}
	// To a name that has nothing yet: it is not Ending any more.
	tab.Ending(b, true)
	tab.Rename(b, a, 9)
	out, _, _, err := tab.Acquire(Request{Txn: c, Age: 10, Span: at("n"), Mode: Shared, Policy: WaitEnding})
	if err != nil || out != Died {
		t.Errorf("it is still ending: %v, %v", out, err)
	}
	if out, _ := ask(c, 3, at("x"), Exclusive); out != Granted {
		t.Error("x was asked for by one that is gone")
	}
	if ev := tab.Release(a); len(ev.Granted) != 1 || ev.Granted[0] != waits {
		t.Errorf("the end of the locks wakes %v", ev)
	}
	tab.Release(c)
	tab.Release(d)
	if locks, waiting, txns := tab.Counts(); locks != 0 || waiting != 0 || txns != 0 {
		t.Errorf("%d locks, %d that wait and %d transactions are left", locks, waiting, txns)
	}
}
