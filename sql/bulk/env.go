package bulk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/sql/backup/place"
	"github.com/godwitdb/godwit/sql/bulk/rowfile"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/query"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// Env is what the statements of one gateway share.
type Env struct {
	*ddl.Env
	Policy place.Policy
	// Rights are those of the user of a statement.
	Rights func(*sql.Context) rights.Set
	// Sessions makes the sessions in which rows are loaded and read, and Closed ends one.
	Sessions *server.SessionManager
	Closed   func(*mysql.Conn)
	// Runner runs what loads rows, Query what reads them.
	Runner *query.Runner
	Query  func(ctx context.Context, c *mysql.Conn, query string, each mysql.ResultSpoolFn) error
	// Closing reports whether this gateway is about to stop.
	Closing func() bool
}

// order is what a job has to do, as its record keeps it.
type order struct {
	Verb    verb    `json:"verb"`
	Account account `json:"account"`
	Place   string  `json:"place"`
	Options options `json:"options"`

	// DB, Table and Fields are of an import, and so are Files.
	DB     string      `json:"db,omitempty"`
	Table  string      `json:"table,omitempty"`
	Fields string      `json:"fields,omitempty"`
	Files  []fileOrder `json:"files,omitempty"`
	// Query is that of an export.
	Query string `json:"query,omitempty"`
	// Floats are the columns that are FLOATs, and are read as DOUBLEs: a result has six digits of a
	// FLOAT.
	Floats []int `json:"floats,omitempty"`
}

// fileOrder is a file of an import.
type fileOrder struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// work is a job that this node does.
type work struct {
	g     *Env
	o     *order
	p     place.Place
	lease *job.Lease
	job   ddl.Work
	// records are those of an import, once they were read.
	records *records
}

// outcome is what a job that has ended tells its statement.
type outcome struct {
	rows  []sql.Row
	ts    base.Timestamp // the session of the statement reads at or above it; 0: anywhere
	wrong []string       // lines that were left out
	err   error
}

// errClosing: this node stops, and has let its jobs go.
var errClosing = errors.New("this node stops: another one goes on with the job, which SHOW JOBS shows")

// Run runs a statement.
func (g *Env) Run(ctx *sql.Context, st *Statement) ([]sql.Row, error) {
	if st.err != nil {
		return nil, st.err
	}
	if !g.Rights(ctx).Dynamic(rights.BackupAdmin) {
		return nil, rights.ErrNeeds("SUPER", rights.BackupAdmin)
	}
	s := session.Of(ctx)
	if s == nil {
		return nil, schema.Invalid(st.Name() + " needs a session")
	}
	if s.Explicit(ctx) {
		return nil, schema.Invalid(st.Name() + " is no part of a transaction: COMMIT first, or SET autocommit = 1")
	}
	o, err := g.order(ctx, st)
	if err != nil {
		return nil, clientError(err)
	}
	rows, err := g.submit(ctx, s, st, o)
	return rows, clientError(err)
}

// clientError words what only this package knows.
func clientError(err error) error {
	var f *fileError
	var p *fs.PathError
	if errors.As(err, &f) || errors.As(err, &p) {
		return schema.Invalid(err.Error())
	}
	return schema.ClientError(err)
}

// order is what a statement orders.
func (g *Env) order(ctx *sql.Context, st *Statement) (*order, error) {
	o := &order{Verb: st.verb, Place: st.url, Options: st.o, DB: st.db, Table: st.table, Fields: st.fields, Query: st.query}
	var err error
	if o.Account, err = accountOf(ctx); err != nil {
		return nil, err
	}
	if st.table != "" && st.db == "" {
		if st.db = o.Account.DB; st.db == "" {
			return nil, sql.ErrNoDatabaseSelected.New()
		}
		o.DB = st.db
	}
	if o.Verb == verbExport {
		if o.Query == "" {
			err = g.whole(ctx, o)
		}
		return o, err
	}
	if !g.Rights(ctx).Sees(o.DB, o.Table) {
		return nil, sql.ErrTableNotFound.New(o.Table)
	}
	t, err := g.table(ctx, o)
	if err != nil {
		return nil, err
	}
	o.Options.Format.Single = o.Fields == "" && len(t.Cols) == 1
	return o, g.find(ctx, o)
}

// whole makes the query of an export of a table or a view.
func (g *Env) whole(ctx context.Context, o *order) error {
	snap, err := g.Catalog.Current(ctx)
	if err != nil {
		return err
	}
	list := "*"
	if t := snap.Table(o.DB, o.Table); t != nil {
		var cols []string
		for _, c := range t.Cols {
			if c.Desc.Hidden || c.Desc.HiddenSystem {
				continue
			}
			name := quote(c.Desc.Name)
			if c.Type.Type() == sqltypes.Float32 {
				o.Floats = append(o.Floats, len(cols))
				name = "CAST(" + name + " AS DOUBLE) AS " + name
			}
			cols = append(cols, name)
		}
		list = strings.Join(cols, ", ")
	}
	o.Query = "SELECT " + list + " FROM " + quote(o.DB) + "." + quote(o.Table)
	return nil
}

