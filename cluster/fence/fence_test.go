package fence

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// model is a node whose store is copied and started again and again, and three others that
// remember. Its processes take the steps of join.Confirm, and may crash between any two of them.
type model struct {
	rng    *rand.Rand
	books  []*Book
	now    time.Time
	stores []*copied
	run    *copied // the one that speaks, if any
	// variants that must not work
	noBeat, noTake, anyLife bool
	bad                     string
	accepted, refused       int
}

// copied is one copy of the store.
type copied struct {
	line Lineage
	// newest says that the copy has everything that any process has acknowledged.
	newest bool
}

func newModel(seed uint64) *model {
	m := &model{rng: rand.New(rand.NewPCG(seed, 18)), now: time.Unix(0, 0), stores: []*copied{{newest: true}}}
	for range 3 {
		m.books = append(m.books, NewBook(nil, func(map[string]Memory, bool) error { return nil }))
	}
	return m
}

func (m *model) ask(c Claim) (stale, busy bool) {
	for _, b := range m.books {
		v, _, err := b.Judge("n", &c, m.now)
		if err != nil {
			panic(err)
		}
		stale, busy = stale || v == Stale && !m.anyLife, busy || v == Busy
	}
	return stale, busy
}

// start runs a copy until it speaks, is refused, or crashes.
func (m *model) start(s *copied) {
	m.run = nil // one at a time is heard: the one before has ended
	crash := func() bool { return m.rng.IntN(6) == 0 }
	s.line = s.line.Begin(m.rng.Uint64() | 1)
	if crash() {
		return
	}
	stale, busy := m.ask(Claim{Lineage: s.line})
	if crash() || busy {
		return
	}
	if !stale {
		s.line = s.line.Beat()
		if crash() {
			return
		}
		if m.noTake {
			stale = false
		} else {
			stale, _ = m.ask(Claim{Lineage: s.line, Take: true})
		}
	}
	switch {
	case stale && s.newest:
		m.bad = "the newest copy is refused"
	case stale:
		m.refused++
		m.stores = slices.DeleteFunc(m.stores, func(o *copied) bool { return o == s })
	case !s.newest:
		m.bad = "an old copy speaks"
	default:
		m.accepted++
		m.speak(s)
	}
}

// speak has a process acknowledge something, which copies made before lack.
func (m *model) speak(s *copied) {
	m.run = s
	for _, o := range m.stores {
		o.newest = o == s
	}
}

func (m *model) step() {
	m.now = m.now.Add(promised)
	switch k := m.rng.IntN(10); {
	case k < 3 || len(m.stores) == 0:
		if len(m.stores) > 0 {
			m.start(m.stores[m.rng.IntN(len(m.stores))])
		}
	case k < 6 && m.run != nil: // it goes on
		m.run.line = m.run.line.Beat()
		if !m.noBeat {
			if stale, _ := m.ask(Claim{Lineage: m.run.line, Take: true}); stale {
				m.bad = "the one that speaks is refused"
			}
		}
		m.speak(m.run)
	case k < 8 && len(m.stores) < 6:
		from := m.stores[m.rng.IntN(len(m.stores))]
		m.stores = append(m.stores, &copied{line: slices.Clone(from.line), newest: from.newest})
	}
}

func (m *model) play(steps int) string {
	for range steps {
		if m.step(); m.bad != "" {
			return m.bad
		}
	}
	return ""
}

// TestCopies: whatever copies are made, started and crashed, only the newest one speaks, and the
// newest one is never refused.
func TestCopies(t *testing.T) {
	accepted, refused := 0, 0
	for seed := range uint64(2000) {
		m := newModel(seed)
		if bad := m.play(60); bad != "" {
			t.Fatalf("seed %d: %s", seed, bad)
		}
		accepted, refused = accepted+m.accepted, refused+m.refused
	}
	if accepted < 1000 || refused < 1000 {
		t.Errorf("%d accepted, %d refused: the test says little", accepted, refused)
	}
}

