package migrate

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Left is something of the source that Godwit does not have after the import.
type Left struct{ What, Why string }

// Copied is a table whose rows have been copied.
type Copied struct {
	Table string
	Rows  int64
	Bytes int64 // of the statements that wrote them
	Took  time.Duration
	Check string // what comparing checksums said: equal, or why it was not done
}

// Report says what an import did.
type Report struct {
	Source   string // version of the server
	Position string // of its binary log; empty if the snapshot has none
	Tables   []Copied
	Notes    []Left // what is there, but not quite as it was
	Left     []Left
	ReadOnly time.Duration // how long a cut-over kept the source's writers out before Godwit was ready
	Applied  int64         // transactions of the source
}

// Print writes the report as text.
func (r *Report) Print(out io.Writer) {
	if len(r.Tables) > 0 {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "rows\tMiB\tseconds\tchecksum\t table")
		for _, t := range r.Tables {
			fmt.Fprintf(w, "%d\t%.1f\t%.1f\t%s\t %s\n", t.Rows, float64(t.Bytes)/(1<<20), t.Took.Seconds(), t.Check, t.Table)
		}
		w.Flush()
	}
	for _, x := range r.Notes {
		fmt.Fprintf(out, "note: %s: %s\n", x.What, x.Why)
	}
	for _, x := range r.Left {
		fmt.Fprintf(out, "not imported: %s: %s\n", x.What, x.Why)
	}
}
