// Package staging has groups log the writes of a large transaction in pieces, before they vote
// (docs/protocol.md, STAGE).
//
// The caller adds writes, in any order, but each key once. The pieces of a group are logged one
// after the other, beside the caller, and are numbered in that order. What belongs to another group
// than was thought goes into a later piece of that one.
package staging

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Host sends the pieces.
type Host interface {
	// Piece is a message to a group, without its writes and its number.
	Piece(g base.GroupID) *wire.CommitRequest
	// Log sends it. foreign are, with CodeWrongOwner, the keys that others own. It may be called
	// for several groups at once.
	Log(ctx context.Context, q *wire.CommitRequest) (foreign []*wire.Foreign, err error)
	// Misplaced learns who owns keys that were sent to others.
	Misplaced(owners []*wire.Foreign)
}

// Limits say how large a piece is, about, and how often its owners are looked for.
type Limits struct {
	Bytes, Writes int
	Reroutes      int
}

// ahead is how many pieces wait or are being logged, at most, over all groups: it bounds what they
// keep in memory.
const ahead = 4

// Stager sends the pieces of one transaction. Only Log runs beside its caller.
type Stager struct {
	host   Host
	limits Limits
	lanes  map[base.GroupID]*lane
	turns  chan struct{} // has an element for each piece that waits or is being logged
	size   int           // bytes of the writes that are in no piece yet

	mu  sync.Mutex // and of what lanes say
	err error      // of the first piece that was not logged; no others are sent then
}

// lane is what a group is sent.
type lane struct {
	group  base.GroupID
	writes []*wire.Write // of the next piece
	bytes  int
	last   chan struct{} // closed when the last piece that was sent is logged, or given up; nil: none

	pieces uint32 // that are logged; of the goroutine that logs the next one
	// What others own of the pieces so far, and who that is; guarded by Stager.mu.
	foreign []*wire.Write
	owners  []*wire.Foreign
}

// New sends nothing yet.
func New(host Host, limits Limits) *Stager {
	return &Stager{host: host, limits: limits, lanes: map[base.GroupID]*lane{}, turns: make(chan struct{}, ahead)}
}

func (s *Stager) lane(g base.GroupID) *lane {
	l := s.lanes[g]
	if l == nil {
		l = &lane{group: g}
		s.lanes[g] = l
	}
	return l
}

// Add takes a write for a group, of about so many bytes. When they are enough for a piece it is
// sent; Add waits if many are on their way.
func (s *Stager) Add(ctx context.Context, g base.GroupID, w *wire.Write, bytes int) error {
	l := s.lane(g)
	if s.put(l, w, bytes); !s.full(l) {
		return nil
	}
	s.spread(l)
	for _, g := range slices.Sorted(maps.Keys(s.lanes)) {
		if o := s.lanes[g]; s.full(o) {
			if err := s.send(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Stager) full(l *lane) bool {
	return l.bytes >= s.limits.Bytes || len(l.writes) >= s.limits.Writes
}

func (s *Stager) put(l *lane, w *wire.Write, bytes int) {
	l.writes = append(l.writes, w)
	l.bytes += bytes
	s.size += bytes
}

// Size is how many bytes have been added and are in no piece yet.
func (s *Stager) Size() int { return s.size }

// send begins to log the next piece of a group.
func (s *Stager) send(ctx context.Context, l *lane) error {
	if err := s.Err(); err != nil || len(l.writes) == 0 {
		return err
	}
	select {
	case s.turns <- struct{}{}:
	case <-ctx.Done():
		return base.Errorf(base.CodeCanceled, "request ended: %v", context.Cause(ctx))
	}
	q := s.host.Piece(l.group)
	s.size -= l.bytes
	q.Writes, l.writes, l.bytes = l.writes, nil, 0
	before, done := l.last, make(chan struct{})
	l.last = done
	go func() {
		defer func() {
			<-s.turns
			close(done)
		}()
		if before != nil {
			<-before
		}
		if s.Err() == nil {
			s.failed(s.log(ctx, l, q))
		}
	}()
	return nil
}

// Err is why a piece was not logged; nil: all were, so far.
func (s *Stager) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *Stager) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// log has a group log a piece. What others own is left for them.
func (s *Stager) log(ctx context.Context, l *lane, q *wire.CommitRequest) error {
	all := q.Writes
	for range s.limits.Reroutes {
		q.Writes, q.Stage = all, l.pieces+1
		foreign, err := s.host.Log(ctx, q)
		if base.CodeOf(err) != base.CodeWrongOwner {
			if err == nil {
				l.pieces++
			}
			return err
		}
		to := map[string]bool{}
		for _, f := range foreign {
			to[string(f.Span.Start)] = true
		}
		var stay, away []*wire.Write
		for _, w := range all {
			if to[string(w.Key)] {
				away = append(away, w)
			} else {
				stay = append(stay, w)
			}
		}
		s.mu.Lock()
		l.owners, l.foreign = append(l.owners, foreign...), append(l.foreign, away...)
		s.mu.Unlock()
		if all = stay; len(all) == 0 {
			return nil // the group owns nothing of it
		}
	}
	return s.moving()
}

func (s *Stager) moving() error {
	return base.Errorf(base.CodeUnavailable, "the owners of the written keys keep moving: retry")
}

// spread gives what others own of the pieces of a group to those.
func (s *Stager) spread(l *lane) {
	s.mu.Lock()
	ws, owners := l.foreign, l.owners
	l.foreign, l.owners = nil, nil
	s.mu.Unlock()
	if len(ws) == 0 {
		return
	}
	s.host.Misplaced(owners)
	to := map[string]base.GroupID{}
	for _, f := range owners {
		to[string(f.Span.Start)] = base.GroupID(f.Group)
	}
	for _, w := range ws {
		s.put(s.lane(to[string(w.Key)]), w, len(w.Key)+len(w.Value))
	}
}

// Flush sends what is left, and waits until all is logged.
func (s *Stager) Flush(ctx context.Context) error {
	for range s.limits.Reroutes {
		left := false
		for _, g := range slices.Sorted(maps.Keys(s.lanes)) {
			l := s.lanes[g]
			left = left || l.last != nil || len(l.writes) > 0
			if err := s.send(ctx, l); err != nil {
				return err
			}
		}
		if !left {
			return s.Err()
		}
		for _, g := range slices.Sorted(maps.Keys(s.lanes)) {
			if l := s.lanes[g]; l.last != nil {
				<-l.last
				l.last = nil
				s.spread(l)
			}
		}
	}
	return s.moving()
}

// Pieces are how many pieces each group has logged. It is called when none is under way.
func (s *Stager) Pieces() map[base.GroupID]uint32 {
	out := map[base.GroupID]uint32{}
	for g, l := range s.lanes {
		if l.pieces > 0 {
			out[g] = l.pieces
		}
	}
	return out
}

// Await waits until no piece is under way. Those that wait are not sent any more.
func (s *Stager) Await() {
	s.failed(base.Errorf(base.CodeCanceled, "the transaction has ended"))
	for _, l := range s.lanes {
		if l.last != nil {
			<-l.last
		}
	}
}
