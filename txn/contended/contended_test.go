package contended

import (
	"fmt"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// A row is contended for 10 s after a loss, and twice as long whenever it is lost on again soon.
// What is used in peace for that long is forgotten.
func TestContended(t *testing.T) {
	var s Rows
	now := time.Unix(1000, 0)
	hot, cold := base.Key("hot"), base.Key("cold")
	expect := func(key base.Key, want bool) {
		t.Helper()
		if got := s.Has(key, now); got != want {
			t.Errorf("%s is contended: %v", key, got)
		}
	}
	expect(hot, false)
	for span := First; span <= 16*First; span *= 2 {
		s.Lost(hot, now)
		s.Lost(hot, now.Add(time.Second)) // of a transaction that had begun before
		expect(hot, true)
		expect(cold, false)
		now = now.Add(span - time.Millisecond)
		expect(hot, true)
		now = now.Add(2 * time.Millisecond)
		expect(hot, false)
	}
	for range 3 {
		s.Lost(hot, now)
		now = now.Add(Longest - time.Millisecond)
		expect(hot, true)
		now = now.Add(2 * time.Millisecond)
		expect(hot, false)
	}
	now = now.Add(Longest)
	s.Lost(hot, now)
	now = now.Add(First)
	expect(hot, false)
}

// A contended row that those who lock it find newly changed stays contended without another loss,
// for as long as Longest after the last one.
func TestLocked(t *testing.T) {
	var s Rows
	lost := time.Unix(1000, 0)
	hot, cold := base.Key("hot"), base.Key("cold")
	locked := func(key base.Key, now time.Time, age time.Duration) {
		s.Locked([]*wire.KV{{Key: key, Ts: uint64(now.Add(-age).UnixNano())}}, now)
	}
	locked(hot, lost, 0)
	if s.Has(hot, lost) {
		t.Error("nothing was lost on it")
	}
	s.Lost(hot, lost)
	now := lost
	for now.Sub(lost) < Longest-First {
		now = now.Add(First / 2)
		locked(hot, now, Again/2)
		locked(cold, now, Again/2)
		if !s.Has(hot, now) || s.Has(cold, now) {
			t.Fatalf("after %v: %v, %v", now.Sub(lost), s.Has(hot, now), s.Has(cold, now))
		}
	}
	for ; now.Sub(lost) <= Longest; now = now.Add(First / 2) {
		locked(hot, now, Again/2)
	}
	if s.Has(hot, now) {
		t.Error("it is never tried without locks")
	}
	s.Lost(hot, now)
	span := 2 * First
	locked(hot, now.Add(span-time.Second), Again)
	if s.Has(hot, now.Add(span)) {
		t.Error("a row that is not changed any more stays contended")
	}
}

// The memory is bounded, and makes room for new rows once old ones are forgotten.
func TestBound(t *testing.T) {
	var s Rows
	now := time.Unix(1000, 0)
	key := func(i int) base.Key { return base.Key(fmt.Sprint("row", i)) }
	for i := range most + 10 {
		s.Lost(key(i), now)
	}
	if len(s.by) != most || !s.Has(key(most-1), now) || s.Has(key(most), now) {
		t.Errorf("%d rows are remembered", len(s.by))
	}
	now = now.Add(3 * First)
	s.Lost(key(most), now)
	if !s.Has(key(most), now) || len(s.by) != 1 {
		t.Errorf("%d rows are remembered in the end", len(s.by))
	}
}
