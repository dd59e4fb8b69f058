package etcdleader

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/godwitdb/godwit/policy/leader"
)

// Options are the settings of an [Agent].
type Options struct {
	Access   Access
	Policy   leader.Params
	Interval time.Duration // between two looks; a heartbeat of the policy. Default 1 s
	// Sidecars are the base URLs of sidecars by member name. For a member without one, etcd's own
	// figures are used.
	Sidecars map[string]string
	// Candidates are the names of the members that may lead; empty: all.
	Candidates []string
	// Serializable says that clients' reads are serializable.
	Serializable bool
	DryRun       bool
	Verbose      bool      // log every look, not only changes and the ends of windows
	Log          io.Writer // one JSON object a line
}

// Agent observes a cluster, decides which member should lead, and moves the lead.
type Agent struct {
	opts    Options
	client  *client
	policy  *leader.Policy
	members []member
	seen    map[id]*seen
	last    leader.Reason
	listed  time.Time
	memory  float64 // of the meters; 0: the default
}

// MemberLine is a member in the log.
type MemberLine struct {
	Name     string  `json:"name"`
	ID       string  `json:"id"`
	Error    string  `json:"error,omitempty"`
	Able     bool    `json:"candidate"` // may lead and is able to
	Known    bool    `json:"known"`     // its round trips have been measured
	Requests float64 `json:"requests_per_s"`
	Access   float64 `json:"access_ms"` // from an average request to this member
	Commit   float64 `json:"commit_ms"` // from this member to its nearest majority
	Cost     float64 `json:"cost_ms"`   // of an average request, were it the leader
	Utility  float64 `json:"utility_ms"`
}

// Line is one object of the log.
type Line struct {
	Time    time.Time     `json:"time"`
	Event   string        `json:"event"` // stay, move, moved, failed, error
	Reason  leader.Reason `json:"reason,omitempty"`
	Leader  string        `json:"leader,omitempty"`
	To      string        `json:"to,omitempty"`
	DryRun  bool          `json:"dry_run,omitempty"`
	Gain    float64       `json:"gain_ms,omitempty"`
	Window  int           `json:"window,omitempty"` // of intervals
	Next    int           `json:"next_window,omitempty"`
	Took    float64       `json:"took_ms,omitempty"`
	Error   string        `json:"error,omitempty"`
	Members []MemberLine  `json:"members,omitempty"`
}

// New connects and finds the members. Its errors tell the user what to do.
func New(ctx context.Context, o Options) (*Agent, error) {
	o.Interval = cmp.Or(o.Interval, time.Second)
	if o.Log == nil {
		o.Log = io.Discard
	}
	var errs []error
	if o.Interval < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("--interval %s: at least 100ms", o.Interval))
	}
	c, err := o.Access.open()
	errs = append(errs, err)
	p, err := leader.New(o.Policy)
	errs = append(errs, err)
	for name, u := range o.Sidecars {
		e, err := o.Access.endpoint(u)
		if !strings.Contains(u, "://") { // a sidecar is reached without TLS
			e, err = o.Access.endpoint("http://" + u)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--sidecars %s: %w", name, err))
		}
		o.Sidecars[name] = e
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	a := &Agent{opts: o, client: c, policy: p, seen: map[id]*seen{}}
	if err := a.list(ctx); err != nil {
		return nil, err
	}
	names := make([]string, len(a.members))
	for i, m := range a.members {
		names[i] = m.name
	}
	unknown := slices.Clone(o.Candidates)
	for name := range o.Sidecars {
		unknown = append(unknown, name)
	}
	for _, name := range unknown {
		if !slices.Contains(names, name) {
			errs = append(errs, fmt.Errorf("there is no member %q; there are %s", name, strings.Join(names, ", ")))
		}
	}
	return a, errors.Join(errs...)
}

// list reads the members anew. If the list has changed, the policy starts again, as it numbers
// members by their places.
func (a *Agent) list(ctx context.Context) error {
	ms, err := a.opts.Access.discover(ctx, a.client)
	if err != nil {
		return err
	}
	if len(ms) > 250 {
		return fmt.Errorf("a cluster of %d members is too large", len(ms))
	}
	a.listed = time.Now()
	if slices.Equal(ms, a.members) {
		return nil
	}
	a.members = ms
	a.policy, err = leader.New(a.opts.Policy)
	return err
}

