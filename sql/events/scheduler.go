package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// Scheduler runs events on the node of a gateway, when it is this node's turn.
type Scheduler struct {
	*ddl.Env
	// Run runs the body of an event.
	Run func(ctx *sql.Context, s *session.Session, t *schema.EventTask) error
	// On reports whether events are run.
	On func() bool

	mu      sync.Mutex
	running int
	// last is what is known of executions, as of seen.
	last map[[2]string]time.Time
	seen base.Timestamp
	// jobs is when the jobs were read last, and some whether an execution was among them.
	jobs base.Timestamp
	some bool
}

const (
	// kind is that of the jobs that run events.
	kind = "EVENT"
	// tick is how often a node looks for events that are due.
	tick = time.Second
	// turn is how much longer each node waits than the one before it in the order of an event.
	turn = 3 * time.Second
	// most is how many events a node runs at a time. Others wait.
	most = 16
	// afterwards is how long a node tries to note how an execution has ended.
	afterwards = 30 * time.Second
)

// errStopped: this node stops.
var errStopped = errors.New("the node that ran it has stopped: it is not known how far it came")

// Follow runs events that are due, until ctx ends.
func (g *Scheduler) Follow(ctx context.Context) {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if !g.On() {
			continue
		}
		if err := g.look(ctx); err != nil && ctx.Err() == nil {
			g.Log.Warn("events that may be due could not be looked at", "err", err)
		}
	}
}

// look claims the executions that are due.
func (g *Scheduler) look(ctx context.Context) error {
	if err := g.adopt(ctx); err != nil {
		return err
	}
	snap, err := g.Catalog.Current(ctx)
	if err != nil {
		return err
	}
	enabled := enabledOf(snap)
	if len(enabled) == 0 {
		return nil
	}
	if err := g.read(ctx); err != nil {
		return err
	}
	now := g.DB.Time().Time()
	for _, o := range enabled {
		at, run, over, err := due(o.Event, g.last[keyOf(o)], now)
		if err != nil {
			g.Log.Warn("an event has no times", "event", o.DB+"."+o.Name, "err", err)
			continue
		}
		if (run || over) && now.Sub(at) >= g.waits(o) && g.take() {
			if err := g.claim(ctx, o); err != nil && ctx.Err() == nil {
				g.Log.Warn("an event could not be run yet", "event", o.DB+"."+o.Name, "err", err)
			}
		}
	}
	return nil
}

func enabledOf(snap *schema.Snapshot) (out []*schema.ObjectDesc) {
	for _, d := range snap.Databases {
		for _, o := range d.Objects[schema.IxEvent] {
			if o.Event.Status == sql.EventStatus_Enable.String() && o.Definer != nil {
				out = append(out, o)
			}
		}
	}
	slices.SortFunc(out, func(a, b *schema.ObjectDesc) int { return int(int64(a.Seq - b.Seq)) })
	return out
}

func keyOf(o *schema.ObjectDesc) [2]string { return schema.EventName(o.DB, o.Name) }

// read reads when events were executed last, if that has changed.
func (g *Scheduler) read(ctx context.Context) error {
	changed, _ := g.DB.MetaVersion(schema.EventSpan())
	if g.last != nil && changed <= g.seen {
		return nil
	}
	last, err := Executed(ctx, g.DB)
	if err == nil {
		g.last, g.seen = last, changed
	}
	return err
}

// Executed says for which times events were executed last.
func Executed(ctx context.Context, db kv.DB) (map[[2]string]time.Time, error) {
	out := map[[2]string]time.Time{}
	t := db.Begin(kv.Options{ReadOnly: true})
	defer t.Rollback(context.WithoutCancel(ctx))
	for req := (&kv.ScanRequest{Spans: []base.Span{schema.EventSpan()}}); req != nil; {
		res, err := t.Scan(ctx, *req)
		if err != nil {
			return nil, err
		}
		for _, r := range res.Rows {
			e, err := schema.ReadExecution(r.Value)
			if err != nil {
				return nil, err
			}
			out[schema.EventName(e.DB, e.Name)] = e.At
		}
		req = res.Next
	}
	return out, nil
}

