package geolm

import (
	"testing"

	"github.com/godwitdb/godwit/lab/bench/rig"
)

// TestHandoverFigure: a planned move costs no request, and less of a pause than a lost leader.
func TestHandoverFigure(t *testing.T) {
	got := map[string]rig.Line{}
	b := &geolm{rig.Params{Emit: func(l rig.Line) error { got[l.Metric] = l; return nil }}}
	if err := b.handover(); err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{"pause of reads", "pause of commits", "until another node leads"} {
		if l := got[m]; l.Value <= 0 || l.Value > *l.Baseline/3 {
			t.Errorf("%s: %v, the loss of the leader %v", m, l.Value, *l.Baseline)
		}
		t.Logf("%s: %v, the loss of the leader %v", m, got[m].Value, *got[m].Baseline)
	}
	if n := got["failed requests"].Value; n != 0 {
		t.Errorf("%v requests failed", n)
	}
	t.Logf("%v requests passed on", got["requests passed on"].Value)
}
