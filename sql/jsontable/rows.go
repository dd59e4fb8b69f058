package jsontable

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/jsondoc"
)

// Table is a definition that is ready to be used.
type Table struct {
	path *jsondoc.Path
	cols []*column
	// Columns are all columns, also those of nested paths, in the order of the definition.
	Columns []Column
}

// Column is a column of the rows.
type Column struct {
	Name string
	Type expr.Type
}

type column struct {
	ColDef
	t        expr.Type
	at       int // among the columns of the table
	path     *jsondoc.Path
	empty    any // the document of DEFAULT ... ON EMPTY
	wrong    any // that of DEFAULT ... ON ERROR
	nested   *Table
	low, top *apd.Decimal // of integers
}

// mostNested is how many NESTED PATHs MySQL allows.
const mostNested = 16

// ErrType is a type that columns cannot have here.
type ErrType struct{ Type string }

// Error implements error.
func (e *ErrType) Error() string { return "JSON_TABLE column of type " + e.Type }

// New makes a table of a definition. Texts have the collation coll unless they say another one.
// Errors are those of MySQL, or [ErrType].
func New(d *Def, alias string, coll sql.CollationID) (*Table, error) {
	t := &Table{}
	nested := 0
	if err := t.define(d, t, coll, &nested); err != nil {
		return nil, err
	}
	if nested > mostNested {
		return nil, mysql.NewSQLError(3670, "42000", "More than supported %d NESTED PATHs were found in JSON_TABLE '%s'",
			mostNested, alias)
	}
	return t, nil
}

func (t *Table) define(d *Def, root *Table, coll sql.CollationID, nested *int) (err error) {
	if t.path, err = pathOf(d.Path); err != nil {
		return err
	}
	for _, def := range d.Cols {
		c := &column{ColDef: def, at: len(root.Columns)}
		t.cols = append(t.cols, c)
		if def.Kind == Nested {
			*nested++
			c.nested = &Table{}
			if err := c.nested.define(def.Nested, root, coll, nested); err != nil {
				return err
			}
			continue
		}
		if err := c.define(coll); err != nil {
			return err
		}
		if slices.ContainsFunc(root.Columns, func(o Column) bool { return strings.EqualFold(o.Name, def.Name) }) {
			return mysql.NewSQLError(1060, "42S21", "Duplicate column name '%s'", def.Name)
		}
		root.Columns = append(root.Columns, Column{def.Name, c.t})
	}
	return nil
}

func pathOf(text string) (*jsondoc.Path, error) {
	p, err := jsondoc.ParsePath(text)
	if err != nil {
		return nil, mysql.NewSQLError(3143, "42000", "%s", err)
	}
	return p, nil
}

func (c *column) define(coll sql.CollationID) (err error) {
	if c.Kind == Ordinality {
		c.t = expr.FromSQL(types.Uint32)
		return nil
	}
	if c.t, err = typeOf(c.Type, coll); err != nil {
		return err
	}
	if c.t.Kind == expr.Int || c.t.Kind == expr.Uint {
		c.low, c.top = bounds(c.t.SQL)
	}
	if c.path, err = pathOf(c.Path); err != nil {
		return err
	}
	for _, r := range []struct {
		Response
		to *any
	}{{c.OnEmpty, &c.empty}, {c.OnError, &c.wrong}} {
		if r.Kind != Default {
			continue
		}
		if *r.to, err = jsondoc.Parse(r.Default, nil); err != nil {
			return mysql.NewSQLError(1067, "42000", "Invalid default value for '%s'", c.Name)
		}
	}
	return nil
}

// typeOf is the type that a text names.
func typeOf(text string, coll sql.CollationID) (expr.Type, error) {
	wrong := &ErrType{text}
	stmt, err := sqlparser.Parse("CREATE TABLE t (c " + text + ")")
	ddl, ok := stmt.(*sqlparser.DDL)
	if err != nil || !ok || ddl.TableSpec == nil || len(ddl.TableSpec.Columns) != 1 {
		return expr.Type{}, wrong
	}
	ct := ddl.TableSpec.Columns[0].Type
	digits := 0 // of TIME, of which the engine knows none
	if strings.EqualFold(ct.Type, "time") && ct.Length != nil {
		if digits, err = strconv.Atoi(string(ct.Length.Val)); err != nil || digits > 6 {
			return expr.Type{}, wrong
		}
		ct.Length = nil
	}
	st, err := types.ColumnTypeToType(&ct)
	if err != nil {
		return expr.Type{}, wrong
	}
	t := expr.FromSQL(st)
	switch t.Kind {
	case expr.Int, expr.Uint, expr.Decimal, expr.Float, expr.Date, expr.Datetime, expr.Year, expr.JSON:
	case expr.Duration:
		t = expr.TimeType(digits)
	case expr.Text, expr.Bytes:
		if s, ok := st.(sql.StringType); ok && ct.Charset == "" && ct.Collate == "" && t.Kind == expr.Text {
			t.Coll = coll
			if same, err := types.CreateString(s.Type(), s.Length(), coll); err == nil {
				t.SQL = same
			}
		}
	default:
		return expr.Type{}, wrong
	}
	return t, nil
}

