package binlog

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/feed"
	"github.com/godwitdb/godwit/sql/schema"
)

// Env is what the streams of one gateway share.
type Env struct {
	Feed feed.Env
	Log  *slog.Logger
	// Closing reports whether this gateway is about to stop; nil: nobody knows.
	Closing func() bool
}

// Identity is that of the cluster.
func (v *Env) Identity() Identity { return IdentityOf(v.Feed.DB.Topology().ClusterID) }

// fileBytes is how large the file of a client that asked by GTID may seem to grow.
const fileBytes = 1 << 30

// stream is one client that follows.
type stream struct {
	env    *Env
	sql    *sql.Context
	e      *encoder
	byFile bool // the client did not ask by GTID
	since  Position
	last   Position // of the newest GTID that was sent
	stop   Position // where the stream ends; 0: never
	beat   time.Duration
	reader *feed.Reader
	tx     *transaction
	out    func(event []byte) error
	flush  func() error
}

// where finds where a stream begins.
func (v *Env) where(r request, vars variables) (p Position, byFile bool, err error) {
	id := v.Identity()
	switch _, connects := vars["slave_connect_state"]; {
	case r.byGTID:
		p, err = id.mysqlPosition(r.gtids)
	case connects && vars.maria() && (r.file == "" || vars["slave_connect_state"] != ""):
		p, err = id.mariaPosition(vars["slave_connect_state"])
	default:
		p, ok := fileStart(r.file)
		if !ok {
			return 0, false, fatal("this cluster has no binary log file %.100q: use GTIDs, or a file that SHOW MASTER STATUS names", r.file)
		}
		if r.pos > startPos {
			return 0, false, fatal("files can be read from their beginning only, which is position 4, not from %d: use GTIDs, "+
				"or go on at position 4 of that file", r.pos)
		}
		return p, true, nil
	}
	if p == 0 && err == nil {
		err = fatal("the replica has no position: copy the data as of a GTID of this cluster, and set that as its position "+
			"(docs/changefeeds.md). The newest is %s, for MySQL %s", id.Maria(v.Feed.DB.Clock()), id.MySQL(v.Feed.DB.Clock()))
	}
	return p, false, err
}

// dump sends events until the client's end, or ctx ends.
func (v *Env) dump(ctx *sql.Context, r request, vars variables, out func([]byte) error, flush func() error) error {
	since, byFile, err := v.where(r, vars)
	if err != nil {
		return err
	}
	if vars["slave_until_gtid"] != "" {
		return fatal("START SLAVE UNTIL is not supported: stop the replica when it has reached its position")
	}
	id := v.Identity()
	s := &stream{env: v, sql: ctx, byFile: byFile, since: since, last: since, beat: vars.heartbeat(), out: out, flush: flush,
		e: &encoder{maria: vars.maria(), checksum: vars.checksum(), server: id.ServerID, sid: id.SID}}
	if r.nonBlock {
		s.stop = v.Feed.DB.Clock()
	}
	s.reader, err = feed.Open(ctx, v.Feed, feed.Options{Since: since, Again: Again, Why: fmt.Sprintf("replica %d", r.server)})
	if err != nil {
		return s.worded(err)
	}
	defer s.reader.Close()
	for n, why := range s.reader.Skipped() {
		v.Log.Warn("a table is not told to replicas", "table", n.DB+"."+n.Table, "why", why, "replica", r.server)
	}
	v.Log.Info("a replica follows", "server_id", r.server, "since", since.Time(), "mariadb", s.e.maria)
	return s.worded(s.run(ctx))
}

// worded makes MySQL's error of one.
func (s *stream) worded(err error) error {
	switch base.CodeOf(err) {
	case base.CodeTooOld:
		return fatal("the versions behind position %s have been collected: begin again with a copy of the data. (%v)",
			s.env.Identity().Maria(s.last), err)
	case base.CodeInvalid, base.CodeCorrupt:
		return fatal("%v", err)
	}
	return err
}

func (s *stream) send(events ...[]byte) error {
	for _, b := range events {
		if err := s.out(b); err != nil {
			return err
		}
	}
	return nil
}

// begin begins a file.
func (s *stream) begin(at Position) error {
	return s.send(s.e.rotate(File(at)), s.e.format(), s.e.before(at))
}

func (s *stream) run(ctx context.Context) error {
	if err := s.begin(s.since); err != nil {
		return err
	}
	heard := time.Now()
	for {
		txs, resolved, err := s.reader.Next(ctx)
		if err != nil {
			return err
		}
		for i := range txs {
			if err := s.part(&txs[i]); err != nil {
				return err
			}
		}
		if err := s.ended(len(txs) > 0, resolved); err != nil {
			return err
		}
		switch now := time.Now(); {
		case s.stop > 0 && resolved >= s.stop:
			return s.flush()
		case s.env.Closing != nil && s.env.Closing():
			return errClosing
		case len(txs) > 0:
			heard = now
		case s.beat > 0 && now.Sub(heard) >= s.beat:
			heard = now
			if err := s.send(s.e.heartbeat()); err != nil {
				return err
			}
		}
		if err := s.flush(); err != nil {
			return err
		}
	}
}

// ended ends what one Next has yielded.
func (s *stream) ended(some bool, resolved Position) error {
	if s.stop > 0 { // tools take another file for the end
		return nil
	}
	if s.tx == nil && (some && s.byFile || s.e.pos > fileBytes) {
		return s.begin(max(resolved, s.last))
	}
	return nil
}

// part sends a part of a transaction.
func (s *stream) part(tx *feed.Tx) error {
	if s.tx == nil {
		if err := s.first(tx); err != nil {
			return err
		}
	}
	if s.tx.ts > s.last && (len(tx.Changes) > 0) {
		s.last = s.tx.ts
		if err := s.send(s.e.gtid(s.tx.ts, false)...); err != nil {
			return err
		}
		s.tx.begun = true
	}
	if s.tx.begun {
		if err := s.tx.part(s.e, tx.Changes, s.out); err != nil {
			return err
		}
	}
	if tx.More {
		return nil
	}
	x := s.tx
	s.tx = nil
	if !x.begun {
		return nil
	}
	if err := x.end(s.e, s.out); err != nil {
		return err
	}
	return s.send(s.e.xid(x.ts))
}

// first begins a transaction: its definitions are statements of their own before the rows.
func (s *stream) first(tx *feed.Tx) error {
	s.tx = &transaction{ts: tx.TS, fresh: map[*schema.Table]bool{}}
	for _, d := range tx.Definitions {
		if d.Kind == feed.Created || d.Kind == feed.Truncated || Again(d) {
			s.tx.fresh[d.New] = true
		}
	}
	all := s.e.statements(s.sql, tx.Definitions)
	at := tx.TS - Position(len(all))
	if !tx.More {
		at++ // the last one has the moment itself
	}
	for _, st := range all {
		if at > s.last { // else the client has it
			s.last = at
			if err := s.send(append(s.e.gtid(at, true), s.e.query(at, st.db, st.text))...); err != nil {
				return err
			}
		}
		at++
	}
	return nil
}
