package cluster

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
)

// EnableAsync makes the shards of asynchronous tables, if there are none, and waits until their
// groups have leaders.
func (e *env) EnableAsync(ctx context.Context) error {
	if e.Topology().Async == 0 {
		if _, err := e.Change(ctx, func(t *base.Topology) error {
			t.Async = t.Shards
			return nil
		}); err != nil {
			return err
		}
	}
	for {
		missing := base.MetaGroup
		t := e.Topology()
		for _, r := range t.Regions {
			for _, g := range t.AsyncGroups(r.ID) {
				if e.dir.Leader(g) == 0 {
					missing = g
				}
			}
		}
		if missing == base.MetaGroup {
			return nil
		}
		select {
		case <-ctx.Done():
			return base.Errorf(base.CodeUnavailable, "group %v of asynchronous tables has no leader yet: retry", missing)
		case <-time.After(leaderPoll):
		}
	}
}
