package workload

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"
)

// travel has users with a cart each, who read and update it from wherever they are. Some never
// leave their home region. The others go on trips (the itineraries of PolyBase, section 6.3): to
// one region and back, to another one and back, or to two of them in a row. Latencies are grouped
// by whether a user is at home, has just arrived, or has settled abroad.
type travel struct {
	opts TravelOptions
	seed uint64

	users   []traveller
	begin   time.Time
	counted bool  // the server counts WAN round trips
	changes int64 // of homes before the run; -1: the server has no homes
	moved   *int64
}

// traveller is a user, and the state of its cart as far as the run knows.
type traveller struct {
	stops  []int         // places in turn; the first is home
	leaves time.Duration // after the begin of the run
	base   int64         // items before the run
	acked  atomic.Int64  // acknowledged updates
	unsure atomic.Int64  // updates whose outcome is unknown
}

// Kinds are those of statements, by where the user is.
const (
	travelHome    = iota // at home, and not just back
	travelArrived        // for less than TravelOptions.Settle
	travelSettled        // abroad for longer
)

func (t *travel) kinds() []string {
	return []string{"home-read", "home-update", "arrived-read", "arrived-update", "settled-read", "settled-update"}
}

func (t *travel) tables() []string { return []string{"carts", "ledger"} }

// create makes the carts, and a ledger of acknowledged updates, so that a check needs the tables
// only.
func (t *travel) create(ctx context.Context, s *session) error {
	for _, q := range []string{
		"CREATE TABLE carts (user_id BIGINT NOT NULL, name VARCHAR(40) NOT NULL, city VARCHAR(64) NOT NULL, " +
			"items BIGINT NOT NULL, " +
			"PRIMARY KEY (user_id), KEY by_city (city))",
		"CREATE TABLE ledger (user_id BIGINT NOT NULL, least BIGINT NOT NULL, most BIGINT NOT NULL, PRIMARY KEY (user_id))",
	} {
		if err := s.exec(ctx, q); err != nil {
			return fmt.Errorf("creating the travellers' tables: %w", err)
		}
	}
	return nil
}

// homeOf is the home region of a user.
func (t *travel) homeOf(user, regions int) int { return user % regions }

