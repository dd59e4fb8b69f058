package oneshot

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/sql/program"
	"github.com/godwitdb/godwit/sql/session"
)

// Call is a CALL while its procedure runs.
type Call struct {
	r     *Runner
	s     *session.Session
	texts []string // of the statements between START TRANSACTION and COMMIT
	value func(text string) string
	// at is the next statement, from 0 for START TRANSACTION.
	at  int
	w   *whole
	why string
}

// Call begins to watch a procedure that the client calls; nil if it is no program. value puts the
// values of parameters into a statement.
func (r *Runner) Call(s *session.Session, prog *program.Program, value func(text string) string) *Call {
	if r == nil || r.Fast.Off || !s.Crosses() || s.Remote {
		return nil
	}
	texts := straight(prog.Body)
	if texts == nil {
		r.refuse(s, whyBody)
		return nil
	}
	return &Call{r: r, s: s, texts: texts, value: value}
}

// straight are the statements of a body that is START TRANSACTION, statements and COMMIT; nil of
// others.
func straight(body program.Stmt) (texts []string) {
	b, ok := body.(*program.Block)
	if !ok || len(b.Vars)+len(b.Conditions)+len(b.Cursors)+len(b.Handlers) > 0 || len(b.Body) < 3 {
		return nil
	}
	for i, s := range b.Body {
		q, ok := s.(*program.SQL)
		if !ok {
			return nil
		}
		want := TxNone
		if i == 0 {
			want = TxBegin
		} else if i == len(b.Body)-1 {
			want = TxCommit
		}
		if TxOf(q.Text) != want {
			return nil
		}
		texts = append(texts, q.Text)
	}
	return texts[1 : len(texts)-1]
}

// Next answers the next statement of the procedure; done is false if it is to run as any. res is
// the result of a SELECT.
func (c *Call) Next(ctx *sql.Context, text string) (res *sqltypes.Result, done bool, err error) {
	if c == nil || c.why != "" {
		return nil, false, nil
	}
	i := c.at - 1
	if i < 0 {
		if TxOf(text) == TxBegin {
			c.at = 1
		}
		return nil, false, nil
	}
	c.at++
	if i == 0 {
		if c.why = c.plan(ctx); c.why != "" {
			c.r.refuse(c.s, c.why)
			return nil, false, nil
		}
		c.s.Program = Yes
		c.r.Tally.Add(Ran)
	}
	switch {
	case i == len(c.texts): // COMMIT
		return nil, c.w.err != nil, c.ended()
	case c.w.err == nil:
		res = c.w.res[i]
	case c.w.pieces[i].Patch == nil:
		return nil, true, c.ended()
	default:
		res = c.w.pieces[i].Changed()
	}
	c.w.pieces[i].Count(ctx, res)
	if c.w.pieces[i].Patch != nil {
		return nil, true, nil
	}
	return res, true, nil
}

// ended is the error of a program that may have committed, whose transaction it ends; nil: it has.
func (c *Call) ended() error {
	if c.w.err != nil {
		c.s.SetTransaction(nil)
		c.s.SetIgnoreAutoCommit(false)
	}
	return c.w.err
}

func (c *Call) plan(ctx *sql.Context) (why string) {
	t := c.s.Txn()
	if t == nil || !t.Fresh() {
		return whyLater
	}
	w := &whole{}
	for _, text := range c.texts {
		text = c.value(text)
		call := c.r.Fast.Whole(c.s, nil, text, nil)
		if call == nil {
			return unrecognised(text)
		}
		if why := w.add(ctx, c.s, call); why != "" {
			return why
		}
	}
	if why := w.run(ctx, c.s); why != "" {
		return why
	}
	if c.w = w; w.err == nil {
		t.Programmed(w.ts)
	}
	return ""
}

// Learn keeps the columns of a result that the procedure's statement has, run as any.
func (c *Call) Learn(text string, res *sqltypes.Result) {
	if c != nil && c.why != "" {
		c.r.Fast.Whole(c.s, nil, c.value(text), nil).Learn(res)
	}
}
