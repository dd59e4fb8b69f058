package oneshot

import (
	"context"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/sql/fast"
	"github.com/godwitdb/godwit/sql/session"
)

// packet is a text of several statements that begins with BEGIN, while its client is told what came
// of them one by one.
type packet struct {
	rest string // what the protocol library asks for next
	why  string // it is no program; empty: it is, or is not known yet
	w    *whole // nil: not known yet
	at   int    // the next piece
	cost session.StatementCost
}

// Step answers the first of several statements in a text if a program answers it: BEGIN, if a
// program may follow it, and what follows in the program. tx runs statements that begin and end
// transactions. rest is where the text goes on; it is set before the client is sent anything.
func (r *Runner) Step(ctx context.Context, s *session.Session, c *mysql.Conn, query string, rest *string, sent *bool,
	tx func(head string) (done bool, err error), send func(*sqltypes.Result) error) (done bool, err error) {
	p, _ := s.Packet.(*packet)
	switch {
	case p == nil:
		return r.begin(s, query, rest, tx)
	case p.why != "" && strings.HasSuffix(p.rest, query):
		s.Program = "no: " + p.why
		if head, left, ok := Cut(query); !ok || left == "" || TxOf(head) == TxCommit {
			s.Packet = nil // that was the last one
		}
		return false, nil
	case p.rest != query:
		s.Packet = nil
		return r.begin(s, query, rest, tx)
	}
	if p.w == nil {
		before, start := s.Spent(), time.Now()
		if p.w, p.why = r.plan(ctx, s, c, query); p.why != "" {
			r.refuse(s, p.why)
			return false, nil
		}
		r.Tally.Add(Ran)
		p.cost = s.Spent().Since(before)
		p.cost.Elapsed = time.Since(start)
	}
	s.Program = Yes
	head, left, _ := Cut(query)
	if p.at == len(p.w.pieces) { // COMMIT
		s.Packet, s.PacketCost = nil, p.cost
		if p.w.err != nil {
			return true, r.fail(s, c, p.w.err)
		}
		*rest = left
		return tx(head)
	}
	x, res := p.w.pieces[p.at], sqltypes.Result{}
	switch {
	case p.w.err == nil:
		res = *p.w.res[p.at]
	case x.Kind() == fast.Select:
		s.Packet = nil
		return true, r.fail(s, c, p.w.err)
	default:
		res = *x.Changed()
	}
	p.at++
	p.rest, *rest, *sent = left, left, true
	return true, x.Tell(ctx, &res, send)
}

// begin runs a BEGIN that a program may follow.
func (r *Runner) begin(s *session.Session, query string, rest *string, tx func(string) (bool, error)) (done bool, err error) {
	if r.Fast.Off || !begins(query) || !s.Crosses() || s.Remote || s.ReadsOnly() || !s.EndsPlainly() {
		return false, nil
	}
	head, left, ok := Cut(query)
	if !ok || left == "" || TxOf(head) != TxBegin || s.GetIgnoreAutoCommit() {
		return false, nil
	}
	*rest = left
	if done, err = tx(head); done && err == nil {
		s.Packet = &packet{rest: left}
	} else if !done {
		*rest = ""
	}
	return done, err
}

// End forgets the packet under way, behind an error.
func (r *Runner) End(s *session.Session) {
	if s != nil {
		s.Packet = nil
	}
}

// fail ends the transaction of a program that has told its client an error.
func (r *Runner) fail(s *session.Session, c *mysql.Conn, err error) error {
	s.SetTransaction(nil)
	s.SetIgnoreAutoCommit(false)
	c.StatusFlags &^= uint16(mysql.ServerInTransaction)
	return err
}

// plan runs the transaction whose statements stand in a text, up to its COMMIT; why is why not.
func (r *Runner) plan(ctx context.Context, s *session.Session, c *mysql.Conn, text string) (w *whole, why string) {
	t := s.Txn()
	if t == nil || !t.Fresh() {
		return nil, whyLater
	}
	_ = s.CommandBegin()
	w = &whole{}
	var sctx *sql.Context
	for {
		head, rest, ok := Cut(text)
		switch tx := TxOf(head); {
		case !ok:
			return nil, whyText
		case tx == TxCommit && len(w.pieces) > 0:
			if why = w.run(sctx, s, r); why == "" && w.err == nil {
				t.Programmed(w.ts)
			}
			return w, why
		case tx != TxNone || rest == "":
			return nil, whyEnd
		}
		call := r.Fast.Whole(s, c, head, nil)
		if call == nil {
			return nil, unrecognised(head)
		}
		var err error
		if sctx, err = call.Context(ctx); err != nil {
			return nil, whyLater
		}
		if why = w.add(sctx, s, call); why != "" {
			return nil, why
		}
		text = rest
	}
}

// unrecognised is why a statement that has no template is no piece.
func unrecognised(text string) string {
	if _, _, ok := fast.Normalize(text); !ok {
		return whyText
	}
	return fast.NotByKey
}
