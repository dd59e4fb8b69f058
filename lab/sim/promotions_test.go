package sim

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
)

// TestPromotions tries promotions that are refused, and checks the reason; two at the same time;
// one by force, without a survivor that comes back later; one after another; and one without a
// majority of the meta group.
func TestPromotions(t *testing.T) {
	cfg := Config{Seed: 5, Regions: 3, NodesPerRegion: 2, Shards: 2, LAN: 250 * time.Microsecond,
		ClockBound: 100 * time.Microsecond, GCAge: time.Hour,
		Delay: even(3, 50*time.Millisecond)}
	onWorld(t, cfg, func(s *stage) {
		time.Sleep(20 * time.Second)
		l := &promotionLab{t: t, w: s.world, acked: map[string][]written{}}
		l.runPromotions()
		if t.Failed() {
			t.Log(s.log.tail(60))
		}
	})
}

// promote asks a node to promote, and returns the promotions or the error's text.
func (l *promotionLab) promote(h *host, q cluster.PromoteRequest) ([]base.Promotion, string) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second) // as the command line
	defer cancel()
	ps, err := h.up().node.Cluster().Promote(ctx, q)
	if err != nil {
		return nil, err.Error()
	}
	return ps, ""
}

func (l *promotionLab) refused(h *host, q cluster.PromoteRequest, why string) {
	l.t.Helper()
	began := time.Now()
	if _, said := l.promote(h, q); !strings.Contains(said, why) {
		l.t.Errorf("%+v at node %d: %q, want %q", q, h.id, said, why)
	}
	if took := time.Since(began); took > 5*time.Second {
		l.t.Errorf("%+v at node %d was refused after %v", q, h.id, took)
	}
}

// crash ends all processes of a region.
func (l *promotionLab) crash(r base.RegionID) {
	for _, h := range l.in(r) {
		h.crash()
	}
}

func (l *promotionLab) boot(r base.RegionID) {
	for _, h := range l.in(r) {
		h.boot()
	}
}

