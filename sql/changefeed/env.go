package changefeed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/sql/changefeed/sink"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/feed"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// Kind is that of the jobs.
const Kind = "CHANGEFEED"

// Env is what the feeds of one gateway share.
type Env struct {
	*ddl.Env
	Policy sink.Policy
	// Rights are those of the user of a statement.
	Rights func(*sql.Context) rights.Set
	// OpenSink opens a sink for tests; nil: the policy does.
	OpenSink func(ctx context.Context, a *sink.Address, s sink.Settings) (sink.Sink, error)

	totals totals
	mu     sync.Mutex
	feeds  map[uint64]*running
}

// totals count since the start of the node.
type totals struct{ rows, bytes, marks, failures atomic.Int64 }

// Figures are those of the feeds that a node has.
type Figures struct {
	Running                      int
	Rows, Bytes, Marks, Failures int64
	// Lag is how far the feed is behind that is the farthest.
	Lag time.Duration
}

// Figures are those of this gateway's feeds.
func (g *Env) Figures() Figures {
	f := Figures{Rows: g.totals.rows.Load(), Bytes: g.totals.bytes.Load(), Marks: g.totals.marks.Load(),
		Failures: g.totals.failures.Load()}
	g.mu.Lock()
	defer g.mu.Unlock()
	f.Running = len(g.feeds)
	for _, r := range g.feeds {
		f.Lag = max(f.Lag, g.DB.Time().Sub(r.progress().Resolved))
	}
	return f
}

// spec is what a job has to do, as its record keeps it.
type spec struct {
	Of   []name `json:"of"`   // as they were called
	Sink string `json:"sink"` // with its secrets
	// Encoded is Sink where messages are not in JSON: releases that know nothing else leave the
	// job.
	Encoded string         `json:"encoded,omitempty"`
	Options options        `json:"options"`
	Since   base.Timestamp `json:"since"` // the moment of the scan, or where the changes begin
	Sign    string         `json:"sign"`  // by which a node knows that it sees the files
}

// sink is the address.
func (x *spec) sink() string { return cmp.Or(x.Encoded, x.Sink) }

// words are those of a feed.
func (g *Env) words(o *options) (*words, error) {
	w := &words{f: o.Format}
	if o.Registry == "" {
		return w, nil
	}
	a, err := sink.Parse(o.Registry)
	if err != nil {
		return nil, schema.Invalid(err.Error())
	}
	w.registry, err = g.Policy.Registry(a)
	return w, err
}

// progress is how far a job has come: its checkpoint.
type progress struct {
	// Resolved is up to when the sink has acknowledged everything.
	Resolved base.Timestamp `json:"resolved"`
	// Scan is where the scan is; nil: it has ended, or there was none.
	Scan *position `json:"scan,omitempty"`
	// Of is what the tables are called as of Resolved, in the order of the spec.
	Of    []name `json:"of"`
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"`
	// Trouble is why the sink does not take what it is sent; empty: it does.
	Trouble string `json:"trouble,omitempty"`
}

// position is where a scan goes on.
type position struct {
	Table int      `json:"table"`
	Shard int      `json:"shard"`
	Start base.Key `json:"start,omitempty"` // nil: at the beginning of the shard
}

// Run runs a statement.
func (g *Env) Run(ctx *sql.Context, st *Statement) ([]sql.Row, error) {
	if st.err != nil {
		return nil, st.err
	}
	if !g.Rights(ctx).Dynamic(rights.BackupAdmin) {
		return nil, rights.ErrNeeds("SUPER", rights.BackupAdmin)
	}
	var err error
	ok := []sql.Row{{types.NewOkResult(0)}}
	switch st.verb {
	case verbCreate:
		var rows []sql.Row
		rows, err = g.create(ctx, st)
		return rows, schema.ClientError(err)
	case verbShow:
		rows, err := g.show(ctx, st.job)
		return rows, schema.ClientError(err)
	case verbPause:
		err = job.Pause(ctx, g.DB, st.job, Kind)
	case verbResume:
		err = job.Resume(ctx, g.DB, st.job, Kind)
	}
	return ok, schema.ClientError(err)
}

