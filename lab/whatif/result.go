package whatif

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/godwitdb/godwit/sql/digest"
	"github.com/godwitdb/godwit/sql/recording"
)

// Key is a kind of statements: those of one digest, of clients in one region.
type Key struct{ Region, Schema, Digest string }

// Sum is what statements of a kind have taken.
type Sum struct {
	N int
	// Failed are those that failed, and Broken those that only failed in the play.
	Failed, Broken int
	Error          string // the first of Broken
	// Trips are round trips over the WAN that were waited for, Bytes what was sent there because of
	// the statement, on average.
	Trips, Bytes float64
	took         []time.Duration
}

// Quantile is the time, in ms, that the share q of the statements does not exceed.
func (s *Sum) Quantile(q float64) float64 {
	if len(s.took) == 0 {
		return 0
	}
	slices.Sort(s.took)
	i := max(0, int(math.Ceil(q*float64(len(s.took))))-1)
	return float64(s.took[i]) / float64(time.Millisecond)
}

// Run is what a play has measured.
type Run struct {
	Regions []string
	Took    time.Duration // virtual
	WAN     int64         // bytes between regions, those of replication and heartbeats included
	Left    []string      // programs that could not be made, and why
	mu      sync.Mutex
	by      map[Key]*Sum
}

// Rate is how many bytes went between regions in a second of the play.
func (r *Run) Rate() float64 { return float64(r.WAN) / max(r.Took.Seconds(), 1e-3) }

// Sums are by kind of statement.
func (r *Run) Sums() map[Key]*Sum { return r.by }

func (r *Run) add(k Key, took time.Duration, err error, wasError bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sum(k)
	s.N++
	s.took = append(s.took, took)
	if err != nil {
		s.Failed++
		if !wasError {
			if s.Broken++; s.Error == "" {
				s.Error = err.Error()
			}
		}
	}
}

func (r *Run) sum(k Key) *Sum {
	s := r.by[k]
	if s == nil {
		s = &Sum{}
		r.by[k] = s
	}
	return s
}

// merge adds another run of the same.
func (r *Run) merge(o *Run) {
	r.Took, r.WAN, r.Left = r.Took+o.Took, r.WAN+o.WAN, o.Left
	for k, v := range o.by {
		s := r.sum(k)
		n, m := float64(s.N), float64(v.N)
		if all := n + m; all > 0 {
			s.Trips, s.Bytes = (n*s.Trips+m*v.Trips)/all, (n*s.Bytes+m*v.Bytes)/all
		}
		s.N, s.Failed, s.Broken = s.N+v.N, s.Failed+v.Failed, s.Broken+v.Broken
		s.Error = cmp.Or(s.Error, v.Error)
		s.took = append(s.took, v.took...)
	}
}

// Measured is what the recorded statements have taken in the cluster itself.
func Measured(f *recording.File) *Run {
	r := &Run{by: map[Key]*Sum{}}
	for _, g := range f.Regions {
		r.Regions = append(r.Regions, g.Name)
	}
	for _, s := range f.Sessions {
		for _, step := range s.Steps {
			if step.Trait {
				continue
			}
			t := f.Texts[step.Text]
			x := r.sum(Key{f.Regions[s.Region].Name, t.Schema, digest.Text(t.Text, 0)})
			n := float64(x.N)
			x.N++
			x.took = append(x.took, time.Duration(step.Took)*time.Microsecond)
			x.Trips = (x.Trips*n + float64(step.Hops)/2) / (n + 1)
			x.Bytes = (x.Bytes*n + float64(step.Bytes)) / (n + 1)
			if step.Failed {
				x.Failed++
			}
		}
	}
	return r
}

// Line is a kind of statements: as it was measured, as it was played, and as it is predicted.
type Line struct {
	Key
	N                int
	Measured, Played Figures
	After            Figures
	Broken           int
	Error            string
}

// Figures are of statements: times in ms, round trips and bytes on average.
type Figures struct{ P50, P99, Trips, Bytes float64 }

func figures(s *Sum, rest float64) Figures {
	return Figures{s.Quantile(0.5) + rest, s.Quantile(0.99) + rest, s.Trips, s.Bytes}
}

