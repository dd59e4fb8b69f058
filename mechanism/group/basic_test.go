package group

import (
	"context"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
)

func wan30() wan.NetOptions {
	return wan.NetOptions{WAN: wan.LinkSpec{Delay: 30 * time.Millisecond, Jitter: 5 * time.Millisecond}}
}

func TestElectAndCommit(t *testing.T) {
	for _, n := range []int{1, 3, 5} {
		virtual(t, uint64(n), func(t *testing.T) {
			c := newCluster(t, 1, n, wan30(), HostOptions{})
			defer c.close()
			c.groups[testGroup] = c.all()
			c.startAll()
			l := c.leader(testGroup)
			term, _ := l.Leads()
			var prev uint64
			for i := uint64(1); i <= 100; i++ {
				start := time.Now()
				res, index, err := l.Propose(context.Background(), put(i), term)
				must(t, err)
				if res != prev || l.Applied() < index {
					t.Fatalf("proposal %d: result %v, want %v; applied %d, index %d", i, res, prev, l.Applied(), index)
				}
				prev = i
				if d := time.Since(start); n > 1 && (d < 60*time.Millisecond || d > 75*time.Millisecond) {
					t.Fatalf("a commit took %v, one round trip is 60 to 70 ms", d)
				}
			}
			c.converge(testGroup)
			if hops := l.Hops(); hops != 0 && n == 1 || hops != 2 && n > 1 {
				t.Fatalf("%d hops with %d voters", hops, n)
			}
		})
	}
}

func TestProposeErrors(t *testing.T) {
	virtual(t, 1, func(t *testing.T) {
		c := newCluster(t, 1, 3, wan30(), HostOptions{MaxPending: 10})
		defer c.close()
		c.groups[testGroup] = c.all()
		c.startAll()
		l := c.leader(testGroup)
		term, _ := l.Leads()
		lead, _ := l.Leader()
		follower := c.group(lead%3+1, testGroup)
		ctx := context.Background()
		_, _, err := follower.Propose(ctx, put(1), 0)
		if base.CodeOf(err) != base.CodeNotLeader || err.(*base.Error).Node != lead {
			t.Fatalf("follower: %v", err)
		}
		if _, _, err = l.Propose(ctx, put(1), term-1); base.CodeOf(err) != base.CodeAborted {
			t.Fatalf("old term: %v", err)
		}
		big := put(1)
		big.Refuse = make([]byte, 40<<20)
		if _, _, err = l.Propose(ctx, big, term); base.CodeOf(err) != base.CodeInvalid {
			t.Fatalf("big command: %v", err)
		}
		// One more than may be pending.
		codes := make(chan base.Code, 12)
		for range 12 {
			l.ProposeAsync(put(2), term, func(_ any, _ uint64, err error) {
				if err == nil {
					codes <- 255
				} else {
					codes <- base.CodeOf(err)
				}
			})
		}
		got := map[base.Code]int{}
		for range 12 {
			got[<-codes]++
		}
		if got[255] != 10 || got[base.CodeOverloaded] != 2 {
			t.Fatalf("12 proposals, 10 allowed: %v", got)
		}
		// A deadline after the command was handed in.
		short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		if _, _, err = l.Propose(short, put(3), term); base.CodeOf(err) != base.CodeAmbiguous {
			t.Fatalf("deadline: %v", err)
		}
		must(t, l.WaitApplied(ctx, l.Applied()))
		if err := l.WaitApplied(short, l.Applied()+100); base.CodeOf(err) != base.CodeCanceled {
			t.Fatalf("wait: %v", err)
		}
		c.converge(testGroup)
		c.until("everything is answered", func() bool { return l.Status().Pending == 0 })
	})
}