func (g *Env) create(ctx *sql.Context, st *Statement) ([]sql.Row, error) {
	s := session.Of(ctx)
	if s == nil {
		return nil, schema.Invalid(st.Name() + " needs a session")
	}
	if s.Explicit(ctx) {
		return nil, schema.Invalid(st.Name() + " is no part of a transaction: COMMIT first, or SET autocommit = 1")
	}
	a, err := sink.Parse(st.sink)
	if err != nil {
		return nil, schema.Invalid(err.Error())
	}
	x := &spec{Sink: st.sink, Options: st.o, Since: g.DB.Clock()}
	if st.o.Format.Encoding != "" {
		x.Sink, x.Encoded = "", st.sink
	}
	if _, err := g.words(&st.o); err != nil {
		return nil, schema.Invalid(err.Error())
	}
	if st.cursor != "" {
		if x.Since, err = g.cursor(ctx, st.cursor); err != nil {
			return nil, err
		}
	}
	if x.Of, err = g.tables(ctx, st); err != nil {
		return nil, err
	}
	r, err := feed.Open(ctx, g.feedEnv(), g.feedOptions(x.Of, x.Since, x.Options.Protect, "CREATE CHANGEFEED"))
	if err != nil {
		return nil, schema.Invalid(err.Error())
	}
	defer r.Close() // it holds the old versions until the job does
	x.Sign = fmt.Sprintf("changefeed-%d-%d", g.DB.Clock(), g.DB.Node())
	if err := g.Policy.Sign(ctx, a, x.Sign); err != nil && g.OpenSink == nil {
		return nil, schema.Invalid(err.Error())
	}
	raw, err := json.Marshal(x)
	if err != nil {
		return nil, err
	}
	at := x.begin()
	check, err := json.Marshal(&at)
	if err != nil {
		return nil, err
	}
	lease, err := job.Create(ctx, g.DB, job.Record{Kind: Kind, What: x.what(a), User: ctx.Client().User, Spec: raw, Checkpoint: check})
	if err != nil {
		return nil, err
	}
	g.Log.Info("a change feed begins", "job", lease.ID(), "of", lease.Record().What)
	g.start(lease, x, nil)
	return []sql.Row{{int64(lease.ID())}}, nil
}

// begin is the checkpoint of a feed that has done nothing.
func (x *spec) begin() progress {
	at := progress{Resolved: x.Since, Of: x.Of}
	if x.Options.Scan != scanNo {
		at.Resolved, at.Scan = x.Since.Prev(), &position{}
	}
	return at
}

// what is the job in words, without secrets.
func (x *spec) what(a *sink.Address) string {
	var names []string
	for _, n := range x.Of {
		names = append(names, n.String())
	}
	return strings.Join(names, ", ") + " INTO " + a.String()
}

// cursor reads a moment as messages have it, or as AS OF takes it.
func (g *Env) cursor(ctx *sql.Context, text string) (base.Timestamp, error) {
	whole, logical, _ := strings.Cut(text, ".")
	if n, err := strconv.ParseUint(whole, 10, 63); err == nil && n > 1e15 && strings.Trim(logical, "0") == "" {
		return base.Timestamp(n), nil
	}
	ts, err := g.TimeAsOf(ctx, text)
	if err != nil {
		return 0, schema.Invalid(fmt.Sprintf("cursor = '%s' is no moment: give one of a message, such as '1796544195123456789.0000000000', "+
			"or a time as AS OF SYSTEM TIME takes it", text))
	}
	return ts, nil
}

