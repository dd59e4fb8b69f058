package replica

import (
	"slices"
	"time"
)

// Watch tells for how long a node may go by the view that its replica of the meta shard shows, and
// from when on, where no clock tells how far that replica is complete: in clock mode GTM (RCP-6).
// It goes by the reports of the meta shard's leader and by the node's monotonic clock. Not safe for
// concurrent use.
type Watch struct {
	length  time.Duration // how long a report counts
	wait    time.Duration // as long by the slowest clock that may be about
	begin   time.Time     // when the mode in force was taken over
	reports []report
	need    uint64    // the view was shown here when the meta replica had applied so much
	since   time.Time // when the leader was heard to have it; zero: it was not
}

// report says that the meta shard's leader had applied no more than index when this node last spoke
// to it, a length before until.
type report struct {
	index uint64
	until time.Time
}

const maxSeen = 16

// NewWatch makes one. Reports count for length, or less; wait is as long by the slowest
// clock that may be about.
func NewWatch(length, wait time.Duration) *Watch { return &Watch{length: length, wait: wait} }

// Mode says that the node has taken over another clock mode: what it said before does not count.
func (w *Watch) Mode(now time.Time) { w.begin, w.reports = now, nil }

// View says that the node goes over to another view.
func (w *Watch) View() { w.need, w.since = 0, time.Time{} }

// Shown says that the view's row is certainly among what the meta replica here has applied.
func (w *Watch) Shown(applied uint64) {
	if w.need == 0 {
		w.need = applied
	}
}

// Heard takes a report of the meta shard's leader: so much it had applied, and what this node said
// at sent it had heard.
func (w *Watch) Heard(index uint64, sent, now time.Time) {
	if w.since.IsZero() && w.need != 0 && index >= w.need {
		w.since = now
	}
	w.reports = slices.DeleteFunc(w.reports, func(x report) bool { return !x.until.After(now) })
	if until := sent.Add(w.length); until.After(now) && !sent.Before(w.begin) {
		if len(w.reports) == maxSeen {
			w.reports = slices.Delete(w.reports, 0, 1)
		}
		w.reports = append(w.reports, report{index, until})
	}
}

// Alone reports whether nobody goes by an earlier view any more.
func (w *Watch) Alone(now time.Time) bool { return !w.since.IsZero() && now.Sub(w.since) >= w.wait }

// Holds reports whether nobody goes by a later view yet, if the meta replica shows none with so
// much applied.
func (w *Watch) Holds(applied uint64, now time.Time) bool {
	return slices.ContainsFunc(w.reports, func(x report) bool { return x.index <= applied && now.Before(x.until) })
}
