package node

import (
	"time"

	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/node/meter"
	"github.com/godwitdb/godwit/obs"
)

// unready is why clients should go to another node; empty: they need not.
func (n *Node) unready() string {
	if n.leaving.Load() {
		return "ending"
	}
	select {
	case <-n.ready:
		return ""
	default:
		return "starting"
	}
}

// meterSources are what Prometheus is shown of the parts that have no collector of their own.
func (n *Node) meterSources() meter.Sources {
	return meter.Sources{Storage: n.meterStorage, Groups: n.meterGroups, SQL: n.meterSQL, Queues: n.meterQueues,
		Ready: func() bool { return n.unready() == "" }, Version: obs.Version()}
}

func (n *Node) meterStorage() meter.Storage {
	m, u := n.store.Metrics(), n.store.DiskUse()
	free, total, _ := n.noteRoom()
	return meter.Storage{DiskBytes: m.DiskBytes, FreeBytes: free, TotalBytes: total, MemtableBytes: m.MemtableBytes, WALBytes: m.WALBytes, DebtBytes: m.DebtBytes,
		Files: m.Files, Level0Files: m.Level0Files, Level0Sublevels: m.Level0Sublevels, ReadAmp: m.ReadAmp, Flushes: m.Flushes,
		Compactions: m.Compactions, CompactedBytes: m.CompactedBytes, WrittenBytes: m.WrittenBytes, Stalls: m.Stalls,
		CacheHits: m.CacheHits, CacheMisses: m.CacheMisses, CacheBytes: m.CacheBytesUsed, Syncs: u.Syncs, SyncTime: u.Took}
}

func (n *Node) meterGroups() (g meter.Groups) {
	self, led := n.cluster.Local()
	g.Replicas, g.Leads = self.Replicas, self.Leads
	for _, x := range led {
		if x.Serving {
			g.Serving++
		}
		g.Locks += x.Locks
		g.Prepared += x.Prepared
		g.LogEntries += int64(x.LogEntries)
		g.LogBytes += x.LogBytes
		g.Closed = max(g.Closed, x.ClosedLag)
		for _, l := range x.Lag {
			g.Behind = max(g.Behind, int64(l.Entries))
			if l.Snapshot {
				g.Snapshots++
			}
			if !l.Active {
				g.Silent++
			}
		}
	}
	for _, r := range n.owners.Replicas() {
		for _, t := range r.Txns() {
			g.WaitingForLocks += t.Waiting
			if t.Age != 0 {
				g.OldestTxn = max(g.OldestTxn, time.Since(t.Age.Time()))
			}
		}
	}
	return g
}

func (n *Node) meterSQL() (meter.SQL, bool) {
	srv, err := n.server()
	if err != nil {
		return meter.SQL{}, false
	}
	s := n.db.Stats()
	out := meter.SQL{Sessions: srv.Sessions(), Commits: s.Committed.Load(), TwoRound: s.TwoRound.Load(), Failed: s.Failed.Load(),
		Ambiguous: s.Ambiguous.Load(), ReadsLocal: s.ReadsLocal.Load(), ReadsWaited: s.ReadsWaited.Load(),
		ReadsServed: s.ReadsServed.Load(), ReadsAsked: s.ReadsAsked.Load(),
		HedgesWon: s.Hedged.Won.Load()}
	out.Hedged = s.Hedged.Asked.Load()
	out.Used, out.Limit = srv.Memory()
	f := srv.Feeds()
	out.Feeds, out.FeedRows, out.FeedBytes, out.FeedMarks, out.FeedErrors, out.FeedLag = f.Running, f.Rows, f.Bytes, f.Marks,
		f.Failures, f.Lag
	return out, true
}

// meterQueues are the queues and pools that no other metric shows.
func (n *Node) meterQueues() (out []obs.Queue) {
	add := func(name string, length, most int) {
		if most > 0 {
			out = append(out, obs.Queue{Name: name, Length: length, Most: most})
		}
	}
	if n.port != nil {
		l := wan.LoadOf(n.port)
		add("node_lobby", l.Unsettled, l.MostUnsettled)
		add("node_handshakes", l.Handshakes, l.MostHandshakes)
	}
	length, most := n.audit.Waiting()
	add("audit", length, most)
	length, most = n.tracer.Waiting()
	add("spans", length, most)
	length, most = n.mover.Waiting()
	add("moves", length, most)
	if srv, err := n.server(); err == nil {
		for _, q := range srv.Queues() {
			add(q.Name, q.Length, q.Most)
		}
	}
	return out
}
