package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/schema"
)

// A schedule is a row of the meta shard. The node that finds it due first sets its next time and
// makes the job in one transaction: so each time has one job, whatever dies.

var scheduleTable = base.MakeTableID(9, 0)

func schedules() base.Span {
	p := base.IndexPrefix(base.MetaShard, scheduleTable, 0, 0)
	return base.Span{Start: p, End: p.PrefixEnd()}
}

func scheduleKey(name string) base.Key {
	return base.AppendBytes(schedules().Start.Clone(), []byte(name))
}

// schedule is a schedule as it is stored.
type schedule struct {
	Name  string         `json:"name"`
	User  string         `json:"user"`
	Order order          `json:"order"` // of all its backups; Moment and Backup are those of the mark
	Every time.Duration  `json:"every"`
	Full  time.Duration  `json:"full"` // how old a full backup gets before the next one is taken
	Next  base.Timestamp `json:"next"`
	Job   uint64         `json:"job,omitempty"` // the last one
	// Skipped says why there was no job the last time; empty: there was one.
	Skipped string `json:"skipped,omitempty"`
	// Good is the moment of the newest backup before the last job, Failures how many have failed
	// since.
	Good     base.Timestamp `json:"good,omitempty"`
	Failures int64          `json:"failures,omitempty"`
}

// scheduleMark is the folder of the mark of a schedule.
const scheduleMark = "schedule-"

// leastEvery is the shortest time between two backups of a schedule.
const leastEvery = time.Minute

// createSchedule runs CREATE BACKUP SCHEDULE.
func (g *Env) createSchedule(ctx *sql.Context, st *Statement, l *library) ([]sql.Row, error) {
	s := &schedule{Name: st.schedule, User: ctx.Client().User, Order: *st.order(), Every: st.every, Full: st.fullEvery,
		Next: g.DB.Time()}
	if s.Full == 0 {
		s.Full = 7 * 24 * time.Hour
	}
	if err := g.settle(&s.Order); err != nil {
		return nil, err
	}
	switch {
	case s.Every < leastEvery:
		return nil, schema.Invalid("a schedule takes a backup every minute at most: EVERY 1 MINUTE, or BACKUP LOG for every change")
	case st.keep > 0 && st.keep < s.Every:
		return nil, schema.Invalid("KEEP is less than EVERY: what is kept would lead to no moment")
	}
	if _, err := l.keys.New(); err != nil {
		return nil, err
	}
	s.Order.Verb, s.Order.Secrets, s.Order.Keep = verbBackup, l.keys.Secrets(), st.keep
	s.Order.Moment = g.DB.Clock()
	s.Order.Backup = scheduleMark + archive.NewID(s.Order.Moment)
	snap, err := schema.LoadSnapshot(ctx, g.DB, nil, s.Order.Moment)
	if err != nil {
		return nil, err
	}
	c, err := chosen(&s.Order, snap)
	if err != nil {
		return nil, err
	}
	if c.by, err = g.sorting(&s.Order); err != nil {
		return nil, err
	}
	if _, multi := c.tables(); len(multi) > 0 && !s.Order.SkipMultiMaster {
		return nil, noMultiMaster(multi)
	}
	if err := l.mark(ctx, &s.Order); err != nil {
		return nil, err
	}
	_, err = kv.Run(ctx, g.DB, kv.Options{}, func(t kv.Txn) error {
		was, err := readSchedule(ctx, t, s.Name)
		if err != nil {
			return err
		}
		if was != nil {
			return schema.Invalid("backup schedule " + s.Name + " exists: drop it first")
		}
		return s.put(t)
	})
	if err != nil {
		if undo := l.place.Remove(ctx, s.Order.Backup+"/"+markName); undo != nil {
			err = errors.Join(err, undo)
		}
		return nil, err
	}
	return []sql.Row{{types.NewOkResult(0)}}, nil
}

func (s *schedule) put(t kv.Txn) error {
	v, err := json.Marshal(s)
	if err == nil {
		t.Put(scheduleKey(s.Name), v, 0)
	}
	return err
}

// readSchedule reads a schedule under a lock; nil if there is none.
func readSchedule(ctx context.Context, t kv.Txn, name string) (*schedule, error) {
	rows, err := t.Get(ctx, []base.Key{scheduleKey(name)}, kv.LockExclusive)
	if err != nil || rows[0].Value == nil {
		return nil, err
	}
	return decodeSchedule(&rows[0])
}