// table is that of an import.
func (g *Env) table(ctx context.Context, o *order) (*schema.Table, error) {
	snap, err := g.Catalog.Current(ctx)
	if err != nil {
		return nil, err
	}
	t := snap.Table(o.DB, o.Table)
	switch {
	case t == nil && snap.View(o.DB, o.Table) != nil:
		return nil, schema.Invalid(o.DB + "." + o.Table + " is a view: name a table")
	case t == nil:
		return nil, sql.ErrTableNotFound.New(o.Table)
	case t.Desc.Locality.Kind == schema.MultiMaster, t.Desc.Locality.Async:
		return nil, schema.Invalid("rows of MULTI MASTER and asynchronous tables are not written together with the records of an import: use LOAD DATA")
	}
	return t, nil
}

// find lists the files of an import.
func (g *Env) find(ctx context.Context, o *order) error {
	at, pattern, err := place.Split(o.Place)
	if err != nil {
		return schema.Invalid(err.Error())
	}
	p, err := g.Policy.Open(ctx, at, false)
	if err != nil {
		return schema.Invalid(err.Error())
	}
	defer p.Close()
	names := []string{pattern}
	if place.IsPattern(pattern) {
		if names, err = place.Top(ctx, p); err != nil {
			return err
		}
	}
	o.Options.Format.Table = o.Table
	for _, name := range names {
		if place.IsPattern(pattern) && !matches(pattern, name) {
			continue
		}
		f, err := p.Object(ctx, name)
		if err != nil {
			return &fileError{name: at + name, err: err}
		}
		o.Files = append(o.Files, fileOrder{name, f.Size()})
		if err := f.Close(); err != nil {
			return err
		}
	}
	if len(o.Files) == 0 {
		return schema.Invalid("there is no file " + o.Place)
	}
	return nil
}

// fileError is what is wrong with a file.
type fileError struct {
	name string
	line int64
	err  error
}

func (e *fileError) Error() string {
	if e.line > 0 {
		return fmt.Sprintf("%s, line %d: %v", e.name, e.line, e.err)
	}
	return fmt.Sprintf("%s: %v", e.name, e.err)
}

func (e *fileError) Unwrap() error { return e.err }

// what is what the job does, in words.
func (o *order) what() string {
	if o.Verb == verbImport {
		return o.DB + "." + o.Table + " FROM " + o.Place
	}
	if o.Table == "" {
		return "a query INTO " + o.Place
	}
	return o.DB + "." + o.Table + " INTO " + o.Place
}

// account is that of the job's sessions. TIMESTAMPs of Parquet are in UTC.
func (o *order) account() account {
	a := o.Account
	a.ReadOnly = o.Verb == verbExport
	if o.Options.Format.Kind == rowfile.Parquet {
		a.TimeZone = "+00:00"
	}
	return a
}

// submit makes a job and has it done here. Unless the statement is detached it waits for the end.
func (g *Env) submit(ctx *sql.Context, s *session.Session, st *Statement, o *order) ([]sql.Row, error) {
	spec, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	lease, err := job.Create(ctx, g.DB, job.Record{Kind: string(o.Verb), What: o.what(), User: o.Account.User, Spec: spec})
	if err != nil {
		return nil, err
	}
	cancel, done := g.start(lease, o)
	if done == nil {
		return nil, errClosing
	}
	if st.detach {
		return []sql.Row{{int64(lease.ID())}}, nil
	}
	select {
	case end := <-done:
		if end.ts != 0 {
			s.Stmt.Snap = nil
			s.Wrote(end.ts)
		}
		for _, w := range end.wrong {
			ctx.Warn(1105, "%s", w)
		}
		return end.rows, end.err
	case <-ctx.Done():
	}
	if g.Closing() {
		return nil, errClosing
	}
	cancel(job.ErrCanceled)
	<-done
	return nil, context.Cause(ctx)
}

// start does a job in the background until its end, until it is canceled, or until this node stops;
// done is nil if it has stopped already.
func (g *Env) start(lease *job.Lease, o *order) (cancel context.CancelCauseFunc, done <-chan outcome) {
	run, cancel := context.WithCancelCause(context.Background())
	end := make(chan outcome, 1)
	if !g.Go(func(ctx context.Context) {
		defer cancel(nil)
		defer context.AfterFunc(ctx, func() { cancel(errClosing) })()
		end <- g.do(run, lease, o)
	}) {
		cancel(nil)
		return cancel, nil
	}
	return cancel, end
}

