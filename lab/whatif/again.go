package whatif

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"time"

	"github.com/godwitdb/godwit/sql/recording"
)

// This file has what makes one play of a recording differ from another one.

// statementsWanted is how many statements of all kinds suffice for p99 of each, and maxPlays how
// many plays a recording is worth.
const (
	statementsWanted = 40_000
	maxPlays         = 4
)

// Plays is how often a recording should be played: the fewer statements it has, the more often.
func Plays(f *recording.File) int {
	n := 0
	for _, s := range f.Sessions {
		n += len(s.Steps)
	}
	return max(1, min(maxPlays, (statementsWanted+n/2)/max(n, 1)))
}

var (
	// reDefines is what makes or drops something, which can be done once.
	reDefines = regexp.MustCompile(`(?i)^\s*(?:CREATE|DROP|ALTER|RENAME|TRUNCATE)\b`)
	reSets    = regexp.MustCompile(`(?i)^\s*(?:SET|USE)\b`)
)

// repeatable reports whether all statements can be executed any number of times in one cluster, and
// in another order of each session's transactions.
func repeatable(f *recording.File) bool {
	return !slices.ContainsFunc(f.Texts, func(t recording.Text) bool {
		return once(f, &t) || reDefines.MatchString(t.Text)
	})
}

// order is one of a play: the zero value is that of the recording.
type order struct {
	random *rand.Rand // nil: as it was recorded
	turn   bool       // sessions begin at any of their transactions
}

// order is that of the i-th pass.
func (w *world) order(i int) order {
	if w.seed == 0 && i == 0 {
		return order{}
	}
	return order{random: rand.New(rand.NewPCG(w.seed, uint64(i))), turn: repeatable(w.p.f)}
}

// maxShift is how much later a session begins than it was recorded to.
const maxShift = 2 * time.Second

// of is the i-th session in that order. Its last transaction is followed by its first one then,
// after the pause that was before the one that comes first now.
func (o order) of(f *recording.File, i int) *recording.Session {
	s := &f.Sessions[i]
	if o.random == nil || len(s.Steps) == 0 {
		return s
	}
	shift := o.random.Int64N(maxShift.Microseconds())
	from := settings(f, s.Steps)
	at := from
	if starts := turns(s.Steps, from); o.turn && len(starts) > 0 {
		at = starts[o.random.IntN(len(starts))]
	}
	out := &recording.Session{Region: s.Region, Steps: slices.Clone(s.Steps)}
	if at > from {
		last, before := &s.Steps[len(s.Steps)-1], &s.Steps[at-1]
		pause := max(0, s.Steps[at].Began-before.Began-before.Took)
		early := s.Steps[at].Began - s.Steps[from].Began
		late := last.Began + last.Took + pause - s.Steps[at].Began
		out.Steps = slices.Concat(s.Steps[:from], s.Steps[at:], s.Steps[from:at])
		for j := from; j < len(out.Steps); j++ {
			if j < from+len(s.Steps)-at {
				out.Steps[j].Began -= early
			} else {
				out.Steps[j].Began += late
			}
		}
	}
	for j := range out.Steps {
		out.Steps[j].Began += shift
	}
	return out
}

// settings is how many statements stand first that set what the session has set, which stay there.
func settings(f *recording.File, steps []recording.Step) int {
	for i := range steps {
		if !steps[i].Trait && !reSets.MatchString(f.Texts[steps[i].Text].Text) {
			return i
		}
	}
	return len(steps)
}

// turns are where transactions begin.
func turns(steps []recording.Step, from int) (out []int) {
	for i := from; i < len(steps); i++ {
		if !steps[i].Was && !steps[i].Trait && (i == 0 || !steps[i-1].Goes) {
			out = append(out, i)
		}
	}
	return out
}
