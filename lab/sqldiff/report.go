package sqldiff

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
)

// Report is what a run has found.
type Report struct {
	Statements int
	Errors     int // statements that both servers refuse
	Unjudged   int // statements that the reference cannot parse, or does not end
	Retried    int // transactions that were aborted (1213, 1205), and begun anew
	Wrong      int // differences that nothing explains
	Kinds      map[string]int
	Classes    map[string][]*Finding
	Counts     map[string]int // of classes
	Paths      map[string]int // of differences, by Finding.Path
	Explained  map[string]int // differences, by the name of the rule
}

func newReport() *Report {
	return &Report{Kinds: map[string]int{}, Classes: map[string][]*Finding{}, Counts: map[string]int{},
		Paths: map[string]int{}, Explained: map[string]int{}}
}

// add adds what another report has, with so many examples of a class.
func (p *Report) add(o *Report, examples int) {
	p.Statements += o.Statements
	p.Errors += o.Errors
	p.Wrong += o.Wrong
	p.Retried += o.Retried
	p.Unjudged += o.Unjudged
	for _, m := range []struct{ to, from map[string]int }{{p.Kinds, o.Kinds}, {p.Counts, o.Counts}, {p.Paths, o.Paths},
		{p.Explained, o.Explained}} {
		for k, n := range m.from {
			m.to[k] += n
		}
	}
	for k, fs := range o.Classes {
		p.Classes[k] = append(p.Classes[k], fs[:min(len(fs), max(examples-len(p.Classes[k]), 0))]...)
	}
}

func (p *Report) explained() (n int) {
	for _, k := range p.Explained {
		n += k
	}
	return n
}

// Print writes the report, the most frequent classes first.
func (p *Report) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d statements, %d of them refused by both, %d not judged, %d transactions retried; %d differ in %d classes\n",
		p.Statements, p.Errors, p.Unjudged, p.Retried, p.Wrong, len(p.Classes))
	for _, k := range sorted(p.Kinds) {
		fmt.Fprintf(&b, "%6d  %s\n", p.Kinds[k], k)
	}
	for _, r := range rules {
		if n := p.Explained[r.Name]; n > 0 {
			fmt.Fprintf(&b, "%6d  explained: %s (%s)\n", n, r.Name, r.Manual)
		}
	}
	fmt.Fprintln(&b, "by what left the statement to the engine below:")
	for _, k := range sorted(p.Paths) {
		fmt.Fprintf(&b, "%6d  %s\n", p.Paths[k], cmp.Or(k, "nothing"))
	}
	for _, c := range sorted(p.Counts) {
		for _, f := range p.Classes[c] {
			fmt.Fprintf(&b, "\n-- %d times %s (seed %d; %s)\n-- %s\n", p.Counts[c], f.Kind, f.Round,
				cmp.Or(f.Path, "own engine"), strings.ReplaceAll(f.Detail, "\n", " "))
			for _, q := range f.Schema {
				fmt.Fprintf(&b, "%s;\n", q)
			}
			fmt.Fprintf(&b, "%s;\n", f.SQL)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func sorted(m map[string]int) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if m[a] != m[b] {
			return m[b] - m[a]
		}
		return strings.Compare(a, b)
	})
	return keys
}

// Journal is a file with a line of JSON for each round that is done, so that a run can go on where
// another one ended, also with a newer build. The last line of a seed counts.
type Journal struct {
	// Build is what the lines say about what ran.
	Build string
	mu    sync.Mutex
	file  *os.File
	lines map[uint64]*entry
}

type entry struct {
	Seed   uint64
	Build  string
	Report *Report
}

// OpenJournal reads a journal, and makes it if it is not there.
func OpenJournal(path, build string) (*Journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	j := &Journal{Build: build, file: f, lines: map[uint64]*entry{}}
	lines := bufio.NewReader(f)
	whole := int64(0)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return j, f.Truncate(whole) // a line without an end was cut short
		}
		whole += int64(len(line))
		e := &entry{Report: newReport()}
		if err == nil {
			err = json.Unmarshal(line, e)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s, line %d: %w", path, n, err), f.Close())
		}
		j.lines[e.Seed] = e
	}
}

// Close closes the file.
func (j *Journal) Close() error { return j.file.Close() }

// done reports whether a round is in the journal.
func (j *Journal) done(seed uint64) bool {
	if j == nil {
		return false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lines[seed] != nil
}

// unexplained are the rounds with a difference that no rule explained.
func (j *Journal) unexplained() (seeds []uint64) {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for seed, e := range j.lines {
		if e.Report.Wrong > 0 {
			seeds = append(seeds, seed)
		}
	}
	slices.Sort(seeds)
	return seeds
}

func (j *Journal) add(seed uint64, p *Report) error {
	if j == nil {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	e := &entry{Seed: seed, Build: j.Build, Report: p}
	j.lines[seed] = e
	line, err := json.Marshal(e)
	if err == nil {
		_, err = j.file.Write(append(line, '\n'))
	}
	return err
}

// Sum is the report of all rounds, and the statements of each build.
func (j *Journal) Sum(examples int) (*Report, map[string]int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	all, builds := newReport(), map[string]int{}
	for _, e := range j.lines {
		all.add(e.Report, examples)
		builds[e.Build] += e.Report.Statements
	}
	return all, builds
}
