package fast

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dolthub/go-mysql-server/sql"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// Kind is what a statement does.
type Kind uint8

// The kinds of statements.
const (
	Select Kind = iota
	Insert
	Update
	Delete
)

// Template is what a statement says, with its constants left out: a statement on one row by its
// whole primary key. nil where a template is expected means that the statement is not one.
type Template struct {
	kind      Kind
	db, table string
	lock      kv.LockMode
	cols      []string // select: names, nil for *; insert: names, nil for all
	where     map[string]int
	sets      []assignment
	values    []int // insert: constant of each column, -1 for DEFAULT
	span      *keySpan
	list      *keyList
	guards    []guard   // of a change: only programs have them
	fixed     []Literal // constants of the text itself; their numbers begin at FixedArg
	bound     atomic.Pointer[boundPlan]
}

// FixedArg is the number of the first constant that stands in the text of a prepared statement.
const FixedArg = 1 << 20

// arg is the number of a constant: a placeholder, or an integer or NOW() in the text.
func (f *Template) arg(e sqlparser.Expr) (int, bool) {
	if v, ok := e.(*sqlparser.SQLVal); ok && v.Type == sqlparser.IntVal {
		f.fixed = append(f.fixed, Literal{LitInt, string(v.Val)})
		return FixedArg + len(f.fixed) - 1, true
	}
	if l, ok := present(e); ok {
		f.fixed = append(f.fixed, l)
		return FixedArg + len(f.fixed) - 1, true
	}
	return Placeholder(e)
}

// assignment is one assignment: column = constant, or column = column op constant.
type assignment struct {
	col string
	op  byte // 0, '+', '-'
	arg int
}

// boundPlan is a template bound to one version of a table.
type boundPlan struct {
	t      *schema.Table
	pk     []int // constant of each primary-key column
	out    []int // select: positions
	sch    sql.Schema
	sets   []boundAssignment
	guards []boundGuard
	insert []int // per column: constant, or -1 for NULL, or -2 for AUTO_INCREMENT
	full   sql.Schema
	exact  sql.Schema // the same, telling all values apart
	want   []bool     // select: columns to decode, by position; else nil
	// own are values that the table gives; moments are the TIMESTAMPs of the result, by number.
	own     []givenByTable
	moments []int
	// zoned: the session's time zone has to be known.
	zoned bool
	// givenInc is the AUTO_INCREMENT column if the statement gives its value, else -1.
	givenInc int
	*boundSpan
	// fields describe the result, by character set of the session; learned from
	// the first execution by the engine.
	fields sync.Map
}

type boundAssignment struct {
	pos int
	op  byte
	arg int
}

// templates are those of statement texts; nil is kept for texts that have none.
type templates struct {
	mu sync.RWMutex
	m  map[string]*Template
}

// MaxTemplates bounds how many statement texts are kept.
const MaxTemplates = 8192

func (c *templates) get(key string) (*Template, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s, ok := c.m[key]
	return s, ok
}

func (c *templates) put(key string, s *Template) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= MaxTemplates {
		c.m = map[string]*Template{}
	}
	c.m[key] = s
}

// templateOf reads the template of a statement whose constants are all placeholders.
func templateOf(stmt sqlparser.Statement) *Template {
	switch s := stmt.(type) {
	case *sqlparser.Select:
		return selectTemplate(s)
	case *sqlparser.Update:
		return updateTemplate(s)
	case *sqlparser.Delete:
		if s.With != nil || len(s.Targets) > 0 || len(s.Partitions) > 0 || len(s.OrderBy) > 0 || s.Limit != nil ||
			len(s.Returning) > 0 ||
			len(s.Comments) > 0 {
			return nil
		}
		return tableTemplate(Delete, s.TableExprs, s.Where)
	case *sqlparser.Insert:
		return insertTemplate(s)
	}
	return nil
}

func updateTemplate(s *sqlparser.Update) *Template {
	if s.With != nil || s.Ignore != "" || len(s.OrderBy) > 0 || s.Limit != nil || len(s.Returning) > 0 || len(s.Comments) > 0 {
		return nil
	}
	f := tableTemplate(Update, s.TableExprs, s.Where)
	if f == nil {
		return nil
	}
	for _, e := range s.Exprs {
		set, ok := f.setOf(e)
		if !ok {
			return nil
		}
		f.sets = append(f.sets, set)
	}
	return f
}