func decodeSchedule(r *kv.Row) (*schedule, error) {
	s := new(schedule)
	if err := json.Unmarshal(r.Value, s); err != nil {
		return nil, base.Errorf(base.CodeCorrupt, "backup schedule %s: %v", r.Key, err)
	}
	return s, nil
}

// dropSchedule runs DROP BACKUP SCHEDULE. A job that it has made goes on.
func (g *Env) dropSchedule(ctx *sql.Context, st *Statement) ([]sql.Row, error) {
	var was *schedule
	_, err := kv.Run(ctx, g.DB, kv.Options{}, func(t kv.Txn) (err error) {
		if was, err = readSchedule(ctx, t, st.schedule); err != nil {
			return err
		}
		if was == nil {
			return schema.Invalid("there is no backup schedule " + st.schedule)
		}
		t.Delete(scheduleKey(st.schedule))
		return nil
	})
	if err != nil {
		return nil, err
	}
	if p, err := g.openPlace(ctx, was.Order.Place, false); err == nil { // the mark is of no more use
		defer p.Close()
		if err := p.Remove(ctx, was.Order.Backup+"/"+markName); err != nil {
			g.Log.Info("the mark of a backup schedule is left", "schedule", was.Name, "err", err)
		}
	}
	return []sql.Row{{types.NewOkResult(0)}}, nil
}

// allSchedules reads all schedules, by their names.
func (g *Env) allSchedules(ctx context.Context) (out []*schedule, err error) {
	t := g.DB.Begin(kv.Options{ReadOnly: true})
	defer t.Rollback(context.WithoutCancel(ctx))
	for req := (&kv.ScanRequest{Spans: []base.Span{schedules()}}); req != nil; {
		res, err := t.Scan(ctx, *req)
		if err != nil {
			return nil, err
		}
		for i := range res.Rows {
			s, err := decodeSchedule(&res.Rows[i])
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		}
		req = res.Next
	}
	return out, nil
}

