package store

import "github.com/godwitdb/godwit/base"

// Metrics are counts and sizes of what lies below a store.
type Metrics struct {
	DiskBytes, MemtableBytes, WALBytes     int64
	DebtBytes, Files                       int64 // to be compacted; tables
	Level0Files, Level0Sublevels, ReadAmp  int64
	Flushes, Compactions                   int64 // since Open, as all below
	CompactedBytes, WrittenBytes, Stalls   int64
	CacheHits, CacheMisses, CacheBytesUsed int64
}

// Metrics samples them. It takes some ten microseconds.
func (s *Store) Metrics() Metrics {
	m := s.db.Metrics()
	out := Metrics{DiskBytes: int64(m.DiskSpaceUsage()), MemtableBytes: int64(m.MemTable.Size), WALBytes: int64(m.WAL.Size),
		DebtBytes: int64(m.Compact.EstimatedDebt), Level0Files: m.Levels[0].TablesCount,
		Level0Sublevels: int64(m.Levels[0].Sublevels), ReadAmp: int64(m.ReadAmp()), Flushes: m.Flush.Count,
		Compactions: m.Compact.Count, WrittenBytes: int64(m.WAL.BytesWritten), Stalls: s.stalls.Load(),
		CacheHits: m.BlockCache.Hits, CacheMisses: m.BlockCache.Misses, CacheBytesUsed: m.BlockCache.Size}
	for i := range m.Levels {
		out.Files += m.Levels[i].TablesCount
		out.CompactedBytes += int64(m.Levels[i].TableBytesCompacted)
	}
	return out
}

// SpanBytes estimates what the rows of a span, with their old versions, take on disk. What is still
// in memory does not count. It reads no row.
func (s *Store) SpanBytes(start, end base.Key) (int64, error) {
	n, err := s.db.EstimateDiskUsage(appendVersionKey(nil, start, 0), appendVersionKey(nil, end, 0))
	return int64(n), s.wrap(err)
}
