package owner

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/owner/lead"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/wire"
)

// TestHold is OWN-17 at the leader: what it promises lies below its lease and below what is under
// way, and what changes the catalog later lies above. It promises nothing after
// a change, and then little by little more.
func TestHold(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, q := leader(t)
		r.cfg.Hold = func() time.Duration { return time.Second }
		row, definition := metaRow, append(base.IndexPrefix(base.MetaShard, base.CatalogTable, 1, 0), 'k')
		write := func(k base.Key) *evaluation {
			return &evaluation{r: r, q: &wire.CommitRequest{Writes: []*wire.Write{{Key: k}}}}
		}
		if held := r.Lead().Held; held != 0 {
			t.Errorf("right after its start it promises %s", base.Timestamp(held))
		}
		time.Sleep(r.cfg.HoldRest)
		for _, c := range []struct{ quiet, ahead time.Duration }{{time.Second / 2, time.Second / 4}, {5 * time.Second, time.Second}} {
			time.Sleep(c.quiet)
			r.renew()
			q.apply()
			if held := base.Timestamp(r.Lead().Held); held.Sub(r.clock.Latest()) != c.ahead {
				t.Errorf("%s after a rest it promises %v, want %v", c.quiet, held.Sub(r.clock.Latest()), c.ahead)
			}
		}
		now := r.clock.Latest()
		x := &txns.Txn{Intent: txns.Intent{TS: now.Add(time.Second / 2), Keys: []base.Key{row}}}
		r.Pending[x] = struct{}{}
		if held := base.Timestamp(r.Lead().Held); held < x.TS {
			t.Error("a row that is under way bounds what is promised of the catalog")
		}
		x.Keys = []base.Key{definition}
		if held := base.Timestamp(r.Lead().Held); held >= x.TS {
			t.Errorf("a change is under way at %s, and it promises %s", x.TS, held)
		}
		delete(r.Pending, x)
		r.cfg.Hold = func() time.Duration { return time.Minute }
		if held := base.Timestamp(r.Lead().Held); held >= r.lead.LeaseEnd || held != r.lead.Held {
			t.Errorf("its lease ends at %s, and it promises %s", r.lead.LeaseEnd, held)
		}
		if above := write(row).aboveHold(); above != 0 {
			t.Errorf("a write of a row is to lie above %s", above)
		}
		if above := write(definition).aboveHold(); above != r.lead.Held {
			t.Errorf("a change is to lie above %s, promised is %s", above, r.lead.Held)
		}
		if held := r.Lead().Held; held != 0 {
			t.Errorf("right after a change it promises %s", base.Timestamp(held))
		}
	})
}

// TestHoldHeard is OWN-17 at another node: a hold counts once the entry that it names is applied,
// for the catalog alone, and one that no clock explains does not count at all.
func TestHoldHeard(t *testing.T) {
	r, _ := leader(t)
	r.lead = lead.Leadership{}
	now := r.clock.Latest()
	hear := func(index uint64, d time.Duration) { r.OnLead(&wire.GroupLead{Index: index, Held: uint64(now.Add(d))}) }
	expect := func(what string, d time.Duration) {
		t.Helper()
		want := base.Timestamp(0)
		if d > 0 {
			want = now.Add(d)
		}
		if got := r.closedOver(true); got != want || r.Closed() != 0 {
			t.Errorf("%s: the catalog is known up to %s, want %s; all else up to %s", what, got, want, r.Closed())
		}
	}
	hear(0, time.Hour)
	expect("an hour ahead", 0)
	hear(0, time.Second)
	expect("of an entry that is applied", time.Second)
	hear(3, 2*time.Second)
	hear(2, time.Hour)
	expect("of an entry that is not", time.Second)
	r.Applied(3)
	expect("it is applied", 2*time.Second)
	hear(3, time.Second)
	expect("an older one", 2*time.Second)
	if err := r.ensureClosed(kv.WithPatience(t.Context(), kv.NewPatience()), now.Add(time.Second), true); err != nil {
		t.Error(err)
	}
}