func selectTemplate(s *sqlparser.Select) *Template {
	if !plainSelect(s) {
		return nil
	}
	f := tableTemplate(Select, s.From, s.Where)
	if f == nil || !f.lockClause(s.Lock) {
		return nil
	}
	switch {
	case f.span == nil && (len(s.OrderBy) > 0 || s.QueryOpts.Distinct), f.span != nil && !f.spanOptions(s):
		return nil
	case f.span != nil && f.span.sum != "":
		return f
	case !f.columns(s.SelectExprs):
		return nil
	}
	return f
}

// columns takes the columns that a query returns: all of them, or plain ones.
func (f *Template) columns(exprs sqlparser.SelectExprs) bool {
	if len(exprs) == 1 {
		if st, ok := exprs[0].(*sqlparser.StarExpr); ok && st.TableName.IsEmpty() {
			return true
		}
	}
	for _, e := range exprs {
		a, ok := e.(*sqlparser.AliasedExpr)
		if !ok {
			return false
		}
		c, ok := PlainColumn(a.Expr, f.table)
		if !ok {
			return false
		}
		f.cols = append(f.cols, c)
	}
	return true
}

// plainSelect reports whether a query has no clauses but those that a template has.
func plainSelect(s *sqlparser.Select) bool {
	if s.Into != nil || s.With != nil || s.Limit != nil || s.Having != nil {
		return false
	}
	return len(s.GroupBy)+len(s.Window)+len(s.Comments)+len(s.QueryOpts.DistinctOn) == 0 &&
		!s.QueryOpts.SQLCalcFoundRows && !s.QueryOpts.StraightJoinHint
}

// lockClause takes FOR UPDATE and FOR SHARE; false if they say more than that.
func (f *Template) lockClause(l *sqlparser.Lock) bool {
	if l == nil || l.Type == "" {
		return true
	}
	f.lock = session.LockOfText(l.Type)
	text := strings.ToLower(l.Type)
	return f.lock != kv.LockNone && len(l.Tables) == 0 && !strings.Contains(text, "skip") && !strings.Contains(text, "nowait")
}

// tableTemplate takes exactly one plain table and a conjunction of column = constant.
func tableTemplate(k Kind, from sqlparser.TableExprs, w *sqlparser.Where) *Template {
	if len(from) != 1 || w == nil {
		return nil
	}
	a, ok := from[0].(*sqlparser.AliasedTableExpr)
	if !ok || a.Hints != nil || a.AsOf != nil || a.Lateral || len(a.Partitions) > 0 || !a.As.IsEmpty() {
		return nil
	}
	n, ok := a.Expr.(sqlparser.TableName)
	if !ok || !n.SchemaQualifier.IsEmpty() {
		return nil
	}
	f := &Template{kind: k, db: n.DbQualifier.String(), table: n.Name.String(), where: map[string]int{}}
	if !f.conjunction(w.Expr) {
		return nil
	}
	return f
}

func (f *Template) conjunction(e sqlparser.Expr) bool {
	switch e := e.(type) {
	case *sqlparser.ParenExpr:
		return f.conjunction(e.Expr)
	case *sqlparser.AndExpr:
		return f.conjunction(e.Left) && f.conjunction(e.Right)
	case *sqlparser.ComparisonExpr:
		if e.Operator == sqlparser.InStr {
			return f.among(e)
		}
		c, ok := PlainColumn(e.Left, f.table)
		arg, aok := f.arg(e.Right)
		if e.Escape != nil || !ok || !aok {
			return false
		}
		if e.Operator != sqlparser.EqualStr {
			return f.guard(c, e.Operator, arg)
		}
		c = strings.ToLower(c)
		if _, twice := f.where[c]; twice {
			return false
		}
		f.where[c] = arg
		return true
	case *sqlparser.RangeCond:
		return f.between(e)
	}
	return false
}

// PlainColumn is the name of a column of the table; ok is false if the expression is anything else.
func PlainColumn(e sqlparser.Expr, table string) (string, bool) {
	c, ok := e.(*sqlparser.ColName)
	if !ok || c.StoredProcVal != nil || !c.Qualifier.DbQualifier.IsEmpty() {
		return "", false
	}
	if q := c.Qualifier.Name.String(); q != "" && q != table {
		return "", false
	}
	return c.Name.String(), true
}

// Placeholder is the number of a bind variable, from 0.
func Placeholder(e sqlparser.Expr) (int, bool) {
	v, ok := e.(*sqlparser.SQLVal)
	if !ok || v.Type != sqlparser.ValArg || len(v.Val) < 3 || string(v.Val[:2]) != ":v" {
		return 0, false
	}
	n, err := strconv.Atoi(string(v.Val[2:]))
	return n - 1, err == nil && n > 0
}

