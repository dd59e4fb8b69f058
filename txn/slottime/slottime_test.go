package slottime

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Slots lie as far ahead as nearly all votes have taken; neither a vote that waited for a lock nor
// one that was slow for once moves them.
func TestVoteTimes(t *testing.T) {
	const ms = time.Millisecond
	near, far := base.DataGroup(1, 1), base.DataGroup(1, 2)
	var s Votes
	delay := func(want time.Duration, gs ...base.GroupID) {
		t.Helper()
		if got := s.Delay(gs, 1); got != want+slack {
			t.Errorf("slots lie %v ahead, not %v", got, want+slack)
		}
	}
	delay(0, near)
	delay(First, near, far)
	s.Answered(2, 100*ms, 0)
	delay(100*ms, near, far)
	for range voteWindow {
		s.Answered(2, 80*ms, 0)
		s.Answered(1, 20*ms, 0)
	}
	delay(80*ms, near, far)
	delay(20*ms, near)
	s.Answered(2, 400*ms, 320*ms) // it waited for a lock
	s.Answered(2, 300*ms, 0)
	delay(80*ms, near, far)
	s.Missed(2, 83*ms, 50*ms, 90*ms) // so did this one
	delay(80*ms, near, far)
	s.Missed(2, 83*ms, 20*ms, 0) // it arrived only after the slot: the way has become longer
	delay(206*ms, near, far)
	for range voteWindow {
		s.Answered(2, 90*ms, 0)
	}
	delay(90*ms, near, far)
	s.Answered(2, time.Minute, 0)
	s.Answered(2, time.Minute, 0)
	delay(Max-slack, near, far)
}

// What a slow link has taught is forgotten in a few seconds, by however few votes.
func TestVoteTimesForget(t *testing.T) {
	const ms = time.Millisecond
	for _, every := range []time.Duration{ms, 100 * ms, time.Second, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			far := []base.GroupID{base.DataGroup(1, 2)}
			var s Votes
			var l Leads
			for range voteWindow {
				s.Answered(2, 1400*ms, 0)
				s.Missed(2, 100*ms, 1300*ms, 0)
				l.Answered(2, 1400*ms)
				l.TooShort(2)
			}
			for began := time.Now(); time.Since(began) < 6*time.Second; time.Sleep(every) {
				s.Answered(2, 80*ms, 0)
				l.Answered(2, 80*ms)
			}
			if got := s.Delay(far, 1); got > 90*ms {
				t.Errorf("with a vote each %v slots still lie %v ahead", every, got)
			}
			if got := l.Delay(far, 1); got > 95*ms {
				t.Errorf("with a vote each %v timestamps still lie %v ahead", every, got)
			}
		})
	}
}
