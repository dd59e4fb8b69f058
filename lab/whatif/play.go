package whatif

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/sql/digest"
	"github.com/godwitdb/godwit/sql/recording"
)

// virtual runs f in virtual time. Package synctest wants a testing.T, and an empty one will do.
func virtual(f func() error) (err error) {
	testing.Init()
	runtime.GC() // Pebble's pools must not carry channels from one bubble to the next
	runtime.GC()
	synctest.Test(new(testing.T), func(*testing.T) { err = f() })
	runtime.GC()
	runtime.GC()
	return err
}

// Play plays a recording, changed, plays times (at least once), and takes all of them together: of
// some hundred statements of a kind p99 is a matter of chance, as it is the wait of a few that meet
// others. In each play after the first one clients begin with other pauses, and at another of their
// transactions if those can be done more than once, so that others meet. It takes real time as its
// statements take processors, and ends soon after ctx does.
func Play(ctx context.Context, f *recording.File, c Change, plays int) (*Run, error) {
	p, err := planned(f, c)
	if err != nil {
		return nil, err
	}
	if len(f.Sessions) == 0 {
		return nil, invalid("nothing was recorded: is sql.statement_recording on, and did clients come lately?")
	}
	worlds, each := 1, max(1, plays)
	if !repeatable(f) {
		worlds, each = each, 1
	}
	all := &Run{Regions: p.m.Names, by: map[Key]*Sum{}}
	for i := range worlds {
		r, err := p.play(ctx, uint64(i), each)
		if err != nil {
			return nil, err
		}
		all.merge(r)
	}
	return all, nil
}

// play plays in a cluster of its own, so many times.
func (p *plan) play(ctx context.Context, seed uint64, times int) (r *Run, err error) {
	err = virtual(func() error {
		// A context that was made outside must not be waited for inside.
		within, stop := context.WithCancel(context.Background())
		defer stop()
		w := &world{p: p, seed: seed}
		err := w.start()
		if err == nil {
			err = w.fill(within)
		}
		if err == nil {
			r, err = w.play(within, ctx.Err, times)
		}
		stop()
		return errors.Join(err, w.close())
	})
	return r, err
}

// play plays all sessions once more than is said, and measures but for the first time.
func (w *world) play(ctx context.Context, ended func() error, times int) (*Run, error) {
	if err := w.pass(ctx, ended, nil, w.order(0)); err != nil {
		return nil, err
	}
	time.Sleep(settle)
	r := &Run{Regions: w.p.m.Names, Left: w.left, by: map[Key]*Sum{}}
	for _, dbs := range w.regions {
		for _, db := range dbs {
			if _, err := db.ExecContext(ctx, "TRUNCATE TABLE performance_schema.events_statements_summary_by_digest"); err != nil {
				return nil, err
			}
		}
	}
	before, began := w.wan.Load(), time.Now()
	for i := range times {
		if err := w.pass(ctx, ended, r, w.order(i)); err != nil {
			return nil, err
		}
	}
	r.Took, r.WAN = time.Since(began), w.wan.Load()-before
	return r, w.costs(ctx, r)
}

// pass plays all sessions once. Without r it leaves out what could not be done twice.
func (w *world) pass(ctx context.Context, ended func() error, r *Run, o order) error {
	var wg sync.WaitGroup
	errs := make([]error, len(w.p.f.Sessions))
	began := time.Now()
	for i := range w.p.f.Sessions {
		s := &player{w: w, s: o.of(w.p.f, i), i: i, r: r, ended: ended}
		wg.Go(func() {
			errs[i] = s.run(ctx, began)
		})
	}
	wg.Wait()
	return errors.Join(append(errs, ended())...)
}

// player is one client.
type player struct {
	w     *world
	s     *recording.Session
	i     int
	r     *Run
	ended func() error
	c     *sql.Conn
	db    string // the current one
	in    bool   // in a transaction
}

var (
	reOnce  = regexp.MustCompile(`(?i)^\s*(?:INSERT|DELETE)\b`)
	reAgain = regexp.MustCompile(`(?i)\bON\s+DUPLICATE\s+KEY\b`)
	reReads = regexp.MustCompile(`(?i)^[\s(]*(?:SELECT|WITH|TABLE|VALUES)\b`)
)

