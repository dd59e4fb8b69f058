package sim

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// majorityReturns cuts all regions off from each other for long, and then has all but the first
// reach each other again. It tells how long they cannot write rows of each group.
func (s *stage) majorityReturns(after time.Duration) (pause time.Duration) {
	// no lease is left, and all voters have stood in vain
	return s.returns(10*time.Second+after, 1)
}

// returns cuts all regions off from each other for a while, and then has all but the first few
// reach each other again. It tells how long they cannot write rows of each group.
func (s *stage) returns(after time.Duration, without int) (pause time.Duration) {
	var keys []base.Key
	for _, h := range s.hosts {
		keys = append(keys, s.key(h.region, 1))
		s.put(int(h.id), s.key(h.region, 1), "x")
	}
	time.Sleep(5 * time.Second)
	for _, h := range s.hosts {
		s.net.Isolate(h.id)
	}
	time.Sleep(after)
	began := time.Now()
	for _, h := range s.hosts[without:] {
		s.net.Rejoin(h.id)
	}
	for _, k := range keys {
		for {
			_, err := s.within(20*time.Second, s.hosts[1], kv.Options{}, func(x kv.Txn) error {
				x.Put(k, []byte("y"), 0)
				return nil
			})
			if err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return time.Since(began)
}

// TestReturnsBite: when enough voters come back, they stand at once (GRP-12). Who waits for its
// timer keeps rows waiting.
func TestReturnsBite(t *testing.T) {
	const most = 1700 * time.Millisecond // patient voters take 2 s and more, with few exceptions
	for _, patient := range []bool{false, true} {
		longest, sum := time.Duration(0), time.Duration(0)
		n := some(4, 20)
		for seed := range uint64(n) {
			tune := func(cfg *Config) { cfg.Seed, cfg.Stay, cfg.Break.PatientReturns = seed+1, true, patient }
			onStageTuned(t, 3, 1, tune, func(s *stage) {
				d := s.majorityReturns(time.Duration(seed) * 170 * time.Millisecond)
				longest, sum = max(longest, d), sum+d
			})
		}
		t.Logf("patient %v: rows pause for %v, on average %v", patient, longest, sum/time.Duration(n))
		if longest > most != patient {
			t.Errorf("patient %v: rows pause for %v; at most %v is right", patient, longest, most)
		}
	}
}

// TestShortLossBites: all regions are cut off from each other for as long as it takes to notice
// that, and about as long as leaders lead on without a majority. Then they reach each other again,
// or all but one do. All groups have lost their leaders at about the same time, and their voters
// come back at about the same time. If they stand as soon as they see one other (GRP-12), and wait
// for their timers when the votes are split (GRP-16), rows wait for twice as long.
func TestShortLossBites(t *testing.T) {
	const most = 2 * time.Second
	for _, x := range []struct {
		name  string
		rules Break
		right bool
	}{{"the rules", Break{}, true}, {"without GRP-12 and GRP-16", Break{HastyReturns: true, SplitVotes: true, AsksOnce: true}, false}} {
		longest, sum, n := time.Duration(0), time.Duration(0), 0
		for _, without := range []int{0, 1} {
			for cut := 800 * time.Millisecond; cut < 2400*time.Millisecond; cut += 200 * time.Millisecond {
				for seed := range uint64(some(1, 6)) {
					tune := func(cfg *Config) { cfg.Seed, cfg.Stay, cfg.Break = seed+1, true, x.rules }
					onStageTuned(t, 3, 1, tune, func(s *stage) {
						d := s.returns(cut+time.Duration(seed)*37*time.Millisecond, without)
						longest, sum, n = max(longest, d), sum+d, n+1
					})
				}
			}
		}
		t.Logf("%s: rows pause for %v, on average %v", x.name, longest, sum/time.Duration(n))
		if longest > most == x.right {
			t.Errorf("%s: rows pause for %v; at most %v is right", x.name, longest, most)
		}
	}
}
