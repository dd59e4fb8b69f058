package oneshot

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/sql/fast"
	"github.com/godwitdb/godwit/sql/program"
	"github.com/godwitdb/godwit/sql/session"
)

// Call is a CALL while its procedure runs.
type Call struct {
	r     *Runner
	s     *session.Session
	body  []program.Stmt // behind START TRANSACTION
	texts []string       // of the statements up to COMMIT, and that
	value func(text string) string
	// at is the next statement, from 0 for START TRANSACTION.
	at  int
	w   *whole
	why string
}

// over is the reason of what stands behind the COMMIT of a program.
const over = "the program has ended"

// Call begins to watch a procedure that the client calls; nil if it is no program. value puts the
// values of parameters and variables into a statement.
func (r *Runner) Call(s *session.Session, prog *program.Program, value func(text string) string) *Call {
	if r == nil || r.Fast.Off || !s.Crosses() || s.Remote || !s.EndsPlainly() {
		return nil
	}
	body := transaction(prog.Body)
	if body == nil {
		r.refuse(s, whyBody)
		return nil
	}
	return &Call{r: r, s: s, body: body, value: value}
}

// transaction are the statements behind START TRANSACTION, in the outermost block of a body; nil:
// there is none, or what stands in front of it may begin one, too. That is run as any.
func transaction(body program.Stmt) []program.Stmt {
	b, ok := body.(*program.Block)
	if !ok {
		return nil
	}
	for i, s := range b.Body {
		q, ok := s.(*program.SQL)
		switch {
		case ok && TxOf(q.Text) == TxBegin:
			return b.Body[i+1:]
		case ok && len(b.Handlers) > 0, !ok && !quiet(s):
			return nil
		}
	}
	return nil
}

// quiet reports whether a statement runs no SQL: it assigns, or says that something is wrong.
func quiet(s program.Stmt) bool {
	list := func(l []program.Stmt) bool {
		return !slices.ContainsFunc(l, func(s program.Stmt) bool { return !quiet(s) })
	}
	switch s := s.(type) {
	case *program.Set, *program.Signal:
		return true
	case *program.If:
		return list(s.Else) && !slices.ContainsFunc(s.Whens, func(w program.When) bool { return !list(w.Then) })
	}
	return false
}

// straight follows the statements of a transaction up to COMMIT, before any of them has run. add
// takes the text of a statement, and says how many rows it changes if it is run as a part of a
// program (-1: it returns rows). So it is known which way an IF takes whose conditions compare
// ROW_COUNT() with numbers. ended is false, without a reason, where the statements end before a
// COMMIT.
func straight(body []program.Stmt, rows *int64, add func(text string) (changed int64, why string)) (ended bool, why string) {
	for _, s := range body {
		switch s := s.(type) {
		case *program.SQL:
			switch TxOf(s.Text) {
			case TxNone:
			case TxCommit:
				_, why = add(s.Text)
				return true, why
			default:
				return false, whyBody
			}
			if *rows, why = add(s.Text); why != "" {
				return false, why
			}
		case *program.If:
			then, ok := branch(s, *rows)
			if !ok {
				return false, whyBody
			}
			if ended, why = straight(then, rows, add); ended || why != "" {
				return ended, why
			}
		default:
			return false, whyBody
		}
	}
	return false, ""
}

// branch is the way that an IF takes after a statement that has changed some rows.
func branch(s *program.If, rows int64) (then []program.Stmt, ok bool) {
	for _, w := range s.Whens {
		yes, ok := compares(string(w.Cond), rows)
		if !ok {
			return nil, false
		}
		if yes {
			return w.Then, true
		}
	}
	return s.Else, true
}

// rowCount is a condition on the rows of the last statement, and nothing else.
var rowCount = regexp.MustCompile(`(?i)^\(*\s*row_count\s*\(\s*\)\s*(=|<>|!=|<|<=|>|>=)\s*(\d{1,9})\s*\)*$`)

// compares computes such a condition; ok is false of others.
func compares(cond string, rows int64) (yes, ok bool) {
	m := rowCount.FindStringSubmatch(strings.TrimSpace(cond))
	if m == nil {
		return false, false
	}
	n, err := strconv.ParseInt(m[2], 10, 64)
	if err != nil {
		return false, false
	}
	switch c := cmp.Compare(rows, n); m[1] {
	case "=":
		yes = c == 0
	case "<":
		yes = c < 0
	case "<=":
		yes = c <= 0
	case ">":
		yes = c > 0
	case ">=":
		yes = c >= 0
	default:
		yes = c != 0
	}
	return yes, true
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
		if c.why = c.plan(ctx, text); c.why != "" {
			c.r.refuse(c.s, c.why)
			return nil, false, nil
		}
		c.s.Program = Yes
		c.r.Tally.Add(Ran)
	}
	if i >= len(c.texts) || c.texts[i] != text {
		c.why = over // a handler of the error that the program may have committed
		return nil, false, nil
	}
	if i == len(c.w.pieces) { // COMMIT
		c.why = over
		return nil, c.w.err != nil, c.ended()
	}
	x := c.w.pieces[i]
	switch {
	case c.w.err == nil:
		res = c.w.res[i]
	case x.Kind() == fast.Select:
		return nil, true, c.ended()
	default:
		res = x.Changed()
	}
	x.Count(ctx, res)
	if x.Kind() != fast.Select {
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

// plan runs the transaction whose first statement has come; why is why not.
func (c *Call) plan(ctx *sql.Context, first string) (why string) {
	t := c.s.Txn()
	if t == nil || !t.Fresh() {
		return whyLater
	}
	w, rows := &whole{}, int64(0)
	ended, why := straight(c.body, &rows, func(text string) (int64, string) {
		c.texts = append(c.texts, text)
		if TxOf(text) == TxCommit {
			return 0, ""
		}
		text = c.value(text)
		call := c.r.Fast.Whole(c.s, nil, text, nil)
		if call == nil {
			return 0, unrecognised(text)
		}
		why := w.add(ctx, c.s, call)
		if why != "" {
			return 0, why
		}
		return w.pieces[len(w.pieces)-1].Rows(), ""
	})
	switch {
	case why != "":
		return why
	case !ended || len(w.pieces) == 0 || c.texts[0] != first:
		return whyBody
	}
	if why := w.run(ctx, c.s, c.r); why != "" {
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