func (p *player) run(ctx context.Context, began time.Time) (err error) {
	if len(p.s.Steps) == 0 {
		return nil
	}
	dbs := p.w.regions[p.w.p.gateway[p.i]]
	if p.c, err = dbs[p.i%len(dbs)].Conn(ctx); err != nil {
		return err
	}
	defer drop(p.c)
	for _, q := range p.w.p.c.Session {
		if err := run(ctx, p.c, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	time.Sleep(time.Duration(p.s.Steps[0].Began)*time.Microsecond - time.Since(began))
	for i := 0; i < len(p.s.Steps); {
		end := p.end(i)
		if p.ended() != nil {
			return nil
		}
		if err := p.transaction(ctx, i, end); err != nil {
			return err
		}
		i = end
	}
	if p.in {
		return run(ctx, p.c, "ROLLBACK")
	}
	return nil
}

// end is where the transaction that begins with a step ends.
func (p *player) end(i int) int {
	for i++; i < len(p.s.Steps) && p.s.Steps[i-1].Goes; i++ {
		if !p.s.Steps[i].Was {
			break // it was not recorded to its end
		}
	}
	return i
}

// tries is how often a transaction is tried that loses a conflict.
const tries = 20

// transaction executes some steps, as often as they lose a conflict. Those that did in the cluster
// are left out: what the client did then follows.
func (p *player) transaction(ctx context.Context, from, to int) error {
	steps := p.s.Steps[from:to]
	lost := slices.ContainsFunc(steps, func(s recording.Step) bool { return s.Lost })
	for range tries {
		again := false
		for i := range steps {
			s := &steps[i]
			if at := from + i; at > 0 {
				last := &p.s.Steps[at-1]
				time.Sleep(time.Duration(s.Began-last.Began-last.Took) * time.Microsecond)
			}
			text := &p.w.p.f.Texts[s.Text]
			if lost || p.r == nil && once(p.w.p.f, text) {
				continue
			}
			var err error
			if again, err = p.step(ctx, s, text); err != nil {
				return err
			}
			if again {
				break
			}
		}
		if !again {
			return nil
		}
		if p.in {
			p.in = false
			if err := run(ctx, p.c, "ROLLBACK"); err != nil {
				return err
			}
		}
	}
	return nil
}

// drop closes a connection. The next one would get its database and its settings from a pool.
func drop(c *sql.Conn) {
	_ = c.Raw(func(any) error { return driver.ErrBadConn }) // what database/sql drops connections for
	_ = c.Close()
}

// step executes a statement; again says that it has lost a conflict. An error is one of the play,
// not of the statement.
func (p *player) step(ctx context.Context, s *recording.Step, text *recording.Text) (again bool, err error) {
	if text.Schema != "" && text.Schema != p.db {
		if run(ctx, p.c, "USE "+name(text.Schema)) == nil {
			p.db = text.Schema
		}
	}
	if s.Was && !p.in && !s.Trait { // it began before the recording, or with autocommit off
		if err := run(ctx, p.c, "BEGIN"); err != nil {
			return false, err
		}
	}
	trip := p.w.p.trip[p.i]
	begin := time.Now()
	time.Sleep(trip / 2)
	err = p.execute(ctx, recording.Fill(text.Text, s.Args))
	time.Sleep(trip - trip/2)
	p.in = s.Goes
	var sqlErr *mysql.MySQLError
	if err != nil && !errors.As(err, &sqlErr) {
		return false, err
	}
	again = sqlErr != nil && (sqlErr.Number == 1213 || sqlErr.Number == 1205)
	if p.r != nil && !s.Trait {
		p.r.add(Key{p.w.p.at[p.i], text.Schema, digest.Text(text.Text, 0)}, time.Since(begin), err, s.Failed || again)
	}
	return again, nil
}

func (p *player) execute(ctx context.Context, q string) error {
	if !reReads.MatchString(q) {
		_, err := p.c.ExecContext(ctx, q)
		return err
	}
	rows, err := p.c.QueryContext(ctx, q)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
	}
	return rows.Err()
}

// costs adds what the gateways have counted. Of clients that another region serves the means of
// that region are taken.
func (w *world) costs(ctx context.Context, r *Run) error {
	rows, err := w.regions[0][0].QueryContext(ctx, "SELECT region, COALESCE(schema_name, ''), digest_text, SUM(statements), "+
		"SUM(wan_round_trips), SUM(wan_bytes) FROM godwit.statements WHERE digest_text IS NOT NULL GROUP BY 1, 2, 3")
	if err != nil {
		return err
	}
	defer rows.Close()
	type cost struct{ n, trips, bytes float64 }
	all := map[Key]cost{}
	for rows.Next() {
		var k Key
		var c cost
		if err := rows.Scan(&k.Region, &k.Schema, &k.Digest, &c.n, &c.trips, &c.bytes); err != nil {
			return err
		}
		all[k] = c
	}
	for k, s := range r.by {
		at, _, err := w.p.serving(k.Region)
		if err != nil {
			return err
		}
		c, ok := all[Key{w.p.regions[at].Name, k.Schema, k.Digest}]
		if ok && c.n > 0 {
			s.Trips, s.Bytes = c.trips/c.n, c.bytes/c.n
		}
	}
	return rows.Err()
}

// text of a digest, short.
func short(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > n {
		return strings.ToValidUTF8(s[:n-3], "") + "..."
	}
	return s
}
