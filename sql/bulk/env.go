package bulk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
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
	"github.com/godwitdb/godwit/sql/bulk/share"
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

	mu   sync.Mutex
	busy map[uint64]bool // jobs that this node works for
}

// order is what a job has to do, as its record keeps it.
type order struct {
	Verb    verb    `json:"verb"`
	Account account `json:"account"`
	Place   string  `json:"place"`
	Options options `json:"options"`
	// At is Place in the record of a job that has Units.
	At    string `json:"at,omitempty"`
	Units []unit `json:"units,omitempty"`
	// Home is where new rows are at home, whichever node loads them. Nodes there share the units.
	Home base.RegionID `json:"home,omitempty"`

	// DB, Table and Fields are of an import, and so are Files.
	DB     string      `json:"db,omitempty"`
	Table  string      `json:"table,omitempty"`
	Fields string      `json:"fields,omitempty"`
	Files  []fileOrder `json:"files,omitempty"`
	// Query is that of an export, and Moment when all of it is read; 0: an older release has made
	// the job.
	Query  string         `json:"query,omitempty"`
	Moment base.Timestamp `json:"moment,omitempty"`
	// Floats are the columns that are FLOATs, and are read as DOUBLEs: a result has six digits of a
	// FLOAT.
	Floats []int `json:"floats,omitempty"`
}

// fileOrder is a file of an import.
type fileOrder struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// work is a job that this node works for.
type work struct {
	g    *Env
	o    *order
	us   []unit
	id   uint64
	p    place.Place
	book *share.Book
	me   *share.Worker

	// lease is nil, and job is empty, unless this node leads.
	lease *job.Lease
	job   ddl.Work
	// others is what other workers had done when this node looked last.
	others atomic.Int64
	read   atomic.Int64 // bytes, by others
}

func (w *work) leads() bool { return w.lease != nil }

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
	o := &order{Verb: st.verb, Home: kv.HomeRegion(g.DB), Place: st.url, Options: st.o, DB: st.db, Table: st.table, Fields: st.fields, Query: st.query}
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
		o.Moment = g.DB.Clock()
		o.Units = []unit{{}}
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
	if t := snap.Table(o.DB, o.Table); t != nil {
		return g.divideTable(ctx, o, t)
	}
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
		if err := errors.Join(o.divideFile(len(o.Files)-1, f), f.Close()); err != nil {
			return &fileError{name: at + name, err: err}
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

// start leads a job in the background until its end, until it is canceled, or until this node
// stops; done is nil if it has stopped already.
func (g *Env) start(lease *job.Lease, o *order) (cancel context.CancelCauseFunc, done <-chan outcome) {
	end := make(chan outcome, 1)
	w := &work{g: g, o: o, us: o.units(), id: lease.ID(), lease: lease, book: share.Of(g.DB, lease.ID())}
	cancel, ok := g.background(w.id, func(ctx context.Context) { end <- w.lead(ctx) })
	if !ok {
		return cancel, nil
	}
	return cancel, end
}

// background runs fn, which works for a job.
func (g *Env) background(id uint64, fn func(context.Context)) (cancel context.CancelCauseFunc, ok bool) {
	run, cancel := context.WithCancelCause(context.Background())
	g.works(id, true)
	if !g.Go(func(ctx context.Context) {
		defer cancel(nil)
		defer context.AfterFunc(ctx, func() { cancel(errClosing) })()
		defer g.works(id, false)
		fn(run)
	}) {
		g.works(id, false)
		cancel(nil)
		return cancel, false
	}
	return cancel, true
}

// works notes whether this node works for a job.
func (g *Env) works(id uint64, yes bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy == nil {
		g.busy = map[uint64]bool{}
	}
	if g.busy[id] = true; !yes {
		delete(g.busy, id)
	}
}

func (g *Env) worksFor(id uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.busy[id]
}

// lead does a job until its end, or until this node must let it go.
func (w *work) lead(ctx context.Context) (end outcome) {
	ctx, cancel := context.WithCancelCause(ctx)
	rec := w.lease.Record()
	w.job = w.g.Jobs.Resume(rec.ID, rec.Kind, rec.What, rec.Total)
	stop := w.lease.Keep(ctx, cancel, w.g.Log, w.job.Progress)
	err := w.again(ctx, func(ctx context.Context) error { return w.book.Begin(ctx, w.lease) })
	if err == nil {
		end = w.share(ctx, cancel)
	} else {
		end.err = err
	}
	cause := w.cause(ctx, end.err)
	cancel(nil)
	stop()
	if cause != nil {
		end.err = cause // and not what it led to
	}
	w.job.End(end.err)
	w.lease.Did(w.job.Progress())
	off, done := afterwards(ctx, cause)
	defer done()
	switch {
	case errors.Is(cause, errClosing):
		err = w.lease.Release(off)
	case !errors.Is(cause, job.ErrLost) && !errors.Is(end.err, job.ErrLost):
		if end.err != nil && w.o.Verb == verbExport {
			w.clean(off, end.err)
		}
		err = w.finish(off, end.err)
	}
	if err != nil && !errors.Is(err, job.ErrLost) && !errors.Is(err, job.ErrEnded) {
		w.g.Log.Warn("how a job has ended could not be noted: another node looks at it again", "job", rec.ID, "err", err)
	}
	return end
}

// cause is why the work of this node has ended before its end; nil: it has ended, or met err
// itself.
func (w *work) cause(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case cause != nil || err == nil:
		return cause
	case w.g.Closing(): // statements fail before this node knows why
		return errClosing
	case errors.Is(err, job.ErrLost) && w.leads():
		off, done := afterwards(ctx, nil)
		defer done()
		if h, err := w.book.Head(off); err == nil && h != nil && h.Failed != nil {
			return h.Failed.Err() // another node was faster than the look at it
		}
	}
	return nil
}

