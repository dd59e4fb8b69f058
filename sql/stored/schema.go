package stored

import (
	"bytes"
	"io"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/information_schema"

	"github.com/godwitdb/godwit/sql/describe"
	"github.com/godwitdb/godwit/sql/program"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/token"
)

// Cover is information_schema with our routines and their parameters.
func Cover(is sql.Database, may func(*sql.Context) rights.Set) sql.Database {
	return &covered{Database: is, may: may}
}

type covered struct {
	sql.Database
	may func(*sql.Context) rights.Set
}

// GetTableInsensitive implements sql.Database.
func (d *covered) GetTableInsensitive(ctx *sql.Context, name string) (sql.Table, bool, error) {
	t, ok, err := d.Database.GetTableInsensitive(ctx, name)
	if err != nil || !ok {
		return t, ok, err
	}
	switch {
	case strings.EqualFold(name, information_schema.RoutinesTableName):
		return &listed{Table: t, may: d.may, rows: routine.row}, true, nil
	case strings.EqualFold(name, information_schema.ParametersTableName):
		return &listed{Table: t, may: d.may, rows: routine.parameters}, true, nil
	}
	return t, ok, err
}

// listed is a table with rows of routines. It hides that the engine would assign it procedures.
type listed struct {
	sql.Table
	may  func(*sql.Context) rights.Set
	rows func(routine) ([]sql.Row, error)
}

// Partitions implements sql.Table.
func (t *listed) Partitions(*sql.Context) (sql.PartitionIter, error) {
	return &once{key: []byte(t.Name())}, nil
}

