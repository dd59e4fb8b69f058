package sqlfront

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/kv"
)

type fastKind uint8

const (
	fastSelect fastKind = iota
	fastInsert
	fastUpdate
	fastDelete
)

// fastShape is what a statement says, with its constants left out: a statement on
// one row by its whole primary key. nil where a shape is expected means that the statement is not one.
type fastShape struct {
	kind      fastKind
	db, table string
	lock      kv.LockMode
	cols      []string // select: names, nil for *; insert: names, nil for all
	where     map[string]int
	sets      []fastSet
	values    []int // insert: constant of each column, -1 for DEFAULT
	span      *fastSpan
	fixed     []literal // constants of the text itself; their numbers begin at fixedArg
	bound     atomic.Pointer[fastPlan]
}

// fixedArg is the number of the first constant that stands in the text of a prepared statement.
const fixedArg = 1 << 20

// arg is the number of a constant: a placeholder, or an integer in the text.
func (f *fastShape) arg(e sqlparser.Expr) (int, bool) {
	if v, ok := e.(*sqlparser.SQLVal); ok && v.Type == sqlparser.IntVal {
		f.fixed = append(f.fixed, literal{litInt, string(v.Val)})
		return fixedArg + len(f.fixed) - 1, true
	}
	return placeholder(e)
}

// fastSet is one assignment: column = constant, or column = column op constant.
type fastSet struct {
	col string
	op  byte // 0, '+', '-'
	arg int
}

// fastPlan is a shape bound to one version of a table.
type fastPlan struct {
	t      *table
	pk     []int // constant of each primary-key column
	out    []int // select: positions
	sch    sql.Schema
	sets   []boundSet
	insert []int // per column: constant, or -1 for NULL, or -2 for AUTO_INCREMENT
	full   sql.Schema
	want   []bool // select: columns to decode, by position; else nil
	// givenInc is the AUTO_INCREMENT column if the statement gives its value, else -1.
	givenInc int
	*boundSpan
	// fields describe the result, by character set of the session; learned from
	// the first execution by the engine.
	fields sync.Map
}

type boundSet struct {
	pos int
	op  byte
	arg int
}

// fastCache keeps the shapes of statement texts; nil is kept for those that have none.
type fastCache struct {
	mu sync.RWMutex
	m  map[string]*fastShape
}

const maxShapes = 8192

func (c *fastCache) get(key string) (*fastShape, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s, ok := c.m[key]
	return s, ok
}

func (c *fastCache) put(key string, s *fastShape) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= maxShapes {
		c.m = map[string]*fastShape{}
	}
	c.m[key] = s
}

// shapeOf reads the shape of a statement whose constants are all placeholders.
func shapeOf(stmt sqlparser.Statement) *fastShape {
	switch s := stmt.(type) {
	case *sqlparser.Select:
		return selectShape(s)
	case *sqlparser.Update:
		if s.With != nil || s.Ignore != "" || len(s.OrderBy) > 0 || s.Limit != nil || len(s.Returning) > 0 || len(s.Comments) > 0 {
			return nil
		}
		f := tableShape(fastUpdate, s.TableExprs, s.Where)
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
	case *sqlparser.Delete:
		if s.With != nil || len(s.Targets) > 0 || len(s.Partitions) > 0 || len(s.OrderBy) > 0 || s.Limit != nil || len(s.Returning) > 0 ||
			len(s.Comments) > 0 {
			return nil
		}
		return tableShape(fastDelete, s.TableExprs, s.Where)
	case *sqlparser.Insert:
		return insertShape(s)
	}
	return nil
}

func selectShape(s *sqlparser.Select) *fastShape {
	if s.Into != nil || s.With != nil || s.Limit != nil || s.Having != nil || len(s.GroupBy) > 0 || len(s.Window) > 0 ||
		len(s.Comments) > 0 || len(s.QueryOpts.DistinctOn) > 0 || s.QueryOpts.SQLCalcFoundRows || s.QueryOpts.StraightJoinHint {
		return nil
	}
	f := tableShape(fastSelect, s.From, s.Where)
	if f == nil {
		return nil
	}
	if s.Lock != nil && s.Lock.Type != "" {
		if f.lock = lockOfText(s.Lock.Type); f.lock == kv.LockNone || len(s.Lock.Tables) > 0 || strings.Contains(strings.ToLower(s.Lock.Type), "skip") ||
			strings.Contains(strings.ToLower(s.Lock.Type), "nowait") {
			return nil
		}
	}
	if f.span == nil && (len(s.OrderBy) > 0 || s.QueryOpts.Distinct) || f.span != nil && !f.spanOptions(s) {
		return nil
	}
	if f.span != nil && f.span.sum != "" {
		return f
	}
	if len(s.SelectExprs) == 1 {
		if st, ok := s.SelectExprs[0].(*sqlparser.StarExpr); ok && st.TableName.IsEmpty() {
			return f
		}
	}
	for _, e := range s.SelectExprs {
		a, ok := e.(*sqlparser.AliasedExpr)
		if !ok {
			return nil
		}
		c, ok := plainColumn(a.Expr, f.table)
		if !ok {
			return nil
		}
		f.cols = append(f.cols, c)
	}
	return f
}

