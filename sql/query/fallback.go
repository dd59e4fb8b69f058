package query

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/bind"
)

// Fallbacks counts the statements that were left to the engine, by reason.
type Fallbacks struct {
	mu sync.Mutex
	m  map[string]int64
	// On is called with each reason; nil: nobody.
	On func(reason string)
}

// Fallback is how often a reason left a statement to the engine.
type Fallback struct {
	Reason string
	Count  int64
}

// maxReasons bounds the reasons that are told apart.
const maxReasons = 500

func (f *Fallbacks) add(reason string) {
	f.mu.Lock()
	if f.m == nil {
		f.m = map[string]int64{}
	}
	if _, ok := f.m[reason]; !ok && len(f.m) >= maxReasons {
		reason = "other"
	}
	f.m[reason]++
	f.mu.Unlock()
	if f.On != nil {
		f.On(reason)
	}
}

// All are the reasons so far, the most frequent first.
func (f *Fallbacks) All() []Fallback {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]Fallback, 0, len(f.m))
	for r, n := range f.m {
		out = append(out, Fallback{r, n})
	}
	slices.SortFunc(out, func(a, b Fallback) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Reason, b.Reason))
	})
	return out
}

// reasonOf is why a statement that could not be prepared is left to the engine. Errors of the user
// are among them: the engine words them.
func reasonOf(err error) string {
	if r, ok := bind.Reason(err); ok {
		return r
	}
	var me *mysql.SQLError
	if errors.As(err, &me) {
		if me.Num == 1235 {
			return me.Message
		}
		return fmt.Sprintf("error %d", me.Num)
	}
	return "error of the planner"
}