// TestCopiesBite: without each part of the protocol an old copy speaks.
func TestCopiesBite(t *testing.T) {
	for name, set := range map[string]func(*model){
		"FENCE-1": func(m *model) { m.noTake = true },
		"FENCE-3": func(m *model) { m.noBeat = true },
		"FENCE-2": func(m *model) { m.anyLife = true },
	} {
		found := ""
		for seed := uint64(0); seed < 200 && found == ""; seed++ {
			m := newModel(seed)
			set(m)
			found = m.play(60)
		}
		if found != "an old copy speaks" {
			t.Errorf("without %s: %q", name, found)
		}
	}
}

func TestLongLineage(t *testing.T) {
	b := NewBook(nil, func(map[string]Memory, bool) error { return nil })
	var l Lineage
	judge := func(c Claim) string {
		v, why, _ := b.Judge("n", &c, time.Unix(0, 0))
		return fmt.Sprint(v, " ", why)
	}
	l = l.Begin(1)
	if got := judge(Claim{Lineage: l, Take: true}); got != "ok " {
		t.Fatal(got)
	}
	old := slices.Clone(l)
	for i := range uint64(3 * keepLives) { // b is away
		l = l.Begin(2 + i)
	}
	if len(l) != keepLives || l[0].Start != 2*keepLives+2 {
		t.Fatalf("%d lives from %d", len(l), l[0].Start)
	}
	if got := judge(Claim{Lineage: l, Take: true}); got != "ok " {
		t.Fatal(got)
	}
	if !b.Superseded("n", 1) || b.Superseded("n", 2+3*keepLives-1) {
		t.Error("superseded lives")
	}
	if got := judge(Claim{Lineage: old.Begin(1000)}); !strings.HasPrefix(got, "stale another copy") {
		t.Error(got)
	}
	if got := judge(Claim{Lineage: old.Begin(1000), Force: true, Take: true}); got != "ok " {
		t.Error(got)
	}
	if got := judge(Claim{}); !strings.HasPrefix(got, "stale") {
		t.Error(got)
	}
}

// TestLossy: beats that a damaged log lost are forgiven, for good; other copies are not.
func TestLossy(t *testing.T) {
	b := NewBook(nil, func(map[string]Memory, bool) error { return nil })
	judge := func(l Lineage, take bool) (Verdict, string) {
		v, why, err := b.Judge("n", &Claim{Lineage: l, Take: take}, time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		return v, why
	}
	l := Lineage{}.Forgive().Begin(1)
	if v, _ := judge(l.Beat().Beat(), true); v != OK {
		t.Fatal(v)
	}
	if v, why := judge(l.Begin(2), false); v != Stale || !strings.Contains(why, "went on") {
		t.Error(v, why)
	}
	for _, again := range []Lineage{l.Forgive().Begin(2), l.Forgive().Begin(2).Beat().Begin(3)} {
		if v, why := judge(again, false); v == Stale {
			t.Error(why)
		}
	}
	if v, _ := judge(Lineage{}.Begin(4).Forgive().Begin(5), false); v != Stale {
		t.Error(v)
	}
}

// TestTwoAtOnce: of two copies that start at once, one is told to wait; what cannot be kept is not
// promised.
func TestTwoAtOnce(t *testing.T) {
	fail := false
	b := NewBook(nil, func(_ map[string]Memory, sync bool) error {
		if fail || !sync {
			return errors.New("no space")
		}
		return nil
	})
	x, y := Lineage{}.Begin(1), Lineage{}.Begin(2)
	now := time.Unix(0, 0)
	for _, s := range []struct {
		c    Claim
		want Verdict
	}{{Claim{Lineage: x}, OK}, {Claim{Lineage: y}, Busy}, {Claim{Lineage: x, Take: true}, OK}, {Claim{Lineage: y}, Stale}} {
		if v, _, err := b.Judge("n", &s.c, now); v != s.want || err != nil {
			t.Errorf("%v: %v, %v", s, v, err)
		}
	}
	fail = true
	if v, _, err := b.Judge("m", &Claim{Lineage: y, Take: true}, now); err == nil || v != "" {
		t.Errorf("%v although nothing can be kept", v)
	}
	if v, _, _ := b.Judge("m", &Claim{Lineage: x}, now); v != OK {
		t.Errorf("what was not kept counts: %v", v)
	}
}