// tableShape takes exactly one plain table and a conjunction of column = constant.
func tableShape(k fastKind, from sqlparser.TableExprs, w *sqlparser.Where) *fastShape {
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
	f := &fastShape{kind: k, db: n.DbQualifier.String(), table: n.Name.String(), where: map[string]int{}}
	if !f.conjunction(w.Expr) {
		return nil
	}
	return f
}

func (f *fastShape) conjunction(e sqlparser.Expr) bool {
	switch e := e.(type) {
	case *sqlparser.ParenExpr:
		return f.conjunction(e.Expr)
	case *sqlparser.AndExpr:
		return f.conjunction(e.Left) && f.conjunction(e.Right)
	case *sqlparser.ComparisonExpr:
		c, ok := plainColumn(e.Left, f.table)
		arg, aok := f.arg(e.Right)
		if e.Operator != sqlparser.EqualStr || e.Escape != nil || !ok || !aok {
			return false
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

func plainColumn(e sqlparser.Expr, table string) (string, bool) {
	c, ok := e.(*sqlparser.ColName)
	if !ok || c.StoredProcVal != nil || !c.Qualifier.DbQualifier.IsEmpty() {
		return "", false
	}
	if q := c.Qualifier.Name.String(); q != "" && q != table {
		return "", false
	}
	return c.Name.String(), true
}

// placeholder is the number of a bind variable, from 0.
func placeholder(e sqlparser.Expr) (int, bool) {
	v, ok := e.(*sqlparser.SQLVal)
	if !ok || v.Type != sqlparser.ValArg || len(v.Val) < 3 || string(v.Val[:2]) != ":v" {
		return 0, false
	}
	n, err := strconv.Atoi(string(v.Val[2:]))
	return n - 1, err == nil && n > 0
}

func (f *fastShape) setOf(e *sqlparser.AssignmentExpr) (fastSet, bool) {
	name, ok := plainColumn(e.Name, e.Name.Qualifier.Name.String())
	if !ok {
		return fastSet{}, false
	}
	if arg, ok := f.arg(e.Expr); ok {
		return fastSet{col: name, arg: arg}, true
	}
	b, ok := e.Expr.(*sqlparser.BinaryExpr)
	if !ok || b.Operator != sqlparser.PlusStr && b.Operator != sqlparser.MinusStr {
		return fastSet{}, false
	}
	c, ok := plainColumn(b.Left, e.Name.Qualifier.Name.String())
	arg, aok := f.arg(b.Right)
	return fastSet{col: name, op: b.Operator[0], arg: arg}, ok && aok && strings.EqualFold(c, name)
}

func insertShape(s *sqlparser.Insert) *fastShape {
	if s.With != nil || s.Action != sqlparser.InsertStr || s.Ignore != "" || len(s.Comments) > 0 || len(s.Partitions) > 0 || len(s.Returning) > 0 ||
		len(s.OnDup) > 0 || !s.Table.SchemaQualifier.IsEmpty() {
		return nil
	}
	v, ok := s.Rows.(*sqlparser.AliasedValues)
	if !ok || len(v.Values) != 1 || !v.As.IsEmpty() {
		return nil
	}
	f := &fastShape{kind: fastInsert, db: s.Table.DbQualifier.String(), table: s.Table.Name.String()}
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

// bind makes the plan of a shape for a table; nil if the table needs the engine for it.
func (f *fastShape) bind(s *snapshot, t *table) *fastPlan {
	if p := f.bound.Load(); p != nil && p.t == t {
		return p
	}
	p := f.plan(s, t)
	if p != nil {
		f.bound.Store(p)
	}
	return p
}

func (f *fastShape) plan(s *snapshot, t *table) *fastPlan {
	if t.virtual || len(t.pk) == 0 || t.hasTimestamp() || f.kind != fastSelect && !t.plainWrites(s) {
		return nil
	}
	p := &fastPlan{t: t, full: t.schema()}
	if f.kind == fastInsert {
		return f.planInsert(p)
	}
	if f.span != nil {
		if p.boundSpan = f.span.bind(f, t); p.boundSpan == nil {
			return nil
		}
		p.want = make([]bool, len(t.cols))
		if p.order >= 0 {
			p.want[p.order] = true
		}
		if p.sum >= 0 {
			p.sch, p.want[p.sum] = sumSchema, true
			return p
		}
		return f.planOutput(p)
	}
	if len(f.where) != len(t.pk) {
		return nil
	}
	for _, pos := range t.pk {
		arg, ok := f.where[strings.ToLower(t.cols[pos].desc.Name)]
		if !ok {
			return nil
		}
		p.pk = append(p.pk, arg)
	}
	for _, set := range f.sets {
		pos := t.desc.colByName(set.col)
		if pos < 0 || t.inPK(pos) {
			return nil
		}
		p.sets = append(p.sets, boundSet{pos, set.op, set.arg})
	}
	if f.kind == fastSelect {
		return f.planOutput(p)
	}
	return p
}

// planOutput finds the columns that a SELECT returns.
func (f *fastShape) planOutput(p *fastPlan) *fastPlan {
	t := p.t
	if f.cols == nil {
		for i, c := range t.cols {
			if c.desc.Hidden || c.desc.HiddenSystem {
				return nil
			}
			p.out = append(p.out, i)
		}
	}
	for _, n := range f.cols {
		pos := t.desc.colByName(n)
		if pos < 0 || t.cols[pos].desc.HiddenSystem {
			return nil
		}
		p.out = append(p.out, pos)
	}
	if p.boundSpan != nil && p.distinct && (len(p.out) != 1 || p.order >= 0 && p.order != p.out[0] || !t.cols[p.out[0]].exactKeys()) {
		return nil
	}
	if p.want == nil {
		p.want = make([]bool, len(t.cols))
	}
	for _, pos := range p.out {
		p.want[pos] = true
		p.sch = append(p.sch, p.full[pos])
	}
	return p
}

const (
	argNull    = -1
	argAutoInc = -2
)

func (f *fastShape) planInsert(p *fastPlan) *fastPlan {
	t := p.t
	if f.cols == nil && len(f.values) != len(t.cols) || f.cols != nil && len(f.values) != len(f.cols) {
		return nil
	}
	p.insert = make([]int, len(t.cols))
	p.givenInc = -1
	for i, c := range t.cols {
		p.insert[i] = argNull
		if c.desc.AutoInc {
			p.insert[i] = argAutoInc
		}
	}
	given := map[int]bool{}
	for i, arg := range f.values {
		pos := i
		if f.cols != nil {
			pos = t.desc.colByName(f.cols[i])
		}
		if pos < 0 || given[pos] {
			return nil
		}
		if t.cols[pos].desc.AutoInc {
			p.givenInc = pos
		}
		given[pos] = true
		p.insert[pos] = arg
	}
	for i, c := range t.cols {
		if !given[i] && !c.desc.AutoInc && (c.desc.Default != nil || !c.desc.Nullable) {
			return nil
		}
	}
	return p
}

// hasTimestamp reports whether values of the table depend on the session's time zone.
func (t *table) hasTimestamp() bool {
	for _, c := range t.cols {
		if c.typ.Type() == sqltypes.Timestamp {
			return true
		}
	}
	return false
}

// described is the description of the result for a session, nil if it is not known yet.
func (p *fastPlan) described(s *Session) []*querypb.Field {
	v, _ := p.fields.Load(s.GetCharacterSetResults())
	f, _ := v.([]*querypb.Field)
	return f
}

func (t *table) inPK(pos int) bool {
	for _, p := range t.pk {
		if p == pos {
			return true
		}
	}
	return false
}

// plainWrites reports whether changing a row of the table involves nothing but the row and its indexes.
func (t *table) plainWrites(s *snapshot) bool {
	d := s.db(t.desc.DB)
	if d == nil || len(t.desc.FKs) > 0 || len(t.desc.Checks) > 0 || len(d.referencedBy[strings.ToLower(t.desc.Name)]) > 0 {
		return false
	}
	for _, x := range t.indexes {
		if x.desc.Fulltext != nil {
			return false
		}
	}
	for _, c := range t.cols {
		if c.desc.Generated != nil || c.desc.OnUpdate != nil {
			return false
		}
	}
	// A trigger may be on this table; its text would tell, the engine knows for sure.
	return len(d.objects[ixTrigger]) == 0
}
