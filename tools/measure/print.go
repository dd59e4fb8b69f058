package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// print writes the figures of the whole tree, one a line.
func (r *Report) print(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer tw.Flush()
	row := func(name, format string, args ...any) {
		fmt.Fprintf(tw, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	t := r.Total
	row("lines of source", "%d in %d files", t.Lines, t.Files)
	row("folders at the root", "%d", len(r.RootFolders))
	row("largest package", "%d lines, %d files (%s)", r.LargestPackage.Lines, r.LargestPackage.Files, r.LargestPackage.Folder)
	row("functions over 80 lines per 10k", "%.1f (%d)", t.Per10k(t.Long), t.Long)
	row("functions of complexity over 15 per 10k", "%.1f (%d)", t.Per10k(t.Complex), t.Complex)
	row("most complex function", "%d (%s, %s:%d)", r.MostComplex.Complexity, r.MostComplex.Name, r.MostComplex.File,
		r.MostComplex.Line)
	row("comment line width p90", "%d", r.CommentWidth90)
	row("share of lines that are comments", "%.1f %%", 100*t.share(t.Comments))
	row("test : source", "%.2f", t.share(t.Tests))
	row("test scripts : source", "%.2f", t.share(t.Scripts))
	row("tests and scripts : source", "%.2f", t.share(t.Tests+t.Scripts))
	row("exported names without a doc", "%.1f %% (%d of %d)", 100*float64(r.Undocumented)/float64(max(1, r.Exported)),
		r.Undocumented, r.Exported)
	row("largest struct", "%d fields (%s, %s)", r.LargestStruct.Members, r.LargestStruct.Name, r.LargestStruct.File)
	row("largest interface", "%d methods (%s, %s)", r.LargestInterface.Members, r.LargestInterface.Name, r.LargestInterface.File)
}

// printPackages writes a line for each package, the largest first.
func (r *Report) printPackages(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	defer tw.Flush()
	fmt.Fprintln(w)
	fmt.Fprintln(tw, "lines\tfiles\tcomments\ttests\tscripts\ttest:source\tlong\tcomplex\tcomplex/10k\t  package\t")
	all := slices.SortedStableFunc(slices.Values(r.Packages), func(a, b Package) int { return cmp.Compare(b.Lines, a.Lines) })
	for _, p := range all {
		fmt.Fprintf(tw, "%d\t%d\t%.0f %%\t%d\t%d\t%.2f\t%d\t%d\t%.1f\t  %s\t\n",
			p.Lines, p.Files, 100*p.share(p.Comments), p.Tests, p.Scripts, p.share(p.Tests+p.Scripts), p.Long,
			p.Complex, p.Per10k(p.Complex), p.Folder)
	}
}

// printWorst writes the n most complex functions, and the n longest.
func (r *Report) printWorst(w io.Writer, n int) {
	long := slices.SortedStableFunc(slices.Values(r.Functions), func(a, b Function) int { return cmp.Compare(b.Lines, a.Lines) })
	for _, list := range []struct {
		name string
		of   []Function
	}{{"most complex functions", r.Functions}, {"longest functions", long}} {
		fmt.Fprintf(w, "\n%s\n", list.name)
		for _, f := range list.of[:min(n, len(list.of))] {
			fmt.Fprintf(w, "%5d complexity %5d lines  %s  %s:%d\n", f.Complexity, f.Lines, f.Name, f.File, f.Line)
		}
	}
}
