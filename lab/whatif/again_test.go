package whatif

import (
	"fmt"
	"testing"

	"github.com/godwitdb/godwit/sql/recording"
)

// TestOrder: another play of a session has the same steps with the same pauses between those of a
// transaction, and settings stay first; one that inserts keeps its order.
func TestOrder(t *testing.T) {
	f := recorded()
	f.Texts = []recording.Text{{Text: "SET autocommit = 1"}, {Text: "BEGIN"}, {Text: "UPDATE t SET v = ?"}, {Text: "COMMIT"}, {Text: "INSERT INTO t VALUES (?)"}}
	s := &f.Sessions[0]
	s.Steps = []recording.Step{{Text: 0, Trait: true}, {Text: 0, Began: 0, Took: 5}}
	for i := range int64(10) {
		at := 100 + 1000*i + i*i
		s.Steps = append(s.Steps, recording.Step{Text: 1, Began: at, Took: 10, Goes: true},
			recording.Step{Text: 2, Began: at + 20, Took: 50, Was: true, Goes: true, Args: []string{fmt.Sprint(i)}},
			recording.Step{Text: 3, Began: at + 100, Took: 70, Was: true})
	}
	if !repeatable(&recording.File{Texts: f.Texts[:4]}) || repeatable(f) {
		t.Error("what can be played again in one cluster is not what it should be")
	}
	firsts := map[string]bool{}
	for i := range 40 {
		w := world{p: &plan{f: &recording.File{Texts: f.Texts[:4], Sessions: f.Sessions}}, seed: uint64(i)}
		o := w.order(i).of(w.p.f, 0)
		if len(o.Steps) != len(s.Steps) || !o.Steps[0].Trait || o.Steps[1].Text != 0 {
			t.Fatalf("%+v", o.Steps)
		}
		seen := map[string]bool{}
		for j := 2; j < len(o.Steps); j += 3 {
			b, u, c := o.Steps[j], o.Steps[j+1], o.Steps[j+2]
			last := o.Steps[j-1]
			if b.Text != 1 || u.Text != 2 || c.Text != 3 || u.Began-b.Began != 20 || c.Began-b.Began != 100 || b.Began < last.Began+last.Took {
				t.Fatalf("play %d: %+v", i, o.Steps)
			}
			seen[u.Args[0]] = true
		}
		if len(seen) != 10 {
			t.Errorf("play %d has %d of the transactions", i, len(seen))
		}
		firsts[o.Steps[3].Args[0]] = true
		if i == 0 && o != s {
			t.Error("the first play is not as it was recorded")
		}
		w.p.f = f
		if x := w.order(1+i).of(f, 0); x.Steps[3].Args[0] != "0" {
			t.Errorf("one that inserts begins with %+v", x.Steps[3])
		}
	}
	if len(firsts) < 6 {
		t.Errorf("of 40 plays the first transactions are %v", firsts)
	}
}

// TestPlays: the fewer statements a recording has, the more often it is played.
func TestPlays(t *testing.T) {
	for n, want := range map[int]int{1: 4, 5000: 4, 12_000: 3, 20_000: 2, 40_000: 1, 1_000_000: 1} {
		f := recorded()
		f.Sessions[0].Steps = make([]recording.Step, n)
		if got := Plays(f); got != want {
			t.Errorf("%d statements are played %d times, want %d", n, got, want)
		}
	}
}
