// Package meter shows a node's storage, consensus groups, sessions and memory to Prometheus. It
// asks for them when it is asked, and keeps nothing.
package meter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/godwitdb/godwit/obs"
)

// Storage is what a store does and holds.
type Storage struct {
	DiskBytes, MemtableBytes, WALBytes int64
	// FreeBytes are free in the store's file system, which has TotalBytes; 0: that is not known.
	FreeBytes, TotalBytes int64
	// DebtBytes is how much is still to be compacted, Files how many tables there are.
	DebtBytes, Files int64
	// Level0Files and Level0Sublevels are of the top level, ReadAmp is how many places a read looks
	// at.
	Level0Files, Level0Sublevels, ReadAmp int64
	// Counts since the store was opened.
	Flushes, Compactions, CompactedBytes, WrittenBytes int64
	Stalls                                             int64
	CacheHits, CacheMisses                             int64
	CacheBytes                                         int64
	Syncs                                              int64
	SyncTime                                           time.Duration
}

// Groups is what a node has of the consensus groups.
type Groups struct {
	Replicas, Leads, Serving int
	// Of the groups that the node leads: locks and transactions that are prepared, entries and
	// bytes of logs.
	Locks, Prepared      int
	LogEntries, LogBytes int64
	// Behind is how many entries the replica lacks that is the farthest behind, Snapshots how
	// many replicas are being sent the whole shard, Silent how many are not heard of.
	Behind            int64
	Snapshots, Silent int
	// Closed is how far behind the present the closed timestamps are, of the group with the oldest.
	Closed time.Duration
	// WaitingForLocks is how many requests wait for a lock, OldestTxn how old the oldest
	// transaction is.
	WaitingForLocks int
	OldestTxn       time.Duration
}

// SQL is what serves clients.
type SQL struct {
	Sessions                                         int
	Used, Limit                                      int64 // memory of statements
	Commits, TwoRound                                int64
	Failed, Ambiguous                                int64
	ReadsLocal, ReadsWaited, ReadsServed, ReadsAsked int64
	// Hedged counts reads that a second node was asked for, too, HedgesWon those it answered first.
	Hedged, HedgesWon int64

	// Feeds are the change feeds that the node runs, FeedLag how far the one is behind that is the
	// farthest. Counts since the start: messages, bytes, marks, and times that a sink took nothing.
	Feeds                                      int
	FeedRows, FeedBytes, FeedMarks, FeedErrors int64
	FeedLag                                    time.Duration
}

// Sources are what is asked. SQL reports false while none is served.
type Sources struct {
	Storage func() Storage
	Groups  func() Groups
	SQL     func() (SQL, bool)
	Queues  func() []obs.Queue
	Ready   func() bool
	Version string
}

// series is one metric without labels of its own.
type series struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func gauge(name, help string) series {
	return series{prometheus.NewDesc("godwit_"+name, help, nil, nil), prometheus.GaugeValue}
}

func counter(name, help string) series {
	return series{prometheus.NewDesc("godwit_"+name, help, nil, nil), prometheus.CounterValue}
}

func (s series) send(ch chan<- prometheus.Metric, v float64) {
	ch <- prometheus.MustNewConstMetric(s.desc, s.kind, v)
}

