package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

const (
	// quiet is the time before a fault from which latencies are taken.
	quiet = 3 * time.Second
	// afterwards is how long clients are watched once a fault is healed, and calm the end of it,
	// from which latencies are taken.
	afterwards = 10 * time.Second
	calm       = 4 * time.Second
	// settleLimit is how long leaders may take to get where they belong in a new cluster, backLimit
	// to come back once clients have been watched. A node that was sick more often gets them later.
	settleLimit = time.Minute
	backLimit   = 15 * time.Second
)

// Result is what a fault cost.
type Result struct {
	System string `json:"system"`
	Fault  string `json:"fault"`
	What   string `json:"what"`
	Victim string `json:"victim,omitempty"`
	// Healed is how long after it struck the fault was healed.
	Healed  time.Duration `json:"healed"`
	Clients []Client      `json:"clients"`
	// Settled is how long after the mend everything was led from where it belongs again, at most;
	// Unsettled is why it was not, and the next fault needs a new cluster.
	Settled   time.Duration `json:"settled"`
	Unsettled string        `json:"unsettled,omitempty"`
	// Lost says what was acknowledged and is not there, or was answered wrongly.
	Lost []string `json:"lost,omitempty"`

	ownGap time.Duration
}

// Strike makes a fault, heals it, and reports what clients met.
func (b *Bed) Strike(ctx context.Context, f Fault) (*Result, error) {
	r := &Result{System: b.sys.name(), Fault: f.Name, What: f.What, Victim: f.Victim, ownGap: cmp.Or(f.OwnGap, Bound)}
	if err := b.settle(ctx, settleLimit); err != nil {
		return nil, fmt.Errorf("before %s: %w", f.Name, err)
	}
	sleep(ctx, quiet)
	begin := time.Now()
	w := window{before: begin.Add(-quiet), hit: begin}
	err := f.hit(ctx, b)
	if err == nil {
		sleep(ctx, f.For-time.Since(begin))
	}
	err = errors.Join(err, f.heal(ctx, b))
	r.Healed = time.Since(begin)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	healed := time.Now()
	sleep(ctx, afterwards)
	w.end = time.Now()
	w.after = w.end.Add(-calm)
	for _, s := range b.streams {
		r.Clients = append(r.Clients, s.look(w))
	}
	if err := b.settle(ctx, backLimit); err != nil {
		r.Unsettled = err.Error()
	}
	r.Settled = time.Since(healed)
	if err := b.sys.lost(ctx); err != nil {
		r.Lost = append(r.Lost, err.Error())
	}
	for _, s := range b.streams {
		if err := s.violation(); err != nil {
			r.Lost = append(r.Lost, fmt.Sprintf("%v: %v", s, err))
		}
	}
	return r, ctx.Err()
}

// settle waits until everything is led from where it belongs.
func (b *Bed) settle(parent context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(parent, limit)
	defer cancel()
	var why error
	for {
		one, done := context.WithTimeout(ctx, 3*Hang)
		err := b.sys.settled(one)
		done()
		if err == nil {
			return nil
		}
		if why == nil || ctx.Err() == nil {
			why = err // not only that the time is up
		}
		if ctx.Err() != nil {
			return fmt.Errorf("not settled within %s: %w", limit, why)
		}
		sleep(ctx, 200*time.Millisecond)
	}
}

// Broken lists the bounds that do not hold.
func (r *Result) Broken() (broken []string) {
	broken = append(broken, r.Lost...)
	for _, c := range r.Clients {
		if c.Region == r.Victim {
			if !c.Back {
				broken = append(broken, fmt.Sprintf("%s: not served again within %s of the mend (%s)", c.name(),
					afterwards, c.Err))
			}
			continue
		}
		bound := Bound
		if c.Kind == Own || c.Kind == Inserts {
			bound = r.ownGap
		}
		if c.Gap > bound {
			broken = append(broken, fmt.Sprintf("%s: %.1f s without service, bound %.1f s (%s)", c.name(),
				c.Gap.Seconds(), bound.Seconds(), c.Err))
		}
		if c.Hung > 0 {
			broken = append(broken, fmt.Sprintf("%s: %d statements took more than %s, %.1f s the longest", c.name(),
				c.Hung, Hang, c.Longest.Seconds()))
		}
		// What a key in turn costs depends on whose row it lies behind: regions that pause and come
		// back change that, with the same latency of each insert of a kind.
		if c.Back && c.Kind != Turns && c.After > c.Before+c.Before/10+slack {
			broken = append(broken, fmt.Sprintf("%s: a median of %d ms before, and of %d ms %s after the mend",
				c.name(), c.Before.Milliseconds(), c.After.Milliseconds(), afterwards))
		}
	}
	return broken
}

// slack is what a median may differ by on a machine that runs three servers and forty clients.
const slack = 15 * time.Millisecond

func (c *Client) name() string {
	return (&stream{region: c.Region, kind: c.Kind, of: c.Of, write: c.Write}).String()
}

// Gap is the longest time without service of a kind, of the victim's clients or of all others;
// found is false if there are no such clients.
func (r *Result) Gap(kind string, write, victim bool) (gap time.Duration, found bool) {
	for _, c := range r.Clients {
		if c.Kind == kind && c.Write == write && (c.Region == r.Victim) == victim {
			gap, found = max(gap, c.Gap), true
		}
	}
	return gap, found
}

// Hung counts the statements above [Hang] of clients outside the victim's region.
func (r *Result) Hung() (n int) {
	for _, c := range r.Clients {
		if c.Region != r.Victim {
			n += c.Hung
		}
	}
	return n
}

// Write prints the seconds without service by region and kind of statement.
func (r *Result) Write(out io.Writer) {
	fmt.Fprintf(out, "%s, %s: %s; mended after %.1f s, settled %.1f s later; seconds without service (no!: not served again)\n",
		r.System, r.Fault, r.What, r.Healed.Seconds(), r.Settled.Seconds())
	if r.Unsettled != "" {
		fmt.Fprintf(out, "  %s\n", r.Unsettled)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "  region\tkind\tread\twrite\thung\tlongest\tp50 before, after (read)\t(write)\n")
	type row struct{ region, kind, of string }
	var rows []row
	at := map[row][2]*Client{}
	for i := range r.Clients {
		c := &r.Clients[i]
		k := row{c.Region, c.Kind, c.Of}
		if !slices.Contains(rows, k) {
			rows = append(rows, k)
		}
		pair := at[k]
		if c.Write {
			pair[1] = c
		} else {
			pair[0] = c
		}
		at[k] = pair
	}
	for _, k := range rows {
		fmt.Fprintf(t, "  %s\t%s %s\t", k.region+map[bool]string{true: " (struck)"}[k.region == r.Victim], k.kind, k.of)
		hung, longest := 0, time.Duration(0)
		for _, c := range at[k] {
			if c == nil {
				fmt.Fprint(t, "-\t")
				continue
			}
			fmt.Fprintf(t, "%.2f%s\t", c.Gap.Seconds(), map[bool]string{false: " no!"}[c.Back])
			hung, longest = hung+c.Hung, max(longest, c.Longest)
		}
		fmt.Fprintf(t, "%d\t%.1f s", hung, longest.Seconds())
		for _, c := range at[k] {
			if c == nil {
				fmt.Fprint(t, "\t-")
			} else {
				fmt.Fprintf(t, "\t%d, %d ms", c.Before.Milliseconds(), c.After.Milliseconds())
			}
		}
		fmt.Fprintln(t)
	}
	t.Flush()
	for _, l := range r.Broken() {
		fmt.Fprintf(out, "  - %s\n", l)
	}
}
