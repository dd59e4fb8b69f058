package bulk

// Small makes chunks small, and has f called behind each one that was loaded; f gets the number of
// its job, and how many rows the files that were read have so far.
func Small(rows int, f func(job uint64, done int64)) (undo func()) {
	before := chunkRows
	chunkRows = rows
	if f != nil {
		afterChunk = func(m *importer) { f(m.lease.ID(), m.records.total().Rows) }
	}
	return func() { chunkRows, afterChunk = before, nil }
}
