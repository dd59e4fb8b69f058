package server

import (
	"cmp"
	"slices"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/backup"
	"github.com/godwitdb/godwit/sql/changefeed"
	"github.com/godwitdb/godwit/sql/ddl"
)

// JobTopic is SHOW JOBS as a topic.
func JobTopic() Topic { return jobTopic }

var jobTopic = Topic{Name: "jobs", Comment: "long statements of all nodes, the newest first", Columns: []TopicColumn{
	{Name: "job_id", Kind: TopicInt}, {Name: "job_type", Kind: TopicText}, {Name: "table_name", Kind: TopicText}, {Name: "node", Kind: TopicInt}, {Name: "status", Kind: TopicText},
	{Name: "rows_done", Kind: TopicInt},
	{Name: "rows_total", Kind: TopicInt}, {Name: "percent", Kind: TopicFloat}, {Name: "rows_per_second", Kind: TopicFloat}, {Name: "eta_s", Kind: TopicFloat},
	{Name: "started", Kind: TopicTime}, {Name: "elapsed_s", Kind: TopicFloat},
	{Name: "error", Kind: TopicText}}}

// JobRows makes the rows of SHOW JOBS of the jobs of several nodes, the newest first.
func JobRows(byNode map[base.NodeID][]ddl.Job) (rows [][]any) {
	type at struct {
		node base.NodeID
		job  ddl.Job
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
	return rows
}

// Sessions is the number of client connections.
func (s *Server) Sessions() (n int) {
	s.g.sessions.Range(func(_, _ any) bool { n++; return true })
	return n
}

// Feeds are the figures of this server's change feeds.
func (s *Server) Feeds() changefeed.Figures { return s.g.feeds.Figures() }

// Jobs are those of this server, the oldest first.
func (s *Server) Jobs() []ddl.Job { return s.g.Jobs.List() }

// showJobs answers SHOW JOBS: of the whole cluster, if the server knows it.
func (g *gateway) showJobs(ctx *sql.Context) (out []sql.Row, err error) {
	rows := [][]any(nil)
	if t, ok := g.topic(jobTopic.Name); ok {
		rows = g.cluster.Status(ctx, t.Name)
	} else {
		rows = JobRows(map[base.NodeID][]ddl.Job{g.DB.Node(): g.Jobs.List(), 0: backup.Waiting(ctx, g.DB)})
	}
	for _, values := range rows {
		r, err := jobTopic.Row(ctx, values)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}
