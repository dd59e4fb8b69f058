// Package users keeps the users and grants of go-mysql-server in the meta shard, as one blob of the
// engine's making.
//
// The engine changes them in memory under a mutex that every statement needs to see its rights. To
// write them takes as long as an ocean is wide, or fails where the meta group is out of reach. So a
// statement changes them in memory first, and makes that durable when it does not hold the mutex
// any more, before its client is told. A change that cannot be made durable is taken back.
package users

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// Store is where they are kept.
type Store struct {
	DB    kv.DB
	Users *mysql_db.MySQLDb
	// Go runs something until the node stops.
	Go func(func(context.Context)) bool
	// Behind is the error of Refresh where a change is visible that cannot be read yet.
	Behind error

	// turn is full while a change is written, or users are taken over.
	turn chan struct{}
	// ts is the version of what is in memory, but for changes that are not durable yet.
	ts atomic.Uint64
	// taken counts how often what is in memory was taken over from the store, and changes how often
	// statements have changed it. Both are written under the engine's mutex.
	taken, changes atomic.Uint64
	// durable is the last of the changes that was written, and stored what the store has, as far as
	// this node knows. Who has the turn may use them.
	durable uint64
	stored  []byte
}

// New makes a store. Its owner gives it to the engine (SetPersister).
func New(db kv.DB, of *mysql_db.MySQLDb, run func(func(context.Context)) bool, behind error) *Store {
	return &Store{DB: db, Users: of, Go: run, Behind: behind, turn: make(chan struct{}, 1)}
}

// TS is the version of what is in force here.
func (s *Store) TS() base.Timestamp { return base.Timestamp(s.ts.Load()) }

// change is what a statement has made of the users.
type change struct {
	data   []byte // all of them, also what statements before it have changed
	number uint64
	taken  uint64 // of the store, which it is a change of
}

// Persist implements mysql_db.MySQLDbPersistence. The engine's mutex is held.
func (s *Store) Persist(ctx *sql.Context, data []byte) error {
	c := change{data: data, number: s.changes.Add(1), taken: s.taken.Load()}
	if made, ok := ctx.Value(changeKey{}).(*change); ok {
		*made = c
		return nil
	}
	if st := session.Of(ctx); st != nil {
		st.Stmt.Grants = grants{s, c}
		return nil
	}
	return base.Errorf(base.CodeInvalid, "users and grants are changed by statements only")
}

type changeKey struct{}

// Change is for whoever is no statement: edit changes the users, and ends with a Persist in the
// context that it is given.
func (s *Store) Change(ctx context.Context, edit func(*sql.Context, *mysql_db.Editor) error) error {
	var c change
	ed := s.Users.Editor()
	err := edit(sql.NewContext(context.WithValue(ctx, changeKey{}, &c)), ed)
	ed.Close()
	if err != nil {
		return err
	}
	return s.write(ctx, c)
}

// grants implements session.Grants.
type grants struct {
	s *Store
	c change
}

// Write implements session.Grants.
func (g grants) Write(ctx context.Context) error { return g.s.write(ctx, g.c) }

// Drop implements session.Grants.
func (g grants) Drop() { g.s.Go(g.s.restore) }

// write makes a change durable.
func (s *Store) write(ctx context.Context, c change) error {
	err := s.inTurn(ctx, func() error { return s.writeInTurn(ctx, c) })
	if err != nil {
		s.Go(s.restore)
	}
	return schema.ClientError(err)
}

func (s *Store) inTurn(ctx context.Context, f func() error) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.turn }()
	return f()
}

func (s *Store) writeInTurn(ctx context.Context, c change) error {
	if c.taken == s.taken.Load() && c.number <= s.durable {
		return nil // a later one, which has it, was faster
	}
	ts, err := kv.Run(ctx, s.DB, kv.Options{}, func(t kv.Txn) error {
		rows, err := t.Get(ctx, []base.Key{schema.UsersKey}, kv.LockExclusive)
		if err != nil {
			return err
		}
		if c.taken != s.taken.Load() || uint64(rows[0].TS) > s.ts.Load() {
			// What would be written does not know of that change, and would undo it.
			return base.Errorf(base.CodeInvalid, "users or grants were changed through another node at the same time: "+
				"run the statement again")
		}
		t.Put(schema.UsersKey, c.data, 0)
		return nil
	})
	s.ts.Store(uint64(ts)) // after an error nothing is written until the users were read anew
	if err != nil {
		return errors.Join(err, s.takeBack())
	}
	s.durable, s.stored = c.number, c.data
	return nil
}

// takeBack has in force what the store had when this node last knew. It may have more by now: the
// outcome of a write may be unknown.
func (s *Store) takeBack() error {
	ed := s.Users.Editor()
	defer ed.Close()
	s.ts.Store(0)
	s.taken.Add(1)
	if s.stored == nil {
		return nil
	}
	err := s.Users.OverwriteUsersAndGrantData(sql.NewEmptyContext(), ed, s.stored)
	rights.Loaded(ed)
	return err
}

// restore reads the users anew, as soon as that can be done. Until then no change is in force that
// is not durable.
func (s *Store) restore(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_ = s.inTurn(ctx, s.takeBack)
	for s.Refresh(ctx) != nil && ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
	}
}

// Read reads the blob.
func (s *Store) Read(ctx context.Context) (data []byte, at base.Timestamp, err error) {
	t := s.DB.Begin(kv.Options{ReadOnly: true})
	defer t.Rollback(ctx)
	rows, err := t.Get(ctx, []base.Key{schema.UsersKey}, kv.LockNone)
	if err != nil {
		return nil, 0, err
	}
	return rows[0].Value, t.ReadTimestamp(), nil
}

// Apply takes over what was read at a timestamp, unless something newer is in force. It takes its
// turn with changes that are written: those show in the meta shard before they are over.
func (s *Store) Apply(ctx context.Context, data []byte, ts base.Timestamp) error {
	return s.inTurn(ctx, func() error { return s.applyInTurn(data, ts) })
}

func (s *Store) applyInTurn(data []byte, ts base.Timestamp) error {
	ed := s.Users.Editor()
	defer ed.Close()
	if uint64(ts) <= s.ts.Load() {
		return nil
	}
	if err := s.Users.OverwriteUsersAndGrantData(sql.NewEmptyContext(), ed, data); err != nil {
		return err
	}
	rights.Loaded(ed)
	s.taken.Add(1)
	s.stored = data
	s.ts.Store(uint64(ts))
	return nil
}

// Refresh takes over what another node has changed.
func (s *Store) Refresh(ctx context.Context) error {
	var changed base.Timestamp
	if err := s.inTurn(ctx, func() error {
		changed, _ = s.DB.MetaVersion(base.PointSpan(schema.UsersKey))
		return nil
	}); err != nil || changed <= s.TS() {
		return err
	}
	data, at, err := s.Read(ctx)
	if err != nil || data == nil {
		return err
	}
	if err := s.Apply(ctx, data, min(changed, at)); err != nil || at >= changed {
		return err
	}
	return s.Behind
}
