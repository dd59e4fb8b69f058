package sqldiff

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Options of a run.
type Options struct {
	Seed     uint64
	Rounds   int           // schemas; 0: until For is over
	PerRound int           // statements of each schema, default 100
	For      time.Duration // 0: until the rounds are done
	Reduce   int           // tries to make a statement smaller, 0: none
	Modes    []string      // of ModeNames; nil: beside a reference "queries" and "changes"
	Verbose  bool
	Out      io.Writer
	// Examples is how many statements of a class are shown.
	Examples int
}

// ModeNames are the kinds of statements of a run. The last three need no reference.
var ModeNames = []string{"queries", "changes", "transactions", "tlp", "norec", "pqs"}

// Finding is a difference.
type Finding struct {
	Class  string // of the difference, and the shape of the reduced statement
	Kind   string
	SQL    string
	Detail string
	Schema []string // statements that make what SQL names
	Round  uint64
	// Path is why the statement was left to the engine; "" if it was not.
	Path string
}

// Report is what a run has found.
type Report struct {
	Statements int
	Errors     int // statements that both servers refuse
	Wrong      int
	Kinds      map[string]int
	Classes    map[string][]*Finding
	Counts     map[string]int // of classes
	Paths      map[string]int // of differences, by Finding.Path
}

// Runner compares two servers.
type Runner struct {
	opts      Options
	here, ref *Side // ref may be nil
	report    *Report
	schema    *Schema
	round     uint64
	refused   map[string]bool // forms that here are errors
	until     time.Time       // zero: the rounds decide
}

func (r *Runner) over(ctx context.Context) bool {
	return ctx.Err() != nil || !r.until.IsZero() && time.Now().After(r.until)
}

// NewRunner compares here with ref; ref may be nil for modes that need none.
func NewRunner(here, ref *Side, o Options) *Runner {
	if o.PerRound == 0 {
		o.PerRound = 100
	}
	if o.Modes == nil {
		o.Modes = []string{"queries", "changes"}
	}
	if o.Examples == 0 {
		o.Examples = 1
	}
	return &Runner{opts: o, here: here, ref: ref, report: &Report{Kinds: map[string]int{},
		Classes: map[string][]*Finding{}, Counts: map[string]int{}, Paths: map[string]int{}}}
}

const database = "sqldiff"

// Run runs the rounds.
func (r *Runner) Run(ctx context.Context) (*Report, error) {
	begin := time.Now()
	if r.opts.For > 0 {
		r.until = begin.Add(r.opts.For)
	}
	if r.ref != nil {
		if err := r.probe(ctx); err != nil {
			return r.report, err
		}
	}
	for n := 0; r.opts.Rounds == 0 || n < r.opts.Rounds; n++ {
		if r.over(ctx) {
			break
		}
		r.round = r.opts.Seed + uint64(n)
		if err := r.once(ctx); err != nil {
			return r.report, fmt.Errorf("seed %d: %w", r.round, err)
		}
		if r.opts.Verbose {
			_, _ = fmt.Fprintf(r.opts.Out, "seed %d: %d statements, %d wrong, %v\n", r.round, r.report.Statements,
				r.report.Wrong, time.Since(begin).Round(time.Second))
		}
	}
	return r.report, nil
}