// showSchedules runs SHOW BACKUP SCHEDULES.
func (g *Env) showSchedules(ctx *sql.Context, _ *Statement) (rows []sql.Row, err error) {
	all, err := g.allSchedules(ctx)
	if err != nil {
		return nil, err
	}
	jobs, err := job.List(ctx, g.DB)
	if err != nil {
		return nil, err
	}
	minutes := func(d time.Duration) any {
		if d == 0 {
			return nil
		}
		return int64(d / time.Minute)
	}
	for _, s := range all {
		row := sql.Row{s.Name, s.Order.target(), s.Order.Place, minutes(s.Every), minutes(s.Full), minutes(s.Order.Keep),
			moment(s.Next), nil, nil, nil, nil, nil, int64(0)}
		if s.Job != 0 {
			row[7] = int64(s.Job)
		}
		if s.Skipped != "" {
			row[8], row[9] = "skipped", s.Skipped
		} else if i := slices.IndexFunc(jobs, func(r job.Record) bool { return r.ID == s.Job }); i >= 0 {
			row[8] = string(jobs[i].State)
			if jobs[i].Error != "" {
				row[9] = jobs[i].Error
			}
		}
		good, failures := s.history(jobs)
		if row[12] = failures; good != 0 {
			row[10], row[11] = moment(good), int64(g.DB.Time().Sub(good)/time.Second)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// history is the moment of the newest backup that the schedule has taken, 0 if there is none, and
// how many have failed since. It is what the schedule has noted, and how its last job has ended, if
// that is known.
func (s *schedule) history(jobs []job.Record) (good base.Timestamp, failures int64) {
	good, failures = s.Good, s.Failures
	i := slices.IndexFunc(jobs, func(r job.Record) bool { return s.Job != 0 && r.ID == s.Job })
	switch {
	case i < 0:
	case jobs[i].State == job.Succeeded:
		return momentOf(s.Job), 0
	case jobs[i].State == job.Failed:
		failures++
	}
	return good, failures
}

// A job of a schedule is named by the moment of its backup, and the node.
func jobOf(moment base.Timestamp, node base.NodeID) uint64 {
	return uint64(moment/1000)<<4 | uint64(node)&15
}

func momentOf(id uint64) base.Timestamp { return base.Timestamp(id>>4) * 1000 }

// runSchedules makes the jobs of schedules that are due, and whose places this node sees.
func (g *Env) runSchedules(ctx context.Context) {
	all, err := g.allSchedules(ctx)
	if err != nil {
		if ctx.Err() == nil {
			g.Log.Warn("the backup schedules could not be read", "err", err)
		}
		return
	}
	for _, s := range all {
		if s.Next > g.DB.Time() {
			continue
		}
		if err := g.runSchedule(ctx, s); err != nil && ctx.Err() == nil {
			g.Log.Warn("a backup schedule could not run yet", "schedule", s.Name, "err", err)
		}
	}
}

// runSchedule makes the job of a schedule, unless another node does so.
func (g *Env) runSchedule(ctx context.Context, s *schedule) error {
	o := s.Order
	p, err := g.openPlace(ctx, o.Place, false)
	if err != nil {
		return err
	}
	l := &library{g: g, place: p, keys: archive.KeyringOf(o.Secrets), name: o.Place}
	defer l.close()
	if _, err := p.Read(ctx, o.Backup+"/"+markName, mostMark); err != nil {
		return err // a directory of another machine
	}
	incremental, err := l.builds(ctx, g, s)
	if err != nil {
		return g.skip(ctx, s, err)
	}
	if o.Moment, err = g.moment(nil, &Statement{}); err != nil {
		return err
	}
	// What the nodes that lose the race have prepared they remove again.
	h, err := g.prepare(ctx, &o, l, incremental)
	if err != nil {
		return g.skip(ctx, s, err)
	}
	defer g.release(ctx, h)
	spec, err := json.Marshal(&o)
	if err != nil {
		return err
	}
	jobs, err := job.List(ctx, g.DB)
	if err != nil {
		return err
	}
	good, failures := s.history(jobs)
	var made job.Record
	_, err = kv.Run(ctx, g.DB, kv.Options{}, func(t kv.Txn) error {
		made = job.Record{}
		now, err := g.due(ctx, t, s)
		if err != nil || now == nil {
			return err
		}
		rec := job.Record{ID: jobOf(o.Moment, g.DB.Node()), Kind: string(verbBackup), What: o.target(),
			User: s.User, Spec: spec}
		if made, err = job.CreateIn(ctx, g.DB, t, rec); err != nil || made.ID == 0 {
			return err
		}
		if now.Job == s.Job { // else another node has noted it
			now.Good, now.Failures = good, failures
		}
		now.Job, now.Skipped = made.ID, ""
		return now.put(t)
	})
	if err != nil || made.ID == 0 {
		return errors.Join(err, p.Remove(ctx, o.Backup+"/"+markName))
	}
	g.start(job.Hold(g.DB, made), &o)
	return nil
}

// due reads a schedule again, under a lock, and sets its next time; nil if its time is another one
// by now.
func (g *Env) due(ctx context.Context, t kv.Txn, s *schedule) (*schedule, error) {
	now, err := readSchedule(ctx, t, s.Name)
	if err != nil || now == nil || now.Next != s.Next || now.Order.Backup != s.Order.Backup {
		return nil, err
	}
	for now.Next <= g.DB.Time() {
		now.Next = now.Next.Add(now.Every * (1 + g.DB.Time().Sub(now.Next)/now.Every))
	}
	return now, nil
}

// skipRetry is how long after a backup could not begin its schedule tries again.
const skipRetry = time.Minute

// skip notes why a schedule takes no backup now, and has it try again soon.
func (g *Env) skip(ctx context.Context, s *schedule, why error) error {
	_, err := kv.Run(ctx, g.DB, kv.Options{}, func(t kv.Txn) error {
		now, err := g.due(ctx, t, s)
		if err != nil || now == nil {
			return err
		}
		now.Skipped, now.Next = why.Error(), min(now.Next, g.DB.Time().Add(skipRetry))
		return now.put(t)
	})
	return errors.Join(why, err)
}

// builds reports whether the next backup of a schedule is incremental. It fails if the last one has
// not ended yet.
func (l *library) builds(ctx context.Context, g *Env, s *schedule) (bool, error) {
	jobs, err := job.List(ctx, g.DB)
	if err != nil {
		return false, err
	}
	for _, r := range jobs {
		if r.ID == s.Job && r.State == job.Running {
			return false, schema.Invalid(fmt.Sprintf("job %d, the backup before, has not ended", r.ID))
		}
	}
	v, _, err := l.newest(ctx)
	if err != nil || v == nil || v.Target != s.Order.target() || !v.samePlaces(&s.Order) || v.Cluster != g.DB.Topology().ClusterID {
		return false, err
	}
	chain, err := l.chain(ctx, v)
	if err != nil {
		return false, err
	}
	// Half of an interval is for times that are not exactly so far apart.
	return len(chain) < longestChain && g.DB.Time().Sub(chain[0].Timestamp) < s.Full-s.Every/2, nil
}
