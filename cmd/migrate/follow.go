package migrate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// follower reads the source's log and applies it.
type follower struct {
	*run
	a      *applier
	items  chan item
	fresh  bool // nothing was applied since the log was opened
	latest time.Time
	clock  time.Duration // how far the source's clock is behind this one's
	said   time.Time
	closed bool // the source was made read only
}

// item is what a stream brings: a change, or that there is nothing more, or its end.
type item struct {
	c   *change
	err error
	at  position // of the log
}

// follow applies what the source commits until the context ends, or until the cut-over is done.
func (r *run) follow(ctx context.Context, from position) error {
	f := &follower{run: r, a: &applier{r: r, tables: map[name]*table{}, maps: map[uint64]*tableMap{}, at: from}}
	defer f.a.close()
	r.say("following %s from %s on", r.o.From.Host, from)
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		before := f.a.at
		err := f.once(ctx)
		var no refused
		var strange unknown
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			r.say("stopped at %s: the same command goes on from there", f.a.at)
			f.warn()
			return context.Cause(ctx)
		case errors.As(err, &no):
			f.warn()
			return fmt.Errorf("the source does not send its log from %s on: %w", f.a.at, no.error)
		case errors.As(err, &strange), numberOf(err) != 0 && !passing(err):
			f.warn()
			return err
		}
		r.say("trying again: %v", err)
		if f.a.at != before {
			wait = time.Second
		}
		pause(ctx, wait)
	}
}

// once follows one connection. It returns nil after a cut-over.
func (f *follower) once(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A COMMIT whose answer was lost may have moved it.
	p, err := f.progress(ctx)
	if err != nil {
		return err
	}
	f.a.at = p.at
	cipher, err := text(ctx, f.source, 1, "SHOW SESSION STATUS LIKE 'Ssl_cipher'")
	if err != nil {
		return err
	}
	now, err := text(ctx, f.source, 0, "SELECT UNIX_TIMESTAMP()")
	if err != nil {
		return err
	}
	if seconds, err := strconv.ParseInt(now, 10, 64); err == nil {
		f.clock = time.Since(time.Unix(seconds, 0)).Truncate(time.Second)
	}
	s, err := openStream(ctx, f.o.From, cipher != "", f.a.at, f.serverID())
	if err != nil {
		return err
	}
	defer s.close()
	f.items, f.fresh = make(chan item, 1000), true
	clear(f.a.maps)
	go read(ctx, s, f.items)
	var cut *cut
	for {
		group, idle, err := f.group(ctx)
		if err != nil {
			return err
		}
		if err := f.bring(ctx, group); err != nil {
			return err
		}
		early := cut == nil // what was idle then, may not be so any more
		if f.o.CutOver && early && (idle.file != "" || len(group) < groupChanges/2 && f.behind() <= nearly) {
			if cut, err = f.beginCut(ctx); err != nil {
				return err
			}
			defer cut.end()
		}
		if cut != nil && (f.a.at == cut.until || !early && idle == cut.until) {
			if err := f.finish(ctx, cut); err != nil {
				return unknown{err}
			}
			return nil
		}
		f.tell(idle.file != "")
	}
}