func (t *travel) load(l *loader) {
	for region := range l.regions {
		n := (t.opts.Users - region + l.regions - 1) / l.regions
		l.add(region, 2*n, func(ctx context.Context, b *batch) error {
			for _, table := range []string{"carts (user_id, name, city, items)", "ledger (user_id, least, most)"} {
				if err := b.into(ctx, table); err != nil {
					return err
				}
				for u := region; u < t.opts.Users; u += l.regions {
					row := []any{u, "user " + strconv.Itoa(u), "home", 0}
					if table[0] == 'l' {
						row = []any{u, 0, 0}
					}
					if err := b.row(ctx, row...); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
}

func (t *travel) open(ctx context.Context, s *session, regions int) error {
	n, err := countRows(ctx, s, "carts", "travel")
	if err != nil {
		return err
	}
	t.users = make([]traveller, n)
	err = s.query(ctx, func(r *sql.Rows) error {
		var u int
		var items int64
		if err := r.Scan(&u, &items); err != nil {
			return err
		}
		if u < 0 || u >= n {
			return fmt.Errorf("user %d of %d is none that init loads", u, n)
		}
		t.users[u].base = items
		return nil
	}, "SELECT user_id, items FROM carts")
	if err != nil {
		return err
	}
	for u := range t.users {
		t.users[u].plan(newRand(t.seed, 0x72a7e1, uint64(u)), t.homeOf(u, regions), regions, t.opts)
	}
	// Only some servers count round trips and have homes of rows.
	var rtts float64
	t.counted = s.row(ctx, []any{&rtts}, "SELECT @@last_statement_wan_rtts") == nil
	if t.changes, err = homeChanges(ctx, s); err != nil {
		t.changes = -1
	}
	// The ledger of an earlier run does not fit this one. finish writes the new one.
	if err := s.exec(ctx, "DELETE FROM ledger"); err != nil {
		return err
	}
	t.begin = time.Now()
	return nil
}

// homeChanges is how often rows have moved.
func homeChanges(ctx context.Context, s *session) (int64, error) {
	var n whole
	err := s.row(ctx, []any{&n}, "SELECT SUM(home_changes) FROM carts__homes")
	return int64(n), err
}

// plan draws where a user goes.
func (u *traveller) plan(rng *rand.Rand, home, regions int, o TravelOptions) {
	u.stops = []int{home}
	u.leaves = time.Duration(rng.Float64() * float64(o.Stay))
	trip, travels := rng.IntN(3), chance(rng, o.Travellers)
	if regions < 2 || !travels {
		return
	}
	one, two := (home+1)%regions, (home+2)%regions
	if two == home {
		two = one
	}
	switch {
	case trip == 0:
		u.stops = append(u.stops, one)
	case trip == 1 || one == two:
		u.stops = append(u.stops, two)
	default:
		u.stops = append(u.stops, two, one)
	}
}

// at is the region of a user at a time, and since when it is there; negative if it has not
// travelled yet.
func (u *traveller) at(now, stay time.Duration) (region int, since time.Duration) {
	if now < u.leaves || len(u.stops) == 1 {
		return u.stops[0], -1
	}
	n := int((now - u.leaves) / stay)
	return u.stops[(n+1)%len(u.stops)], u.leaves + time.Duration(n)*stay
}

// group says with which group a user's latency counts.
func (u *traveller) group(now time.Duration, o TravelOptions) (region, group int) {
	region, since := u.at(now, o.Stay)
	switch {
	case since >= 0 && now-since < o.Settle:
		return region, travelArrived
	case region == u.stops[0]:
		return region, travelHome
	}
	return region, travelSettled
}

func (t *travel) client(region, i, _ int) client {
	return &travelClient{t: t, rng: newRand(t.seed, 0x7472, uint64(region), uint64(i)), region: region}
}

type travelClient struct {
	t      *travel
	rng    *rand.Rand
	region int
}

// crowd is the number of users among which a client looks for one in its region.
const crowd = 64

func (c *travelClient) next() txn {
	t := c.t
	now := time.Since(t.begin)
	var u *traveller
	var id, group int
	for range crowd {
		id = c.rng.IntN(len(t.users))
		at := 0
		if at, group = t.users[id].group(now, t.opts); at == c.region {
			u = &t.users[id]
			break
		}
	}
	if u == nil { // no user is here
		return txn{single: true, idle: true, thinking: 100 * time.Millisecond}
	}
	x := txn{kind: 2 * group, single: true, thinking: t.opts.Think}
	update := !chance(c.rng, t.opts.Reads)
	if update {
		x.kind++
	}
	x.run = func(ctx context.Context, s *session) error {
		if !update {
			var items int64
			var name, city string
			return s.row(ctx, []any{&name, &city, &items}, "SELECT name, city, items FROM carts WHERE user_id = ?", id)
		}
		err := s.exec(ctx, "UPDATE carts SET items = items + 1, city = ? WHERE user_id = ?", s.pool.region, id)
		switch {
		case err == nil:
			u.acked.Add(1)
		case !Retryable(err):
			u.unsure.Add(1)
		}
		return err
	}
	if t.counted {
		x.roundTrips = func(ctx context.Context, s *session) (n float64, err error) {
			return n, s.row(ctx, []any{&n}, "SELECT @@last_statement_wan_rtts")
		}
	}
	return x
}

// finish writes the acknowledged updates to the ledger, and counts the moves.
func (t *travel) finish(ctx context.Context, s *session, seed uint64) error {
	b := &batch{s: s, loaded: new(atomic.Int64), seed: seed}
	if err := b.into(ctx, "ledger (user_id, least, most)"); err != nil {
		return err
	}
	for id := range t.users {
		u := &t.users[id]
		least := u.base + u.acked.Load()
		if err := b.row(ctx, id, least, least+u.unsure.Load()); err != nil {
			return err
		}
	}
	if err := b.flush(ctx); err != nil {
		return err
	}
	if t.changes >= 0 {
		n, err := homeChanges(ctx, s)
		if err != nil {
			return err
		}
		n -= t.changes
		t.moved = &n
	}
	return nil
}

func (t *travel) check(ctx context.Context, s *session) ([]CheckResult, error) {
	var counters, index violations
	err := inTransaction(ctx, s, func() error {
		counters = violations{name: "counters", description: "every cart holds what was acknowledged: nothing lost, " +
			"nothing twice"}
		index = violations{name: "by-city", description: "every cart is found once by its index"}
		ledger, carts := 0, 0
		if err := s.row(ctx, []any{&ledger}, "SELECT COUNT(*) FROM ledger"); err != nil {
			return err
		}
		if ledger == 0 {
			return fmt.Errorf("there is nothing to check against: the last run did not end, " +
				"load the tables again with `godwit workload init travel --drop`")
		}
		err := s.query(ctx, func(r *sql.Rows) error {
			var id, items, least, most int64
			if err := r.Scan(&id, &items, &least, &most); err != nil {
				return err
			}
			carts++
			counters.expect(least <= items && items <= most, "user %d has %d items, acknowledged %d (at most %d)", id,
				items, least, most)
			return nil
		}, "SELECT c.user_id, c.items, l.least, l.most FROM carts c JOIN ledger l ON l.user_id = c.user_id")
		if err != nil {
			return err
		}
		counters.expect(carts == ledger, "%d carts for %d users", carts, ledger)
		found := map[int64]int{}
		err = s.query(ctx, func(r *sql.Rows) error {
			var id int64
			err := r.Scan(&id)
			found[id]++
			return err
		}, "SELECT user_id FROM carts WHERE city > ''")
		for id, n := range found {
			index.expect(n == 1, "user %d is found %d times", id, n)
		}
		index.expect(len(found) == carts, "%d of %d are found", len(found), carts)
		return err
	})
	return []CheckResult{counters.result(), index.result()}, err
}