// afterwards is a context for what is left to do when ctx has ended. A node that stops has no time
// for it.
func afterwards(ctx context.Context, cause error) (context.Context, context.CancelFunc) {
	most := 30 * time.Second
	if errors.Is(cause, errClosing) {
		most = time.Second
	}
	off, done := context.WithTimeout(context.WithoutCancel(ctx), most)
	return kv.WithPatience(off, kv.NewPatience()), done
}

// share does units of the job beside other nodes, as long as there are some for this one.
func (w *work) share(ctx context.Context, cancel context.CancelCauseFunc) (end outcome) {
	err := w.again(ctx, func(ctx context.Context) (err error) { w.me, err = w.book.Join(ctx); return err })
	if err != nil {
		return outcome{err: err}
	}
	step(w.id, "joined")
	var look func(context.Context)
	if w.leads() {
		w.look(ctx)
		look = w.look
	}
	stop := w.me.Keep(ctx, cancel, w.g.Log, look)
	end = w.perform(ctx)
	stop()
	off, done := afterwards(ctx, context.Cause(ctx))
	defer done()
	if err := w.me.Leave(off); err != nil {
		w.g.Log.Info("others wait until this node is not heard of any more, before they do its part of a job", "job", w.id, "err", err)
	}
	return end
}

// look counts what other nodes have done.
func (w *work) look(ctx context.Context) {
	s, err := w.book.Look(ctx)
	if err != nil {
		return
	}
	rows, bytes := int64(0), int64(0)
	for id, p := range s.Progress {
		if id != w.me.ID() {
			rows, bytes = rows+p.Rows, bytes+p.Bytes
		}
	}
	w.job.Did(int(max(rows-w.others.Swap(rows), 0)))
	w.read.Store(bytes)
}

// did counts rows that this node has done.
func (w *work) did(rows int64) {
	w.me.Did(rows, 0)
	if w.leads() {
		w.job.Did(int(rows))
	}
}

// longest is for how long something is tried again that meets no more than the faults of nodes.
const longest = 10 * time.Minute

// again tries something until its outcome is known.
func (w *work) again(ctx context.Context, fn func(context.Context) error) error {
	begin := time.Now()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := fn(kv.WithPatience(ctx, kv.NewPatience()))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil || base.CodeOf(err) != base.CodeAmbiguous && !base.Retryable(err) || time.Since(begin) > longest {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait/2 + rand.N(wait)):
		}
	}
}

// waitEvery is how often the node that leads looks for units whose workers have died.
const waitEvery = 200 * time.Millisecond

