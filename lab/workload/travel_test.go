package workload

import (
	"database/sql/driver"
	"testing"
	"time"
)

// TestItineraries: users start and end at home, stay as long as they should, and take each of the
// three trips.
func TestItineraries(t *testing.T) {
	o := DefaultOptions().Travel
	o.Stay, o.Settle = 10*time.Second, 2*time.Second
	const regions, users = 3, 600
	trips, stay := map[[3]int]int{}, 0
	for id := range users {
		var u traveller
		home := (&travel{}).homeOf(id, regions)
		u.plan(newRand(7, uint64(id)), home, regions, o)
		if r, g := u.group(0, o); r != home || g != travelHome {
			t.Fatalf("user %d begins in region %d, group %d", id, r, g)
		}
		if len(u.stops) == 1 {
			stay++
			if r, g := u.group(time.Hour, o); r != home || g != travelHome {
				t.Fatalf("user %d, who stays, is in region %d, group %d", id, r, g)
			}
			continue
		}
		if u.leaves < 0 || u.leaves > o.Stay {
			t.Fatalf("user %d leaves after %v", id, u.leaves)
		}
		trip := [3]int{-1, -1, -1}
		for i := range u.stops {
			at := u.leaves + time.Duration(i)*o.Stay
			r, g := u.group(at+time.Second, o)
			if g != travelArrived || (r == home) != (i == len(u.stops)-1) {
				t.Errorf("user %d of region %d, stop %d: region %d, group %d", id, home, i, r, g)
			}
			want := travelSettled
			if r == home {
				want = travelHome
			}
			if again, g := u.group(at+9*time.Second, o); again != r || g != want {
				t.Errorf("user %d, stop %d: region %d, then %d, group %d", id, i, r, again, g)
			}
			trip[i] = (r - home + regions) % regions
		}
		trips[trip]++
	}
	for _, trip := range [][3]int{{1, 0, -1}, {2, 0, -1}, {2, 1, 0}} {
		if n := trips[trip]; n < users/12 {
			t.Errorf("trip %v is taken by %d of %d users", trip, n, users)
		}
	}
	if len(trips) != 3 || stay < users/3 || stay > 2*users/3 {
		t.Errorf("trips %v, %d stay", trips, stay)
	}
	// One region leaves nowhere to go, two leave one place.
	for regions, places := range map[int]int{1: 1, 2: 2} {
		for id := range 50 {
			var u traveller
			u.plan(newRand(7, uint64(id)), id%regions, regions, TravelOptions{Travellers: 1, Stay: time.Second})
			if len(u.stops) != places {
				t.Errorf("%d regions: stops %v", regions, u.stops)
			}
		}
	}
}

// TestTravelCheck: the check finds a lost update, an update that counts twice, and a cart that is
// missing from the index.
func TestTravelCheck(t *testing.T) {
	for _, c := range []struct {
		name            string
		items           int64
		found           []int64
		counters, index bool
	}{
		{"right", 5, []int64{0, 1}, true, true}, {"one of unknown outcome", 6, []int64{0, 1}, true, true},
		{"lost", 4, []int64{0, 1}, false, true},
		{"twice", 7, []int64{0, 1}, false, true}, {"not in the index", 5, []int64{0}, true, false},
		{"in the index twice", 5, []int64{0, 1, 1}, true, false},
	} {
		f := &fakeServer{answer: func(q string, _ []driver.NamedValue) (*fakeRows, error) {
			switch q {
			case "SELECT COUNT(*) FROM ledger":
				return rowsOf([]driver.Value{int64(2)}), nil
			case "SELECT user_id FROM carts WHERE city > ''":
				var rows [][]driver.Value
				for _, id := range c.found {
					rows = append(rows, []driver.Value{id})
				}
				return rowsOf(rows...), nil
			case "SELECT c.user_id, c.items, l.least, l.most FROM carts c JOIN ledger l ON l.user_id = c.user_id":
				return rowsOf([]driver.Value{int64(0), int64(9), int64(9), int64(9)},
					[]driver.Value{int64(1), c.items, int64(5), int64(6)}), nil
			}
			return nil, nil
		}}
		p := f.pool("a")
		s := p.session(0)
		res, err := (&travel{}).check(t.Context(), s)
		if err != nil || len(res) != 2 || res[0].OK != c.counters || res[1].OK != c.index {
			t.Errorf("%s: %+v, %v", c.name, res, err)
		}
		s.reset()
		closePools([]*pool{p})
	}
	// A run that was killed leaves no ledger: that is not a success.
	f := &fakeServer{answer: func(string, []driver.NamedValue) (*fakeRows, error) {
		return rowsOf([]driver.Value{int64(0)}), nil
	}}
	p := f.pool("a")
	defer closePools([]*pool{p})
	s := p.session(0)
	defer s.reset()
	if res, err := (&travel{}).check(t.Context(), s); err == nil {
		t.Errorf("without a ledger: %+v", res)
	}
}
