package bind

import (
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/fn"
	"github.com/godwitdb/godwit/sql/expr/fulltext"
)

// MATCH ... AGAINST is bound to functions over the texts of the row. How many rows have a word is
// asked of the index, which is a table of the words of each row. Where MATCH is a condition, the
// index also says which rows may fulfil it.

// matching is a MATCH that is bound.
type matching struct {
	scan   *algebra.Scan
	index  algebra.Fulltext
	search fulltext.Search
	cols   []expr.Node
	text   *expr.Const
	mode   *expr.Const
}

// match binds the parts of a MATCH.
func (x *exprs) match(n *ast.MatchAgainst) (*matching, error) {
	m := &matching{}
	for _, name := range n.ColumnNames {
		c, err := x.column(name)
		if err != nil {
			return nil, err
		}
		m.cols = append(m.cols, c)
	}
	if err := m.find(x.q.b); err != nil {
		return nil, err
	}
	if n.Modifier.WithQueryExpansion() {
		return nil, refuse(1235, "42000", "This version of Godwit doesn't yet support 'WITH QUERY EXPANSION': "+
			"search for more words")
	}
	against, err := x.scalar(n.Against)
	if err != nil {
		return nil, err
	}
	c, ok := against.(*expr.Const)
	switch {
	case !ok && readsNothing(against):
		return nil, unsupported("MATCH")
	case !ok:
		return nil, refuse(1210, "HY000", "Incorrect arguments to AGAINST")
	case !c.V.IsNull() && c.T.Kind != expr.Text:
		c = expr.TextConst(c.V.Text(c.T), x.q.b.s.Collation)
	}
	mode := fulltext.Mode{Boolean: n.Modifier.IsBooleanMode(), Parser: m.index.Parser}
	m.text, m.mode = c, x.word(mode.String()).(*expr.Const)
	if !c.V.IsNull() {
		if m.search, err = fulltext.Parse(c.V.S, mode); err != nil {
			return nil, &Refusal{Err: err}
		}
	}
	return m, nil
}

// readsNothing reports whether an expression reads no row.
func readsNothing(n expr.Node) bool {
	used := expr.HasSub(n)
	expr.Cols(n, func(expr.ColID) { used = true })
	return !used
}

// find looks for the full-text index over the columns.
func (m *matching) find(b *binder) error {
	none := fail(1191, "HY000", "Can't find FULLTEXT index matching the column list")
	var at []int
	for _, n := range m.cols {
		c, ok := n.(*expr.Col)
		if !ok {
			return refuse(1210, "HY000", "Incorrect arguments to MATCH")
		}
		i := slices.IndexFunc(b.of, func(s scanned) bool { return slices.Contains(s.scan.IDs, c.ID) })
		if i < 0 || m.scan != nil && m.scan != b.of[i].scan {
			return refuse(1210, "HY000", "Incorrect arguments to MATCH")
		}
		m.scan = b.of[i].scan
		at = append(at, slices.Index(m.scan.IDs, c.ID))
	}
	slices.Sort(at)
	t, ok := m.scan.Table.(algebra.Searched)
	if !ok {
		return none
	}
	for _, f := range t.Fulltext() {
		cols := slices.Clone(f.Cols)
		if slices.Sort(cols); slices.Equal(cols, slices.Compact(at)) {
			m.index = f
			return nil
		}
	}
	return none
}

// rank is how well a row fits.
func (x *exprs) rank(m *matching) (expr.Node, error) {
	args := []expr.Node{m.text, m.mode, expr.FloatConst(m.scan.Table.Rows())}
	for _, leaf := range m.search.Leaves() {
		n, err := x.rowsWith(m, leaf)
		if err != nil {
			return nil, err
		}
		args = append(args, n)
	}
	return call("$rank", append(args, m.cols...)...)
}

// words reads the index: the rows of words that are one of those, or begin with one.
func (x *exprs) words(m *matching, terms []fulltext.Term) (s *algebra.Scan, rel algebra.Rel, err error) {
	s = &algebra.Scan{Table: m.index.Words}
	for range m.index.Words.Columns() {
		s.IDs = append(s.IDs, x.q.b.newID())
	}
	word := m.index.Words.Columns()[0]
	col := &expr.Col{ID: s.IDs[0], Name: word.Name, T: word.Type}
	conds, err := fn.HasWord(col, m.search, terms)
	return s, &algebra.Filter{In: s, Conds: conds}, err
}

// rowsWith is in how many rows a word stands.
func (x *exprs) rowsWith(m *matching, t fulltext.Term) (expr.Node, error) {
	_, rel, err := x.words(m, []fulltext.Term{t})
	if err != nil {
		return nil, err
	}
	n, err := expr.NewAgg(expr.LookupAgg("count"), nil, false, nil, "")
	if err != nil {
		return nil, err
	}
	g := &algebra.GroupBy{In: rel, Aggs: []algebra.Agg{{ID: x.q.b.newID(), Name: "count", Call: n.(*expr.Agg)}}}
	return &expr.Sub{Number: x.q.b.subNumber(), Kind: expr.SubScalar, Rel: g, T: n.Type().AsNull()}, nil
}

// matches are the conditions under which a row is found. What the index cannot say is asked of the
// text.
func (x *exprs) matches(n *ast.MatchAgainst) ([]expr.Node, error) {
	m, err := x.match(n)
	if err != nil {
		return nil, err
	}
	own := slices.Contains(x.q.scans, m.scan)
	if x.q.match == nil && own {
		if x.q.match, err = x.rank(m); err != nil {
			return nil, err
		}
	}
	var out []expr.Node
	whole := len(m.index.Keys) == 0 || !own
	if !whole {
		var sets [][]fulltext.Term
		sets, whole = m.search.Needed()
		for _, ts := range sets {
			c, err := x.found(m, ts)
			if err != nil {
				return nil, err
			}
			out = append(out, c)
		}
	}
	if whole {
		c, err := call("$match", append([]expr.Node{m.text, m.mode}, m.cols...)...)
		return append(out, c), err
	}
	return out, nil
}

// found is the condition that a row has one of some words.
func (x *exprs) found(m *matching, terms []fulltext.Term) (expr.Node, error) {
	terms = slices.DeleteFunc(slices.Clone(terms), func(t fulltext.Term) bool { return !m.search.Findable(t) })
	if len(terms) == 0 {
		return expr.Bool(false), nil
	}
	s, rel, err := x.words(m, terms)
	if err != nil {
		return nil, err
	}
	p := &algebra.Project{In: rel}
	sub := &expr.Sub{Number: x.q.b.subNumber(), Kind: expr.SubAny, Cmp: "=", T: expr.TypeBool, Rel: p}
	for i, pos := range m.index.Keys {
		word, own := m.index.Words.Columns()[i+1], m.scan.Table.Columns()[pos]
		p.Items = append(p.Items, algebra.Item{ID: s.IDs[i+1], Name: word.Name,
			Node: &expr.Col{ID: s.IDs[i+1], Name: word.Name, T: word.Type}})
		sub.Left = append(sub.Left, &expr.Col{ID: m.scan.IDs[pos], Name: own.Name, T: own.Type.AsNull()})
	}
	return sub, nil
}