// PartitionRows implements sql.Table.
func (t *listed) PartitionRows(ctx *sql.Context, p sql.Partition) (sql.RowIter, error) {
	if !bytes.Equal(p.Key(), []byte(t.Name())) {
		return nil, sql.ErrPartitionNotFound.New(p.Key())
	}
	snap, err := session.Of(ctx).Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	var out []sql.Row
	may := t.may(ctx)
	for _, r := range routines(snap) {
		if !r.seen(may, ctx.Client()) {
			continue
		}
		rows, err := t.rows(r)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return sql.RowsToRowIter(out...), nil
}

// once is the only partition of a table.
type once struct {
	key  []byte
	done bool
}

// Key implements sql.Partition.
func (o *once) Key() []byte { return o.key }

// Next implements sql.PartitionIter.
func (o *once) Next(*sql.Context) (sql.Partition, error) {
	if o.done {
		return nil, io.EOF
	}
	o.done = true
	return o, nil
}

// Close implements sql.PartitionIter.
func (o *once) Close(*sql.Context) error { return nil }

// routine is a procedure or function.
type routine struct {
	o *schema.ObjectDesc
	f *schema.RoutineDesc
	p *program.Program
}

// routines are those of all databases. What cannot be parsed was made by an older version, which
// took more.
func routines(snap *schema.Snapshot) (out []routine) {
	for _, d := range snap.InOrder() {
		for _, o := range d.ObjectsInOrder(schema.IxFunction) {
			if p, err := program.Parse(o.Function.Text, token.ModeOf(o.Function.SQLMode)); err == nil {
				out = append(out, routine{o, o.Function, p})
			}
		}
		for _, o := range d.ObjectsInOrder(schema.IxProcedure) {
			p, err := program.Parse(o.Procedure.CreateStatement, token.ModeOf(o.Procedure.SqlMode))
			if err != nil {
				continue
			}
			f := &schema.RoutineDesc{Text: o.Procedure.CreateStatement, Access: p.Head.Access, Deterministic: p.Head.Deterministic,
				Comment: p.Head.Comment, Created: o.Procedure.CreatedAt.UTC(), Modified: o.Procedure.ModifiedAt.UTC(),
				SQLMode: o.Procedure.SqlMode, Charset: "utf8mb4", Connection: sql.Collation_Default.Name(), Collation: d.Desc.Collation.Name()}
			if f.Access == "" {
				f.Access = "CONTAINS SQL"
			}
			if o.Definer != nil {
				f.Made = *o.Definer
			} else if p.Head.User != "" {
				f.Made = schema.Account{Name: p.Head.User, Host: p.Head.Host}
			}
			out = append(out, routine{o, f, p})
		}
	}
	return out
}

func (r routine) function() bool { return r.o.Function != nil }

// seen reports whether somebody learns that there is a routine.
func (r routine) seen(may rights.Set, me sql.Client) bool {
	return may.Database(r.o.DB, sql.PrivilegeType_CreateRoutine, sql.PrivilegeType_AlterRoutine, sql.PrivilegeType_Execute) ||
		may.PrivilegeSet.Database(r.o.DB).Routine(r.o.Name, !r.function()).Count() > 0 ||
		r.f.Made == (schema.Account{Name: me.User, Host: me.Address})
}

// kind is ROUTINE_TYPE.
func (r routine) kind() string {
	if r.function() {
		return "FUNCTION"
	}
	return "PROCEDURE"
}

// row is the row of information_schema.ROUTINES.
func (r routine) row() ([]sql.Row, error) {
	t := typeRow{name: ""}
	if r.function() {
		var err error
		if t, err = r.typ("", r.p.Returns); err != nil {
			return nil, err
		}
	}
	security, sure := "DEFINER", "NO"
	if r.o.Definer == nil {
		security = "INVOKER"
	}
	if r.f.Deterministic {
		sure = "YES"
	}
	definer := r.f.Made.Name + "@" + r.f.Made.Host
	var scale any
	if s, ok := t.scale.(int64); ok {
		scale = uint32(s)
	}
	return []sql.Row{{r.o.Name, "def", r.o.DB, r.o.Name, r.kind(), t.name, t.chars, t.bytes, t.precision, scale, t.digits, t.set,
		t.coll, t.text, "SQL", r.f.Text[r.p.From:r.p.To], nil, "SQL", "SQL", sure, r.f.Access, nil, security, r.f.Created, r.f.Modified,
		r.f.SQLMode, r.f.Comment, definer, r.f.Charset, r.f.Connection, r.f.Collation}}, nil
}

// parameters are the rows of information_schema.PARAMETERS: of a function first what it returns.
func (r routine) parameters() (out []sql.Row, err error) {
	add := func(at int, mode, name any, typ string) {
		t, e := r.typ("", typ)
		if e != nil {
			err = e
			return
		}
		out = append(out, sql.Row{"def", r.o.DB, r.o.Name, uint64(at), mode, name, t.name, t.chars, t.bytes, t.precision, t.scale,
			t.digits, t.set, t.coll, t.text, r.kind()})
	}
	if r.function() {
		add(0, nil, nil, r.p.Returns)
	}
	for i, p := range r.p.Params {
		mode := "IN"
		switch {
		case p.In && p.Out:
			mode = "INOUT"
		case p.Out:
			mode = "OUT"
		}
		add(i+1, mode, p.Name, p.Type)
	}
	return out, err
}

// typeRow is what information_schema says of a type.
type typeRow struct {
	name                                                    string
	chars, bytes, precision, scale, digits, set, coll, text any
}

func (r routine) typ(name, typ string) (t typeRow, err error) {
	c, err := columnOf(name, typ, r.f)
	if err != nil {
		return t, err
	}
	t.text = typeText(c)
	t.name, _, _ = strings.Cut(t.text.(string), "(")
	t.name = strings.TrimSuffix(t.name, " unsigned")
	l := describe.LimitsOf(c)
	t.chars, t.bytes, t.precision, t.scale, t.digits = l.Chars, l.Bytes, l.Precision, l.Scale, l.Digits
	if c.Kind == schema.KindString {
		t.set, t.coll = c.Collation.CharacterSet().Name(), c.Collation.Name()
	}
	return t, nil
}

// typeText is the text of a type without character set and collation.
func typeText(c *schema.Column) string {
	d, err := c.Described()
	if err != nil {
		return c.Desc.Type
	}
	return describe.TypeText(d)
}
