package node

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sqlfront"
)

// maxShown bounds the rows of SHOW GODWIT LOCKS and TRANSACTIONS.
const maxShown = 10_000

// maxHeatShown bounds the rows of SHOW GODWIT HEAT.
const maxHeatShown = 200

// rowName names a row by its table and primary key, as far as this node can tell.
func (n *Node) rowName(k base.Key) string {
	n.mu.Lock()
	srv := n.sql
	n.mu.Unlock()
	if srv != nil {
		return srv.RowName(k)
	}
	return k.String()
}

// show answers SHOW GODWIT statements; it implements sqlfront.Cluster.
type show struct{ n *Node }

// Status implements sqlfront.Cluster: nodes and groups of the cluster, and the
// locks and transactions of the groups that this node leads.
func (s show) Status(ctx context.Context, topic string) (columns []string, rows [][]string, ok bool) {
	n := s.n
	switch topic {
	case "nodes":
		columns = []string{"node", "region", "state", "address", "sql_address", "rtt", "leads", "replicas", "statements", "sessions", "disk_bytes", "mem_bytes", "uptime", "version"}
		for _, x := range n.cluster.Status(ctx).Nodes {
			state := "live"
			if !x.Live {
				state = "dead"
			}
			rows = append(rows, []string{fmt.Sprint(x.ID), x.Region, state, x.Addr, x.SQL, x.RTT.String(), fmt.Sprint(x.Leads), fmt.Sprint(x.Replicas), fmt.Sprint(x.Statements),
				fmt.Sprint(x.Sessions), fmt.Sprint(x.DiskBytes), fmt.Sprint(x.MemBytes), x.Uptime.Round(time.Second).String(), x.Version})
		}
	case "groups":
		columns = []string{"group", "home", "leader", "state", "term", "voters", "learners", "committed", "lag", "closed_lag", "lease_left", "log_entries", "log_bytes", "locks", "prepared"}
		for _, x := range n.cluster.Status(ctx).Groups {
			rows = append(rows, []string{x.Name, x.Home, fmt.Sprint(x.Leader), x.State(), fmt.Sprint(x.Term), fmt.Sprint(x.Voters), fmt.Sprint(x.Learners),
				fmt.Sprint(x.Committed), x.LagText(), x.ClosedLag.String(), x.Lease.String(), fmt.Sprint(x.LogEntries), fmt.Sprint(x.LogBytes),
				fmt.Sprint(x.Locks), fmt.Sprint(x.Prepared)})
		}
	case "jobs":
		jobs := map[string][]sqlfront.Job{}
		for _, x := range n.cluster.Status(ctx).Nodes {
			var of []sqlfront.Job
			if len(x.Jobs) > 0 && json.Unmarshal(x.Jobs, &of) == nil {
				jobs[fmt.Sprint(x.ID)] = of
			}
		}
		columns, rows = sqlfront.JobTable(jobs)
	case "moves":
		columns = []string{"at", "row", "from_region", "to_region", "by", "why", "cost", "bytes", "dry_run"}
		t := n.cluster.Topology()
		for _, m := range n.moves(ctx) {
			by, why := m.trigger()
			rows = append(rows, []string{m.time(), n.rowName(m.Key), t.RegionName(m.From), t.RegionName(m.To), by, why, m.cost(), fmt.Sprint(m.Bytes), fmt.Sprint(m.Dry)})
		}
		rows = rows[max(0, len(rows)-maxShown):]
	case "heat":
		columns = []string{"row", "home_region", "heat", "last_region", "run", "stays", "correlated"}
		t := n.cluster.Topology()
		for _, h := range n.homes.Top(maxHeatShown, n.clock.Latest()) {
			if h.Key == nil {
				continue
			}
			rows = append(rows, []string{n.rowName(h.Key), t.RegionName(h.Home), h.Heat.Heat.String(), t.RegionName(h.Last), fmt.Sprint(h.Run), h.Stay.String(), fmt.Sprint(h.With)})
		}
	case "locks":
		columns = []string{"group", "span", "mode", "txn", "granted"}
		for _, r := range n.owners.Replicas() {
			for _, l := range r.Locks(maxShown - len(rows)) {
				rows = append(rows, []string{r.ID().String(), l.Span.String(), l.Mode.String(), l.Txn.String(), fmt.Sprint(!l.Waiting)})
			}
		}
	case "transactions":
		columns = []string{"group", "txn", "age", "phase", "locks", "waiting", "idle"}
		for _, r := range n.owners.Replicas() {
			for _, t := range r.Txns() {
				if len(rows) == maxShown {
					break
				}
				rows = append(rows, []string{r.ID().String(), t.ID.String(), time.Since(t.Age.Time()).Round(time.Millisecond).String(), t.Phase,
					fmt.Sprint(t.Locks), fmt.Sprint(t.Waiting), t.Idle.Round(time.Millisecond).String()})
			}
		}
	default:
		return nil, nil, false
	}
	return columns, rows, true
}
