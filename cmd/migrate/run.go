package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/sql/follow"
)

// Options says what to import from where.
type Options struct {
	From, To   *Address
	Threads    int  // writers, and readers of the snapshot
	DryRun     bool // make the tables, say what cannot be made, and take them back
	Overwrite  bool // drop tables of the same names in Godwit
	SkipFailed bool // leave out what cannot be made
	NoVerify   bool // compare no checksums
	Follow     bool // after the copy, apply what the source commits
	CutOver    bool // follow, and make the source read only once Godwit has caught up
	Log        io.Writer
}

// progressDB is the target's database that remembers how far an import has come.
const progressDB = "godwit_import"

// States of an import.
const (
	isCopying = "copying"
	isCopied  = "copied"
	isDone    = "cut over"
)

// run is an import that is under way.
type run struct {
	o              Options
	source, target *sql.DB
	cat            *catalog
	skipped        []follow.Name // tables that could not be made
	mu             sync.Mutex
	report         Report
}

// Run imports. The report also says what was done before an error.
func Run(ctx context.Context, o Options) (*Report, error) {
	r := &run{o: o}
	err := r.run(ctx)
	return &r.report, err
}

func (r *run) say(format string, args ...any) { fmt.Fprintf(r.o.Log, format+"\n", args...) }

func (r *run) copied(c Copied) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Tables = append(r.report.Tables, c)
	r.say("copied %s: %d rows in %.1f s", c.Table, c.Rows, c.Took.Seconds())
}

func (r *run) checked(table, said string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.report.Tables, func(c Copied) bool { return c.Table == table })
	if i < 0 {
		i = len(r.report.Tables)
		r.report.Tables = append(r.report.Tables, Copied{Table: table})
	}
	r.report.Tables[i].Check = said
}

func (r *run) leftOut(n follow.Name) bool {
	return slices.ContainsFunc(r.report.Left, func(l Left) bool { return l.What == n.String() })
}

func (r *run) run(ctx context.Context) (err error) {
	if r.source, err = r.o.From.open(map[string]string{"net_write_timeout": "3600"}); err != nil {
		return err
	}
	defer r.source.Close()
	if r.target, err = r.o.To.open(nil); err != nil {
		return err
	}
	defer r.target.Close()
	if r.report.Source, err = text(ctx, r.source, 0, "SELECT VERSION()"); err != nil {
		return fmt.Errorf("the source at %s: %w", r.o.From.Host, err)
	}
	if _, err := text(ctx, r.target, 0, "SELECT VERSION()"); err != nil {
		return fmt.Errorf("the target at %s: %w", r.o.To.Host, err)
	}
	databases, err := databasesOf(ctx, r.source, r.o.From.Databases)
	if err != nil {
		return err
	}
	if r.cat, err = readCatalog(ctx, r.source, databases); err != nil {
		return err
	}
	r.report.Left = append(r.report.Left, r.cat.left...)
	if r.o.DryRun {
		return r.makeTables(ctx, r.source)
	}
	if r.o.Follow || r.o.CutOver {
		if err := follow.Check(ctx, reading(r.source)); err != nil {
			return err
		}
		if err := checkHold(ctx, r.source); err != nil {
			return err
		}
	}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	p, err := r.progress(ctx)
	if err != nil {
		return err
	}
	switch p.state {
	case isCopied:
		if !r.o.Follow && !r.o.CutOver {
			return fmt.Errorf("%s was imported already: --follow or --cut-over goes on from there, --overwrite begins anew", r.o.From.Host)
		}
		if p.at.File == "" {
			return errors.New("the copy that was made cannot be followed, since it has no position in the source's log: --overwrite begins anew")
		}
		if err := r.skipWhatFailed(ctx); err != nil {
			return err
		}
	case isCopying:
		return errors.New("an import from there was interrupted while it copied: --overwrite drops its tables and begins anew")
	case isDone:
		return errors.New("that import was cut over already: --overwrite begins anew")
	default:
		if p, err = r.copyAll(ctx); err != nil {
			return err
		}
	}
	if !r.o.Follow && !r.o.CutOver {
		return r.makeObjects(ctx, r.source)
	}
	return r.follow(ctx, p.at)
}

// skipWhatFailed leaves out the tables that the copy had left out.
func (r *run) skipWhatFailed(ctx context.Context) error {
	rows, err := texts(ctx, r.target, "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE'")
	if err != nil {
		return err
	}
	there := map[follow.Name]bool{}
	for _, x := range rows {
		there[follow.Name{DB: x[0], Of: x[1]}] = true
	}
	// A table that was made at the source since is in its log, and not in this list of failures.
	failed, err := texts(ctx, r.target, "SELECT db, tab FROM "+progressDB+".skipped WHERE source = ?", r.o.From.Host)
	for _, x := range failed {
		if n := (follow.Name{DB: x[0], Of: x[1]}); !there[n] {
			r.report.Left = append(r.report.Left, Left{n.String(), "it was left out when the rows were copied"})
		}
	}
	return err
}

// copyAll makes the tables and copies their rows.
func (r *run) copyAll(ctx context.Context) (reached, error) {
	var none reached
	snap, err := r.makeAndTake(ctx)
	if err != nil {
		return none, err
	}
	defer snap.close()
	r.report.Position = snap.at.String()
	switch {
	case snap.why != "" && (r.o.Follow || r.o.CutOver):
		return none, fmt.Errorf("the source cannot be followed from the snapshot on: %s; the user needs RELOAD and REPLICATION CLIENT", snap.why)
	case snap.why != "":
		r.say("the copy cannot be followed later: %s", snap.why)
	}
	if err := r.copyTables(ctx, snap); err != nil {
		return none, err
	}
	if !r.o.NoVerify {
		if err := r.verify(ctx, snap.readers); err != nil {
			return none, err
		}
	}
	return reached{isCopied, snap.at}, r.mark(ctx, isCopied, snap.at)
}