var (
	build = prometheus.NewDesc("godwit_build_info", "1; the label has the version.", []string{"version"}, nil)
	ready = gauge("ready", "1 while the node serves.")

	storeDisk       = gauge("store_disk_bytes", "Bytes of the store on the disk.")
	diskFree        = gauge("disk_free_bytes", "Free bytes of the file system of the store; 0: not known.")
	diskTotal       = gauge("disk_total_bytes", "Bytes of that file system; 0: not known.")
	storeMemtable   = gauge("store_memtable_bytes", "Bytes of rows that are not yet in tables.")
	storeWAL        = gauge("store_wal_bytes", "Bytes of the write-ahead log.")
	storeDebt       = gauge("store_compaction_debt_bytes", "Bytes that are to be compacted.")
	storeFiles      = gauge("store_tables", "Table files.")
	storeL0         = gauge("store_level0_files", "Table files of the top level.")
	storeL0Sub      = gauge("store_level0_sublevels", "Sublevels of the top level: many slow reads and writes down.")
	storeReadAmp    = gauge("store_read_amplification", "Places that a read looks at.")
	storeFlushes    = counter("store_flushes_total", "Memtables that became tables.")
	storeCompacts   = counter("store_compactions_total", "Compactions.")
	storeCompacted  = counter("store_compacted_bytes_total", "Bytes that compactions have written.")
	storeWritten    = counter("store_wal_written_bytes_total", "Bytes written to the write-ahead log.")
	storeStalls     = counter("store_write_stalls_total", "Times that writes waited for flushes or compactions.")
	storeHits       = counter("store_cache_hits_total", "Blocks found in the cache.")
	storeMisses     = counter("store_cache_misses_total", "Blocks read from the disk.")
	storeCacheBytes = gauge("store_cache_bytes", "Bytes of the block cache.")
	storeSyncs      = counter("store_syncs_total", "Synced commits.")
	storeSyncTime   = counter("store_sync_seconds_total", "Time that synced commits took, in sum.")

	raftReplicas  = gauge("raft_replicas", "Groups that this node has a replica of.")
	raftLeads     = gauge("raft_leads", "Groups that this node leads.")
	raftServing   = gauge("raft_leads_serving", "Groups that this node leads, and whose requests it serves.")
	raftEntries   = gauge("raft_log_entries", "Entries in the logs of the groups that this node leads.")
	raftLogBytes  = gauge("raft_log_bytes", "Bytes of these logs.")
	raftBehind    = gauge("raft_entries_behind", "Entries that the replica lacks that is the farthest behind, of these groups.")
	raftSnapshots = gauge("raft_snapshots_sending", "Replicas that are being sent a whole shard.")
	raftSilent    = gauge("raft_replicas_silent", "Replicas of these groups that are not heard of.")
	raftClosed    = gauge("raft_closed_lag_seconds", "How far behind now the groups led here have closed timestamps, at most.")
	lockHeld      = gauge("locks", "Locks of the groups that this node leads.")
	lockPrepared  = gauge("transactions_prepared", "Transactions there that are prepared, and not decided.")
	lockWaiting   = gauge("locks_waiting", "Requests there that wait for a lock.")
	lockOldest    = gauge("transaction_oldest_seconds", "Age of the oldest transaction there.")

	sqlSessions  = gauge("sql_sessions", "Connections of MySQL clients.")
	sqlMemory    = gauge("sql_memory_bytes", "Bytes that statements keep.")
	sqlLimit     = gauge("sql_memory_limit_bytes", "Bytes that they may keep.")
	sqlCommits   = counter("sql_commits_total", "Transactions that committed.")
	sqlTwoRound  = counter("sql_commits_across_groups_total", "Commits of several groups.")
	sqlFailed    = counter("sql_transactions_failed_total", "Transactions that did not commit.")
	sqlAmbiguous = counter("sql_commits_ambiguous_total", "Commits whose outcome had to be asked for.")

	feedRunning = gauge("changefeeds_running", "Change feeds that this node runs.")
	feedRows    = counter("changefeed_messages_total", "Messages that sinks of change feeds have acknowledged.")
	feedBytes   = counter("changefeed_bytes_total", "Bytes of these messages.")
	feedMarks   = counter("changefeed_marks_total", "Resolved marks that change feeds have sent.")
	feedErrors  = counter("changefeed_failures_total", "Times that a change feed had to try again.")
	feedLag     = gauge("changefeed_lag_seconds", "How far behind now the feed's resolved moment is, of the feed here that is the farthest.")

	readHedges    = counter("read_hedges_total", "Snapshot reads that a second node was asked for, too, as the first was late.")
	readHedgesWon = counter("read_hedges_won_total", "Of these, reads that the second node answered first.")

	queueLength = prometheus.NewDesc("godwit_queue_length", "How many are in a queue or pool of this node that is bounded.",
		[]string{"queue"}, nil)
	queueLimit = prometheus.NewDesc("godwit_queue_limit", "How many may be.", []string{"queue"}, nil)

	reads = prometheus.NewDesc("godwit_snapshot_reads_total", "Snapshot reads, by who answered: this node's replicas at once "+
		"(local) or after a wait (waited), another node's (served), or owners (asked).", []string{"answer"}, nil)
)