// relist is how often the list of members is read.
const relist = time.Minute

// Run observes, decides and moves until the context ends. It logs errors and goes on.
func (a *Agent) Run(ctx context.Context) error {
	tick := time.NewTicker(a.opts.Interval)
	defer tick.Stop()
	last := time.Now()
	for {
		if time.Since(a.listed) > relist {
			if err := a.list(ctx); err != nil && ctx.Err() == nil {
				a.log(Line{Event: "error", Error: err.Error()})
			}
		}
		beats := max(1, int((time.Since(last)+a.opts.Interval/2)/a.opts.Interval))
		last = time.Now()
		if err := a.step(ctx, beats); err != nil && ctx.Err() == nil {
			a.log(Line{Event: "error", Error: err.Error()})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// step is one heartbeat.
func (a *Agent) step(ctx context.Context, beats int) error {
	looks := a.askAll(ctx)
	if ctx.Err() != nil {
		return nil
	}
	f := a.facts(looks, beats)
	d, err := a.policy.Observe(f)
	if err != nil {
		return err
	}
	if d.Move() || d.Reason == leader.NoBetter || d.Reason != a.last || a.opts.Verbose {
		a.log(a.line(&d, f, looks))
	}
	a.last = d.Reason
	if d.Move() {
		return a.move(ctx, &d)
	}
	return nil
}

// Once observes the cluster twice, an interval apart, and moves the lead if that gains enough. It
// has no window: it is for cron and for use by hand. The error says why it could not decide or
// move.
func (a *Agent) Once(ctx context.Context) error {
	a.memory = 1e-3
	a.facts(a.askAll(ctx), 1)
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(a.opts.Interval):
	}
	looks := a.askAll(ctx)
	f := a.facts(looks, 1)
	p := a.opts.Policy
	p.Window, p.MaxWindow, p.HoldDown = 1, 1, -1
	now, err := leader.New(p)
	if err != nil {
		return err
	}
	d, err := now.Observe(f)
	if err != nil {
		return err
	}
	a.log(a.line(&d, f, looks))
	switch {
	case d.Move():
		return a.move(ctx, &d)
	case d.Reason == leader.NoLeader:
		return errors.New("the cluster has no leader")
	case d.Reason == leader.Unmeasured:
		return errors.New("the round trips of the leader are not known yet: etcd measures 5 s after a connection " +
			"between members is made, sidecars within a second")
	}
	return nil
}

// move asks the leader to hand over.
func (a *Agent) move(ctx context.Context, d *leader.Decision) error {
	if a.opts.DryRun {
		return nil
	}
	from, to := a.members[d.From-1], a.members[d.To-1]
	begin := time.Now()
	err := a.client.move(ctx, from.url, to.id)
	l := Line{Event: "moved", Leader: from.name, To: to.name, Took: ms(time.Since(begin))}
	if err != nil {
		l.Event, l.Error = "failed", err.Error()
	}
	a.log(l)
	if err != nil {
		return fmt.Errorf("move the lead from %s to %s: %w", from.name, to.name, err)
	}
	return nil
}

func ms(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
}

func (a *Agent) line(d *leader.Decision, f *leader.Facts, looks []look) Line {
	l := Line{Event: "stay", Reason: d.Reason, DryRun: a.opts.DryRun, Gain: ms(d.Gain), Window: d.Window, Next: d.Next}
	if d.From != 0 {
		l.Leader = a.members[d.From-1].name
	}
	if d.Move() {
		l.Event, l.To = "move", a.members[d.To-1].name
	}
	for i, s := range d.Standings {
		m := MemberLine{Name: a.members[i].name, ID: a.members[i].id.String(), Able: s.Candidate, Known: s.Known,
			Requests: f.Nodes[i].Requests / a.opts.Interval.Seconds()}
		if s.Known {
			m.Access, m.Commit, m.Cost, m.Utility = ms(s.Access), ms(s.Commit), ms(s.Cost), ms(s.Utility)
		}
		if err := errors.Join(looks[i].err, looks[i].sidecar); err != nil {
			m.Error = err.Error()
		}
		l.Members = append(l.Members, m)
	}
	return l
}

func (a *Agent) log(l Line) {
	l.Time = time.Now().UTC()
	_ = json.NewEncoder(a.opts.Log).Encode(l) // an error means that the log's reader has gone
}
