package backup

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// order is what a job has to do, as its record keeps it: a statement whose choices have been made,
// with keys in the place of a passphrase.
type order struct {
	Verb      verb     `json:"verb"`
	Databases []string `json:"databases,omitempty"`
	Tables    []name   `json:"tables,omitempty"`
	Place     string   `json:"place"`
	// Places are those of regions, by their names. Main is Place in the record of such a job.
	Places map[string]string `json:"places,omitempty"`
	Main   string            `json:"main,omitempty"`
	// Homes are the regions here that those of the backup become, by their names in lower case.
	Homes map[string]string `json:"homes,omitempty"`
	// Part makes the order that of the rows of one region; nil: it is none.
	Part    *partOrder       `json:"part,omitempty"`
	As      *name            `json:"as,omitempty"`
	Secrets []archive.Secret `json:"secrets,omitempty"`
	// Backup is the folder of the backup that is taken, or the last one that is restored.
	Backup string `json:"backup,omitempty"`
	Parent string `json:"parent,omitempty"`
	// Moment is that of the backup, or the one to be restored.
	Moment base.Timestamp `json:"moment,omitempty"`

	SkipMultiMaster bool `json:"skip_multi_master,omitempty"`
	SkipForeignKeys bool `json:"skip_foreign_keys,omitempty"`
	SkipVerify      bool `json:"skip_verify,omitempty"`
	// Replaces is the table whose place the flashback's takes; 0: there is none.
	Replaces base.TableID `json:"replaces,omitempty"`
	// Keep is for how long a schedule keeps what its backups lead to; 0: for ever.
	Keep time.Duration `json:"keep,omitempty"`
	// AnyDefiner: the user may make views and programs whose definers are other accounts.
	AnyDefiner bool `json:"any_definer,omitempty"`
}

// order is what the statement orders.
func (st *Statement) order() *order {
	return &order{Verb: st.verb, Databases: st.databases, Tables: st.tables, Place: st.place, Places: st.places, Homes: st.homes, As: st.as,
		SkipMultiMaster: st.skipMultiMaster, SkipForeignKeys: st.skipForeignKeys, SkipVerify: st.skipVerify}
}

// work is a job that this node does.
type work struct {
	g     *Env
	o     *order
	l     *library
	lease *job.Lease
	job   ddl.Work
	user  string
}

// outcome is what a job that has ended tells its statement.
type outcome struct {
	rows []sql.Row
	ts   base.Timestamp // the session of the statement reads at or above it; 0: anywhere
	err  error
}

// errClosing: this node stops, and has let its jobs go.
var errClosing = errors.New("this node stops: another one goes on with the job, which SHOW JOBS shows")

// submit makes a job and has it done here. Unless the statement is detached it waits for the end.
func (g *Env) submit(ctx *sql.Context, s *session.Session, st *Statement, o *order, keys *archive.Keyring) ([]sql.Row, error) {
	o.Secrets = keys.Secrets()
	spec, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	user := ctx.Client().User
	lease, err := job.Create(ctx, g.DB, job.Record{Kind: string(o.Verb), What: o.target(), User: user, Spec: spec, Brisk: o.Verb == verbLog})
	if err != nil {
		return nil, err
	}
	cancel, done := g.start(lease, o)
	if done == nil {
		return nil, errClosing
	}
	if st.detached {
		return []sql.Row{{int64(lease.ID())}}, nil
	}
	select {
	case end := <-done:
		if end.ts != 0 {
			s.Stmt.Snap = nil
			s.Wrote(end.ts)
		}
		return end.rows, end.err
	case <-ctx.Done():
	}
	if g.Closing != nil && g.Closing() {
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

// do does a job until its end, or until this node must let it go: because it stops, or because it
// was silent for so long that another one may have claimed the job.
func (g *Env) do(ctx context.Context, lease *job.Lease, o *order) (end outcome) {
	ctx, cancel := context.WithCancelCause(ctx)
	rec := lease.Record()
	w := &work{g: g, o: o, lease: lease, user: rec.User, job: g.Jobs.Resume(rec.ID, rec.Kind, rec.What, rec.Total)}
	w.job.Did(int(rec.Done))
	stop := lease.Keep(ctx, cancel, g.Log, w.job.Progress)
	end = w.perform(ctx)
	cause := context.Cause(ctx)
	cancel(nil)
	stop()
	if cause != nil {
		end.err = cause // and not what it led to
	}
	w.job.End(end.err)
	off, done := afterwards(ctx)
	defer done()
	off = kv.WithPatience(off, kv.NewPatience())
	var err error
	switch {
	case errors.Is(cause, errClosing):
		err = lease.Release(off)
	case !errors.Is(cause, job.ErrLost):
		err = lease.Finish(off, end.err)
	}
	if err != nil && !errors.Is(err, job.ErrLost) && !errors.Is(err, job.ErrEnded) { // the work has done so itself
		g.Log.Warn("how a job has ended could not be noted: another node looks at it again", "job", rec.ID, "err", err)
	}
	return end
}

// afterwards is a context for what is left to do when ctx has ended. A node that stops has no time
// for it.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	most := cleanFor
	if errors.Is(context.Cause(ctx), errClosing) {
		most = time.Second
	}
	return context.WithTimeout(context.WithoutCancel(ctx), most)
}

// perform does the work of the job's kind.
func (w *work) perform(ctx context.Context) (end outcome) {
	if w.o.Verb == verbFlashback {
		return w.flashback(ctx)
	}
	p, err := w.g.openPlace(ctx, w.o.Place, w.o.Verb != verbRestore)
	if err != nil {
		return outcome{err: schema.Invalid(err.Error())}
	}
	w.l = &library{g: w.g, place: p, keys: archive.KeyringOf(w.o.Secrets), name: w.o.Place}
	defer w.l.close()
	if w.o.Verb == verbRestore {
		w.l.given = w.o.Places
	}
	if w.o.Part != nil {
		w.l.region = w.o.Part.Region
	}
	switch w.o.Verb {
	case verbBackup:
		end = w.either(ctx, w.backup)
	case verbRestore:
		end = w.restore(ctx)
	case verbLog:
		end = w.either(ctx, w.log)
	default:
		end.err = schema.Invalid("this release knows no job of the kind " + string(w.o.Verb) + ": upgrade this node")
	}
	return end
}

// either does the work of an order, or of a region's part of it.
func (w *work) either(ctx context.Context, fn func(context.Context) outcome) outcome {
	if w.o.Part != nil {
		return w.part(ctx, fn)
	}
	return fn(ctx)
}

// session is a context of the engine for work that no client's session is there for.
func (w *work) session(ctx context.Context) *sql.Context {
	s := session.New(sql.NewBaseSessionWithClientServer("", sql.Client{User: w.user, Address: "localhost"}, 0), w.g.Env.Env.Env)
	s.InitVariables()
	return sql.NewContext(ctx, sql.WithSession(s))
}

// followEvery is how often a node looks for jobs that nobody does, and briskEvery how often if one
// of them is brisk: what a log of changes lacks is lost with all regions.
const (
	followEvery = 5 * time.Second
	briskEvery  = time.Second
)

// Follow goes on with jobs whose nodes have died, until ctx ends.
func (g *Env) Follow(ctx context.Context) {
	tick := time.NewTicker(briskEvery)
	defer tick.Stop()
	var seen base.Timestamp
	running, brisk := true, false
	for i := 1; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		long := i%int(followEvery/briskEvery) == 0
		if !long && !brisk {
			continue
		}
		if long {
			g.runSchedules(ctx)
		}
		at, _ := g.DB.MetaVersion(job.Span())
		if at <= seen && !running {
			continue
		}
		all, err := job.List(ctx, g.DB)
		if err != nil {
			if ctx.Err() == nil {
				g.Log.Warn("the jobs could not be read", "err", err)
			}
			continue
		}
		seen, running, brisk = at, false, false
		for _, rec := range all {
			running = running || rec.State == job.Running
			brisk = brisk || rec.State == job.Running && rec.Brisk
			if carriedOut(verb(rec.Kind)) && rec.Free(g.DB.Time()) {
				g.adopt(ctx, rec)
			}
		}
		if !long {
			continue
		}
		if err := job.Forget(ctx, g.DB, all); err != nil && ctx.Err() == nil {
			g.Log.Info("old jobs could not be forgotten yet", "err", err)
		}
	}
}

