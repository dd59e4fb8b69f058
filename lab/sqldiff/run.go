package sqldiff

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
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
	Out      io.Writer     // of lines that tell how far the run is; may be nil
	// Examples is how many statements of a class are shown.
	Examples int
	// Workers is how many rounds run at once, each in a database of its own; default 1.
	Workers int
	// Journal keeps what rounds have found, and says which are done already; may be nil.
	Journal *Journal
	// Again runs the rounds of the journal anew in which a difference was not explained.
	Again bool
}

// ModeNames are the kinds of statements of a run. The last three need no reference.
var ModeNames = []string{"queries", "changes", "transactions", "tlp", "norec", "pqs"}

// Finding is a difference that no rule explains.
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

// Runner compares two servers.
type Runner struct {
	opts    Options
	dial    func(context.Context) (here, ref *Side, err error)
	refused map[string]bool // forms that here are errors
	begin   time.Time
	until   time.Time // zero: the rounds decide

	mu     sync.Mutex
	report *Report
	// reduced are the differences that were made smaller, by what they look like before: the next
	// one of the kind is only counted. reducing is how long that has taken.
	reduced  map[string]int
	reducing time.Duration
}

// worker runs rounds, one after the other.
type worker struct {
	*Runner
	here, ref *Side // ref may be nil
	database  string
	report    *Report // of the round
	schema    *Schema
	round     uint64
}

func (r *Runner) over(ctx context.Context) bool {
	return ctx.Err() != nil || !r.until.IsZero() && time.Now().After(r.until)
}

// NewRunner compares the sides that dial opens; ref may be nil for modes that need none.
func NewRunner(dial func(context.Context) (here, ref *Side, err error), o Options) *Runner {
	if o.PerRound == 0 {
		o.PerRound = 100
	}
	if o.Modes == nil {
		o.Modes = []string{"queries", "changes"}
	}
	o.Workers, o.Examples = max(o.Workers, 1), max(o.Examples, 1)
	if o.Out == nil {
		o.Out = io.Discard
	}
	return &Runner{opts: o, dial: dial, report: newReport(), reduced: map[string]int{}, begin: time.Now()}
}

// Run runs the rounds.
func (r *Runner) Run(ctx context.Context) (*Report, error) {
	if r.opts.For > 0 {
		r.until = r.begin.Add(r.opts.For)
	}
	rounds, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	seeds := make(chan uint64)
	var wg sync.WaitGroup
	for n := range r.opts.Workers {
		w := &worker{Runner: r, database: fmt.Sprint("sqldiff", n), report: newReport()}
		var err error
		if w.here, w.ref, err = r.dial(ctx); err != nil {
			return r.report, err
		}
		defer w.close()
		if n == 0 && w.ref != nil {
			if err := w.probe(ctx); err != nil {
				return r.report, err
			}
		}
		wg.Go(func() {
			if err := w.rounds(rounds, seeds); err != nil {
				stop(err)
			}
		})
	}
	r.deal(rounds, seeds)
	close(seeds)
	wg.Wait()
	if err := context.Cause(rounds); err != nil && ctx.Err() == nil {
		return r.report, err
	}
	return r.report, nil
}

// deal hands out the seeds of rounds.
func (r *Runner) deal(ctx context.Context, seeds chan<- uint64) {
	hand := func(seed uint64) bool {
		select {
		case seeds <- seed:
			return true
		case <-ctx.Done():
			return false
		}
	}
	if r.opts.Again {
		for _, seed := range r.opts.Journal.unexplained() {
			if r.over(ctx) || !hand(seed) {
				return
			}
		}
		return
	}
	for n := 0; r.opts.Rounds == 0 || n < r.opts.Rounds; n++ {
		seed := r.opts.Seed + uint64(n)
		if r.opts.Journal.done(seed) {
			continue
		}
		if r.over(ctx) || !hand(seed) {
			return
		}
	}
}

// rounds runs rounds as long as there are seeds. One that is cut short is not kept.
func (w *worker) rounds(ctx context.Context, seeds <-chan uint64) error {
	for seed := range seeds {
		w.round, w.report = seed, newReport()
		whole, err := w.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
		if err := w.ended(whole); err != nil {
			return err
		}
	}
	return nil
}