func (f *Template) setOf(e *sqlparser.AssignmentExpr) (assignment, bool) {
	name, ok := PlainColumn(e.Name, e.Name.Qualifier.Name.String())
	if !ok {
		return assignment{}, false
	}
	if arg, ok := f.arg(e.Expr); ok {
		return assignment{col: name, arg: arg}, true
	}
	b, ok := e.Expr.(*sqlparser.BinaryExpr)
	if !ok || b.Operator != sqlparser.PlusStr && b.Operator != sqlparser.MinusStr {
		return assignment{}, false
	}
	c, ok := PlainColumn(b.Left, e.Name.Qualifier.Name.String())
	arg, aok := f.arg(b.Right)
	return assignment{col: name, op: b.Operator[0], arg: arg}, ok && aok && strings.EqualFold(c, name)
}

func insertTemplate(s *sqlparser.Insert) *Template {
	if s.With != nil || s.Action != sqlparser.InsertStr || s.Ignore != "" || len(s.Comments) > 0 ||
		len(s.Partitions) > 0 || len(s.Returning) > 0 ||
		len(s.OnDup) > 0 || !s.Table.SchemaQualifier.IsEmpty() {
		return nil
	}
	v, ok := s.Rows.(*sqlparser.AliasedValues)
	if !ok || len(v.Values) != 1 || !v.As.IsEmpty() {
		return nil
	}
	f := &Template{kind: Insert, db: s.Table.DbQualifier.String(), table: s.Table.Name.String()}
	for _, c := range s.Columns {
		f.cols = append(f.cols, c.String())
	}
	for _, e := range v.Values[0] {
		arg, ok := f.arg(e)
		if !ok {
			return nil
		}
		f.values = append(f.values, arg)
	}
	return f
}

// bind makes the plan of a template for a table; nil if the table needs the engine for it.
func (f *Template) bind(s *schema.Snapshot, t *schema.Table) *boundPlan {
	if p := f.bound.Load(); p != nil && p.t == t {
		return p
	}
	p := f.plan(s, t)
	if p != nil {
		p.zoned = p.asks(f.kind)
		f.bound.Store(p)
	}
	return p
}

func (f *Template) plan(s *schema.Snapshot, t *schema.Table) *boundPlan {
	if t.Virtual || len(t.PK) == 0 || f.kind != Select && !plainWrites(t, s) {
		return nil
	}
	p := &boundPlan{t: t, full: t.Schema()}
	p.exact = table.BytewiseSchema(p.full)
	if f.kind == Insert {
		return f.planInsert(p)
	}
	if f.span != nil {
		return f.planSpan(p)
	}
	if len(f.where) != len(t.PK) {
		return nil
	}
	for _, pos := range t.PK {
		arg, ok := f.where[strings.ToLower(t.Cols[pos].Desc.Name)]
		if !ok {
			return nil
		}
		p.pk = append(p.pk, arg)
	}
	for _, set := range f.sets {
		pos := t.Desc.ColByName(set.col)
		if pos < 0 || t.InPK(pos) {
			return nil
		}
		p.sets = append(p.sets, boundAssignment{pos, set.op, set.arg})
	}
	switch {
	case f.kind == Select:
		return f.planOutput(p)
	case f.kind == Update && !p.touch(), !f.planGuards(p):
		return nil
	}
	return p
}

// planSpan binds a range of the primary key.
func (f *Template) planSpan(p *boundPlan) *boundPlan {
	if p.boundSpan = f.span.bind(f, p.t); p.boundSpan == nil {
		return nil
	}
	p.want = make([]bool, len(p.t.Cols))
	if p.order >= 0 {
		p.want[p.order] = true
	}
	if p.sum >= 0 {
		p.sch, p.want[p.sum] = sumSchema, true
		return p
	}
	return f.planOutput(p)
}

