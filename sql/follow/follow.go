package follow

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Follower reads a source's log and applies it to a target. It has no state that outlives it but
// the target's. Only Read may be called while another method runs.
type Follower struct {
	Source Source
	Target Target
	// ServerID is the number by which the source knows this replica.
	ServerID uint32
	// Own is the target's own number: what bears it was committed here first, and comes back over
	// other servers. It is not applied again. 0: nothing does.
	Own uint32
	// At is up to where the target has everything.
	At Position
	// Applied counts transactions, and Latest is when the last of them was committed, by the
	// source's clock.
	Applied int64
	Latest  time.Time

	a     applier
	s     *stream
	items chan item
	stop  context.CancelFunc
	fresh bool // nothing was applied since the log was opened
	read  atomic.Pointer[Position]
	// source is the number of the server that the log comes from.
	source atomic.Uint32
}

// item is what a stream brings: a change, or that there is nothing more, or its end.
type item struct {
	c   *change
	err error
	at  Position // of the log
}

// Open connects to the source, and begins to read its log from At on. An error is [Lost] if it may
// go away by itself.
func (f *Follower) Open(ctx context.Context) error {
	f.Close()
	s, err := openStream(ctx, &f.Source, f.At, f.ServerID)
	var strange Unknown
	if err != nil && !errors.As(err, &strange) {
		return Lost{err}
	}
	if err != nil {
		return err
	}
	s.own = f.Own
	f.a = applier{target: f.Target, tables: map[Name]*Table{}, maps: map[uint64]*tableMap{}, at: f.At}
	ctx, f.stop = context.WithCancel(ctx)
	f.s, f.items, f.fresh = s, make(chan item, 1000), true
	at := f.At
	f.read.Store(&at)
	go f.readAhead(ctx, s, f.items)
	return nil
}

// Read is up to where the source's log was read.
func (f *Follower) Read() Position {
	if p := f.read.Load(); p != nil {
		return *p
	}
	return Position{}
}

// SourceID is the source's own number, once it has sent something; 0 before.
func (f *Follower) SourceID() uint32 { return f.source.Load() }

// Clock is how far the source's clock is behind this machine's, in whole seconds.
func (f *Follower) Clock() time.Duration {
	if f.s == nil {
		return 0
	}
	return f.s.clock
}

// Close ends the connection, and a transaction that is under way. It may be called again.
func (f *Follower) Close() {
	if f.s == nil {
		return
	}
	f.stop()
	f.s.close()
	f.a.close()
	f.s = nil
}

// Step waits for what comes next, and applies it: as many transactions as go into one, or a
// definition. n is how many they were; idle is where the source's log ended if it had nothing more,
// and empty if it has.
func (f *Follower) Step(ctx context.Context) (n int, idle Position, err error) {
	group, idle, err := f.group(ctx)
	if err != nil {
		return 0, idle, err
	}
	return len(group), idle, f.bring(ctx, group)
}

// readAhead sends what comes until the stream ends.
func (f *Follower) readAhead(ctx context.Context, s *stream, to chan<- item) {
	for {
		c, err := s.next(ctx)
		at := s.at
		f.read.Store(&at)
		f.source.Store(s.source)
		select {
		case to <- item{c, err, at}:
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
func (f *Follower) group(ctx context.Context) (group []*change, idle Position, err error) {
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
func (f *Follower) bring(ctx context.Context, group []*change) error {
	if len(group) == 0 {
		return nil
	}
	last := group[len(group)-1]
	f.Latest = last.when
	if last.define != nil {
		group = group[:len(group)-1]
	}
	if len(group) > 0 {
		applied, err := f.a.apply(ctx, group)
		if f.At = f.a.at; err != nil {
			return err
		}
		f.fresh = false
		if applied {
			f.Applied += int64(len(group))
		}
	}
	if last.define == nil {
		return nil
	}
	err := f.a.define(ctx, last, f.fresh)
	if f.At = f.a.at; err == nil && last.end != (Position{}) {
		f.fresh = false
	}
	return err
}

// Full is how many transactions a step applies at most.
const Full = groupChanges
