package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Bounds of one INSERT statement. Each is a commit, which waits for disks, so it should be large;
// servers accept 4 MiB by default.
const (
	batchRows  = 500
	batchBytes = 512 << 10
)

// loadTask writes a share of the rows through one connection.
type loadTask func(ctx context.Context, b *batch) error

// loader collects the loading work of a scenario and carries it out.
type loader struct {
	regions int
	seed    uint64
	tasks   [][]loadTask // by region
	rows    atomic.Int64
	total   int64 // expected rows; an estimate where the number is random
}

// add queues work for a region's connections; rows is what it will insert.
func (l *loader) add(region, rows int, task loadTask) {
	l.tasks[region] = append(l.tasks[region], task)
	l.total += int64(rows)
}

// batch writes multi-row INSERT statements through one session.
type batch struct {
	s      *session
	loaded *atomic.Int64
	head   string
	buf    []byte
	rows   int
	seed   uint64
	// keyless is set for a table without a key: a second INSERT of the same rows succeeds there.
	keyless bool
}

// into starts rows for a table; columns in parentheses may follow its name.
func (b *batch) into(ctx context.Context, table string) error {
	if err := b.flush(ctx); err != nil {
		return err
	}
	b.head, b.keyless = "INSERT INTO "+table+" VALUES ", false
	return nil
}

// row adds a row and sends the batch when it is full. Values are int, int64, string, money, rate,
// time.Time or nil.
func (b *batch) row(ctx context.Context, values ...any) error {
	if b.rows == 0 {
		b.buf = append(b.buf[:0], b.head...)
	} else {
		b.buf = append(b.buf, ',')
	}
	sep := byte('(')
	for _, v := range values {
		b.buf = append(b.buf, sep)
		sep = ','
		var err error
		if b.buf, err = appendLiteral(b.buf, v); err != nil {
			return err
		}
	}
	b.buf = append(b.buf, ')')
	b.rows++
	if b.rows >= batchRows || len(b.buf) >= batchBytes-2048 {
		return b.flush(ctx)
	}
	return nil
}

// flush sends the pending rows as one autocommitted statement. It repeats it after a retryable
// error, and after one that leaves the outcome open: if the rows are there then, it had committed.
func (b *batch) flush(ctx context.Context) error {
	if b.rows == 0 {
		return nil
	}
	rng := newRand(b.seed, uint64(b.rows), uint64(len(b.buf)))
	open := false
	for try := 0; ; try++ {
		err := b.s.exec(ctx, string(b.buf))
		if err == nil || open && isDuplicate(err) {
			break
		}
		maybe := outcomeOpen(err) && !b.keyless
		open = open || maybe
		if !Retryable(err) && !maybe || try == 100 || !sleep(ctx, backoff(try, rng)) {
			return fmt.Errorf("%s...: %w", b.head, err)
		}
	}
	b.loaded.Add(int64(b.rows))
	b.rows = 0
	return nil
}