// makeAndTake makes the tables as they are in the snapshot that it takes: a definition that the
// source changes in between would be in neither.
func (r *run) makeAndTake(ctx context.Context) (*snapshot, error) {
	known := len(r.report.Left)
	for range tries {
		r.report.Left, r.report.Notes, r.skipped = r.report.Left[:known], nil, nil
		shape, err := shapeOf(ctx, r.source, r.cat.databases)
		if err != nil {
			return nil, err
		}
		cat, err := readCatalog(ctx, r.source, r.cat.databases)
		if err == nil {
			r.cat = cat
			if !r.o.Overwrite {
				if err := r.refuseExisting(ctx); err != nil {
					return nil, err
				}
			}
			err = r.makeTables(ctx, r.source)
		}
		if errors.Is(err, follow.ErrGone) || follow.NumberOf(err) == errNoTable {
			continue // renamed or dropped since it was listed
		}
		if err != nil {
			return nil, err
		}
		if err := r.mark(ctx, isCopying, follow.Position{}); err != nil {
			return nil, err
		}
		snap, err := take(ctx, r.source, r.cat.databases, r.o.Threads)
		if err != nil || snap.shape == shape {
			return snap, err
		}
		snap.close()
		r.say("the source's definitions changed meanwhile: the tables are made again")
		if err := r.takeBackAll(ctx); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("the source changes its definitions all the time: import when it does not")
}

// refuseExisting finds tables of the same names in the target.
func (r *run) refuseExisting(ctx context.Context) error {
	for _, t := range r.cat.tables {
		rows, err := texts(ctx, r.target, "SELECT table_name FROM information_schema.tables WHERE table_schema = ? AND table_name = ?", t.DB, t.Of)
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			return fmt.Errorf("%s exists in Godwit already: drop or rename it, or say --overwrite to drop all that the source has, too", t)
		}
	}
	return nil
}

// prepare makes the tables that remember how far imports have come.
func (r *run) prepare(ctx context.Context) error {
	for _, q := range []string{
		"CREATE DATABASE IF NOT EXISTS " + progressDB,
		"CREATE TABLE IF NOT EXISTS " + progressDB + `.sources (source VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,
state VARCHAR(16) NOT NULL, log_file VARCHAR(255) NOT NULL, log_offset BIGINT UNSIGNED NOT NULL)`,
		"CREATE TABLE IF NOT EXISTS " + progressDB + `.skipped (source VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, db VARCHAR(64), tab VARCHAR(64),
PRIMARY KEY (source, db, tab))`,
	} {
		if _, err := r.target.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("the progress of the import cannot be kept in Godwit: %w", err)
		}
	}
	if !r.o.Overwrite {
		return nil
	}
	_, err := r.target.ExecContext(ctx, "DELETE FROM "+progressDB+".sources WHERE source = ?", r.o.From.Host)
	if err == nil {
		_, err = r.target.ExecContext(ctx, "DELETE FROM "+progressDB+".skipped WHERE source = ?", r.o.From.Host)
	}
	return err
}

// reached is how far an import has come.
type reached struct {
	state string
	at    follow.Position
}

func (r *run) progress(ctx context.Context) (reached, error) {
	return progressOf(ctx, r.target, r.o.From.Host, "")
}

// progressOf reads how far the import of a source has come.
func progressOf(ctx context.Context, q queryer, source, lock string) (p reached, err error) {
	rows, err := q.QueryContext(ctx, "SELECT state, log_file, log_offset FROM "+progressDB+".sources WHERE source = ?"+lock, source)
	if err != nil {
		return p, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&p.state, &p.at.File, &p.at.Off); err != nil {
			return p, err
		}
	}
	return p, rows.Err()
}

// mark notes a state.
func (r *run) mark(ctx context.Context, state string, at follow.Position) error {
	_, err := r.target.ExecContext(ctx, "REPLACE INTO "+progressDB+".sources VALUES (?, ?, ?, ?)", r.o.From.Host, state, at.File, at.Off)
	for _, n := range r.skipped {
		if err == nil {
			_, err = r.target.ExecContext(ctx, "REPLACE INTO "+progressDB+".skipped VALUES (?, ?, ?)", r.o.From.Host, n.DB, n.Of)
		}
	}
	return err
}

// advance notes a position in the transaction that brings the target there.
func (r *run) advance(ctx context.Context, c *sql.Conn, at follow.Position) error {
	_, err := c.ExecContext(ctx, "UPDATE "+progressDB+".sources SET log_file = ?, log_offset = ? WHERE source = ?", at.File, at.Off, r.o.From.Host)
	return err
}

// serverID is the number by which the source knows this replica: the same for the same target, so
// that a connection that hangs there is ended by the next one, and hardly another replica's.
func (r *run) serverID() uint32 {
	h := fnv.New32a()
	fmt.Fprint(h, "godwit import ", r.o.To.Host)
	return h.Sum32() | 1<<31
}

// sayEvery is how often a follower says how it does.
const sayEvery = 5 * time.Second

func one[T any](x T) []T { return []T{x} }

// withoutLeft are the tables that the target has.
func withoutLeft(r *run, all []*follow.Table) []*follow.Table {
	return slices.DeleteFunc(slices.Clone(all), func(t *follow.Table) bool { return r.leftOut(t.Name) })
}