// carriedOut reports whether jobs of a kind are of this package. Other packages have theirs.
func carriedOut(v verb) bool { return v == verbBackup || v == verbRestore || v == verbLog }

// adopt goes on with a job, if this node reaches its place.
func (g *Env) adopt(ctx context.Context, rec job.Record) {
	o := new(order)
	if err := json.Unmarshal(rec.Spec, o); err != nil {
		g.Log.Warn("a job cannot be read", "job", rec.ID, "err", err)
		return
	}
	if !rec.Cancel { // to end one takes nothing
		if o.Part != nil && o.Part.Region != g.region() {
			return
		}
		if err := g.reachesOf(ctx, &rec, o); err != nil {
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

// reachesOf is reaches, for a job that nobody has begun, too.
func (g *Env) reachesOf(ctx context.Context, rec *job.Record, o *order) error {
	if o.Part != nil && rec.Term == 1 {
		return g.reachesPart(ctx, o)
	}
	return g.reaches(ctx, o)
}

// reaches reports why this node cannot go on with a job: a directory of another machine may have
// the same name.
func (g *Env) reaches(ctx context.Context, o *order) error {
	if o.Verb == verbFlashback {
		return nil
	}
	p, err := g.openPlace(ctx, o.Place, false)
	if err != nil {
		return err
	}
	l := &library{g: g, place: p, keys: archive.KeyringOf(o.Secrets), name: o.Place}
	defer l.close()
	if o.Verb == verbRestore {
		l.given = o.Places
		v, err := l.volume(ctx, o.Backup)
		if err == nil && v != nil {
			_, err = l.sources(ctx, v)
		}
		if err == nil && v == nil {
			err = errors.New("the backup is not in " + o.Place + " of this node")
		}
		return err
	}
	_, err = p.Read(ctx, o.Backup+"/"+markName, mostMark)
	return err
}

// The mark of a job lies in the folder that it writes to, from its first moment on.
const (
	markName = "job"
	mostMark = 1 << 10
)

// cancelJob runs CANCEL JOB.
func (g *Env) cancelJob(ctx *sql.Context, st *Statement) ([]sql.Row, error) {
	if err := job.Cancel(ctx, g.DB, st.job); err != nil {
		return nil, err
	}
	return []sql.Row{{types.NewOkResult(0)}}, nil
}

// Waiting are the jobs that no node does at present, as SHOW JOBS shows them.
func Waiting(ctx context.Context, db kv.DB) (out []ddl.Job) {
	all, err := job.List(ctx, db)
	if err != nil {
		return nil
	}
	for _, r := range all {
		if r.Free(db.Time()) {
			out = append(out, ddl.Job{ID: r.ID, Kind: r.Kind, Table: r.What, State: "waiting", Rows: r.Done, Total: r.Total,
				Started: r.Started.Time(), Elapsed: db.Time().Sub(r.Started)})
		}
	}
	return out
}