// appendLiteral appends a value as SQL. Strings are the generators' own, without quotes and
// backslashes; one with them is refused, since its meaning would depend on the server's SQL mode.
func appendLiteral(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, "NULL"...), nil
	case int:
		return strconv.AppendInt(b, int64(v), 10), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case money:
		return append(b, v.String()...), nil
	case rate:
		return append(b, v.String()...), nil
	case time.Time:
		return append(append(append(b, '\''), sqlTime(v)...), '\''), nil
	case string:
		if strings.ContainsAny(v, `'\`) {
			return nil, fmt.Errorf("loader: string %q needs escaping", v)
		}
		return append(append(append(b, '\''), v...), '\''), nil
	}
	return nil, fmt.Errorf("loader: no literal for %T", v)
}

// Init implements Workload.
func (w *runner) Init(ctx context.Context, targets []Target) error {
	if t, ok := w.scenario.(*tpcc); ok && t.opts.Warehouses < len(targets) {
		return fmt.Errorf("%d regions need at least as many warehouses, not %d", len(targets), t.opts.Warehouses)
	}
	pools, err := w.dial(targets, w.opts)
	if err != nil {
		return err
	}
	defer closePools(pools)
	if err := createDatabase(ctx, targets[0].URLs[0]); err != nil {
		return err
	}
	s, err := pools[0].connected(ctx)
	if err != nil {
		return err
	}
	defer s.reset()
	if w.opts.Drop {
		for _, t := range w.scenario.tables() {
			if err := s.exec(ctx, "DROP TABLE IF EXISTS "+t); err != nil {
				return fmt.Errorf("dropping table %s: %w", t, err)
			}
		}
	}
	if err := w.scenario.create(ctx, s); err != nil {
		var e *mysql.MySQLError
		if errors.As(err, &e) && e.Number == 1050 { // ER_TABLE_EXISTS_ERROR
			return fmt.Errorf("%w: use --drop to drop the tables of an earlier init", err)
		}
		return err
	}
	l := &loader{regions: len(pools), seed: w.opts.Seed, tasks: make([][]loadTask, len(pools))}
	w.scenario.load(l)
	return l.run(ctx, pools, w.opts)
}

// run carries out the tasks of each region over its connections.
func (l *loader) run(ctx context.Context, pools []*pool, opts Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin := time.Now()
	var workers sync.WaitGroup
	for region, p := range pools {
		var next atomic.Int64
		tasks := l.tasks[region]
		for i := range min(opts.Loaders, len(tasks)) {
			workers.Go(func() {
				s := p.session(i)
				defer s.reset()
				b := &batch{s: s, loaded: &l.rows, seed: l.seed}
				for {
					n := int(next.Add(1)) - 1
					if n >= len(tasks) || ctx.Err() != nil {
						return
					}
					err := tasks[n](ctx, b)
					if err == nil {
						err = b.flush(ctx)
					}
					if err != nil {
						cancel(fmt.Errorf("loading region %s: %w", p.region, err))
						return
					}
				}
			})
		}
	}
	finished := make(chan struct{})
	go func() { workers.Wait(); close(finished) }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.progress(opts.LoadProgress, time.Since(begin), "loading")
		case <-finished:
			if err := context.Cause(ctx); err != nil {
				return err
			}
			l.progress(opts.LoadProgress, time.Since(begin), "loaded")
			return nil
		}
	}
}

func (l *loader) progress(out io.Writer, d time.Duration, verb string) {
	if out == nil {
		return
	}
	n := l.rows.Load()
	left := ""
	if n > 0 && n < l.total && verb == "loading" {
		left = fmt.Sprintf(", %s left", time.Duration(float64(d)*float64(l.total-n)/float64(n)).Round(time.Second))
	}
	// A progress line that cannot be written does not stop the loading.
	_, _ = fmt.Fprintf(out, "%s: %d of %d rows (%.0f%%) in %s, %.0f rows/s%s\n", verb, n, l.total,
		min(100, 100*float64(n)/float64(max(l.total, 1))), d.Round(time.Second/10), float64(n)/max(d.Seconds(), 1e-9), left)
}

// createDatabase makes the URL's database unless it exists.
func createDatabase(ctx context.Context, url string) error {
	cfg, err := parseURL(url)
	if err != nil {
		return err
	}
	name := cfg.DBName
	// First see whether it is there: the user may lack the right to create databases.
	db, err := openDB(cfg, false)
	if err != nil {
		return err
	}
	err = db.PingContext(ctx)
	_ = db.Close() // only pinged
	var e *mysql.MySQLError
	if err == nil {
		return nil
	} else if !errors.As(err, &e) || e.Number != 1049 { // ER_BAD_DB_ERROR
		return fmt.Errorf("connecting to %s: %w", cfg.Addr, err)
	}
	cfg.DBName = ""
	if db, err = openDB(cfg, false); err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(ctx, "CREATE DATABASE IF NOT EXISTS `"+name+"`"); err != nil {
		return fmt.Errorf("creating database %s: %w", name, err)
	}
	return nil
}

// isUnknownTable tells whether err says that a table or database does not exist.
func isUnknownTable(err error) bool {
	var e *mysql.MySQLError
	// ER_NO_SUCH_TABLE, ER_BAD_DB_ERROR
	return errors.As(err, &e) && (e.Number == 1146 || e.Number == 1049)
}
