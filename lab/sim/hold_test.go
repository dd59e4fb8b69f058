package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// underDefinition is a row that was written under a definition.
type underDefinition struct {
	at    base.Timestamp
	value string // of the definition that the transaction has read
}

// TestCatalogHold: definitions change all the time, and so does who leads the meta group: it hands
// its lead over, or dies. Transactions write rows under the definition that they have read. Each
// commits wholly before a change or wholly after it, whatever was promised of the catalog (OWN-17).
func TestCatalogHold(t *testing.T) {
	for _, c := range []struct {
		name   string
		rules  Break
		breaks bool
	}{
		{name: "all rules"},
		{"changes below the hold", Break{NoAboveHold: true}, true},
		{"the hold is not handed over", Break{NoHoldTransferred: true}, true},
	} {
		wrong := 0
		for seed := range uint64(some(2, 20)) {
			tune := func(cfg *Config) {
				cfg.Seed, cfg.Break, cfg.HoldRest = seed+1, c.rules, 300*time.Millisecond
			}
			onStageTuned(t, 3, 1, tune, func(s *stage) { wrong += s.changeDefinitions(rand.New(rand.NewPCG(seed, 1))) })
		}
		if wrong > 0 != c.breaks {
			t.Errorf("%s: %d rows were written under a definition that was not in force, want some: %v", c.name, wrong, c.breaks)
		}
	}
}

// changeDefinitions tells how many rows were written under a definition that was not in force at
// their timestamps.
func (s *stage) changeDefinitions(r *rand.Rand) (wrong int) {
	var mu sync.Mutex
	var rows []underDefinition
	var done atomic.Bool
	var working sync.WaitGroup
	for _, h := range s.hosts {
		working.Go(func() {
			for n := 0; !done.Load(); n++ {
				time.Sleep(15 * time.Millisecond)
				if h.up() == nil {
					continue
				}
				var row underDefinition
				var err error
				row.at, err = s.within(2*time.Second, h, kv.Options{}, func(x kv.Txn) error {
					got, err := x.Get(context.Background(), []base.Key{definition}, kv.LockNone)
					if err != nil {
						return err
					}
					row.value = string(got[0].Value)
					x.Put(s.key(h.region, n%5), []byte(row.value), 0)
					return nil
				})
				if err == nil {
					mu.Lock()
					rows = append(rows, row)
					mu.Unlock()
				}
			}
		})
	}
	changes := 0
	change := func(h *host) {
		if _, err := s.within(6*time.Second, h, kv.Options{}, func(x kv.Txn) error {
			x.Put(definition, []byte(fmt.Sprint(changes)), 0)
			return nil
		}); err == nil {
			changes++
		}
	}
	for round := range 12 {
		time.Sleep(time.Second + upTo(r, time.Second))
		meta, next := s.metaLeader(), s.hosts[r.IntN(len(s.hosts))]
		switch dies := round%4 == 3; {
		case dies && next != meta:
			meta.crash()
			time.Sleep(upTo(r, 5*time.Second))
			change(next)
			meta.boot()
			time.Sleep(5 * time.Second)
		case !dies:
			// The change meets a hold that another leader may have promised, and some node does not
			// hear of it for a while.
			s.move(base.MetaGroup, next.id)
			deaf := s.hosts[int(next.id)%len(s.hosts)]
			s.net.Cut(next.region, deaf.region)
			change(next)
			time.Sleep(upTo(r, 700*time.Millisecond))
			s.net.HealAll()
			time.Sleep(time.Second)
		}
		time.Sleep(upTo(r, 700*time.Millisecond))
		change(s.hosts[r.IntN(len(s.hosts))])
	}
	done.Store(true)
	working.Wait()
	time.Sleep(5 * time.Second)
	if changes < 18 || len(rows) < 1000 {
		s.t.Errorf("only %d changes and %d rows", changes, len(rows))
	}
	for _, row := range rows {
		var value string
		if _, err := s.within(5*time.Second, s.hosts[0], kv.Options{ReadOnly: true, ReadTS: row.at}, func(x kv.Txn) error {
			got, err := x.Get(context.Background(), []base.Key{definition}, kv.LockNone)
			if err == nil {
				value = string(got[0].Value)
			}
			return err
		}); err != nil {
			s.t.Fatal(err)
		}
		if value != row.value {
			wrong++
		}
	}
	return wrong
}
