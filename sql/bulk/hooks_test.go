package bulk

import "time"

// Small makes chunks small, and has f called behind each one that was loaded; f gets the number of
// its job, and how many rows are loaded so far.
func Small(rows int, f func(job uint64, done int64)) (undo func()) {
	before := chunkRows
	chunkRows = rows
	if f != nil {
		afterChunk = func(m *importer) { f(m.id, m.progress()) }
	}
	return func() { chunkRows, afterChunk = before, nil }
}

// progress is how many rows are loaded, as this node knows it.
func (m *importer) progress() int64 {
	if !m.leads() {
		return 0
	}
	done, _ := m.job.Progress()
	return done
}

// Steps has f called at the points at which a node may die, and nodes look for jobs often.
func Steps(f func(job uint64, at string)) (undo func()) {
	every := followEvery
	followEvery, atStep = 100*time.Millisecond, f
	return func() { followEvery, atStep = every, nil }
}

// Units makes units of tables and of Parquet files small.
func Units(rows uint64, bytes int64) (undo func()) {
	r, b := unitRows, groupBytes
	unitRows, groupBytes = rows, bytes
	return func() { unitRows, groupBytes = r, b }
}
