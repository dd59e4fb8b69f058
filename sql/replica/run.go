package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/follow"
)

// running is a channel that this node follows.
type running struct {
	g      *Env
	name   string
	lease  *job.Lease
	job    ddl.Work
	cancel context.CancelCauseFunc
	done   chan struct{}

	mu sync.Mutex
	at live
}

func (r *running) progress() live {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.at
}

// update changes what others are told, which the lease stores with its next renewal.
func (r *running) update(fn func(*live)) {
	r.mu.Lock()
	fn(&r.at)
	at := r.at
	r.mu.Unlock()
	_ = r.lease.Checkpoint(at) // it has nothing that cannot be written
}

// errClosing: this node stops, and has let its jobs go.
var errClosing = errors.New("this node stops: another one goes on with the replica")

// run does a job in the background until its end, until it is stopped, or until this node stops.
// cause: it ends at once.
func (g *Env) run(lease *job.Lease, channel string, cause error) {
	run, cancel := context.WithCancelCause(context.Background())
	rec := lease.Record()
	r := &running{g: g, name: channel, lease: lease, cancel: cancel, done: make(chan struct{}), at: live{State: stateConnecting}}
	g.mu.Lock()
	if g.jobs == nil {
		g.jobs = map[uint64]*running{}
	}
	g.jobs[rec.ID] = r
	g.mu.Unlock()
	if cause != nil {
		cancel(cause)
	}
	if !g.Go(func(ctx context.Context) {
		defer cancel(nil)
		defer context.AfterFunc(ctx, func() { cancel(errClosing) })()
		r.do(run)
	}) {
		g.Log.Info("this node stops: another one goes on with the replica", "job", rec.ID)
		r.over()
	}
}

// over forgets the job at this node.
func (r *running) over() {
	r.g.mu.Lock()
	delete(r.g.jobs, r.lease.ID())
	r.g.mu.Unlock()
	close(r.done)
}

// do does the job until its end, or until this node must let it go.
func (r *running) do(ctx context.Context) {
	defer r.over()
	rec := r.lease.Record()
	r.job = r.g.Jobs.Resume(rec.ID, rec.Kind, rec.What, 0)
	r.job.Did(int(rec.Done))
	stop := r.lease.Keep(ctx, r.cancel, r.g.Log, r.job.Progress)
	err := r.follow(ctx)
	cause := context.Cause(ctx)
	r.cancel(nil)
	stop()
	if cause != nil {
		err = cause // and not what it led to
	}
	r.job.End(err)
	r.end(err)
}

// ioError is a failure of the source, or of the way there.
type ioError struct{ error }

func (e ioError) Unwrap() error { return e.error }

// Waits after failures of the cluster itself.
const (
	leastWait = 250 * time.Millisecond
	mostWait  = 30 * time.Second
)

// follow ends with an error.
func (r *running) follow(ctx context.Context) error {
	// From here on no node applies anything that has done the job before.
	c, err := change(ctx, r.g.DB, r.name, func(_ kv.Txn, c *channel) error {
		switch {
		case c.Job != r.lease.ID():
			return job.ErrCanceled
		case c.Term > r.lease.Term():
			return job.ErrLost
		}
		c.Term = r.lease.Term()
		return nil
	})
	if err != nil {
		return err
	}
	own := r.g.ServerID()
	t := &target{r: r, account: c.Account}
	defer t.close()
	f := &follow.Follower{Source: c.source(), Target: t, Own: own, ServerID: r.serverID()}
	defer f.Close()
	wait, lost := leastWait, uint64(0)
	for {
		before := f.Applied
		err := r.once(ctx, f)
		f.Close()
		t.close()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if f.Applied != before {
			wait, lost = leastWait, 0
		}
		var gone follow.Lost
		var no follow.Refused
		var strange follow.Unknown
		var io ioError
		pause := wait
		switch {
		case errors.Is(err, job.ErrCanceled), errors.Is(err, job.ErrLost):
			return err
		case errors.As(err, &gone):
			why := failed(gone.Why)
			why.Text = fmt.Sprintf("error connecting to source '%s', or reading from it: %s; it is tried again", c.what(), why.Text)
			r.update(func(l *live) { l.Connected, l.IO, l.State = false, why, stateRetry })
			if lost++; c.Retries > 0 && lost > c.Retries {
				return ioError{gone.Why}
			}
			pause = time.Duration(c.Retry) * time.Second
			if lost == 1 && f.Applied != before {
				pause = min(pause, time.Second) // a connection that was good
			}
		case errors.As(err, &no):
			return ioError{fmt.Errorf("the source does not send its log from %s on: %w", f.At, err)}
		case errors.As(err, &io), errors.As(err, &strange), follow.NumberOf(err) != 0 && !follow.Passing(err):
			return err
		default:
			wait = min(2*wait, mostWait)
			r.update(func(l *live) { l.SQL = failed(err) })
		}
		r.g.Log.Info("a replica tries again", "job", r.lease.ID(), "err", err, "in", pause)
		follow.Pause(ctx, pause)
	}
}

