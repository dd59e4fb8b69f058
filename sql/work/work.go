// Package work counts what one statement has the executor do: the figures that MySQL shows of a
// statement beside its rows and its time. Only the goroutine that executes the statement counts.
// What operators call does nothing to nil.
package work

// Done is what a statement has done. The zero value is nothing.
type Done struct {
	// Examined counts rows that were read of tables, before any filter of the executor.
	Examined uint64
	// Scans and Ranges say how the table was read that was read first: as a whole, or by ranges of
	// an index. FullJoins and RangeJoins count the tables after it that were.
	Scans, Ranges, FullJoins, RangeJoins uint64
	// Sorts counts sorts, Sorted their rows, and Merges the runs in temporary files that sorts have
	// merged.
	Sorts, Sorted, Merges uint64
	// Tables counts operators that have kept rows to group them, to tell them apart or to read them
	// again, and Files the temporary files that operators other than sorts have written.
	Tables, Files uint64
	// Memory is the most that the statement has kept, in bytes.
	Memory int64

	begun int // tables whose rows were asked for
}

// Read notes that rows of a table are asked for, which happens once for each table of a statement:
// all of them, or ranges of an index, or neither.
func (d *Done) Read(whole, ranges bool) {
	first := d.begun == 0
	d.begun++
	switch {
	case whole && first:
		d.Scans++
	case whole:
		d.FullJoins++
	case ranges && first:
		d.Ranges++
	case ranges:
		d.RangeJoins++
	}
}

// Kept notes how many bytes a part of the statement has kept at most.
func (d *Done) Kept(bytes int64) { d.Memory = max(d.Memory, bytes) }

// Changes forgets how tables were read: MySQL says that of queries only.
func (d *Done) Changes() { d.Scans, d.Ranges, d.FullJoins, d.RangeJoins = 0, 0, 0, 0 }

// Sort notes a sort of rows in memory, Run one of a run that goes to a temporary file, Merge that
// of such runs.
func (d *Done) Sort(rows int) { d.sorted(1, rows, 0) }

// Run is described with Sort.
func (d *Done) Run(rows int) { d.sorted(0, rows, 1) }

// Merge is described with Sort.
func (d *Done) Merge() { d.sorted(1, 0, 0) }

func (d *Done) sorted(sorts, rows, runs int) {
	if d != nil {
		d.Sorts += uint64(sorts)
		d.Sorted += uint64(rows)
		d.Merges += uint64(runs)
	}
}

// Table notes an operator that keeps rows, File one that begins to write them to a file.
func (d *Done) Table() {
	if d != nil {
		d.Tables++
	}
}

// File is described with Table.
func (d *Done) File() {
	if d != nil {
		d.Files++
	}
}

// Unindexed reports whether some table was read as a whole.
func (d *Done) Unindexed() bool { return d.Scans+d.FullJoins > 0 }

// Add adds what another statement has done. Of memory the larger one counts.
func (d *Done) Add(o *Done) {
	d.Examined += o.Examined
	d.Scans += o.Scans
	d.Ranges += o.Ranges
	d.FullJoins += o.FullJoins
	d.RangeJoins += o.RangeJoins
	d.Sorts += o.Sorts
	d.Sorted += o.Sorted
	d.Merges += o.Merges
	d.Tables += o.Tables
	d.Files += o.Files
	d.Memory = max(d.Memory, o.Memory)
}
