package query

import (
	"cmp"
	"io"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/assign"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/flow"
	"github.com/godwitdb/godwit/sql/infile"
	"github.com/godwitdb/godwit/sql/parted"
	"github.com/godwitdb/godwit/sql/result"
	"github.com/godwitdb/godwit/sql/schema"
)

// LOAD DATA is INSERT IGNORE or REPLACE ... SELECT from its file, whose rows are written while it
// is read, some thousand at a time. So it is not left to the engine once the file has been asked
// for, and not tried again if the file is a long one. Other statements that may do so (package
// flow) write nothing before there are so many rows. If the engine has to run one all the same, it
// begins anew: the transaction is its own.

// loading is what such a statement has besides. All methods take nil: it is none.
type loading struct {
	c       *change
	file    *infile.Load // nil: it is no LOAD DATA
	writers []*writer
	res     *result.Change
	parts   *parted.Load
	since   part
	streams bool // the transaction logs the rows meanwhile
}

// part is what the statement had done when the part under way began (package parted).
type part struct {
	res         *result.Change // nil: nothing
	row, before int
	told        *uint64
	uuid        string
}

// pieceBytes is how much waits to be written, unless gathered rows are less.
const pieceBytes = 4 << 20

// loads makes an INSERT of a LOAD DATA.
func (c *change) loads(tree bind.Stmt) (bind.Stmt, error) {
	file, err := infile.Of(tree, sql.LoadSqlMode(c.ctx).ModeEnabled("NO_BACKSLASH_ESCAPES"))
	if file == nil || err != nil {
		return tree, err
	}
	if file.Exact = c.s.Exact(); !c.s.MayLoad(c.client) {
		return nil, left("LOAD DATA that is not allowed")
	}
	db := cmp.Or(file.Load.DB, c.ctx.GetCurrentDatabase())
	t, _, err := c.cat.Resolve(db, file.Table)
	if err != nil || t == nil {
		return nil, left("LOAD DATA into no table")
	}
	var all []string
	for _, col := range t.Columns() {
		if file.Vars == nil && !col.Invisible && col.Name != "" && col.Name[0] != 0 {
			all = append(all, col.Name)
		}
	}
	typ := func(name string) (expr.Type, bool) {
		for _, col := range t.Columns() {
			if schema.SameName(col.Name, name) {
				return col.Type, true
			}
		}
		return expr.Type{}, false
	}
	if tree, err = file.Insert(all, typ, c.ctx.GetCollation()); err != nil {
		return nil, err
	}
	file.Open = func() (io.ReadCloser, error) { return c.s.LoadInfile(file.Path, c.ctx.LoadInfile) }
	file.After = func(wait func()) { c.s.After = wait }
	c.load, c.file, c.cat.file = &loading{c: c, file: file}, file, file.File
	return tree, nil
}

// alone refuses subqueries of the table that is loaded, as MySQL does: they would see what was
// written before.
func (l *loading) alone(c *bind.Change) error {
	if l == nil || l.file == nil {
		return nil
	}
	for _, u := range c.Uses {
		if t := c.Targets[0].Table; schema.SameName(u.DB, t.DB()) && schema.SameName(u.Name, t.Name()) {
			return &bind.Refusal{Err: mysql.NewSQLError(1093, "HY000", "You can't specify target table '%s' for update in FROM clause", u.Name)}
		}
	}
	return nil
}

// prepare tells the file what its values hang on.
func (l *loading) prepare() {
	if l != nil {
		l.file.Ctx, l.file.Env, l.file.Strict = l.c.ctx, l.c.env, l.c.strict
	}
}

// begin begins a LOAD DATA, and end ends it.
func (l *loading) begin(explicit bool) (err error) {
	if l != nil && l.file != nil {
		l.parts, err = parted.New(l.c.ctx, l.c.s, l.file.File, explicit)
	}
	return err
}

func (l *loading) end() {
	if l == nil || l.file == nil {
		return
	}
	l.file.End()
	if t := l.c.s.Txn(); t != nil {
		t.Stretch(false)
	}
}