// once follows one connection.
func (r *running) once(ctx context.Context, f *follow.Follower) error {
	t := r.g.DB.Begin(kv.Options{ReadOnly: true})
	c, err := load(ctx, t, r.name, kv.LockNone)
	t.Rollback(context.WithoutCancel(ctx))
	switch {
	case err != nil:
		return err
	case c == nil || c.Job != r.lease.ID():
		return job.ErrCanceled
	}
	f.At = c.At // a COMMIT whose answer was lost may have moved it
	r.update(func(l *live) { l.State, l.Connected, l.Read = stateConnecting, false, f.At })
	if err := f.Open(ctx); err != nil {
		var strange follow.Unknown
		if errors.As(err, &strange) {
			return ioError{err}
		}
		return err
	}
	for {
		before := f.Applied
		_, idle, err := f.Step(ctx)
		r.job.Did(int(f.Applied - before))
		r.update(func(l *live) {
			l.Read, l.Server = f.Read(), f.SourceID()
			l.Idle = idle.File != ""
			if err != nil {
				return
			}
			l.Connected, l.State, l.IO = true, stateWaiting, nil
			l.SQL = nil
			if !f.Latest.IsZero() {
				l.Latest = f.Latest.Add(f.Clock())
			}
		})
		if err != nil {
			return err
		}
	}
}

// serverID is the number by which the source knows this replica: the same for the same channel, so
// that a connection that hangs there is ended by the next one, and hardly another replica's.
func (r *running) serverID() uint32 {
	h := fnv.New32a()
	fmt.Fprint(h, "godwit replica ", r.g.DB.Topology().ClusterID, " ", r.name)
	return h.Sum32() | 1<<31
}

// end notes in the job, and in the channel, how it has ended.
func (r *running) end(err error) {
	most := 15 * time.Second
	if errors.Is(err, errClosing) {
		most = time.Second
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	ctx = kv.WithPatience(ctx, kv.NewPatience())
	var noted error
	switch {
	case errors.Is(err, job.ErrLost):
		return
	case errors.Is(err, errClosing):
		noted = r.lease.Release(ctx)
	default:
		canceled := errors.Is(err, job.ErrCanceled)
		if !canceled {
			r.g.Log.Error("a replica has stopped", "job", r.lease.ID(), "source", r.lease.Record().What, "err", err)
		}
		_, noted = kv.Run(ctx, r.g.DB, kv.Options{}, func(t kv.Txn) error {
			c, fail := load(ctx, t, r.name, kv.LockExclusive)
			if fail != nil {
				return fail
			}
			if c != nil && c.Job == r.lease.ID() {
				c.Job = 0
				var io ioError
				switch {
				case canceled:
				case errors.As(err, &io):
					c.IO = failed(io.error)
				default:
					c.SQL = failed(err)
				}
				if fail = c.save(t); fail != nil {
					return fail
				}
			}
			return r.lease.FinishIn(ctx, t, err)
		})
	}
	if noted != nil && !errors.Is(noted, job.ErrLost) && !errors.Is(noted, job.ErrEnded) {
		r.g.Log.Warn("how a replica has ended could not be noted: another node looks at it again", "job", r.lease.ID(), "err", noted)
	}
}

// Follow goes on with jobs whose nodes have died, until ctx ends.
func (g *Env) Follow(ctx context.Context) { job.Follow(ctx, g.DB, Kind, g.adopt) }

// adopt goes on with a job.
func (g *Env) adopt(ctx context.Context, rec job.Record) {
	var x spec
	if err := json.Unmarshal(rec.Spec, &x); err != nil {
		g.Log.Warn("a replica's job cannot be read", "job", rec.ID, "err", err)
		return
	}
	lease, err := job.Claim(ctx, g.DB, rec.ID)
	if err != nil || lease == nil {
		return // another node was faster, or it is tried again soon
	}
	g.Log.Info("this node goes on with a replica", "job", rec.ID, "source", rec.What, "before", rec.Node)
	var cause error
	if rec.Cancel {
		cause = job.ErrCanceled
	}
	g.run(lease, x.Channel, cause)
}
