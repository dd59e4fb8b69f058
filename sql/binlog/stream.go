package binlog

import (
	"context"
	"fmt"
	"hash/crc32"
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
	start  Position // of the file
	// from is the position in the first file up to which the client has everything; 0: it has been
	// reached. passed is up to where the file has been made again meanwhile, and limit when it is
	// clear that it does not reach so far.
	from, passed uint64
	limit        Position
	// committed reports whether a transaction has that position.
	committed func(context.Context, Position) (bool, error)
	stop      Position // where the stream ends; 0: never
	beat      time.Duration
	reader    *feed.Reader
	tx        *transaction
	out       func(event []byte) error
	flush     func() error
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
	if err := v.await(ctx, since); err != nil {
		return err
	}
	id := v.Identity()
	s := &stream{env: v, sql: ctx, byFile: byFile, since: since, last: since, beat: vars.heartbeat(), out: out, flush: flush,
		e:         &encoder{maria: vars.maria(), checksum: vars.checksum(), server: id.ServerID, sid: id.SID},
		committed: v.committed, limit: v.Feed.DB.Clock().Add(skew)}
	if byFile && r.pos > startPos {
		s.from = r.pos
	}
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

// skew is by how much the clocks of two nodes may differ when a client comes from one to the other.
const skew = 5 * time.Second

// await waits until this node's clock has reached what another node's had.
func (v *Env) await(ctx context.Context, p Position) error {
	for {
		d := p.Sub(v.Feed.DB.Clock())
		if d < 0 || d > skew { // a feed refuses what lies further ahead
			return nil
		}
		t := time.NewTimer(d + time.Millisecond)
		select {
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		case <-t.C:
		}
	}
}

// committed reports whether a transaction has committed at a position.
func (v *Env) committed(ctx context.Context, at Position) (bool, error) {
	r, err := feed.Open(ctx, v.Feed, feed.Options{Since: at.Prev(), Why: "the GTID of a replica"})
	if err != nil {
		return false, err
	}
	defer r.Close()
	for {
		txs, resolved, err := r.Next(ctx)
		if err != nil {
			return false, err
		}
		for i := range txs {
			if txs[i].TS >= at {
				return txs[i].TS == at, nil
			}
		}
		if resolved >= at {
			return false, nil
		}
	}
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
		if err := s.emit(b); err != nil {
			return err
		}
	}
	return nil
}

// emit sends an event of the file, unless the client has it. The same events follow the beginning
// of a file whenever it is made.
func (s *stream) emit(b []byte) error {
	if s.from == 0 {
		return s.out(b)
	}
	s.passed += uint64(len(b))
	switch {
	case s.passed == s.from:
		s.from = 0
	case s.passed > s.from:
		return fatal("no event of file %s begins at position %d", s.e.file, s.from)
	}
	return nil
}

// begin begins a file.
func (s *stream) begin(at Position) error {
	s.start = at
	name := File(at)
	if !s.byFile {
		name = gtidFile(at)
	}
	if err := s.out(s.e.rotate(name, max(s.from, startPos))); err != nil {
		return err
	}
	b := s.e.format()
	if s.from > 0 {
		// The client has the event, but needs it to read the others. It has no position then.
		le.PutUint32(b[13:], 0)
		le.PutUint32(b[len(b)-4:], crc32.ChecksumIEEE(b[:len(b)-4]))
	}
	if err := s.out(b); err != nil {
		return err
	}
	if s.passed = s.e.pos; s.from > 0 && s.from <= s.passed {
		if s.from < s.passed {
			return fatal("no event of file %s begins at position %d", name, s.from)
		}
		s.from = 0
	}
	return s.send(s.e.before(at))
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
			if err := s.part(ctx, &txs[i]); err != nil {
				return err
			}
		}
		if err := s.ended(len(txs) > 0, resolved); err != nil {
			return err
		}
		switch now := time.Now(); {
		case s.from > 0 && (s.stop > 0 && resolved >= s.stop || resolved >= s.limit):
			return fatal("position %d lies behind the end of file %s", s.from, s.e.file)
		case s.stop > 0 && resolved >= s.stop:
			return s.flush()
		case s.env.Closing != nil && s.env.Closing():
			return errClosing
		case len(txs) > 0:
			heard = now
		case s.beat > 0 && now.Sub(heard) >= s.beat:
			heard = now
			if err := s.out(s.e.heartbeat(max(s.e.pos, s.from))); err != nil {
				return err
			}
		}
		if err := s.flush(); err != nil {
			return err
		}
	}
}

// quiet is after how long without a transaction clients get a new position: versions behind an old
// one are not kept for as long as they may be away. Tests have less.
var quiet = 5 * time.Minute

// ended ends what one Next has yielded.
func (s *stream) ended(some bool, resolved Position) error {
	if s.stop > 0 || s.tx != nil || s.from > 0 { // tools take another file for the end
		return nil
	}
	still := resolved > s.last && resolved.Sub(max(s.last, s.start)) >= quiet
	if still && !s.byFile { // an empty transaction
		s.last = resolved
		if err := s.send(append(s.e.gtid(resolved, false), s.e.xid(resolved))...); err != nil {
			return err
		}
	}
	if some && s.byFile || still || s.e.pos > fileBytes {
		return s.begin(max(resolved, s.last))
	}
	return nil
}

// part sends a part of a transaction.
func (s *stream) part(ctx context.Context, tx *feed.Tx) error {
	if s.tx == nil {
		if err := s.first(ctx, tx); err != nil {
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
		if err := s.tx.part(s.e, tx.Changes, s.emit); err != nil {
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
	if err := x.end(s.e, s.emit); err != nil {
		return err
	}
	return s.send(s.e.xid(x.ts))
}

// first begins a transaction: its definitions are statements of their own before the rows.
func (s *stream) first(ctx context.Context, tx *feed.Tx) error {
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
		send := s.byFile // files begin between transactions: all of this one is to be sent
		if at > s.last {
			s.last, send = at, true
		} else if !send {
			if err := s.has(ctx, at, tx.TS); err != nil {
				return err
			}
		}
		if send {
			if err := s.send(append(s.e.gtid(at, true), s.e.query(at, st.db, st.text))...); err != nil {
				return err
			}
		}
		at++
	}
	return nil
}

// has fails unless a client has the statement with the number at, of the definitions that changed
// at the moment ts. It has that if its position is the number of one of these statements. If that
// is another transaction's, the numbers collide: nobody can say what the client has.
func (s *stream) has(ctx context.Context, at, ts Position) error {
	other := s.last > s.since
	if !other {
		var err error
		if other, err = s.committed(ctx, s.since); err != nil {
			return err
		}
	}
	if !other {
		return nil
	}
	id := s.env.Identity()
	return fatal("definitions changed at GTID %s in several statements, of which one would have GTID %s, and a transaction with GTID %s "+
		"lies too near: begin again with a copy of the data as of the first one (for MySQL %s)",
		id.Maria(ts), id.Maria(at), id.Maria(s.last), id.MySQL(ts))
}
