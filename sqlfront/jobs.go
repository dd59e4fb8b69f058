package sqlfront

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
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
func (j *Job) Running() bool { return j.State == jobRunning }

// Columns of SHOW JOBS.
func jobColumns() []string {
	return []string{"job_id", "job_type", "table", "node", "status", "rows_done", "rows_total", "percent", "rows_per_second", "eta", "started", "elapsed", "error"}
}

// Row is the job as a row of SHOW JOBS.
func (j *Job) Row(node string) []string {
	total, percent, eta, rate := "", "", "", ""
	if s := j.Elapsed.Seconds(); s > 0 {
		rate = strconv.FormatFloat(float64(j.Rows)/s, 'f', 0, 64)
	}
	if j.Total > 0 {
		total = strconv.FormatInt(j.Total, 10)
		percent = strconv.FormatFloat(min(100, 100*float64(j.Rows)/float64(j.Total)), 'f', 1, 64)
		if j.State == jobRunning && j.Rows > 0 && j.Rows < j.Total {
			eta = time.Duration(float64(j.Elapsed) * float64(j.Total-j.Rows) / float64(j.Rows)).Round(time.Second).String()
		}
	}
	return []string{strconv.FormatUint(j.ID, 10), j.Kind, j.Table, node, j.State, strconv.FormatInt(j.Rows, 10), total, percent, rate, eta,
		j.Started.UTC().Format(time.DateTime), j.Elapsed.Round(time.Millisecond).String(), j.Error}
}

// JobTable makes the answer of SHOW JOBS of the jobs of several nodes, the newest first.
func JobTable(byNode map[string][]Job) (columns []string, rows [][]string) {
	type at struct {
		node string
		job  Job
	}
	var all []at
	for node, jobs := range byNode {
		for _, j := range jobs {
			all = append(all, at{node, j})
		}
	}
	slices.SortFunc(all, func(a, b at) int {
		return cmp.Or(b.job.Started.Compare(a.job.Started), cmp.Compare(b.job.ID, a.job.ID))
	})
	for i := range all {
		rows = append(rows, all[i].job.Row(all[i].node))
	}
	return jobColumns(), rows
}

const (
	jobRunning   = "running"
	jobSucceeded = "succeeded"
	jobFailed    = "failed"

	jobsKept    = 50               // finished ones remembered
	jobLogEvery = 10 * time.Second // between two lines in the log
)

// jobs are those of one gateway; they are forgotten when it stops, as is the work itself.
type jobs struct {
	g   *gateway
	seq atomic.Uint64

	mu   sync.Mutex
	list []*job // oldest first
}

type job struct {
	owner *jobs
	rows  atomic.Int64
	total atomic.Int64
	pid   uint64 // of the statement
	stop  context.CancelFunc

	mu     sync.Mutex
	desc   Job
	logged time.Time
}

// begin registers a job that reads all rows of a table.
func (o *jobs) begin(ctx *sql.Context, kind string, t *table) *job {
	now := time.Now()
	j := &job{owner: o, logged: now, pid: ctx.Pid(), desc: Job{
		ID: uint64(o.g.db.Node())<<32 | o.seq.Add(1), Kind: kind, Table: t.desc.DB + "." + t.desc.Name, State: jobRunning, Started: now}}
	o.mu.Lock()
	o.list = append(o.list, j)
	if len(o.list) > jobsKept {
		if i := slices.IndexFunc(o.list, func(j *job) bool { return j.snapshot().State != jobRunning }); i >= 0 {
			o.list = slices.Delete(o.list, i, i+1)
		}
	}
	o.mu.Unlock()
	cctx, cancel := context.WithCancel(context.Background())
	j.stop = cancel
	go func() {
		if n, err := o.g.stats.exact(cctx, t); err == nil {
			j.total.Store(int64(n))
		}
	}()
	if ctx.ProcessList != nil {
		ctx.ProcessList.AddTableProgress(j.pid, t.desc.Name, int64(o.g.stats.rows(t)))
	}
	return j
}

// did counts rows, and says how far it is every few seconds in the log.
func (j *job) did(ctx *sql.Context, t *table, n int) {
	j.rows.Add(int64(n))
	if ctx.ProcessList != nil {
		ctx.ProcessList.UpdateTableProgress(j.pid, t.desc.Name, int64(n))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if time.Since(j.logged) >= jobLogEvery {
		j.logged = time.Now()
		j.owner.g.log.Info("job is running", "job", j.desc.ID, "type", j.desc.Kind, "table", j.desc.Table, "rows", j.rows.Load(), "total", j.total.Load(),
			"elapsed", time.Since(j.desc.Started).Round(time.Second))
	}
}

// end notes how the job went.
func (j *job) end(err error) {
	j.stop()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.desc.State != jobRunning {
		return
	}
	j.desc.State, j.desc.Finished = jobSucceeded, time.Now()
	if err != nil {
		j.desc.State, j.desc.Error = jobFailed, err.Error()
	}
	if took := j.desc.Finished.Sub(j.desc.Started); took >= jobLogEvery || err != nil {
		j.owner.g.log.Info("job has ended", "job", j.desc.ID, "type", j.desc.Kind, "table", j.desc.Table, "rows", j.rows.Load(), "elapsed", took.Round(time.Millisecond), "err", err)
	}
}

func (j *job) snapshot() Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	d := j.desc
	d.Rows, d.Total = j.rows.Load(), j.total.Load()
	end := d.Finished
	if d.State == jobRunning {
		end = time.Now()
	} else if d.State == jobSucceeded {
		d.Total = max(d.Total, d.Rows)
	}
	d.Elapsed = end.Sub(d.Started)
	return d
}

// Sessions is the number of client connections.
func (s *Server) Sessions() (n int) {
	s.g.sessions.Range(func(_, _ any) bool { n++; return true })
	return n
}

// Jobs are those of this server, the oldest first.
func (s *Server) Jobs() []Job { return s.g.jobs.all() }

func (o *jobs) all() []Job {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]Job, len(o.list))
	for i, j := range o.list {
		out[i] = j.snapshot()
	}
	return out
}

// showJobs answers SHOW JOBS: of the whole cluster, if somebody knows it.
func (g *gateway) showJobs(ctx context.Context) [][]string {
	if g.cluster != nil {
		if _, rows, ok := g.cluster.Status(ctx, "jobs"); ok {
			return rows
		}
	}
	_, rows := JobTable(map[string][]Job{fmt.Sprint(g.db.Node()): g.jobs.all()})
	return rows
}
