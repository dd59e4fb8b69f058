package owner_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// TestScripts runs the stories of testdata, each in virtual time. The language is that of the maps
// requests, controls and looks: one directive is one step. A request that is not answered after a
// millisecond goes on; its answer is shown by the step in which it comes. Times are milliseconds
// since the cluster was made; "+20" and "-20" count from now. Of errors only the kind is shown,
// since their texts are for people.
//
// go test ./owner -run TestScripts -rewrite writes what happens into the files.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		inBubble(t, func(t *testing.T) {
			s := &script{}
			defer s.end()
			datadriven.RunTest(t, path, s.run)
		})
	})
}

// inBubble runs a test in virtual time. Pebble keeps channels in pools: two collections empty them,
// so that none goes into the bubble, nor out of it.
func inBubble(t *testing.T, f func(t *testing.T)) {
	empty := func() { runtime.GC(); runtime.GC() }
	empty()
	defer empty()
	synctest.Test(t, f)
}

// script is one file while it is run.
type script struct {
	c    *cluster
	t    *testing.T
	d    *datadriven.TestData
	args []datadriven.CmdArg
	txns map[string]*txn

	mu      sync.Mutex
	pending []*request
}

// txn is what a coordinator would know of a transaction.
type txn struct {
	name  string
	meta  wire.TxnMeta
	id    base.TxnID
	terms map[base.GroupID]uint64 // of its locks
	voted base.Timestamp          // largest lower bound of its votes
}

// request is one that a step has sent.
type request struct {
	label  string
	cancel context.CancelFunc
	answer string
	over   bool
}

func (s *script) end() {
	if s.c == nil {
		return
	}
	for _, r := range s.pending {
		r.cancel()
	}
	s.c.close()
	synctest.Wait()
	s.c, s.pending = nil, nil
}

// send runs a request and waits for it for a millisecond.
func (s *script) send(label string, f func(ctx context.Context) string) string {
	ctx, cancel := context.WithCancel(context.Background())
	r := &request{label: label, cancel: cancel}
	s.pending = append(s.pending, r)
	go func() {
		out := f(ctx)
		s.mu.Lock()
		r.answer, r.over = out, true
		s.mu.Unlock()
	}()
	synctest.Wait()
	time.Sleep(time.Millisecond)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !r.over {
		return "waits\n"
	}
	s.pending = s.pending[:len(s.pending)-1]
	cancel()
	return r.answer + "\n"
}

// late are the answers that came since the last step, in the order of their requests.
func (s *script) late() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	s.pending = slices.DeleteFunc(s.pending, func(r *request) bool {
		if r.over {
			fmt.Fprintf(&b, "%s: %s\n", r.label, r.answer)
			r.cancel()
		}
		return r.over
	})
	return b.String()
}

// ---- arguments ----

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	s.t, s.d, s.args = t, d, slices.Clone(d.CmdArgs)
	if d.Cmd == "cluster" {
		s.end()
		s.begin()
		synctest.Wait()
		s.c.happened()
		return "ok\n"
	}
	if s.c == nil {
		d.Fatalf(t, "there is no cluster")
	}
	out := s.step()
	if len(s.args) > 0 {
		d.Fatalf(t, "what is %s?", s.args[0].Key)
	}
	synctest.Wait()
	for _, e := range s.c.happened() {
		out += e + "\n"
	}
	out += s.late()
	if out == "" {
		return "ok\n"
	}
	return out
}

func (s *script) begin() {
	o := options{nodes: s.number("nodes", 3), regions: s.number("regions", 1)}
	o.passes = s.flag("passes")
	o.untold = s.flag("untold")
	o.ticks, o.async, o.modes, o.policy, o.alone, o.unbound, o.measured, o.drowsy = s.flag("ticks"), s.flag("async"),
		s.flag("modes"), s.flag("policy"), s.flag("alone"), s.flag("nobounds"), s.flag("measured"), s.flag("drowsy")
	o.releases, o.breaks.Forgetful, o.breaks.ServesOn = s.flag("releases"), s.flag("forgetful"), s.flag("serves-on")
	o.breaks.AnyRelease, o.breaks.TakesBlindly = s.flag("any-release"), s.flag("takes-blindly")
	o.waiting = s.number("waiting", 0)
	switch {
	case s.flag("timestamp"):
		o.concurrency = base.ByTimestamp
	case s.flag("relay"):
		o.concurrency = base.ByTimestampRelay
	}
	s.c, s.txns = newCluster(s.t, o), map[string]*txn{}
	time.Sleep(time.Millisecond)
}

func (s *script) step() string {
	if f := requests[s.d.Cmd]; f != nil {
		return f(s)
	}
	if f := controls[s.d.Cmd]; f != nil {
		return f(s)
	}
	if f := looks[s.d.Cmd]; f != nil {
		return f(s)
	}
	s.d.Fatalf(s.t, "unknown step %s", s.d.Cmd)
	return ""
}