// tables are those that a statement names. Who may not read one is refused.
func (g *Env) tables(ctx *sql.Context, st *Statement) (out []name, err error) {
	snap, err := schema.LoadSnapshot(ctx, g.DB, nil, g.DB.Clock())
	if err != nil {
		return nil, err
	}
	seen := map[base.TableID]bool{}
	for _, n := range st.tables {
		if n.DB == "" {
			n.DB = ctx.GetCurrentDatabase()
		}
		if n.DB == "" {
			return nil, sql.ErrNoDatabaseSelected.New()
		}
		r := g.Rights(ctx)
		if !r.Sees(n.DB, n.Table) {
			return nil, sql.ErrTableNotFound.New(n.Table)
		}
		t := snap.Table(n.DB, n.Table)
		switch {
		case !r.Table(n.DB, n.Table, sql.PrivilegeType_Select):
			return nil, rights.Refusal(ctx, "SELECT", n.Table)
		case t == nil && snap.View(n.DB, n.Table) != nil:
			return nil, schema.Invalid(n.String() + " is a view: name the tables that it reads")
		case t == nil:
			return nil, sql.ErrTableNotFound.New(n.Table)
		case seen[t.Desc.ID]:
			return nil, schema.Invalid(n.String() + " is named twice")
		}
		seen[t.Desc.ID] = true
		out = append(out, name{t.Desc.DB, t.Desc.Name})
	}
	return out, nil
}

func (g *Env) feedEnv() feed.Env { return feed.Env{DB: g.DB, Log: g.Log} }

func (g *Env) feedOptions(of []name, since base.Timestamp, behind time.Duration, why string) feed.Options {
	o := feed.Options{Since: since, MostBehind: behind, Why: why}
	for _, n := range of {
		o.Tables = append(o.Tables, feed.Name{DB: n.DB, Table: n.Table})
	}
	return o
}

// errClosing: this node stops, and has let its jobs go.
var errClosing = errors.New("this node stops: another one goes on with the feed")

// start does a job in the background until its end, until it is canceled or paused, or until this
// node stops. cause: it ends at once.
func (g *Env) start(lease *job.Lease, x *spec, cause error) {
	if !g.Go(func(ctx context.Context) {
		run, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		defer cancel(nil)
		defer context.AfterFunc(ctx, func() { cancel(errClosing) })()
		if cause != nil {
			cancel(cause)
		}
		g.do(run, lease, x)
	}) {
		g.Log.Info("this node stops: another one goes on with the feed", "job", lease.ID())
	}
}

// do does a job until its end, or until this node must let it go.
func (g *Env) do(ctx context.Context, lease *job.Lease, x *spec) {
	ctx, cancel := context.WithCancelCause(ctx)
	rec := lease.Record()
	f := &running{g: g, x: x, lease: lease, byID: map[base.TableID]int{},
		job: g.Jobs.Resume(rec.ID, rec.Kind, rec.What, 0)}
	g.mu.Lock()
	if g.feeds == nil {
		g.feeds = map[uint64]*running{}
	}
	g.feeds[rec.ID] = f
	g.mu.Unlock()
	stop := lease.Keep(ctx, cancel, g.Log, f.job.Progress)
	err := f.run(ctx)
	cause := context.Cause(ctx)
	cancel(nil)
	stop()
	g.mu.Lock()
	delete(g.feeds, rec.ID)
	g.mu.Unlock()
	if cause != nil {
		err = cause // and not what it led to
	}
	f.job.End(err)
	f.end(err)
}

// Follow goes on with jobs whose nodes have died, and with those that were resumed, until ctx ends.
func (g *Env) Follow(ctx context.Context) { job.Follow(ctx, g.DB, Kind, g.adopt) }

// adopt goes on with a job, if this node may send to its sink, and sees its files.
func (g *Env) adopt(ctx context.Context, rec job.Record) {
	x := new(spec)
	err := json.Unmarshal(rec.Spec, x)
	var a *sink.Address
	if err == nil {
		a, err = sink.Parse(x.sink())
	}
	if err != nil {
		g.Log.Warn("a change feed cannot be read", "job", rec.ID, "err", err)
		return
	}
	if !rec.Cancel && g.OpenSink == nil { // to end one takes nothing
		if err := g.Policy.Signed(ctx, a, x.Sign); err != nil {
			g.Log.Info("this node cannot go on with a change feed", "job", rec.ID, "err", err)
			return
		}
	}
	lease, err := job.Claim(ctx, g.DB, rec.ID)
	if err != nil || lease == nil {
		return // another node was faster, or it is tried again soon
	}
	g.Log.Info("this node goes on with a change feed", "job", rec.ID, "of", rec.What, "before", rec.Node)
	var cause error
	if rec.Cancel {
		cause = job.ErrCanceled
	}
	g.start(lease, x, cause)
}

