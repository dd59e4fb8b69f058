package owner_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/wire"
)

// requests are what coordinators ask of owners.
var requests = map[string]func(*script) string{
	"read":      (*script).read,
	"snapshot":  (*script).snapshot,
	"commit":    func(s *script) string { return s.commit(false) },
	"vote":      func(s *script) string { return s.commit(true) },
	"finish":    (*script).finish,
	"resolve":   (*script).resolve,
	"outcome":   (*script).outcome,
	"notice":    (*script).notice,
	"heartbeat": (*script).heartbeat,
	"order":     (*script).order,
	"oracle":    (*script).oracle,
	"local":     (*script).local,
	"closed":    (*script).closed,
}

// read reads under locks: shared, or exclusive with "x".
func (s *script) read() string {
	x, g := s.txn(), s.group()
	q := &wire.ReadRequest{Group: uint32(g), Txn: s.metaOf(x), Lock: uint32(kv.LockShared),
		Limit: uint32(s.number("limit", 0)), Reverse: s.flag("reverse")}
	if s.flag("x") {
		q.Lock = uint32(kv.LockExclusive)
	}
	q.LockTerm = uint64(s.number("term", s.termOf(x, g)))
	label := "read of " + x.name
	if via, ok := s.arg("via"); ok {
		n := s.nodeOf(via)
		q.Spans = s.keys()
		return s.send(label, func(ctx context.Context) string {
			resp, err := n.set().Router().Read(ctx, q)
			if err != nil {
				return s.failed(err)
			}
			return s.noteTerm(x, g, resp)
		})
	}
	r := s.replica(g)
	q.Spans = s.keys()
	return s.send(label, func(ctx context.Context) string { return s.noteTerm(x, g, r.Read(ctx, q)) })
}

// termOf is the term in which a transaction took locks in a group; 0: it has none.
func (s *script) termOf(x *txn, g base.GroupID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int(x.terms[g])
}

func (s *script) noteTerm(x *txn, g base.GroupID, resp *wire.ReadResponse) string {
	if resp.Status == nil && resp.Term != 0 && s.termOf(x, g) == 0 {
		s.mu.Lock()
		x.terms[g] = resp.Term
		s.mu.Unlock()
	}
	return s.readAnswer(resp)
}

// metaOf is a transaction as it names itself now.
func (s *script) metaOf(x *txn) *wire.TxnMeta {
	return &wire.TxnMeta{Id: x.id[:], Age: x.meta.Age, Gateway: x.meta.Gateway, GatewayRegion: x.meta.GatewayRegion,
		Policy: x.meta.Policy, LockTimeoutNs: x.meta.LockTimeoutNs, Crt: x.meta.Crt}
}

// snapshot reads at a timestamp, without locks; with timestamp ordering on behalf of a transaction
// (by=t1), up to a limit of uncertainty, or only makes sure that nothing has changed since a
// timestamp (refresh).
func (s *script) snapshot() string {
	g := s.group()
	q := &wire.ReadRequest{Group: uint32(g), ReadTs: uint64(s.moment("at")), LimitTs: uint64(s.moment("limit")),
		Refresh: uint64(s.moment("refresh")),
		MinTs:   uint64(s.moment("min")), Limit: uint32(s.number("most", 0)), Reverse: s.flag("reverse")}
	label := "snapshot"
	if by, ok := s.arg("by"); ok {
		x := s.txnOf(by)
		q.Reader, q.Txn = x.id[:], s.metaOf(x)
		label = "snapshot of " + by
	}
	if s.flag("x") {
		q.Lock = uint32(kv.LockExclusive)
	} else if s.flag("s") {
		q.Lock = uint32(kv.LockShared)
	}
	r := s.replica(g)
	q.Spans = s.keys()
	return s.send(label, func(ctx context.Context) string {
		resp := r.Read(ctx, q)
		if q.Refresh != 0 && resp.Status == nil {
			return "unchanged" + s.foreign(resp.Foreign)
		}
		return s.readAnswer(resp)
	})
}

// commit commits in one group, or votes.
func (s *script) commit(vote bool) string {
	x, g := s.txn(), s.group()
	q := &wire.CommitRequest{Group: uint32(g), Txn: s.metaOf(x), Prepare: vote, MinTs: uint64(s.moment("min")),
		MaxTs: uint64(s.moment("max")),
		Slot:  uint64(s.moment("slot")), Snapshot: uint64(s.moment("since")), Reads: spansOf(s.list("reads")),
		Ordered: (s.c.opts.concurrency.Ordered() && !s.flag("locking")) || s.flag("ordered"),
		Begun:   !s.flag("unbegun")}
	for _, r := range q.Reads {
		r.MayMove = s.flag("maymove")
	}
	q.LockTerm = uint64(s.number("term", s.termOf(x, g)))
	if name, ok := s.arg("for"); ok {
		id := s.txnOf(name).id
		q.Statement, q.Answer = id[:], []byte("answer of "+x.name)
	}
	if vote {
		q.Participants = []uint32{uint32(g)}
		for _, w := range s.list("with") {
			q.Participants = append(q.Participants, uint32(s.groupOf(w)))
		}
	}
	if s.flag("alone") {
		q.Participants = nil
	}
	label := s.d.Cmd + " of " + x.name
	if via, ok := s.arg("via"); ok {
		n := s.nodeOf(via)
		q.Writes = s.writes()
		return s.send(label, func(ctx context.Context) string {
			resp, err := n.set().Router().Commit(ctx, q)
			if err != nil {
				return s.failed(err)
			}
			return s.commitAnswer(q, resp)
		})
	}
	r := s.replica(g)
	q.Writes = s.writes()
	return s.send(label, func(ctx context.Context) string {
		resp := r.Commit(ctx, q)
		s.mu.Lock()
		x.voted = max(x.voted, base.Timestamp(resp.Ts))
		s.mu.Unlock()
		return s.commitAnswer(q, resp)
	})
}

