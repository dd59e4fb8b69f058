package query

import (
	"cmp"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/sql/access"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/lookup"
	"github.com/godwitdb/godwit/sql/result"
	"github.com/godwitdb/godwit/sql/returning"
	"github.com/godwitdb/godwit/sql/rights"
)

// returned takes what a statement with RETURNING has returned.
type returned func(rows *returning.Rows, fields []*querypb.Field) error

// returns prepares RETURNING.
func (c *change) returns(list bind.Stmt, params []expr.Node) error {
	if list == nil {
		return nil
	}
	if c.nested() {
		return &bind.Refusal{Err: c.in.frame.Host.(*routine).resultless()}
	}
	t := c.c.Targets[0]
	l, err := returning.Bind(list, c.facts(params), t.Table)
	if err != nil {
		return err
	}
	if err := c.mayReturn(l.Uses, t); err != nil {
		return err
	}
	c.ret, err = returning.New(c.ctx, l, t.Table.(*access.Table), c.env, c.mem, c.lookups(), !c.client)
	return err
}

// mayReturn checks that the user may read what the list names.
func (c *change) mayReturn(uses []bind.Use, t *bind.Target) error {
	mine := c.rights()
	var read []bind.Use
	for _, u := range uses {
		first := strings.EqualFold(u.DB, t.Steps[0].DB) && strings.EqualFold(u.Name, t.Steps[0].Name)
		switch {
		case first && len(u.Through) == 0 && len(u.Columns.Names) == 0:
			continue // it names no column of the table
		case u.As == ([2]string{}) && !mine.System(u.DB) && !mine.SomeColumn(u.DB, u.Name, sql.PrivilegeType_Select):
			return &bind.Refusal{Err: rights.Refusal(c.ctx, "SELECT", u.Name)}
		}
		read = append(read, u)
	}
	return c.allowed(read)
}

// lookups is what expressions over the statement's rows run their subqueries with.
func (c *change) lookups() lookup.Statement {
	options := c.r.Options
	options.Locking = true
	return lookup.Statement{Next: c.c.Next, Options: options, Context: func() *exec.Ctx {
		ec := c.paced()
		ec.Mem = c.mem
		return ec
	}}
}

// computed computes what is left of the list. What is wrong with an expression of it is an error in
// strict mode, as with one of the statement.
func (c *change) computed() error {
	if c.ret == nil {
		return nil
	}
	return cmp.Or(c.ret.Compute(), c.failure)
}

// give hands on what the statement returns, once it has succeeded.
func (c *change) give(res *result.Change) error {
	if c.ret == nil {
		return nil
	}
	res.Returned = true
	c.ctx.GetLastQueryInfo().RowCount.Store(-1)
	return c.to(c.ret, result.Describe(c.ctx, c.ret.Out(), c.keyFlags))
}
