package migrate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/godwitdb/godwit/sql/follow"
)

// follower reads the source's log and applies it.
type follower struct {
	*run
	f      *follow.Follower
	clock  time.Duration // how far the source's clock is behind this one's
	said   time.Time
	closed bool // the source was made read only
}

// follow applies what the source commits until the context ends, or until the cut-over is done.
func (r *run) follow(ctx context.Context, from follow.Position) error {
	f := &follower{run: r, f: &follow.Follower{Target: &target{r}, ServerID: r.serverID(), At: from}}
	defer f.f.Close()
	r.say("following %s from %s on", r.o.From.Host, from)
	for wait := time.Second; ; wait = min(2*wait, 30*time.Second) {
		before := f.f.At
		err := f.once(ctx)
		var no follow.Refused
		var strange follow.Unknown
		var fatal failed
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			r.say("stopped at %s: the same command goes on from there", f.f.At)
			f.warn()
			return context.Cause(ctx)
		case errors.As(err, &no):
			f.warn()
			return fmt.Errorf("the source does not send its log from %s on: %w", f.f.At, err)
		case errors.As(err, &strange), errors.As(err, &fatal), follow.NumberOf(err) != 0 && !follow.Passing(err):
			f.warn()
			return err
		}
		r.say("trying again: %v", err)
		if f.f.At != before {
			wait = time.Second
		}
		follow.Pause(ctx, wait)
	}
}

// open connects to the source as it is reached now.
func (f *follower) open(ctx context.Context) error {
	// A COMMIT whose answer was lost may have moved it.
	p, err := f.progress(ctx)
	if err != nil {
		return err
	}
	f.f.At = p.at
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
	a := f.o.From
	host, port, err := net.SplitHostPort(a.Host)
	if err != nil {
		return err
	}
	src := follow.Source{Host: host, User: a.User, Password: a.Password}
	if src.Port, err = strconv.Atoi(port); err != nil {
		return err
	}
	switch {
	case a.TLS == "true":
		src.TLS = follow.Verified
	case cipher != "": // the source speaks TLS, which the stream does not find out
		src.TLS = follow.Encrypted
	}
	f.f.Source = src
	return f.f.Open(ctx)
}

// once follows one connection. It returns nil after a cut-over.
func (f *follower) once(ctx context.Context) error {
	if err := f.open(ctx); err != nil {
		return err
	}
	defer f.f.Close()
	var cut *cut
	for {
		before := f.f.Applied
		n, idle, err := f.f.Step(ctx)
		f.report.Applied += f.f.Applied - before
		if err != nil {
			return err
		}
		early := cut == nil // what was idle then, may not be so any more
		if f.o.CutOver && early && (idle.File != "" || n < follow.Full/2 && f.behind() <= nearly) {
			if cut, err = f.beginCut(ctx); err != nil {
				return err
			}
			defer cut.end()
		}
		if cut != nil && (f.f.At == cut.until || !early && idle == cut.until) {
			if err := f.finish(ctx, cut); err != nil {
				return failed{err}
			}
			return nil
		}
		f.tell(idle.File != "")
	}
}

// failed is an error that trying again does not help.
type failed struct{ error }

func (e failed) Unwrap() error { return e.error }

func (f *follower) tell(idle bool) {
	if time.Since(f.said) < sayEvery {
		return
	}
	f.said = time.Now()
	if idle || f.f.Latest.IsZero() {
		f.say("at %s: nothing more to apply; %d transactions so far", f.f.At, f.report.Applied)
		return
	}
	f.say("at %s, %.0f s behind; %d transactions so far", f.f.At, max(0, f.behind().Seconds()), f.report.Applied)
}

// nearly is how far behind a cut-over may begin: the log tells whole seconds.
const nearly = 2 * time.Second

// behind is how old the last transaction is by the source's clock.
func (f *follower) behind() time.Duration { return time.Since(f.f.Latest) - f.clock }

// cut is a cut-over that has begun: the source takes no changes any more.
type cut struct {
	begin time.Time
	until follow.Position
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
	if _, err := c.ExecContext(ctx, "SET GLOBAL super_read_only = 1"); err != nil && follow.NumberOf(err) != errNoSuchVar {
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
	if err := f.mark(ctx, isDone, f.f.At); err != nil {
		return err
	}
	f.report.Position, f.report.ReadOnly = f.f.At.String(), time.Since(k.begin)
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