// waits is how long this node waits for others that come before it in the order of an event.
func (g *Scheduler) waits(o *schema.ObjectDesc) time.Duration {
	topo, me := g.DB.Topology(), g.DB.Node()
	before := 0
	mine := g.place(o, me, topo)
	for _, n := range topo.Nodes {
		if n.ID != me && (g.Nodes == nil || g.Nodes.Live(n.ID)) && g.place(o, n.ID, topo) < mine {
			before++
		}
	}
	return time.Duration(before) * turn
}

// place is the place of a node in the order of an event: those of its region come first.
func (g *Scheduler) place(o *schema.ObjectDesc, node base.NodeID, topo *base.Topology) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s.%s/%d", o.DB, o.Name, node)
	n := h.Sum64() >> 1
	if i := slices.IndexFunc(topo.Nodes, func(x base.Node) bool { return x.ID == node }); o.Region != 0 &&
		(i < 0 || topo.Nodes[i].Region != o.Region) {
		n |= 1 << 63
	}
	return n
}

// take takes a place for an execution; false: this node runs too many.
func (g *Scheduler) take() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running >= most {
		return false
	}
	g.running++
	return true
}

func (g *Scheduler) give() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
}

// claim claims an execution, and begins it. An event that is over only ends.
func (g *Scheduler) claim(ctx context.Context, o *schema.ObjectDesc) error {
	var made job.Record
	_, err := kv.Run(ctx, g.DB, kv.Options{}, func(t kv.Txn) (err error) {
		made = job.Record{}
		made, err = g.claimIn(ctx, t, o)
		return err
	})
	if err != nil || made.ID == 0 {
		g.give()
		return err
	}
	g.begin(job.Hold(g.DB, made))
	return nil
}

// claimIn looks again whether an event is due, under locks, and makes the job; the record has no id
// if it is not.
func (g *Scheduler) claimIn(ctx context.Context, t kv.Txn, seen *schema.ObjectDesc) (job.Record, error) {
	name, state := schema.CatalogKey(schema.IxEvent, seen.DB, seen.Name), schema.EventKey(seen.DB, seen.Name)
	rows, err := t.Get(ctx, []base.Key{name, state}, kv.LockExclusive)
	if err != nil || rows[0].Value == nil {
		return job.Record{}, err
	}
	o := new(schema.ObjectDesc)
	if err := json.Unmarshal(rows[0].Value, o); err != nil {
		return job.Record{}, base.Errorf(base.CodeCorrupt, "event %s.%s: %v", seen.DB, seen.Name, err)
	}
	var was schema.Execution
	if rows[1].Value != nil {
		if was, err = schema.ReadExecution(rows[1].Value); err != nil {
			return job.Record{}, err
		}
	}
	if o.Seq != seen.Seq || o.Event.Status != sql.EventStatus_Enable.String() || o.Definer == nil {
		return job.Record{}, nil
	}
	at, run, over, err := due(o.Event, was.At, g.DB.Time().Time())
	if err != nil || !run && !over {
		return job.Record{}, err
	}
	_, more, err := latest(o.Event, g.DB.Time().Time())
	if err != nil {
		return job.Record{}, err
	}
	if more || o.Event.OnCompletionPreserve && run {
		t.Put(state, schema.Marshal(&schema.Execution{DB: o.DB, Name: o.Name, At: at}), 0)
	}
	if !more {
		end(t, o, name, state)
	}
	if !run {
		return job.Record{}, nil
	}
	spec, err := json.Marshal(&schema.EventTask{DB: o.DB, Name: o.Name, Definer: *o.Definer, Body: o.Event.EventBody,
		SQLMode: o.Event.SqlMode, At: at})
	if err != nil {
		return job.Record{}, err
	}
	rec := job.Record{Kind: kind, What: o.DB + "." + o.Name, User: o.Definer.Name, Spec: spec}
	for us := uint64(g.DB.Clock() / 1000); ; us++ { // several events may be due at once
		rec.ID = us<<4 | uint64(g.DB.Node())&15
		if made, err := job.CreateIn(ctx, g.DB, t, rec); err != nil || made.ID != 0 {
			return made, err
		}
	}
}

// end disables an event that never is due again, or drops it.
func end(t kv.Txn, o *schema.ObjectDesc, name, state base.Key) {
	if !o.Event.OnCompletionPreserve {
		t.Delete(name)
		t.Delete(state)
		return
	}
	own, e := *o, *o.Event
	e.Status = sql.EventStatus_Disable.String()
	own.Event = &e
	t.Put(name, schema.Marshal(&own), 0)
}

