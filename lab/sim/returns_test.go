package sim

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// majorityReturns cuts all regions off from each other for a while, and then has all but the first
// reach each other again. It tells how long they cannot write rows of each group.
func (s *stage) majorityReturns(after time.Duration) (pause time.Duration) {
	var keys []base.Key
	for _, h := range s.hosts {
		keys = append(keys, s.key(h.region, 1))
		s.put(int(h.id), s.key(h.region, 1), "x")
	}
	time.Sleep(5 * time.Second)
	for _, h := range s.hosts {
		s.net.Isolate(h.id)
	}
	time.Sleep(10*time.Second + after) // no lease is left, and all voters have stood in vain
	began := time.Now()
	for _, h := range s.hosts[1:] {
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
	const most = 2 * time.Second
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