// read sends what comes until the stream ends.
func read(ctx context.Context, s *stream, to chan<- item) {
	for {
		c, err := s.next(ctx)
		select {
		case to <- item{c, err, s.at}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// group takes what is there, up to the bounds of a transaction. idle is where the source's log
// ended when it had nothing more, and empty if it has.
func (f *follower) group(ctx context.Context) (group []*change, idle position, err error) {
	take := func(x item) (more bool) {
		switch {
		case x.err != nil:
			err = x.err
			return false
		case x.c == nil:
			idle = x.at
			return false
		}
		group = append(group, x.c)
		return x.c.define == nil
	}
	select {
	case x := <-f.items:
		if !take(x) {
			return group, idle, err
		}
	case <-ctx.Done():
		return nil, idle, context.Cause(ctx)
	}
	for size := group[0].bytes; len(group) < groupChanges && size < groupBytes; {
		select {
		case x := <-f.items:
			if !take(x) {
				return group, idle, err
			}
			size += x.c.bytes
		default:
			return group, idle, nil
		}
	}
	return group, idle, nil
}

// bring applies a group; a definition can only be its last.
func (f *follower) bring(ctx context.Context, group []*change) error {
	if len(group) == 0 {
		return nil
	}
	last := group[len(group)-1]
	f.latest = last.when
	if last.define != nil {
		group = group[:len(group)-1]
	}
	if len(group) > 0 {
		if err := f.a.apply(ctx, group); err != nil {
			return err
		}
		f.fresh = false
	}
	if last.define == nil {
		return nil
	}
	err := f.a.define(ctx, last, f.fresh)
	if err == nil && last.end != (position{}) {
		f.fresh = false
	}
	return err
}

func (f *follower) tell(idle bool) {
	if time.Since(f.said) < sayEvery {
		return
	}
	f.said = time.Now()
	if idle || f.latest.IsZero() {
		f.say("at %s: nothing more to apply; %d transactions so far", f.a.at, f.report.Applied)
		return
	}
	f.say("at %s, %.0f s behind; %d transactions so far", f.a.at, max(0, f.behind().Seconds()), f.report.Applied)
}

// nearly is how far behind a cut-over may begin: the log tells whole seconds.
const nearly = 2 * time.Second

// behind is how old the last transaction is by the source's clock.
func (f *follower) behind() time.Duration { return time.Since(f.latest) - f.clock }

// cut is a cut-over that has begun: the source takes no changes any more.
type cut struct {
	begin time.Time
	until position
	end   func()
}

// beginCut makes the source read only, and finds where its log ends.
func (f *follower) beginCut(ctx context.Context) (*cut, error) {
	c, err := f.source.Conn(ctx)
	if err != nil {
		return nil, err
	}
	k := &cut{begin: time.Now(), end: func() { c.Close() }}
	if err := holdWriters(ctx, c); err != nil {
		c.Close()
		return nil, fmt.Errorf("the source cannot be made read only: %w", err)
	}
	if _, err := c.ExecContext(ctx, "SET GLOBAL read_only = 1"); err != nil {
		c.Close()
		return nil, fmt.Errorf("the source cannot be made read only: %w", err)
	}
	f.closed = true
	// MySQL keeps administrators out by a variable of its own, which MariaDB 10 lacks.
	if _, err := c.ExecContext(ctx, "SET GLOBAL super_read_only = 1"); err != nil && numberOf(err) != errNoSuchVar {
		c.Close()
		return nil, err
	}
	if k.until, err = masterStatus(ctx, c); err != nil {
		c.Close()
		return nil, err
	}
	f.say("the source is read only; its log ends at %s", k.until)
	return k, nil
}

// warn says what an end before the cut-over leaves behind.
func (f *follower) warn() {
	if f.closed {
		f.say("the source is still read only: SET GLOBAL read_only = 0 there lets its clients go on")
	}
}

// finish makes what is left, once all rows are there.
func (f *follower) finish(ctx context.Context, k *cut) error {
	var err error
	if f.cat, err = readCatalog(ctx, f.source, f.cat.databases); err != nil {
		return err
	}
	f.cat.tables = withoutLeft(f.run, f.cat.tables)
	if err := f.makeObjects(ctx, f.source); err != nil {
		return err
	}
	if err := f.mark(ctx, isDone, f.a.at); err != nil {
		return err
	}
	f.report.Position, f.report.ReadOnly = f.a.at.String(), time.Since(k.begin)
	f.say("Godwit has everything: clients may go to %s. The source has been read only for %.1f s, and stays so", f.o.To.Host,
		f.report.ReadOnly.Seconds())
	if f.o.NoVerify {
		return nil
	}
	c, err := f.source.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return f.verify(ctx, one(c))
}