// ended adds a round to the report.
func (w *worker) ended(whole bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.Runner.report
	all.add(w.report, w.opts.Examples)
	since := time.Since(w.begin)
	_, _ = fmt.Fprintf(w.opts.Out, "seed %d: %d statements, %d explained, %d wrong, %v, %.0f a second\n", w.round,
		all.Statements, all.explained(), all.Wrong, since.Round(time.Second), float64(all.Statements)/since.Seconds())
	if !whole {
		return nil
	}
	return w.opts.Journal.add(w.round, w.report)
}

func (w *worker) close() {
	_ = w.here.Close()
	if w.ref != nil {
		_ = w.ref.Close()
	}
}

// once runs one round: a schema, and statements of each mode. It reports whether it came to an end.
func (w *worker) once(ctx context.Context) (whole bool, err error) {
	rnd := rand.New(rand.NewPCG(w.round, 1))
	w.schema = NewSchema(rnd)
	if err := w.load(ctx, w.schema); err != nil {
		return false, err
	}
	g := NewGen(rnd, w.schema)
	g.refused = w.refused
	for range w.opts.PerRound {
		if w.over(ctx) {
			return false, nil
		}
		var err error
		switch mode := w.opts.Modes[rnd.IntN(len(w.opts.Modes))]; mode {
		case "queries":
			w.query(ctx, g.Query())
		case "changes":
			err = w.change(ctx, []*Statement{g.Change()})
		case "transactions":
			err = w.change(ctx, g.Transaction())
		case "tlp":
			w.relation(ctx, g.Partition())
		case "norec":
			w.relation(ctx, g.NoRec())
		case "pqs":
			w.relation(ctx, g.Pivot())
		default:
			err = fmt.Errorf("there is no mode %q: %v", mode, ModeNames)
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

// probe runs every form alone, with constants. One that is an error here would hide whatever else
// is wrong with a statement that has it, so the rounds do without.
func (w *worker) probe(ctx context.Context) error {
	rnd := rand.New(rand.NewPCG(w.opts.Seed, 2))
	w.schema, w.round = &Schema{}, w.opts.Seed
	refused := map[string]bool{}
	w.refused = refused
	if err := w.load(ctx, w.schema); err != nil {
		return err
	}
	g := NewGen(rnd, w.schema)
	try := func(f form, n *Node) {
		n = node(Query, "SELECT $ AS x0", n)
		d := Difference{St: &Statement{Root: n}, SQL: n.String()}
		d.Got, d.Want = w.both(ctx, d.SQL)
		w.report.Statements++
		if d.compare() || w.explained(ctx, &d) {
			return
		}
		refused[f.text] = refused[f.text] || d.Class == ErrorHere && d.Got.Errno != 1690
		w.found(&d)
	}
	for _, k := range []Kind{Int, Decimal, Double, Text, Date, Datetime, Time, Bool} {
		for _, f := range forms[k] {
			for range 4 {
				if !refused[f.text] {
					try(f, g.of(k, f, nil, -1))
				}
			}
		}
		for _, f := range aggregates[k] {
			try(f, g.of(k, f, nil, -1))
		}
	}
	for _, x := range windows {
		try(x.form, node(x.kind, "$ OVER (ORDER BY COALESCE(NULL, 1))", g.of(x.kind, x.form, nil, -1)))
	}
	w.Runner.report.add(w.report, w.opts.Examples)
	return nil
}

func (w *worker) sides() []*Side {
	if w.ref == nil {
		return []*Side{w.here}
	}
	return []*Side{w.here, w.ref}
}

// each runs fn for all servers at once.
func (w *worker) each(fn func(*Side) error) error {
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i, side := range w.sides() {
		wg.Go(func() { errs[i] = fn(side) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// load makes the schema on all servers.
func (w *worker) load(ctx context.Context, s *Schema) error {
	return w.each(func(side *Side) error {
		return again(func() error {
			if err := side.Fresh(ctx, w.database); err != nil {
				return err
			}
			return side.exec(ctx, s.DDL())
		})
	})
}

// reset gives tables the rows of the schema again, without making them anew.
func (w *worker) reset(ctx context.Context, tables map[string]bool) error {
	qs := []string{"SET autocommit = 1", "ROLLBACK", "START TRANSACTION"}
	for _, t := range w.schema.Tables {
		if tables[t.Name] {
			qs = append(append(qs, "DELETE FROM "+t.Name), t.inserts()...)
		}
	}
	qs = append(qs, "COMMIT")
	return w.each(func(side *Side) error { return again(func() error { return side.exec(ctx, qs) }) })
}

// again does what may be retried.
func again(do func() error) (err error) {
	for range retries {
		if err = do(); !errors.Is(err, errRetry) {
			return err
		}
	}
	return err
}

// retries is how often a transaction is begun anew that a server has aborted.
const retries = 10

// both runs a statement on both servers at once.
func (w *worker) both(ctx context.Context, q string) (got, want *Result) { return w.bothOf(ctx, q, q) }

func (w *worker) bothOf(ctx context.Context, here, ref string) (got, want *Result) {
	_ = w.each(func(side *Side) error {
		if side == w.here {
			got = side.Run(ctx, here)
		} else {
			want = side.Run(ctx, ref)
		}
		return nil
	})
	return got, want
}

// query compares the answers of a query.
func (w *worker) query(ctx context.Context, st *Statement) {
	d := Difference{St: st, SQL: st.Root.String()}
	d.Got, d.Want = w.both(ctx, d.SQL)
	w.report.Statements++
	if d.Want.Errno != 0 && d.Got.Errno != 0 {
		w.report.Errors++
	}
	if d.Want.unjudged() {
		w.report.Unjudged++
	}
	if d.compare() || w.explained(ctx, &d) {
		return
	}
	class, errno, other := d.Class, d.Got.Errno, d.Want.Errno
	if class != Lost && w.reduces(&d) {
		begin := time.Now()
		Reduce(st.Root, w.opts.Reduce, func(q string) bool {
			if st.Ordered > 0 && !strings.Contains(q, " ORDER BY 1") {
				return false
			}
			e := Difference{St: st, SQL: q}
			e.Got, e.Want = w.both(ctx, q)
			if e.compare() || e.Class != class || e.Got.Errno != errno || e.Want.Errno != other ||
				w.explains(ctx, &e) != "" {
				return false
			}
			d = e
			return true
		})
		w.reduced_(time.Since(begin))
	}
	w.found(&d)
}

// reduces reports whether a difference is to be made smaller: one of a kind that was not seen
// before, and if that takes a small part of the time.
func (w *worker) reduces(d *Difference) bool {
	if w.opts.Reduce == 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key := fmt.Sprint(d.Class, d.Got.Errno, d.Want.Errno)
	w.reduced[key]++
	return w.reduced[key] <= 2 || w.reducing < time.Since(w.begin)*time.Duration(w.opts.Workers)/5
}

func (w *worker) reduced_(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reducing += d
}

// found counts a difference that nothing explains.
func (w *worker) found(d *Difference) {
	path := w.path(d.SQL)
	p := w.report
	p.Wrong++
	p.Kinds[d.Class]++
	p.Paths[path]++
	name := d.Class + ": " + Shape(d.SQL)
	p.Counts[name]++
	if len(p.Classes[name]) < w.opts.Examples {
		p.Classes[name] = append(p.Classes[name], &Finding{Class: name, Kind: d.Class, SQL: d.SQL, Detail: d.Detail,
			Round: w.round, Path: path, Schema: w.schema.naming(d.SQL)})
	}
}

// path is why Godwit leaves a query to go-mysql-server; "" if it does not, or does not tell.
func (w *worker) path(q string) string {
	ctx := context.Background()
	counts := func() map[string]string {
		out := map[string]string{}
		for _, row := range w.here.Run(ctx, "SELECT * FROM godwit.fallbacks").Rows {
			out[row[0]] = row[len(row)-1]
		}
		return out
	}
	if strings.Contains(q, ";") {
		return "changes"
	}
	before := counts()
	if !returnsRows(q) {
		w.here.Run(ctx, "START TRANSACTION")
		defer w.here.Run(ctx, "ROLLBACK")
	}
	w.here.Run(ctx, q)
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
		if regexp.MustCompile(`\b[vw]?` + t.Name + `\b`).MatchString(q) {
			out = append(out, t.ddl()...)
		}
	}
	return out
}

var (
	shapeText  = regexp.MustCompile(`'(\\.|[^'])*'`)
	shapeAlias = regexp.MustCompile(`\b((a\d+|[vw]?t\d+)\.)?(c\d|id|[xkw]\d)\b|\bt\d a\d+\b|\ba\d+\b`)
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

// NeedReference reports whether some of the modes compare with a second server.
func NeedReference(modes []string) bool {
	return slices.ContainsFunc(modes, func(m string) bool { return m != "tlp" && m != "norec" && m != "pqs" })
}