// momentLayout is how moments are shown, and can be given as cursor: UTC.
const momentLayout = "2006-01-02 15:04:05.000000000"

func moment(ts base.Timestamp) string { return ts.Time().Format(momentLayout) }

// show answers SHOW CHANGEFEEDS, the newest first.
func (g *Env) show(ctx *sql.Context, only uint64) (rows []sql.Row, err error) {
	all, err := job.List(ctx, g.DB)
	if err != nil {
		return nil, err
	}
	for i := len(all) - 1; i >= 0; i-- {
		if r := &all[i]; r.Kind == Kind && (only == 0 || r.ID == only) {
			rows = append(rows, g.row(r))
		}
	}
	if only != 0 && len(rows) == 0 {
		return nil, schema.Invalid(fmt.Sprintf("job %d is no change feed: SHOW CHANGEFEEDS lists them", only))
	}
	return rows, nil
}

func (g *Env) row(r *job.Record) sql.Row {
	tables, to, _ := strings.Cut(r.What, " INTO ")
	status, failure := string(r.State), r.Error
	var resolved, lag, sent, bytes, scanning, opts any
	at, x := new(progress), new(spec)
	if len(r.Checkpoint) > 0 && json.Unmarshal(r.Checkpoint, at) == nil {
		resolved, sent, bytes, scanning = moment(at.Resolved), at.Rows, at.Bytes, "no"
		if at.Scan != nil {
			scanning = "yes"
		}
		lag = int64(g.DB.Time().Sub(at.Resolved) / time.Second)
		if failure == "" {
			failure = at.Trouble
		}
	}
	if len(r.Spec) > 0 && json.Unmarshal(r.Spec, x) == nil {
		opts = x.Options.String()
	}
	switch {
	case r.Free(g.DB.Time()):
		status = "waiting"
	case r.State == job.Running && at.Trouble != "":
		status = "retrying"
	}
	var why any
	if failure != "" {
		why = failure
	}
	return sql.Row{int64(r.ID), tables, to, r.User, status, int64(r.Node), resolved, lag, sent, bytes, scanning, why,
		moment(r.Started), opts}
}

// String is the options in the words of the statement, without secrets.
func (o *options) String() string {
	out := []string{"envelope = '" + string(o.Format.Envelope) + "'", "initial_scan = '" + string(o.Scan) + "'",
		"on_error = '" + o.OnError + "'", "schema_change_policy = '" + o.Policy + "'",
		"gc_protect_expires_after = '" + o.Protect.String() + "'"}
	for _, f := range []struct {
		name string
		on   bool
	}{{"updated", o.Format.Updated}, {"diff", o.Format.Diff}, {"key_in_value", o.Format.Key}, {"topic_in_value", o.Format.Topic},
		{"resolved", o.Marks && o.Every == 0}, {"resolved = '" + o.Every.String() + "'", o.Marks && o.Every > 0},
		{"compression = '" + o.Sink.Compression + "'", o.Sink.Compression != ""},
		{"webhook_client_timeout = '" + o.Sink.Timeout.String() + "'", o.Sink.Timeout > 0},
		{"format = '" + string(o.Format.Encoding) + "'", o.Format.Encoding != ""},
		{"confluent_schema_registry = '***'", o.Registry != ""},
		{"webhook_auth_header = '***'", o.Sink.AuthHeader != ""}} {
		if f.on {
			out = append(out, f.name)
		}
	}
	return strings.Join(out, ", ")
}

// afterwards is a context for what is left to do when ctx has ended.
func afterwards(most time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	return kv.WithPatience(ctx, kv.NewPatience()), cancel
}