// do does a job until its end, or until this node must let it go.
func (g *Env) do(ctx context.Context, lease *job.Lease, o *order) (end outcome) {
	ctx, cancel := context.WithCancelCause(ctx)
	rec := lease.Record()
	w := &work{g: g, o: o, lease: lease, job: g.Jobs.Resume(rec.ID, rec.Kind, rec.What, rec.Total)}
	stop := lease.Keep(ctx, cancel, g.Log, w.job.Progress)
	end = w.perform(ctx)
	cause := context.Cause(ctx)
	cancel(nil)
	stop()
	if cause != nil {
		end.err = cause // and not what it led to
	}
	w.job.End(end.err)
	most := 30 * time.Second
	if errors.Is(cause, errClosing) {
		most = time.Second
	}
	off, done := context.WithTimeout(context.WithoutCancel(ctx), most)
	defer done()
	off = kv.WithPatience(off, kv.NewPatience())
	var err error
	switch {
	case errors.Is(cause, errClosing):
		err = lease.Release(off)
	case !errors.Is(cause, job.ErrLost) && !errors.Is(end.err, job.ErrLost):
		err = w.finish(off, end.err)
	}
	if err != nil && !errors.Is(err, job.ErrLost) && !errors.Is(err, job.ErrEnded) {
		g.Log.Warn("how a job has ended could not be noted: another node looks at it again", "job", rec.ID, "err", err)
	}
	return end
}

// finish ends the job, and removes the records of what it has done.
func (w *work) finish(ctx context.Context, cause error) error {
	_, err := kv.Run(ctx, w.g.DB, kv.Options{}, func(t kv.Txn) error {
		r := &records{db: w.g.DB, job: w.lease.ID()}
		if err := r.remove(ctx, t); err != nil {
			return err
		}
		return w.lease.FinishIn(ctx, t, cause)
	})
	return err
}

// perform does the work of the job's kind.
func (w *work) perform(ctx context.Context) outcome {
	at := w.o.Place
	if w.o.Verb == verbImport {
		at, _, _ = place.Split(at)
	}
	var err error
	if w.p, err = w.g.Policy.Open(ctx, at, w.o.Verb == verbExport); err != nil {
		return outcome{err: schema.Invalid(err.Error())}
	}
	defer w.p.Close()
	if w.o.Verb == verbExport {
		return w.export(ctx)
	}
	return w.importing(ctx)
}

// followEvery is how often a node looks for jobs that nobody does.
const followEvery = 5 * time.Second

// Follow goes on with jobs whose nodes have died, until ctx ends.
func (g *Env) Follow(ctx context.Context) {
	var seen base.Timestamp
	running := true
	stop := job.Regularly(ctx, followEvery, func(ctx context.Context) bool {
		at, _ := g.DB.MetaVersion(job.Span())
		if at <= seen && !running {
			return true
		}
		all, err := job.List(ctx, g.DB)
		if err != nil {
			return true // the jobs of backups are followed, too, and say so
		}
		seen, running = at, false
		for _, rec := range all {
			if v := verb(rec.Kind); v != verbImport && v != verbExport {
				continue
			}
			running = running || rec.State == job.Running
			if rec.Free(g.DB.Time()) {
				g.adopt(ctx, rec)
			}
		}
		return true
	})
	<-ctx.Done()
	stop()
}

// adopt goes on with a job, if this node reaches its files.
func (g *Env) adopt(ctx context.Context, rec job.Record) {
	o := new(order)
	if err := json.Unmarshal(rec.Spec, o); err != nil {
		g.Log.Warn("a job cannot be read", "job", rec.ID, "err", err)
		return
	}
	if !rec.Cancel { // to end one takes nothing
		if err := g.reaches(ctx, rec.ID, o); err != nil {
			g.Log.Info("this node cannot go on with a job", "job", rec.ID, "type", rec.Kind, "err", err)
			return
		}
	}
	lease, err := job.Claim(ctx, g.DB, rec.ID)
	if err != nil || lease == nil {
		return // another node was faster, or it is tried again soon
	}
	g.Log.Info("this node goes on with a job", "job", rec.ID, "type", rec.Kind, "of", rec.What, "before", rec.Node)
	cancel, _ := g.start(lease, o)
	if rec.Cancel {
		cancel(job.ErrCanceled)
	}
}

// reaches reports why this node cannot go on with a job: a directory of another machine may have
// the same name.
func (g *Env) reaches(ctx context.Context, id uint64, o *order) error {
	at := o.Place
	if o.Verb == verbImport {
		at, _, _ = place.Split(at)
	}
	p, err := g.Policy.Open(ctx, at, false)
	if err != nil {
		return err
	}
	defer p.Close()
	if o.Verb == verbExport {
		_, err := p.Read(ctx, markOf(id), mostMark)
		return err
	}
	for _, f := range o.Files {
		in, err := openFile(ctx, p, f)
		if err != nil {
			return err
		}
		in.Close()
	}
	return nil
}

// openFile opens a file of an import, which must be what it was.
func openFile(ctx context.Context, p place.Place, f fileOrder) (place.Object, error) {
	in, err := p.Object(ctx, f.Name)
	if err == nil && in.Size() != f.Size {
		err = errors.Join(fmt.Errorf("it had %d bytes when the job began, and has %d now", f.Size, in.Size()), in.Close())
	}
	return in, err
}
