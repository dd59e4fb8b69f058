package store

import (
	"encoding/binary"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/cockroachkvs"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/sstable/block"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/godwitdb/godwit/base"
)

// FormatVersion is the newest format of the store this program reads. It writes in the one that
// [Store.SetFormat] has chosen: formats from 6 on are versions of the cluster, and a store gets one
// when its cluster does.
//
//	1 first format
//	2 incarnations of groups; outcomes of transactions that bind groups of several regions say so
//	3 votes with patches, and decisions with their values
//	4 patches that add to decimals
//	5 commits and votes that name forwarded statements, and records of these
//	6 pieces of large transactions, and the votes and decisions of these
//	7 regions that come and go, keys without spaces at the end of texts
const FormatVersion = uint64(base.VersionNewest)

const localFormat = "format"

// Options of a store; the zero value of every field but Dir is usable.
type Options struct {
	// Dir is where the files are; created if absent.
	Dir string
	// FS is the file system; nil is the disk.
	FS vfs.FS
	// Key encrypts the files; nil: they are not encrypted. OldKey is the key that it replaces, or
	// nil.
	Key, OldKey EncryptionKey
	// CacheMB is the size of the block cache, without memtables; 0 is 128 (4 in simulation).
	CacheMB int
	// RowCacheMB is the size of the cache of rows read one by one; 0 is a quarter of CacheMB.
	RowCacheMB int
	// MemTableMB is when a memtable is flushed; 0 is 64 (4 in simulation).
	MemTableMB int
	// LogCacheKB bounds, per group, the recent raft entries kept in memory; 0 is 1024.
	LogCacheKB int
	// NoSync makes synced commits return before they are in any file: a crash of the machine
	// or of the process loses acknowledged data. For throw-away clusters.
	NoSync bool
	// Simulation runs nothing in the background: no automatic compactions, no table
	// statistics. For clusters in virtual time.
	Simulation bool
	// SyncDelay, in simulation, is asked at every synced commit of log entries for how long the
	// disk takes: until then a crash loses the commit, though it is visible. Nil is no time. (A
	// file system that sleeps would do so under Pebble's mutexes, and merges under those of a
	// shard, which stops virtual time.)
	SyncDelay func() time.Duration
	// DelayAll has SyncDelay asked at every synced commit, whatever is in it.
	DelayAll bool
	// Knows is the newest format that is read and written, FormatVersion if it is 0: for tests of
	// what an older program does.
	Knows base.ClusterVersion
	// Logger receives warnings; nil is slog.Default.
	Logger *slog.Logger
}

