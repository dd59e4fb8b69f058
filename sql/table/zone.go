package table

import (
	"math"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/zone"
)

// TIMESTAMPs are stored in UTC. The engine takes them for times of the session's clock, so what it
// runs is right in sessions whose zone is UTC. In others it may load files, whose rows an editor
// brings to UTC, and whatever else would read or write a TIMESTAMP is refused.

const errNotSupported = 1235

func errZone(what string) error {
	return mysql.NewSQLError(errNotSupported, "42000", "%s: this statement is run by a part of the server that knows "+
		"TIMESTAMPs in UTC only; SET time_zone = '+00:00' before it", what)
}

// Runs looks at a node that the engine is about to build, and refuses what it would answer wrongly
// (1235): times in a session whose zone is not UTC, and searches in indexes WITH PARSER.
func Runs(ctx *sql.Context, s *session.Session, n sql.Node) error {
	if err := searches(ctx, n); err != nil {
		return err
	}
	return zoned(ctx, s, n)
}

// zoned looks at a node in a session whose zone is not UTC.
func zoned(ctx *sql.Context, s *session.Session, n sql.Node) error {
	switch n.(type) {
	case *plan.InsertInto, *plan.ResolvedTable, *plan.IndexedTableAccess, *plan.ModifyColumn, *plan.AddColumn,
		*plan.AlterDefaultSet, *plan.TableCopier:
	default:
		return nil
	}
	loc, err := zone.Of(ctx)
	if err != nil || loc == time.UTC {
		return err
	}
	switch n := n.(type) {
	case *plan.InsertInto:
		return zonedInsert(ctx, s, n, loc)
	case *plan.ResolvedTable:
		return zonedTable(n.UnderlyingTable())
	case *plan.IndexedTableAccess:
		return zonedTable(n.Table)
	case *plan.ModifyColumn:
		return zonedModify(ctx, n)
	case *plan.AddColumn:
		c, t := n.Column(), tableOf(n.Table)
		same := c.Default == nil || c.Default.IsLiteral() || schema.IsNow(c.Default) && t != nil && !t.Def.HasFulltext()
		if stamp(c.Type) && !same || c.Generated != nil && stamped(t) {
			return errZone("ADD COLUMN of a TIMESTAMP that is computed, or computed of one")
		}
	case *plan.AlterDefaultSet:
		if t := tableOf(n.Table); t != nil && n.Default != nil && n.Default.IsLiteral() {
			if i := t.Def.Desc.ColByName(n.ColumnName); i >= 0 && stamp(t.Def.Cols[i].Type) {
				n.Default = inUTC(n.Default, loc)
			}
		}
	case *plan.TableCopier:
		for _, c := range n.Destination.Schema(ctx) {
			if stamp(c.Type) {
				return errZone("CREATE TABLE ... SELECT with TIMESTAMPs (INSERT ... SELECT works)")
			}
		}
	}
	return nil
}

// inUTC is a literal of a session's zone as definitions have it.
func inUTC(d *sql.ColumnDefaultValue, loc *time.Location) *sql.ColumnDefaultValue {
	utc, ok := zone.Declared(d.Expr.String(), loc)
	if !ok {
		return d
	}
	out := *d
	out.Expr = expression.NewLiteral(utc, types.LongText)
	return &out
}

func stamp(t sql.Type) bool { return t.Type() == sqltypes.Timestamp }

// stamped reports whether a stored table has a TIMESTAMP.
func stamped(t *Table) bool {
	if t == nil {
		return false
	}
	for _, c := range t.Def.Cols {
		if stamp(c.Type) {
			return true
		}
	}
	return false
}

func tableOf(n sql.Node) *Table {
	if tn, ok := n.(sql.TableNode); ok {
		return Of(tn.UnderlyingTable())
	}
	return nil
}

func zonedTable(t sql.Table) error {
	if h, ok := t.(*HomesTable); ok {
		return zonedTable(h.st)
	}
	if stored := Of(t); stamped(stored) {
		return errZone("table " + stored.Name() + " has TIMESTAMPs")
	}
	return nil
}

// zonedModify refuses changes between TIMESTAMPs and other types, but for DATETIMEs, which Shifted
// brings to the other form, where nothing is computed of the column before.
func zonedModify(ctx *sql.Context, n *plan.ModifyColumn) error {
	t := tableOf(n.Table)
	if t == nil {
		return nil
	}
	i := t.Def.Desc.ColByName(n.Column())
	if i < 0 {
		return nil
	}
	was, is := t.Def.Cols[i].Type, n.NewColumn().Type
	if stamp(was) == stamp(is) || dated(was) && dated(is) && len(t.Def.Desc.Checks) == 0 && !computes(t) {
		return nil
	}
	return errZone("MODIFY COLUMN from or to TIMESTAMP")
}