// begun is the checkpoint of an execution whose body may have begun.
type begun struct {
	Begun bool `json:"begun"`
}

// begin runs an execution in the background, whose place is taken.
func (g *Scheduler) begin(lease *job.Lease) {
	run, cancel := context.WithCancelCause(context.Background())
	if !g.Go(func(ctx context.Context) {
		defer g.give()
		defer cancel(nil)
		defer context.AfterFunc(ctx, func() { cancel(errStopped) })()
		g.do(run, cancel, lease)
	}) {
		cancel(nil)
		g.give()
	}
}

// do runs the body of an execution, and notes how it has ended.
func (g *Scheduler) do(ctx context.Context, cancel context.CancelCauseFunc, lease *job.Lease) {
	rec := lease.Record()
	shown := g.Jobs.Resume(rec.ID, rec.Kind, rec.What, 0)
	err := g.body(ctx, cancel, lease)
	if cause := context.Cause(ctx); cause != nil {
		err = cause // and not what it led to
	}
	shown.End(err)
	most := afterwards
	if errors.Is(err, errStopped) {
		most = time.Second
	}
	off, done := context.WithTimeout(context.WithoutCancel(ctx), most)
	defer done()
	off = kv.WithPatience(off, kv.NewPatience())
	switch {
	case err == nil:
		err = lease.Remove(off)
	case errors.Is(err, job.ErrLost):
		return
	default:
		g.Log.Error("an event failed", "event", rec.What, "definer", rec.User, "job", rec.ID, "err", err)
		err = lease.Finish(off, err)
	}
	if err != nil && !errors.Is(err, job.ErrLost) && !errors.Is(err, job.ErrEnded) {
		g.Log.Warn("how an event has ended could not be noted", "event", rec.What, "job", rec.ID, "err", err)
	}
}

// body runs the body of an execution under its lease.
func (g *Scheduler) body(ctx context.Context, cancel context.CancelCauseFunc, lease *job.Lease) error {
	rec, task := lease.Record(), new(schema.EventTask)
	if err := json.Unmarshal(rec.Spec, task); err != nil {
		return err
	}
	if err := lease.Checkpoint(begun{true}); err != nil {
		return err
	}
	// From here on nobody else may run it.
	if err := lease.Renew(kv.WithPatience(ctx, kv.NewPatience())); err != nil {
		return err
	}
	defer lease.Keep(ctx, cancel, g.Log, nil)()
	client := sql.Client{User: task.Definer.Name, Address: task.Definer.Host}
	s := session.New(sql.NewBaseSessionWithClientServer("", client, 0), g.Env.Env.Env)
	s.InitVariables()
	defer s.SessionEnd()
	return g.Run(sql.NewContext(ctx, sql.WithSession(s)), s, task)
}

// adopt looks after executions whose nodes have died: it runs those that had not begun.
func (g *Scheduler) adopt(ctx context.Context) error {
	changed, _ := g.DB.MetaVersion(job.Span())
	if changed <= g.jobs && !g.some {
		return nil
	}
	all, err := job.List(ctx, g.DB)
	if err != nil {
		return err
	}
	g.jobs, g.some = changed, false
	for _, rec := range all {
		mine := rec.Kind == kind && rec.State == job.Running
		g.some = g.some || mine
		if !mine || !rec.Free(g.DB.Time()) || !g.take() {
			continue
		}
		lease, err := job.Claim(ctx, g.DB, rec.ID)
		if err != nil || lease == nil { // another node was faster
			g.give()
			continue
		}
		var b begun
		if _, err := lease.Restore(&b); err == nil && !b.Begun && !rec.Cancel {
			g.Log.Info("this node runs an event whose node has died", "event", rec.What, "job", rec.ID, "before", rec.Node)
			g.begin(lease)
			continue
		}
		g.give()
		why := errStopped
		if rec.Cancel {
			why = job.ErrCanceled
		}
		g.Log.Error("an event failed", "event", rec.What, "definer", rec.User, "job", rec.ID, "err", why)
		if err := lease.Finish(ctx, why); err != nil {
			return err
		}
	}
	return nil
}