func (l *promotionLab) runPromotions() {
	t := l.t
	if err := l.in(1)[0].up().node.Cluster().EnableAsync(context.Background()); err != nil {
		t.Error(err)
		return
	}
	time.Sleep(10 * time.Second)
	write := func(regions ...base.RegionID) {
		t.Helper()
		for n := range 10 {
			for _, r := range regions {
				l.must(r, asyncKey(n), asyncKey(n+1))
				l.must(r, asyncKey(n), syncKey(n))
			}
		}
		time.Sleep(5 * time.Second)
	}
	write(1)
	two := l.in(2)[0]
	lost := cluster.PromoteRequest{Lost: "r1"}
	l.refused(two, cluster.PromoteRequest{Lost: "nowhere"}, `there is no region "nowhere"`)
	l.refused(two, cluster.PromoteRequest{Lost: "r1", Seat: "r1"}, `region "r1" cannot take over from r1`)
	l.refused(two, cluster.PromoteRequest{Lost: "r1", Seat: "nowhere"}, `region "nowhere" cannot take over`)
	l.refused(two, lost, "is not lost: node")
	l.refused(two, cluster.PromoteRequest{Lost: "r1", Force: true}, "is not lost: node")
	l.refused(l.in(1)[0], lost, "ask a node of another one")
	l.refused(two, cluster.PromoteRequest{Lost: "r1", Back: true}, "vote there")

	// The only survivor with the newest rows is silent.
	silent := l.in(3)[1]
	for _, h := range l.in(1) {
		for _, o := range l.w.hosts {
			if o.region != 1 && o != silent {
				l.w.net.CutNodes(h.id, o.id)
			}
		}
	}
	only := map[string]bool{}
	lose := func(keys ...base.Key) {
		l.must(1, keys...)
		for _, k := range keys {
			only[k.String()] = true
			delete(l.acked, string(k))
		}
	}
	for n := range 5 {
		lose(asyncKey(201 + 2*n)) // in the shard that it holds
	}
	time.Sleep(time.Second)
	lose(asyncKey(301), asyncKey(302)) // its client is told as soon as both shards have voted
	l.crash(1)
	silent.crash()
	l.w.net.HealAll()
	time.Sleep(5 * time.Second)
	l.refused(two, lost, "do not answer and may hold the newest copies: start them, or promote with force")
	// Two at the same time.
	var wg sync.WaitGroup
	var made [2][]base.Promotion
	for i, h := range l.in(2) {
		wg.Go(func() { made[i], _ = l.promote(h, cluster.PromoteRequest{Lost: "r1", Force: true}) })
	}
	wg.Wait()
	if (made[0] == nil) == (made[1] == nil) {
		t.Errorf("of two promotions at the same time, %v and %v were made", made[0], made[1])
	}
	l.refused(two, lost, "has taken over from r1 already")
	l.refused(two, cluster.PromoteRequest{Lost: "r1", Back: true}, "is not alive: start it first")
	for n := range 10 { // the synchronous shard that the silent node holds has no majority now
		l.must(2, asyncKey(n), asyncKey(n+1))
	}
	silent.boot()
	l.boot(1)
	time.Sleep(60 * time.Second)
	l.verify(1, 2, 3)
	write(1, 2, 3)
	l.reportsJust(only)

	// Promote again, over a region without voters, as it was promoted over; then over the one with
	// the voters.
	l.crash(1)
	time.Sleep(5 * time.Second)
	seat := two.up().node.Cluster().Topology().Seat(1)
	l.refused(two, lost, "has taken over from r1 already")
	write(2, 3)
	l.boot(1)
	time.Sleep(30 * time.Second)
	l.verify(1, 2, 3)
	other := base.RegionID(5 - seat)
	l.crash(seat)
	time.Sleep(5 * time.Second)
	l.refused(l.in(other)[0], cluster.PromoteRequest{Lost: seatName(seat), Seat: seatName(seat)}, "cannot take over")
	if ps, said := l.promote(l.in(1)[0], cluster.PromoteRequest{Lost: seatName(seat), Seat: "r1"}); len(ps) != 2 {
		t.Errorf("the loss of the seat: %d promotions (%s)", len(ps), said)
	}
	write(1, other)
	l.verify(1, other)
	l.boot(seat)
	time.Sleep(60 * time.Second)
	l.verify(1, 2, 3)
	for _, r := range []string{seatName(seat)} {
		if _, said := l.promote(two, cluster.PromoteRequest{Lost: r, Back: true}); said != "" {
			t.Error(said)
		}
	}
	time.Sleep(30 * time.Second)
	write(1, 2, 3)
	l.verify(1, 2, 3)

	// Two of three regions are lost: no majority can decide that they are, not even by force.
	l.crash(1)
	l.crash(2)
	time.Sleep(5 * time.Second)
	for _, force := range []bool{false, true} {
		l.refused(l.in(3)[0], cluster.PromoteRequest{Lost: "r1", Force: force},
			"without a majority of them no region can be promoted")
	}
	l.boot(2)
	time.Sleep(20 * time.Second)
	l.refused(l.in(3)[0], cluster.PromoteRequest{Lost: "r1", Seat: "nowhere"}, "cannot take over")
	if ps, said := l.promote(l.in(3)[0], lost); len(ps) != 1 {
		t.Errorf("after the second region was back: %d promotions (%s)", len(ps), said)
	}
	l.boot(1)
	time.Sleep(60 * time.Second)
	l.verify(1, 2, 3)
	if d := l.w.divergence(); d != "" {
		t.Error(d)
	}
}

func seatName(r base.RegionID) string { return "r" + string('0'+rune(r)) }

// reportsJust checks that these rows are reported as lost, and no others.
func (l *promotionLab) reportsJust(want map[string]bool) {
	l.t.Helper()
	got := map[string]bool{}
	for _, x := range l.in(2)[0].up().node.Losses(context.Background()) {
		for _, y := range x.List {
			for _, k := range y.Keys {
				got[k.String()] = true
			}
		}
	}
	if !maps.Equal(got, want) {
		l.t.Errorf("%v are reported as lost, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}