// dated reports whether a type is TIMESTAMP or DATETIME.
func dated(t sql.Type) bool { return stamp(t) || t.Type() == sqltypes.Datetime }

// zonedInsert has the editor bring the rows of a file to UTC, and refuses other rows, and what is
// asked of rows before the editor has them.
func zonedInsert(ctx *sql.Context, s *session.Session, n *plan.InsertInto, loc *time.Location) error {
	var t *Table
	transform.Inspect(n.Destination, func(n sql.Node) bool {
		if t == nil {
			t = tableOf(n)
		}
		return true
	})
	if !stamped(t) {
		return nil
	}
	if _, loads := n.Source.(*plan.LoadData); !loads && !hasLoad(ctx, n.Source) {
		return errZone("table " + t.Name() + " has TIMESTAMPs")
	}
	if len(t.Def.Desc.Checks) > 0 || computes(t) {
		return errZone("table " + t.Name() + " has TIMESTAMPs, and CHECKs or generated columns")
	}
	s.Stmt.Zone = loc
	return nil
}

func hasLoad(ctx *sql.Context, n sql.Node) (found bool) {
	transform.InspectWithOpaque(ctx, n, func(_ *sql.Context, n sql.Node) bool {
		_, is := n.(*plan.LoadData)
		found = found || is
		return !found
	})
	return found
}

func computes(t *Table) bool {
	for _, c := range t.Def.Desc.Cols {
		if c.Generated != nil {
			return true
		}
	}
	return false
}

// inUTC is a row of a file whose TIMESTAMPs are times of the session's clock.
func (e *Editor) inUTC(ctx *sql.Context, row sql.Row) (sql.Row, error) {
	out := row.Copy()
	for i, c := range e.Def.Cols {
		at, ok := out[i].(time.Time)
		if !ok || !stamp(c.Type) {
			continue
		}
		var err error
		if out[i], err = momentOf(ctx, at, c.Desc.Name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// momentOf is the moment that a time of the session's clock stands for in a TIMESTAMP.
func momentOf(ctx *sql.Context, at time.Time, column string) (time.Time, error) {
	if at.Equal(types.ZeroTime) {
		return at, nil
	}
	moment, skipped, err := zone.Instant(ctx, at)
	if err != nil {
		return at, err
	}
	if n := moment.Unix(); n < 1 || n > math.MaxInt32 || skipped && sql.LoadSqlMode(ctx).Strict() {
		return at, mysql.NewSQLError(1292, "22007", "Incorrect datetime value: '%s' for column '%s'",
			at.Format(time.DateTime), column)
	}
	return moment, nil
}

// Shifted takes the rows of a table of which a column changes between TIMESTAMP and DATETIME: a
// DATETIME is what the session's clock shows at the moment that the TIMESTAMP is. oc is the column
// as it was, nc as it is to be, at its position in the rows.
func Shifted(ctx *sql.Context, in sql.RowInserter, oc, nc *sql.Column, at int) (sql.RowInserter, error) {
	loc, err := zone.Of(ctx)
	if err != nil || loc == time.UTC || oc == nil || nc == nil || at < 0 || stamp(oc.Type) == stamp(nc.Type) {
		return in, err
	}
	return &shifted{in, nc, at, loc}, nil
}

type shifted struct {
	sql.RowInserter
	col *sql.Column
	at  int
	loc *time.Location
}

// Insert implements sql.RowInserter.
func (s *shifted) Insert(ctx *sql.Context, row sql.Row) error {
	v, ok := row[s.at].(time.Time)
	if !ok || v.Equal(types.ZeroTime) {
		return s.RowInserter.Insert(ctx, row)
	}
	row = row.Copy()
	if stamp(s.col.Type) {
		moment, err := momentOf(ctx, v, s.col.Name)
		if err != nil {
			return err
		}
		row[s.at] = moment
		return s.RowInserter.Insert(ctx, row)
	}
	v = v.In(s.loc)
	row[s.at] = time.Date(v.Year(), v.Month(), v.Day(), v.Hour(), v.Minute(), v.Second(), v.Nanosecond(), time.UTC)
	return s.RowInserter.Insert(ctx, row)
}