// maxRest bounds what a processor and a disk add to a statement that waits for other regions, in
// ms. What is more is waiting for others, which comes out otherwise in each run.
const maxRest = 5

// rests are what the fastest statement of each kind took more in the cluster than in its play, in
// ms, and the least of a region, of those that wait for nobody.
func rests(measured, played *Run) map[Key]float64 {
	out := map[Key]float64{}
	for k, m := range measured.by {
		p := played.by[k]
		if p == nil {
			continue
		}
		rest, waits := max(0, m.Quantile(0)-p.Quantile(0)), m.Trips > 0.05 || p.Trips > 0.05
		if !waits || rest <= maxRest {
			out[k] = rest
		}
		if waits {
			continue
		}
		all := Key{Region: k.Region}
		if least, ok := out[all]; !ok || out[k] < least {
			out[all] = out[k]
		}
	}
	return out
}

// Compare puts the cluster as it is, its play, and the play of the change side by side. What
// statements took more in the cluster than a play takes is added to the prediction: a processor, a
// disk, the way to the client.
func Compare(measured, played, after *Run) []Line {
	var out []Line
	rest := rests(measured, played)
	for k, a := range after.by {
		l := Line{Key: k, N: a.N, Broken: a.Broken, Error: a.Error}
		if p := played.by[k]; p != nil {
			l.Played = figures(p, 0)
		}
		if m := measured.by[k]; m != nil {
			l.Measured = figures(m, 0)
		}
		more, ok := rest[k]
		if !ok {
			more = rest[Key{Region: k.Region}]
		}
		l.After = figures(a, more)
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b Line) int {
		return cmp.Or(cmp.Compare(float64(b.N)*max(b.Measured.P50, b.After.P50), float64(a.N)*max(a.Measured.P50, a.After.P50)),
			strings.Compare(a.Region, b.Region), strings.Compare(a.Digest, b.Digest))
	})
	return out
}

// Write prints lines as a table, the kinds that take the most time first.
func Write(w io.Writer, lines []Line, played, after *Run) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "region\tstatements\tp50 ms\tp99 ms\tround trips\tWAN bytes\tstatement")
	fmt.Fprintln(t, "\t\tmeasured, played -> then\t\t\t\t")
	for _, l := range lines {
		three := func(m, p, a float64, digits int) string {
			return fmt.Sprintf("%.*f, %.*f -> %.*f", digits, m, digits, p, digits, a)
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", l.Region, l.N, three(l.Measured.P50, l.Played.P50, l.After.P50, 1),
			three(l.Measured.P99, l.Played.P99, l.After.P99, 1), three(l.Measured.Trips, l.Played.Trips, l.After.Trips, 2),
			three(l.Measured.Bytes, l.Played.Bytes, l.After.Bytes, 0), short(l.Digest, 80))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nAll bytes between regions, replication included: %.1f -> %.1f KiB/s; the statements took %s -> %s in all\n",
		played.Rate()/1024, after.Rate()/1024, played.Took.Round(time.Millisecond), after.Took.Round(time.Millisecond))
	for _, l := range after.Left {
		if err == nil {
			_, err = fmt.Fprintf(w, "not in the play: %s\n", l)
		}
	}
	return errAfter(err, w, lines)
}

// errAfter adds what failed in the play only.
func errAfter(err error, w io.Writer, lines []Line) error {
	for _, l := range lines {
		if l.Broken > 0 && err == nil {
			_, err = fmt.Fprintf(w, "%d of %d statements failed in the play only (%s, %s): %s\n", l.Broken, l.N, l.Region, short(l.Digest, 60),
				l.Error)
		}
	}
	return err
}

// Kinds are the kinds of statements of a run, in order.
func (r *Run) Kinds() []Key {
	return slices.SortedFunc(maps.Keys(r.by), func(a, b Key) int {
		return cmp.Or(strings.Compare(a.Region, b.Region), strings.Compare(a.Schema, b.Schema), strings.Compare(a.Digest, b.Digest))
	})
}