// bounds are the least and the greatest number of an integer type.
func bounds(t sql.Type) (low, top *apd.Decimal) {
	n := 64
	switch t.Type() {
	case sqltypes.Int8, sqltypes.Uint8:
		n = 8
	case sqltypes.Int16, sqltypes.Uint16:
		n = 16
	case sqltypes.Int24, sqltypes.Uint24:
		n = 24
	case sqltypes.Int32, sqltypes.Uint32:
		n = 32
	}
	if sqltypes.IsUnsigned(t.Type()) {
		return apd.New(0, 0), decimalOf(fmt.Sprint(^uint64(0) >> (64 - n)))
	}
	most := int64(^uint64(0) >> (65 - n))
	return apd.New(-most-1, 0), apd.New(most, 0)
}

func decimalOf(s string) *apd.Decimal {
	d, _, err := apd.NewFromString(s)
	if err != nil || d.Form != apd.Finite {
		return nil
	}
	return d
}

// Rows makes the rows of a document: emit is called for each with the values of Columns, which
// change afterwards. Errors are those of ERROR ON EMPTY and ERROR ON ERROR, and of emit.
func (t *Table) Rows(doc any, env *expr.Env, emit func(row []expr.Value) error) error {
	r := &maker{env: env, row: make([]expr.Value, len(t.Columns)), emit: emit}
	_, err := r.rows(t, doc)
	return err
}

type maker struct {
	env  *expr.Env
	row  []expr.Value
	emit func([]expr.Value) error
}

// rows makes the rows of the parts of a document, and says how many parts there are.
func (m *maker) rows(t *Table, doc any) (int, error) {
	parts := t.path.Find(doc)
	for i, part := range parts {
		if i%1024 == 1023 {
			if err := m.env.Err(); err != nil {
				return 0, err
			}
		}
		nested := false
		for _, c := range t.cols {
			var err error
			switch c.Kind {
			case Nested:
				nested = true
			case Ordinality:
				m.row[c.at] = expr.Value{Kind: expr.Uint, I: int64(i + 1)}
			default:
				if m.row[c.at], err = c.value(part, m.env); err != nil {
					return 0, err
				}
			}
		}
		if err := m.finish(t, part, nested); err != nil {
			return 0, err
		}
	}
	for _, c := range t.cols {
		if c.Kind != Nested {
			m.row[c.at] = expr.Value{}
		}
	}
	return len(parts), nil
}

// finish makes the rows of the nested paths of a part, one after the other; without any, the part
// itself is a row.
func (m *maker) finish(t *Table, part any, nested bool) error {
	made := 0
	if nested {
		for _, c := range t.cols {
			if c.Kind != Nested {
				continue
			}
			n, err := m.rows(c.nested, part)
			if err != nil {
				return err
			}
			made += n
		}
	}
	if made > 0 {
		return nil
	}
	return m.emit(m.row)
}

// value is a column's value in a part of a document.
func (c *column) value(part any, env *expr.Env) (expr.Value, error) {
	found := c.path.Find(part)
	if c.Kind == Exists {
		n := int64(0)
		if len(found) > 0 {
			n = 1
		}
		return c.convert(n, env)
	}
	if len(found) == 0 {
		switch c.OnEmpty.Kind {
		case Error:
			return expr.Value{}, mysql.NewSQLError(3665, "22035", "Missing value for JSON_TABLE column '%s'", c.Name)
		case Default:
			return c.byDefault(c.empty, env)
		}
		return expr.Value{}, nil
	}
	v := found[0]
	if len(found) > 1 {
		v = found
	}
	out, err := c.convert(v, env)
	if err == nil {
		return out, nil
	}
	switch c.OnError.Kind {
	case Error:
		return out, err
	case Default:
		return c.byDefault(c.wrong, env)
	}
	return expr.Value{}, nil
}

func (c *column) byDefault(doc any, env *expr.Env) (expr.Value, error) {
	v, err := c.convert(doc, env)
	if err != nil {
		return v, mysql.NewSQLError(1067, "42000", "Invalid default value for '%s'", c.Name)
	}
	return v, nil
}