// Collector shows what sources say.
type Collector struct{ from Sources }

// New makes a collector.
func New(from Sources) *Collector { return &Collector{from} }

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(build, prometheus.GaugeValue, 1, c.from.Version)
	up := 0.0
	if c.from.Ready() {
		up = 1
	}
	ready.send(ch, up)
	c.storage(ch)
	c.groups(ch)
	for _, q := range c.from.Queues() {
		ch <- prometheus.MustNewConstMetric(queueLength, prometheus.GaugeValue, float64(q.Length), q.Name)
		ch <- prometheus.MustNewConstMetric(queueLimit, prometheus.GaugeValue, float64(q.Most), q.Name)
	}
	if s, ok := c.from.SQL(); ok {
		s.send(ch)
	}
}

func (c *Collector) storage(ch chan<- prometheus.Metric) {
	s := c.from.Storage()
	for _, x := range []struct {
		series
		v int64
	}{
		{diskFree, s.FreeBytes}, {diskTotal, s.TotalBytes}, {storeDisk, s.DiskBytes}, {storeMemtable, s.MemtableBytes}, {storeWAL, s.WALBytes}, {storeDebt, s.DebtBytes},
		{storeFiles, s.Files}, {storeL0, s.Level0Files}, {storeL0Sub, s.Level0Sublevels}, {storeReadAmp, s.ReadAmp},
		{storeFlushes, s.Flushes}, {storeCompacts, s.Compactions}, {storeCompacted, s.CompactedBytes},
		{storeWritten, s.WrittenBytes}, {storeStalls, s.Stalls}, {storeHits, s.CacheHits}, {storeMisses, s.CacheMisses},
		{storeCacheBytes, s.CacheBytes}, {storeSyncs, s.Syncs},
	} {
		x.send(ch, float64(x.v))
	}
	storeSyncTime.send(ch, s.SyncTime.Seconds())
}

func (c *Collector) groups(ch chan<- prometheus.Metric) {
	g := c.from.Groups()
	for _, x := range []struct {
		series
		v float64
	}{
		{raftReplicas, float64(g.Replicas)}, {raftLeads, float64(g.Leads)}, {raftServing, float64(g.Serving)},
		{raftEntries, float64(g.LogEntries)}, {raftLogBytes, float64(g.LogBytes)}, {raftBehind, float64(g.Behind)},
		{raftSnapshots, float64(g.Snapshots)}, {raftSilent, float64(g.Silent)}, {raftClosed, g.Closed.Seconds()},
		{lockHeld, float64(g.Locks)}, {lockPrepared, float64(g.Prepared)}, {lockWaiting, float64(g.WaitingForLocks)},
		{lockOldest, g.OldestTxn.Seconds()},
	} {
		x.send(ch, x.v)
	}
}

func (s *SQL) send(ch chan<- prometheus.Metric) {
	for _, x := range []struct {
		series
		v int64
	}{
		{sqlSessions, int64(s.Sessions)}, {sqlMemory, s.Used}, {sqlLimit, s.Limit}, {sqlCommits, s.Commits},
		{sqlTwoRound, s.TwoRound}, {sqlFailed, s.Failed}, {sqlAmbiguous, s.Ambiguous},
		{feedRunning, int64(s.Feeds)}, {feedRows, s.FeedRows}, {feedBytes, s.FeedBytes}, {feedMarks, s.FeedMarks},
		{feedErrors, s.FeedErrors}, {readHedges, s.Hedged}, {readHedgesWon, s.HedgesWon},
	} {
		x.send(ch, float64(x.v))
	}
	feedLag.send(ch, s.FeedLag.Seconds())
	for answer, n := range map[string]int64{"local": s.ReadsLocal, "waited": s.ReadsWaited, "served": s.ReadsServed,
		"asked": s.ReadsAsked} {
		ch <- prometheus.MustNewConstMetric(reads, prometheus.CounterValue, float64(n), answer)
	}
}
