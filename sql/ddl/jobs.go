package ddl

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
)

// Job is a long statement, or work that follows from one, as SHOW JOBS shows it.
type Job struct {
	ID       uint64        `json:"id"`
	Kind     string        `json:"kind"` // what is done, in the words of the statement
	Table    string        `json:"table"`
	State    string        `json:"state"` // running, succeeded, failed
	Rows     int64         `json:"rows"`
	Total    int64         `json:"total"` // 0 while it is being counted
	Started  time.Time     `json:"started"`
	Elapsed  time.Duration `json:"elapsed_ns"`
	Error    string        `json:"error,omitempty"`
	Finished time.Time     `json:"finished,omitzero"`
}

// Running reports whether the job has not ended.
func (j *Job) Running() bool { return j.State == JobRunning }

// Row is the job as a row of SHOW JOBS.
func (j *Job) Row(node base.NodeID) []any {
	var total, percent, eta, rate, failure any
	if s := j.Elapsed.Seconds(); s > 0 {
		rate = math.Round(float64(j.Rows) / s)
	}
	if j.Total > 0 {
		total = j.Total
		percent = min(100, math.Round(1000*float64(j.Rows)/float64(j.Total))/10)
		if j.State == JobRunning && j.Rows > 0 && j.Rows < j.Total {
			eta = math.Round(j.Elapsed.Seconds() * float64(j.Total-j.Rows) / float64(j.Rows))
		}
	}
	if j.Error != "" {
		failure = j.Error
	}
	return []any{j.ID, j.Kind, j.Table, node, j.State, j.Rows, total, percent, rate, eta, j.Started,
		math.Round(1e3*j.Elapsed.Seconds()) / 1e3, failure}
}

// The states of a job.
const (
	JobRunning   = "running"
	JobSucceeded = "succeeded"
	jobFailed    = "failed"

	jobsKept    = 50               // finished ones remembered
	jobLogEvery = 10 * time.Second // between two lines in the log
)

// Jobs are those of one gateway; they are forgotten when it stops, as is the work itself.
type Jobs struct {
	g   *Env
	seq atomic.Uint64

	mu   sync.Mutex
	list []*job // oldest first
}

type job struct {
	owner *Jobs
	rows  atomic.Int64
	total atomic.Int64
	pid   uint64 // of the statement
	stop  context.CancelFunc

	mu     sync.Mutex
	desc   Job
	logged time.Time
}

// Begin registers a job that reads all rows of a table; no statement waits for it if ctx is nil.
func (o *Jobs) Begin(ctx *sql.Context, kind string, t *schema.Table) *job {
	j := o.add(ctx, kind, t.Desc.DB+"."+t.Desc.Name)
	ended, end := context.WithCancel(context.Background())
	j.stop = end
	o.g.Go(func(ctx context.Context) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(ended, cancel)()
		if n, err := o.g.Stats.Exact(ctx, t); err == nil {
			j.total.Store(int64(n))
		}
	})
	if ctx != nil && ctx.ProcessList != nil {
		ctx.ProcessList.AddTableProgress(j.pid, t.Desc.Name, int64(o.g.Stats.Rows(t)))
	}
	return j
}

// add registers a job about a table, or about what its kind says.
func (o *Jobs) add(ctx *sql.Context, kind, what string) *job {
	now := time.Now()
	j := &job{owner: o, logged: now, desc: Job{
		ID: uint64(o.g.DB.Node())<<32 | o.seq.Add(1), Kind: kind, Table: what, State: JobRunning, Started: now}}
	if ctx != nil {
		j.pid = ctx.Pid()
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, j)
	if len(o.list) > jobsKept {
		if i := slices.IndexFunc(o.list, func(j *job) bool { return j.snapshot().State != JobRunning }); i >= 0 {
			o.list = slices.Delete(o.list, i, i+1)
		}
	}
	return j
}

// did counts rows of a table.
func (j *job) did(ctx *sql.Context, t *schema.Table, n int) {
	if ctx != nil && ctx.ProcessList != nil {
		ctx.ProcessList.UpdateTableProgress(j.pid, t.Desc.Name, int64(n))
	}
	j.count(n)
}

// count counts rows, and says how far it is every few seconds in the log.
func (j *job) count(n int) {
	j.rows.Add(int64(n))
	j.mu.Lock()
	defer j.mu.Unlock()
	if time.Since(j.logged) >= jobLogEvery {
		j.logged = time.Now()
		j.owner.g.Log.Info("job is running", "job", j.desc.ID, "type", j.desc.Kind, "table", j.desc.Table, "rows",
			j.rows.Load(), "total", j.total.Load(),
			"elapsed", time.Since(j.desc.Started).Round(time.Second))
	}
}

// end notes how the job went.
func (j *job) end(err error) {
	j.stop()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.desc.State != JobRunning {
		return
	}
	j.desc.State, j.desc.Finished = JobSucceeded, time.Now()
	if err != nil {
		j.desc.State, j.desc.Error = jobFailed, err.Error()
	}
	if took := j.desc.Finished.Sub(j.desc.Started); took >= jobLogEvery || err != nil {
		j.owner.g.Log.Info("job has ended", "job", j.desc.ID, "type", j.desc.Kind, "table", j.desc.Table, "rows",
			j.rows.Load(), "elapsed", took.Round(time.Millisecond), "err", err)
	}
}

func (j *job) snapshot() Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	d := j.desc
	d.Rows, d.Total = j.rows.Load(), j.total.Load()
	end := d.Finished
	if d.State == JobRunning {
		end = time.Now()
	} else if d.State == JobSucceeded {
		d.Total = max(d.Total, d.Rows)
	}
	d.Elapsed = end.Sub(d.Started)
	return d
}

// List are the jobs, the oldest first.
func (o *Jobs) List() []Job {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]Job, len(o.list))
	for i, j := range o.list {
		out[i] = j.snapshot()
	}
	return out
}