func (o *Options) fill() {
	def := func(p *int, v, sim int) {
		if *p <= 0 {
			*p = v
			if o.Simulation {
				*p = sim
			}
		}
	}
	def(&o.CacheMB, 128, 4)
	def(&o.MemTableMB, 64, 4)
	def(&o.LogCacheKB, 1024, 1024)
	def(&o.RowCacheMB, (o.CacheMB+3)/4, 1)
	if o.Knows == 0 {
		o.Knows = base.VersionNewest
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

// Store is the durable state of one node. Safe for concurrent use.
type Store struct {
	opts       Options
	db         *pebble.DB
	corruption atomic.Pointer[error]
	stalls     atomic.Int64
	idle       idlePool
	rows       *rowCache
	shards     shardTable
	guard      guard
	mirror     mirror
	syncs      syncs
	patience   *patience
	format     atomic.Uint64 // in which the store is written
	lostTail   string        // see LostTail
	synced     atomic.Uint64 // sequence numbers below it are on disk
	closed     atomic.Bool

	readerOptions sstable.ReaderOptions // of tables

	mu   sync.Mutex
	logs map[base.GroupID]*Log
}

// Memory is a disk in memory, for simulations.
func Memory() vfs.FS { return vfs.NewMem() }

// Open opens or creates a store. Errors: base.CodeCorrupt when files are damaged or missing,
// base.CodeInvalid when a newer program wrote them, base.CodeUnavailable when another process has
// it open. A torn tail of the write-ahead log is normal after a crash and is cut off.
func Open(opts Options) (*Store, error) {
	opts.fill()
	s := &Store{opts: opts, logs: map[base.GroupID]*Log{}}
	s.shards.init(s)
	s.guard.s = s
	s.rows = newRowCache(opts.RowCacheMB<<20, s.idle.gen.Load)
	if err := s.encrypt(); err != nil {
		return nil, err
	}
	if err := s.guard.check(); err != nil {
		return nil, err
	}
	s.patience = newPatience()
	po := s.pebbleOptions()
	s.readerOptions = po.MakeReaderOptions()
	db, err := pebble.Open(opts.Dir, po)
	po.Cache.Unref()
	if err != nil {
		return nil, openError(opts.Dir, err)
	}
	s.db = db
	if err := s.load(); err != nil {
		s.idle.close()
		_ = db.Close()
		return nil, err
	}
	if err := s.mend(); err != nil {
		s.idle.close()
		_ = db.Close()
		return nil, err
	}
	s.guard.note(true)
	return s, nil
}

// encrypt puts the encryption below everything else.
func (s *Store) encrypt() error {
	if s.opts.Key == nil {
		return checkPlain(s.fs(), s.opts.Dir)
	}
	fs, err := newEncryptFS(s.fs(), s.opts.Dir, s.opts.Key, s.opts.OldKey)
	if err != nil {
		return err
	}
	s.opts.FS = fs
	return nil
}

// mend finds out what was lost while the store was closed.
func (s *Store) mend() error {
	if err := s.mendAtOpen(); err != nil {
		return err
	}
	return s.markSuspects()
}

func (s *Store) pebbleOptions() *pebble.Options {
	fs := s.opts.FS
	if fs == nil {
		fs = walFS{vfs.Default}
	}
	o := &pebble.Options{
		FS: fs,
		// Pebble takes the memory of memtables out of the cache: one filling, one being flushed.
		Cache:                       pebble.NewCache(int64(s.opts.CacheMB+2*s.opts.MemTableMB) << 20),
		Comparer:                    &cockroachkvs.Comparer,
		KeySchema:                   cockroachkvs.KeySchema.Name,
		KeySchemas:                  sstable.MakeKeySchemas(&cockroachkvs.KeySchema),
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      logger{s.opts.Logger},
		EventListener:               s.listener(),
		MemTableSize:                uint64(s.opts.MemTableMB) << 20,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       2,
		L0StopWritesThreshold:       1000,
		LBaseMaxBytes:               64 << 20,
		MaxOpenFiles:                1024,
		BlockPropertyCollectors:     cockroachkvs.BlockPropertyCollectors,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		DisableAutomaticCompactions: s.opts.Simulation,
		DisableTableStats:           s.opts.Simulation,
	}
	if !s.opts.Simulation {
		o.Experimental.CompactionScheduler = s.patience
	}
	for i := range o.Levels {
		l := &o.Levels[i]
		l.BlockSize = 16 << 10
		l.IndexBlockSize = 256 << 10
		l.FilterPolicy = bloom.FilterPolicy(10)
		l.Compression = func() *block.CompressionProfile { return block.FastestCompression }
	}
	return o
}

// load checks the format, reads what is kept in memory, and finishes
// a snapshot import that a crash interrupted.
func (s *Store) load() error {
	if err := s.mirror.load(s); err != nil {
		return err
	}
	v, ok, err := s.GetLocal(localFormat)
	if err != nil {
		return err
	}
	if !ok {
		if err := s.checkFresh(); err != nil {
			return err
		}
		return s.SetFormat(base.VersionFirst)
	}
	f, n := binary.Uvarint(v)
	switch {
	case n <= 0 || f == 0:
		return corruptf("store %s: its format record is damaged", s.opts.Dir)
	case f > uint64(s.opts.Knows):
		return base.Errorf(base.CodeInvalid, "store %s has format %d, this program knows formats up to %d: "+
			"start the store with the version of the program that wrote it, or newer", s.opts.Dir, f, s.opts.Knows)
	}
	s.format.Store(f)
	if err := s.shards.load(); err != nil {
		return err
	}
	if f < uint64(base.VersionFirst) { // what an older program wrote is read as it is
		if err := s.SetFormat(base.VersionFirst); err != nil {
			return err
		}
	}
	if err := s.resumeImports(); err != nil {
		return err
	}
	return s.mirror.load(s)
}

// Room is how much of the file system of the store is free, and its size, in bytes; 0, 0 if that
// cannot be told.
func (s *Store) Room() (free, total int64) {
	fs := s.opts.FS
	if fs == nil {
		fs = vfs.Default
	}
	u, err := fs.GetDiskUsage(s.opts.Dir)
	if err != nil {
		return 0, 0
	}
	return int64(u.AvailBytes), int64(u.TotalBytes)
}

// SetFormat has the store written in a format from now on, which is on disk when it returns. Older
// programs do not open the store then. It may be lowered while nothing has been written that needs
// the higher one.
func (s *Store) SetFormat(f base.ClusterVersion) error {
	if f < base.VersionFirst || f > s.opts.Knows {
		return base.Errorf(base.CodeInvalid, "store %s cannot be written in format %d: this program knows formats %d to %d",
			s.opts.Dir, f, base.VersionFirst, s.opts.Knows)
	}
	if err := s.setLocal(localFormat, binary.AppendUvarint(nil, uint64(f)), true); err != nil {
		return err
	}
	s.format.Store(uint64(f))
	return nil
}

// Format is the format in which the store is written.
func (s *Store) Format() base.ClusterVersion { return base.ClusterVersion(s.format.Load()) }

// Knows is the newest format that this program reads and writes.
func (s *Store) Knows() base.ClusterVersion { return s.opts.Knows }

// checkFresh refuses a database that holds data but no format record.
func (s *Store) checkFresh() error {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return s.wrap(err)
	}
	defer it.Close()
	if it.First() {
		return corruptf("store %s holds data but no format record: it was not made by this program, "+
			"or its first log file is missing", s.opts.Dir)
	}
	return s.wrap(it.Error())
}

// Close waits for background work and closes the files. Readers, iterators,
// batches and imports must have been closed. Unsynced commits are synced.
func (s *Store) Close() error {
	s.closed.Store(true)
	s.idle.close()
	if err := s.db.Close(); err != nil {
		return s.wrap(err)
	}
	s.guard.note(true)
	return nil
}

// Sync makes everything committed so far durable.
func (s *Store) Sync() error {
	return s.wrap(s.db.LogData(syncData(s.synced.Load()), pebble.Sync))
}

// Flush writes memtables to tables; for tests and before a copy of the files.
func (s *Store) Flush() error { return s.wrap(s.db.Flush()) }

// Compact rewrites all tables; for tests, and to give back space at once after a big removal.
func (s *Store) Compact() error {
	lo, hi := []byte{0}, []byte{0xff, 0}
	return s.wrap(s.db.Compact(bgctx, lo, hi, true))
}

// Verify reads everything and so finds every damaged block.
func (s *Store) Verify() error {
	it, err := s.db.NewIter(nil)
	if err != nil {
		return s.wrap(err)
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if _, err := it.ValueAndErr(); err != nil {
			return s.wrap(err)
		}
	}
	return s.wrap(it.Error())
}

// Stats is what an operator wants to know of a store.
type Stats struct {
	DiskBytes      uint64 // all files
	WALBytes       uint64 // live write-ahead log
	MemTableBytes  uint64
	CacheBytes     int64
	CacheHitShare  float64 // of block reads since Open
	L0Files        int64
	ReadAmp        int    // tables a read may have to look at
	CompactionDebt uint64 // bytes waiting to be compacted
	WriteStalls    int64  // since Open
	BytesWritten   uint64 // logical bytes in committed batches since Open
}

// Stats samples the counters.
func (s *Store) Stats() Stats {
	m := s.db.Metrics()
	st := Stats{
		DiskBytes:      m.DiskSpaceUsage(),
		WALBytes:       m.WAL.Size,
		MemTableBytes:  m.MemTable.Size,
		CacheBytes:     m.BlockCache.Size,
		L0Files:        m.Levels[0].TablesCount,
		ReadAmp:        m.ReadAmp(),
		CompactionDebt: m.Compact.EstimatedDebt,
		WriteStalls:    s.stalls.Load(),
		BytesWritten:   m.WAL.BytesIn,
	}
	if t := m.BlockCache.Hits + m.BlockCache.Misses; t > 0 {
		st.CacheHitShare = float64(m.BlockCache.Hits) / float64(t)
	}
	return st
}

// InMemory is the options of a store whose files are in memory, for simulations.
func InMemory(o Options) Options {
	o.Dir, o.FS, o.Simulation = "db", vfs.NewMem(), true
	return o
}