// commit commits what was written, if that is enough for a part.
func (l *loading) commit() error {
	if l.c.ins == nil || l.c.ins.stopped != nil { // what was written is taken back, as the statement fails
		return nil
	}
	if full, err := l.parts.Full(l.c.ctx); !full || err != nil {
		return err
	}
	for _, w := range l.writers {
		if err := w.to.StatementComplete(l.c.ctx); err != nil {
			return err
		}
	}
	if err := l.parts.Commit(l.c.ctx, l.c.row); err != nil {
		return err
	}
	l.c.endFiring()
	t := l.c.targets[0]
	l.writers, t.refs = nil, nil
	res := *l.res
	l.since = part{&res, l.c.row, t.before, l.c.told, l.c.uuid}
	return nil
}

// again has what was done since the last part done once more, if that was lost to a conflict.
func (l *loading) again() bool {
	if l == nil || !l.parts.Again(l.c.ctx) {
		return false
	}
	c, t := l.c, l.c.targets[0]
	t.pending.End()
	l.writers, t.refs, c.failure, c.ins.stopped = nil, nil, nil, nil
	c.row, t.before, c.told, c.uuid = l.since.row, l.since.before, l.since.told, l.since.uuid
	if l.res = nil; l.since.res != nil {
		res := *l.since.res
		l.res = &res
	}
	return true
}

// note and told tell the client of the parts.
func (l *loading) note() {
	if l != nil {
		l.parts.Note(l.c.row)
	}
}

func (l *loading) told(err error) error {
	if l == nil {
		return err
	}
	return l.parts.Told(err, func(err error) *mysql.SQLError { return worded(l.c.s, err) })
}

// begun reports whether the file has been asked for.
func (l *loading) begun() bool { return l != nil && l.file != nil && l.file.Opened() }

// mayFlow has a statement write rows while it reads others, if it may.
func (c *change) mayFlow(explicit bool) {
	if t := c.targets[0].st; c.load == nil && c.ret == nil && c.in == nil && len(c.firing)+len(c.links) == 0 && !c.calls.any() &&
		!t.IsTemporary() && flow.May(c.c, c.statement.plan, t.Def) {
		c.load = &loading{c: c, streams: !explicit}
	}
}

// flows reports whether all rows go through piece: those of LOAD DATA, or so many.
func (l *loading) flows() bool { return l != nil && (l.file != nil || l.res != nil) }

// failed undoes what was written.
func (l *loading) failed(err error) error {
	if err == nil || l == nil {
		return err
	}
	l.c.endFiring()
	for _, w := range l.writers {
		_ = w.to.DiscardChanges(l.c.ctx, err)
	}
	if reason, ok := assign.IsLate(err); ok && l.begun() {
		return mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support '%s in LOAD DATA': load the field as text, "+
			"and convert it in a second table", reason)
	}
	return err
}

// piece writes the rows that wait, if there are many of them, or all have come.
func (l *loading) piece(all bool) error {
	if l == nil {
		return nil
	}
	c := l.c
	t := c.targets[0]
	n := t.pending.Len()
	if n == 0 || !all && n < l.parts.MayWait(gathered) && t.pending.Held() < pieceBytes {
		return nil
	}
	if len(l.writers) == 0 {
		if err := c.refer(); err != nil {
			return err
		}
		_, _ = l.written(c.outcome())
		l.writers = append(l.writers, c.open(t, l.res))
		l.parts.Begun()
	}
	if c.ins != nil {
		if err := c.complete(); err != nil {
			return err
		}
	}
	w := l.writers[0]
	if err := w.write(); err != nil {
		return err
	}
	if l.streams {
		if err := w.e.Txn.Stream(c.ctx, t.st.Def.Desc.ID, flow.Entries(t.st.Def)...); err != nil {
			return err
		}
	}
	t.before += n
	t.pending.End()
	return l.commit()
}

// written is the outcome so far, and who has written it; res of another statement, or if nothing
// was written.
func (l *loading) written(res *result.Change) (*result.Change, []*writer) {
	if l == nil {
		return res, nil
	}
	if l.res == nil {
		l.res = res
		if l.file != nil {
			res.Info = func(o *result.Change) string { return l.file.Info(o.Matched, o.Changed, o.Duplicates, o.Warnings) }
		}
	}
	return l.res, l.writers
}
