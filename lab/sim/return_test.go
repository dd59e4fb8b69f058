package sim

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
)

// TestReturnCutShort: groups are to vote in their own region again, and the region in which they
// vote is lost at some moment of that change. It can be promoted over at every moment. Commits with
// rows of other groups, and commits seen in other regions, are kept.
func TestReturnCutShort(t *testing.T) {
	for i, after := range []time.Duration{0, 100, 250, 500, 600, 700, 800, 1200} {
		after *= time.Millisecond
		if i%some(3, 1) != 0 {
			continue
		}
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			cfg := stageConfig(3)
			cfg.Shards = 2
			onWorld(t, cfg, func(s *stage) {
				time.Sleep(20 * time.Second) // leaders go home
				(&promotionLab{t: t, w: s.world, acked: map[string][]written{}}).cutShort(after)
			})
		})
	}
}

func (l *promotionLab) cutShort(after time.Duration) {
	t := l.t
	if err := l.in(1)[0].up().node.Cluster().EnableAsync(context.Background()); err != nil {
		t.Error(err)
		return
	}
	time.Sleep(10 * time.Second)
	write := func(r base.RegionID) {
		for n := range 6 {
			l.must(r, asyncKey(n), asyncKey(n+1)) // of region 1
		}
		l.must(r, asyncKey(0), syncKey(0))
	}
	write(1)
	time.Sleep(time.Second)
	promote := func(lost, seat string) base.Timestamp {
		time.Sleep(5 * time.Second)
		ps, said := l.promote(l.in(3)[0], cluster.PromoteRequest{Lost: lost, Seat: seat})
		cut := base.MaxTimestamp
		for _, p := range ps {
			if p.Region == 1 {
				cut = p.Cut
			}
		}
		if said != "" || len(ps) == 0 {
			t.Errorf("promotion over %s: %v (%s)", lost, ps, said)
		}
		return cut
	}
	l.crash(1)
	promote("r1", "r2")
	write(2)
	l.boot(1)
	time.Sleep(20 * time.Second)
	write(1)
	time.Sleep(time.Second)
	if _, said := l.promote(l.in(3)[0], cluster.PromoteRequest{Lost: "r1", Back: true}); said != "" {
		t.Error(said)
	}
	stop := time.After(after)
	for going := true; going; {
		// Some of these commits are lost. Those of both kinds of rows must not be.
		select {
		case <-stop:
			going = false
		default:
			_, _ = l.write(1, 2*time.Second, asyncKey(2), asyncKey(3))
			_, _ = l.write(3, 2*time.Second, asyncKey(4), syncKey(4))
		}
	}
	l.crash(2)
	l.forgetBut(promote("r2", ""), asyncKey(4), syncKey(4))
	write(1)
	write(3)
	time.Sleep(2 * time.Second)
	l.verify(1, 3)
	l.boot(2)
	time.Sleep(30 * time.Second)
	l.verify(1, 2, 3)
	write(2)
	time.Sleep(10 * time.Second)
	top := l.in(3)[0].up().node.Cluster().Topology()
	if top.Moving(1) || top.Moving(2) || top.Seat(1) != 1 {
		t.Errorf("the groups have not arrived: %+v", top.Promotions)
	}
	if d := l.w.divergence(); d != "" {
		t.Error(d)
	}
}

// forgetBut drops the commits above the cut, except those of the given keys.
func (l *promotionLab) forgetBut(cut base.Timestamp, keys ...base.Key) {
	kept := map[string][]written{}
	for _, k := range keys {
		kept[string(k)] = l.acked[string(k)]
	}
	l.forget(cut)
	for k, ws := range kept {
		l.acked[k] = ws
	}
}
