package backup

import (
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv/job"
)

// TestHistory: a schedule knows its newest backup, and how many have failed since, though the jobs
// before its last one are forgotten.
func TestHistory(t *testing.T) {
	const first = base.Timestamp(5_000_000)
	s := &schedule{}
	for i, step := range []struct {
		state    job.State // of the last job; empty: it is forgotten
		good     int       // which one was the newest backup, from 1
		failures int64
	}{{job.Failed, 0, 1}, {job.Succeeded, 2, 0}, {job.Failed, 2, 1}, {job.Failed, 2, 2}, {job.Canceled, 2, 2}, {"", 2, 2},
		{job.Running, 2, 2}, {job.Succeeded, 8, 0}} {
		s.Job = jobOf(first+base.Timestamp(i+1)*1000, 7)
		var jobs []job.Record
		if step.state != "" {
			jobs = []job.Record{{ID: 1, State: job.Failed}, {ID: s.Job, State: step.state}}
		}
		want := base.Timestamp(0)
		if step.good > 0 {
			want = first + base.Timestamp(step.good)*1000
		}
		good, failures := s.history(jobs)
		if good != want || failures != step.failures {
			t.Errorf("after job %d (%s): the backup of %v, %d failures; want %v and %d", i+1, step.state, good, failures, want, step.failures)
		}
		s.Good, s.Failures = good, failures
	}
	if good, failures := (&schedule{}).history([]job.Record{{State: job.Succeeded}}); good != 0 || failures != 0 {
		t.Errorf("before the first: %v, %d", good, failures)
	}
}