// each claims units one after the other, and has fn do them, until none is left. The node that
// leads waits for those that others do.
func (w *work) each(ctx context.Context, fn func(*share.Claim) error) error {
	for {
		var got []*share.Claim
		left := 0
		err := w.again(ctx, func(ctx context.Context) (err error) { got, left, err = w.me.Claim(ctx, len(w.us)); return err })
		if err != nil {
			return err
		}
		for _, c := range got {
			step(w.id, "claimed")
			if err := fn(c); err != nil {
				return err
			}
		}
		switch {
		case left == 0, len(got) == 0 && !w.leads():
			return nil
		case len(got) == 0:
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(waitEvery):
			}
		}
	}
}

// step is called at points at which tests stop a node.
func step(job uint64, at string) {
	if atStep != nil {
		atStep(job, at)
	}
}

var atStep func(job uint64, at string)

// finish ends the job, and removes what was noted of it.
func (w *work) finish(ctx context.Context, cause error) error {
	_, err := kv.Run(ctx, w.g.DB, kv.Options{}, func(t kv.Txn) error {
		if err := w.book.Remove(ctx, t); err != nil {
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

// followEvery is how often a node looks for jobs that nobody does, or that it can help with; tests
// look more often.
var followEvery = 5 * time.Second

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
			switch {
			case rec.Free(g.DB.Time()):
				g.adopt(ctx, rec)
			case rec.State == job.Running && !rec.Cancel && !g.worksFor(rec.ID):
				g.help(ctx, rec)
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

// help does units of a job that another node leads, if there are some that nobody does.
func (g *Env) help(ctx context.Context, rec job.Record) {
	o := new(order)
	if err := json.Unmarshal(rec.Spec, o); err != nil || len(o.Units) < 2 || o.Home != kv.HomeRegion(g.DB) {
		return
	}
	book := share.Of(g.DB, rec.ID)
	if h, err := book.Head(ctx); err != nil || h == nil || h.Failed != nil {
		return // nobody has begun, or it is over
	}
	s, err := book.Look(ctx)
	if err != nil || s.Done+s.Claimed >= len(o.Units) {
		return
	}
	if err := g.reaches(ctx, rec.ID, o); err != nil {
		g.Log.Info("this node cannot help with a job", "job", rec.ID, "type", rec.Kind, "err", err)
		return
	}
	w := &work{g: g, o: o, us: o.Units, id: rec.ID, book: book}
	g.background(rec.ID, w.help)
}

// help works for a job until nothing is left for this node.
func (w *work) help(ctx context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.g.Log.Info("this node helps with a job", "job", w.id, "type", w.o.Verb, "of", w.o.what())
	end := w.share(ctx, cancel)
	if w.cause(ctx, end.err) != nil || end.err == nil || errors.Is(end.err, job.ErrLost) {
		return // others go on, or know why not
	}
	w.g.Log.Info("this node has ended a job that another one leads", "job", w.id, "err", end.err)
	off, done := afterwards(ctx, nil)
	defer done()
	if err := w.book.Fail(off, failureOf(end.err), nil); err != nil {
		w.g.Log.Warn("a failure could not be noted: another node meets it again", "job", w.id, "err", err)
	}
}

// failureOf is an error as the node that leads hears of it.
func failureOf(err error) share.Failure {
	err = clientError(err)
	var me *mysql.SQLError
	if errors.As(err, &me) {
		return share.Failure{Num: me.Num, State: me.State, Text: me.Message}
	}
	return share.Failure{Text: err.Error()}
}

// reaches reports why this node cannot go on with a job: a directory of another machine may have
// the same name.
func (g *Env) reaches(ctx context.Context, id uint64, o *order) error {
	at := o.Place
	if o.Verb == verbImport {
		at, _, _ = place.Split(at)
	}
	p, err := g.Policy.Open(ctx, at, o.Verb == verbExport)
	if err != nil {
		return err
	}
	defer p.Close()
	if o.Verb == verbExport {
		_, err := p.Read(ctx, markOf(id), mostMark)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s, lerr := share.Of(g.DB, id).Look(ctx)
		if lerr == nil && s.Begun == 0 || g.seesFiles(ctx, p, id, len(o.units())) {
			return nil // nothing is done yet, or all is, but for the end
		}
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