// planOutput finds the columns that a SELECT returns.
func (f *Template) planOutput(p *boundPlan) *boundPlan {
	t := p.t
	if f.cols == nil {
		for i, c := range t.Cols {
			if c.Desc.Hidden || c.Desc.HiddenSystem {
				return nil
			}
			p.out = append(p.out, i)
		}
	}
	for _, n := range f.cols {
		pos := t.Desc.ColByName(n)
		if pos < 0 || t.Cols[pos].Desc.HiddenSystem {
			return nil
		}
		p.out = append(p.out, pos)
	}
	if p.boundSpan != nil && p.distinct && !p.distinctByKey() {
		return nil
	}
	if p.want == nil {
		p.want = make([]bool, len(t.Cols))
	}
	for i, pos := range p.out {
		p.want[pos] = true
		c := *p.full[pos]
		switch {
		case t.Cols[pos].Kind == schema.KindTimespan:
			c.Type = t.Cols[pos].Shown()
		case isTimestamp(t.Cols[pos]):
			c.Type = clockOf(t.Cols[pos])
			p.moments = append(p.moments, i)
		}
		p.sch = append(p.sch, &c)
	}
	return p
}

// distinctByKey reports whether DISTINCT can compare keys: those of one column, by which the rows
// are ordered, if by any.
func (p *boundPlan) distinctByKey() bool {
	return len(p.out) == 1 && (p.order < 0 || p.order == p.out[0]) && p.t.Cols[p.out[0]].Sortable()
}

const (
	argNull    = -1
	argAutoInc = -2
)

func (f *Template) planInsert(p *boundPlan) *boundPlan {
	t := p.t
	if f.cols == nil && len(f.values) != len(t.Cols) || f.cols != nil && len(f.values) != len(f.cols) {
		return nil
	}
	p.insert = make([]int, len(t.Cols))
	p.givenInc = -1
	for i, c := range t.Cols {
		p.insert[i] = argNull
		if c.Desc.AutoInc {
			p.insert[i] = argAutoInc
		}
	}
	given := make([]bool, len(t.Cols))
	for i, arg := range f.values {
		pos := i
		if f.cols != nil {
			pos = t.Desc.ColByName(f.cols[i])
		}
		if pos < 0 || given[pos] {
			return nil
		}
		p.give(pos, arg)
		given[pos] = true
	}
	for i := range t.Cols {
		if !given[i] && !p.giveDefault(i) {
			return nil // the engine knows it
		}
	}
	return p
}

// give notes the constant of a column of the new row.
func (p *boundPlan) give(pos, arg int) {
	p.insert[pos] = arg
	if p.t.Cols[pos].Desc.AutoInc {
		p.givenInc = pos
	}
}

// described is the description of the result for a session, nil if it is not known yet.
func (p *boundPlan) described(s *session.Session) []*querypb.Field {
	v, _ := p.fields.Load(s.GetCharacterSetResults())
	f, _ := v.([]*querypb.Field)
	return f
}

// plainWrites reports whether changing a row of the table involves nothing but the row and its
// indexes.
func plainWrites(t *schema.Table, s *schema.Snapshot) bool {
	d := s.Database(t.Desc.DB)
	if d == nil || len(t.Desc.FKs) > 0 || len(t.Desc.Checks) > 0 || len(d.ReferencedBy[strings.ToLower(t.Desc.Name)]) > 0 {
		return false
	}
	for _, x := range t.Indexes {
		if x.Desc.Fulltext != nil {
			return false
		}
	}
	for _, c := range t.Cols {
		if c.Desc.Generated != nil {
			return false
		}
	}
	// A trigger may be on this table; its text would tell, the engine knows for sure.
	return len(d.Objects[schema.IxTrigger]) == 0
}

// Recognised counts the statement texts that were bound to a table, for tests.
func (r *Runner) Recognised() (n int) {
	r.templates.mu.RLock()
	defer r.templates.mu.RUnlock()
	for _, t := range r.templates.m {
		if t != nil && t.bound.Load() != nil {
			n++
		}
	}
	return n
}

// Constant is a constant of a text as a literal; ok is false of anything else.
func Constant(e sqlparser.Expr) (Literal, bool) {
	switch e := e.(type) {
	case *sqlparser.SQLVal:
		switch e.Type {
		case sqlparser.IntVal:
			return Literal{Kind: LitInt, Text: string(e.Val)}, true
		case sqlparser.FloatVal:
			return Literal{Kind: LitDecimal, Text: string(e.Val)}, true
		case sqlparser.StrVal:
			return Literal{Kind: LitString, Text: string(e.Val)}, true
		}
	case *sqlparser.UnaryExpr:
		l, ok := Constant(e.Expr)
		if e.Operator == sqlparser.UMinusStr && ok && l.Kind != LitString && !strings.HasPrefix(l.Text, "-") {
			l.Text = "-" + l.Text
			return l, true
		}
	}
	return Literal{}, false
}