// finish decides a transaction that has voted (commit=20; committed: at what it has voted for;
// abort), or releases its locks.
func (s *script) finish() string {
	x, g := s.txn(), s.group()
	q := &wire.FinishRequest{Group: uint32(g), Txn: x.id[:], MinTs: uint64(s.moment("min")),
		At: uint64(s.moment("held")), Done: s.flag("done")}
	if ts := s.moment("commit"); ts != 0 {
		q.Prepared, q.Commit, q.Ts = true, true, uint64(ts)
	} else if s.flag("committed") {
		s.mu.Lock()
		q.Prepared, q.Commit, q.Ts = true, true, uint64(x.voted)
		s.mu.Unlock()
	} else if s.flag("abort") {
		q.Prepared = true
	}
	label := "finish of " + x.name
	if via, ok := s.arg("via"); ok {
		n := s.nodeOf(via)
		return s.send(label, func(ctx context.Context) string {
			resp, err := n.set().Router().Finish(ctx, q)
			if err != nil {
				return s.failed(err)
			}
			return s.status(resp.Status)
		})
	}
	r := s.replica(g)
	return s.send(label, func(ctx context.Context) string { return s.status(r.Finish(ctx, q).Status) })
}

// resolve asks one group how a transaction stands there.
func (s *script) resolve() string {
	x, g := s.txn(), s.group()
	r := s.replica(g)
	q := &wire.ResolveRequest{Group: uint32(g), Txn: x.id[:], Statement: s.flag("statement")}
	return s.send("resolve of "+x.name, func(ctx context.Context) string {
		resp := r.Resolve(ctx, q)
		if resp.Status != nil {
			return s.status(resp.Status)
		}
		switch resp.State {
		case wire.TxnState_PREPARED:
			return fmt.Sprintf("prepared [%s, %s), %d participants", s.c.at(base.Timestamp(resp.Ts)),
				s.c.at(base.Timestamp(resp.Hi)), len(resp.Participants))
		case wire.TxnState_COMMITTED:
			out := "committed @" + s.c.at(base.Timestamp(resp.Ts))
			if len(resp.Answer) > 0 {
				out += ": " + string(resp.Answer)
			}
			return out
		}
		return strings.ToLower(resp.State.String())
	})
}

// outcome asks all groups given, from a node.
func (s *script) outcome() string {
	x := s.txn()
	n := s.nodeOf(s.word())
	var gs []base.GroupID
	for _, w := range s.list("of") {
		gs = append(gs, s.groupOf(w))
	}
	return s.send("outcome of "+x.name, func(ctx context.Context) string {
		ts, commit, err := n.set().Router().Outcome(ctx, x.id, gs)
		switch {
		case err != nil:
			return s.failed(err)
		case commit:
			return "committed @" + s.c.at(ts)
		}
		return "aborted"
	})
}

// notice tells a participant that another one has voted.
func (s *script) notice() string {
	x, g := s.txn(), s.group()
	from, _ := s.arg("from")
	r := s.replica(g)
	r.OnVote(x.id, s.groupOf(from))
	time.Sleep(time.Millisecond)
	return ""
}

func (s *script) heartbeat() string {
	n := s.nodeOf(s.word())
	q := &wire.TxnHeartbeatRequest{}
	for len(s.args) > 0 {
		q.Txns = append(q.Txns, s.txn().id[:])
	}
	n.set().Heartbeat(q)
	return ""
}

// order tells and asks the timestamp manager of a region.
func (s *script) order() string {
	g := s.group()
	q := &wire.OrderRequest{Group: uint32(g), Ts: uint64(s.moment("ends")), Began: uint64(s.moment("began"))}
	r := s.replica(g)
	return s.send("order", func(ctx context.Context) string {
		resp := r.Order(ctx, q)
		if resp.Status != nil {
			return s.status(resp.Status)
		}
		return "ended before: " + s.c.at(base.Timestamp(resp.Finished))
	})
}

func (s *script) oracle() string {
	q := &wire.OracleRequest{Min: uint64(s.moment("min"))}
	r := s.replica(base.MetaGroup)
	return s.send("oracle", func(ctx context.Context) string {
		resp := r.Oracle(ctx, q)
		if resp.Status != nil {
			return s.status(resp.Status)
		}
		return s.c.at(base.Timestamp(resp.Ts))
	})
}

// local reads what a replica shows, whoever the owners are.
func (s *script) local() string {
	n := s.nodeOf(s.word())
	q := &wire.ReadRequest{ReadTs: uint64(s.moment("at"))}
	r := n.set().Replica(s.group())
	q.Spans = s.keys()
	return s.send("local read", func(ctx context.Context) string {
		resp, err := r.ReadLocal(ctx, q)
		if err != nil {
			return s.failed(err)
		}
		return s.readAnswer(resp)
	})
}

// closed waits until a group, or its whole shard, is closed at a node up to a timestamp.
func (s *script) closed() string {
	n := s.nodeOf(s.word())
	at := s.moment("at")
	if s.flag("shard") {
		return s.send("closed", func(ctx context.Context) string {
			if err := n.set().EnsureClosed(ctx, 1, at); err != nil {
				return s.failed(err)
			}
			return "closed up to " + s.c.at(n.set().Closed(1))
		})
	}
	r := n.set().Replica(s.group())
	return s.send("closed", func(ctx context.Context) string {
		if err := r.EnsureClosed(ctx, at); err != nil {
			return s.failed(err)
		}
		return "closed up to " + s.c.at(r.Closed())
	})
}