// convert makes a value of a document, exactly as MySQL stores it in strict mode.
func (c *column) convert(v any, env *expr.Env) (expr.Value, error) {
	if c.t.Kind == expr.JSON {
		return expr.Value{Kind: expr.JSON, S: jsondoc.Text(v)}, nil
	}
	switch v.(type) {
	case nil:
		return expr.Value{}, nil
	case []any, *jsondoc.Object:
		return expr.Value{}, mysql.NewSQLError(3666, "22037",
			"Can't store an array or an object in the scalar JSON_TABLE column '%s'", c.Name)
	}
	switch c.t.Kind {
	case expr.Text, expr.Bytes:
		return c.text(v)
	case expr.Int, expr.Uint:
		return c.integer(v)
	}
	return c.cast(v, env)
}

func (c *column) text(v any) (expr.Value, error) {
	s, ok := v.(string)
	if !ok {
		s = jsondoc.Text(v)
	}
	n := len(s)
	if c.t.Kind == expr.Text {
		n = utf8.RuneCountInString(s)
	}
	if c.t.Length > 0 && n > c.t.Length {
		return expr.Value{}, mysql.NewSQLError(1406, "22001", "Data too long for column '%s' at row 1", c.Name)
	}
	return expr.Value{Kind: c.t.Kind, S: s}, nil
}

var whole = func() *apd.Context {
	x := apd.BaseContext.WithPrecision(400)
	x.Rounding = apd.RoundHalfUp
	return x
}()

func (c *column) integer(v any) (expr.Value, error) {
	var d *apd.Decimal
	switch x := v.(type) {
	case bool:
		if d = apd.New(0, 0); x {
			d = apd.New(1, 0)
		}
	case string:
		d = decimalOf(x)
	default:
		d = decimalOf(jsondoc.Text(v))
	}
	if d == nil {
		return expr.Value{}, c.cannot("INTEGER")
	}
	var r apd.Decimal
	if d.Exponent > 400 || d.Exponent < -4000 {
		return expr.Value{}, c.outOfRange()
	}
	if _, err := whole.RoundToIntegralValue(&r, d); err != nil || r.Cmp(c.low) < 0 || r.Cmp(c.top) > 0 {
		return expr.Value{}, c.outOfRange()
	}
	n, _ := expr.IntOfDec(&r)
	if c.t.Kind == expr.Uint {
		u, _ := expr.UintOfDec(&r)
		n = int64(u)
	}
	return expr.Value{Kind: c.t.Kind, I: n}, nil
}

// cast converts to other types: what would be a warning of CAST is an error.
func (c *column) cast(v any, env *expr.Env) (expr.Value, error) {
	x, out := &expr.Vec{}, &expr.Vec{}
	if s, ok := v.(string); ok {
		x.Reset(expr.TextType(0, sql.Collation_utf8mb4_bin, expr.CoerceImplicit), 1)
		x.S[0] = s
	} else {
		x.Reset(expr.TypeJSON, 1)
		x.S[0] = jsondoc.Text(v)
	}
	out.Reset(c.t, 1)
	warned := false
	quiet := *env
	quiet.Warn = func(int, string) { warned = true }
	if err := (&expr.Caster{From: x.T, To: c.t, Env: &quiet}).Function()(x, 0, out); err != nil {
		return expr.Value{}, err
	}
	if warned || out.IsNull(0) {
		return expr.Value{}, c.cannot(castNames[c.t.Kind])
	}
	return out.At(0), nil
}

var castNames = map[expr.Kind]string{expr.Decimal: "DECIMAL", expr.Float: "DOUBLE", expr.Date: "DATE", expr.Datetime: "DATETIME",
	expr.Duration: "TIME", expr.Year: "YEAR"}

func (c *column) cannot(to string) error {
	return mysql.NewSQLError(3156, "22018", "Invalid JSON value for CAST to %s from column %s at row 1", to, c.Name)
}

func (c *column) outOfRange() error {
	return mysql.NewSQLError(3669, "22003", "Value is out of range for JSON_TABLE's column '%s'", c.Name)
}

// Document is the document at i of a vector, which r counts; ok is false if it is NULL.
func Document(v *expr.Vec, i int32, r *jsondoc.Reading) (doc any, ok bool, err error) {
	if v.T.Kind == expr.Null || v.IsNull(i) {
		return nil, false, nil
	}
	switch v.T.Kind {
	case expr.JSON:
		doc, err = jsondoc.ReadAsking(v.S[i], r.Ask)
	case expr.Text:
		if doc, err = jsondoc.Parse(v.S[i], r.Ask); err != nil {
			err = cmp.Or[error](r.Err, mysql.NewSQLError(3141, "22032", "Invalid JSON text in argument 1 to function json_table: %s", err))
		}
	case expr.Bytes:
		err = mysql.NewSQLError(3144, "22032", "Cannot create a JSON value from a string with CHARACTER SET 'binary'.")
	default:
		err = mysql.NewSQLError(3146, "22032", "Invalid data type for JSON data in argument 1 to function json_table; "+
			"a JSON string or JSON type is required.")
	}
	return doc, err == nil, err
}