// once runs one round: a schema, and statements of each mode.
func (r *Runner) once(ctx context.Context) error {
	rnd := rand.New(rand.NewPCG(r.round, 1))
	r.schema = NewSchema(rnd)
	if err := r.load(ctx, r.schema); err != nil {
		return err
	}
	g := NewGen(rnd, r.schema)
	g.refused = r.refused
	for range r.opts.PerRound {
		if r.over(ctx) {
			return nil
		}
		var err error
		switch mode := r.opts.Modes[rnd.IntN(len(r.opts.Modes))]; mode {
		case "queries":
			r.query(ctx, g.Query())
		case "changes":
			err = r.change(ctx, []*Statement{g.Change()})
		case "transactions":
			err = r.change(ctx, g.Transaction())
		case "tlp":
			r.relation(ctx, g.Partition())
		case "norec":
			r.relation(ctx, g.NoRec())
		case "pqs":
			r.relation(ctx, g.Pivot())
		default:
			err = fmt.Errorf("there is no mode %q: %v", mode, ModeNames)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// probe runs every form alone, with constants. One that is an error here would hide whatever else
// is wrong with a statement that has it, so the rounds do without.
func (r *Runner) probe(ctx context.Context) error {
	rnd := rand.New(rand.NewPCG(r.opts.Seed, 2))
	r.schema, r.round = &Schema{}, r.opts.Seed
	r.refused = map[string]bool{}
	if err := r.load(ctx, r.schema); err != nil {
		return err
	}
	g := NewGen(rnd, r.schema)
	try := func(f form, n *Node) {
		q := "SELECT " + n.String() + " AS x0"
		got, want := r.both(ctx, q)
		r.report.Statements++
		class, detail := Compare(&Statement{}, q, got, want)
		if class == Same {
			return
		}
		r.refused[f.text] = r.refused[f.text] || class == ErrorHere && got.Errno != 1690
		r.found(class, q, detail)
	}
	for _, k := range []Kind{Int, Decimal, Double, Text, Date, Datetime, Time, Bool} {
		for _, f := range forms[k] {
			for range 4 {
				if !r.refused[f.text] {
					try(f, g.of(k, f, nil, -1))
				}
			}
		}
		for _, f := range aggregates[k] {
			try(f, g.of(k, f, nil, -1))
		}
	}
	for _, w := range windows {
		try(w.form, node(w.kind, "$ OVER (ORDER BY COALESCE(NULL, 1))", g.of(w.kind, w.form, nil, -1)))
	}
	return nil
}

func (r *Runner) sides() []*Side {
	if r.ref == nil {
		return []*Side{r.here}
	}
	return []*Side{r.here, r.ref}
}

// load makes the schema on all servers.
func (r *Runner) load(ctx context.Context, s *Schema) error {
	for _, side := range r.sides() {
		if err := side.Fresh(ctx, database); err != nil {
			return err
		}
		for _, q := range s.DDL() {
			if res := side.Run(ctx, q); res.Errno != 0 {
				return fmt.Errorf("%s: %s: %d %s", side.Name, q, res.Errno, res.Message)
			}
		}
	}
	return nil
}

// both runs a statement on both servers at once.
func (r *Runner) both(ctx context.Context, q string) (got, want *Result) {
	done := make(chan *Result)
	go func() { done <- r.ref.Run(ctx, q) }()
	got = r.here.Run(ctx, q)
	return got, <-done
}

// query compares the answers of a query.
func (r *Runner) query(ctx context.Context, st *Statement) {
	q := st.Root.String()
	got, want := r.both(ctx, q)
	r.report.Statements++
	if want.Errno != 0 && got.Errno != 0 {
		r.report.Errors++
	}
	class, detail := Compare(st, q, got, want)
	if class == Same {
		return
	}
	small, errno := *st, got.Errno
	if r.opts.Reduce > 0 && class != Lost {
		Reduce(st.Root, r.opts.Reduce, func(q string) bool {
			got, want := r.both(ctx, q)
			c, d := Compare(&small, q, got, want)
			if c != class || got.Errno != errno {
				return false
			}
			detail = d
			return true
		})
	}
	r.found(class, st.Root.String(), detail)
}

// found counts a difference.
func (r *Runner) found(class, q, detail string) {
	path := r.path(q)
	r.report.Wrong++
	r.report.Kinds[class]++
	r.report.Paths[path]++
	name := class + ": " + Shape(q)
	r.report.Counts[name]++
	if len(r.report.Classes[name]) < r.opts.Examples {
		r.report.Classes[name] = append(r.report.Classes[name],
			&Finding{Class: name, Kind: class, SQL: q, Detail: detail, Round: r.round, Path: path,
				Schema: r.schema.naming(q)})
	}
}

// path is why Godwit leaves a query to go-mysql-server; "" if it does not, or does not tell.
func (r *Runner) path(q string) string {
	ctx := context.Background()
	counts := func() map[string]string {
		out := map[string]string{}
		for _, row := range r.here.Run(ctx, "SELECT * FROM godwit.fallbacks").Rows {
			out[row[0]] = row[len(row)-1]
		}
		return out
	}
	if strings.Contains(q, ";") {
		return "changes"
	}
	before := counts()
	if !returnsRows(q) {
		r.here.Run(ctx, "START TRANSACTION")
		defer r.here.Run(ctx, "ROLLBACK")
	}
	r.here.Run(ctx, q)
	for reason, n := range counts() {
		// The question itself is left to the engine, too.
		if n != before[reason] && !strings.Contains(reason, "system table") {
			return reason
		}
	}
	return ""
}

// naming are the statements that make the tables that a statement names.
func (s *Schema) naming(q string) (out []string) {
	for _, t := range s.Tables {
		if regexp.MustCompile(`\b` + t.Name + `\b`).MatchString(q) {
			out = append(out, t.ddl()...)
		}
	}
	return out
}

var (
	shapeText  = regexp.MustCompile(`'(\\.|[^'])*'`)
	shapeAlias = regexp.MustCompile(`\b(a\d+\.)?(c\d|id|[xkw]\d)\b|\bt\d a\d+\b|\ba\d+\b`)
	shapeNum   = regexp.MustCompile(`\b\d+(\.\d+)?(e\d+)?\b`)
	shapeSame  = regexp.MustCompile(`_(, _)+`)
)

// Shape is a statement without its names and constants.
func Shape(q string) string {
	q = shapeText.ReplaceAllString(q, "_")
	q = shapeAlias.ReplaceAllString(q, "_")
	q = shapeNum.ReplaceAllString(q, "_")
	return shapeSame.ReplaceAllString(q, "_")
}

// Print writes the report, the most frequent classes first.
func (p *Report) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d statements, %d of them refused by both; %d differ in %d classes\n", p.Statements, p.Errors,
		p.Wrong, len(p.Classes))
	for _, k := range sorted(p.Kinds) {
		fmt.Fprintf(&b, "%6d  %s\n", p.Kinds[k], k)
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

// NeedReference reports whether some of the modes compare with a second server.
func NeedReference(modes []string) bool {
	return slices.ContainsFunc(modes, func(m string) bool { return m != "tlp" && m != "norec" && m != "pqs" })
}
