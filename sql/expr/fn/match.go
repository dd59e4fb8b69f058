package fn

import (
	"cmp"
	"strings"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/collate"
	"github.com/godwitdb/godwit/sql/expr/fulltext"
	"github.com/godwitdb/godwit/sql/uca"
)

// MATCH ... AGAINST is bound to two functions. $match(search, mode, columns...) says whether a row
// is found. $rank(search, mode, rows, in..., columns...) says how well it fits: rows is how many
// rows there are, in are the numbers of rows in which the leaves of the search stand. Searches and
// modes are constants.

func init() {
	sig{names: "$match", min: 3, max: -1, args: "*", nulls: true, ret: returns(expr.TypeBool),
		make: func(c *expr.Call, _ *expr.Compiler) (rowEval, error) {
			s := searchOf(c)
			key := wordKey(c)
			return func(a []*expr.Vec, i int32, v *expr.Vec) error {
				v.I[i] = 0
				if s.Matches(s.NewDoc(document(a[2:], i), key)) {
					v.I[i] = 1
				}
				return nil
			}, nil
		}}.register()
	rank := expr.TypeFloat
	rank.Precision = 24
	sig{names: "$rank", min: 4, max: -1, args: "*", nulls: true, ret: returns(rank),
		make: func(c *expr.Call, _ *expr.Compiler) (rowEval, error) {
			s := searchOf(c)
			key := wordKey(c)
			n := len(s.Leaves())
			in := make([]float64, n)
			return func(a []*expr.Vec, i int32, v *expr.Vec) error {
				for k := range in {
					in[k] = 0
					if x := a[3+k]; !x.IsNull(i) {
						in[k] = float64(x.I[i])
					}
				}
				d := s.NewDoc(document(a[3+n:], i), key)
				v.F[i] = float64(float32(s.Rank(d, a[2].F[i], in)))
				return nil
			}, nil
		}}.register()
}

func searchOf(c *expr.Call) fulltext.Search {
	text, _ := c.Args[0].(*expr.Const)
	mode, _ := c.Args[1].(*expr.Const)
	if text == nil || mode == nil || text.V.IsNull() {
		return fulltext.Search{}
	}
	s, _ := fulltext.Parse(text.V.S, fulltext.ModeOf(mode.V.S)) // the binder has refused what it refuses
	return s
}

// wordKey makes keys of words by the collation of the last column, as the index has them: by one
// weight for each character.
func wordKey(c *expr.Call) func(string) string {
	coll := collate.Of(c.Args[len(c.Args)-1].Type().Coll)
	if coll.Binary {
		return func(w string) string { return w }
	}
	return func(w string) string { return string(coll.AppendAlone(nil, w)) }
}

// document is the text of a row.
func document(cols []*expr.Vec, i int32) string {
	var parts []string
	for _, c := range cols {
		if !c.IsNull(i) {
			parts = append(parts, c.S[i])
		}
	}
	return strings.Join(parts, " ")
}

// HasWord are the conditions under which a column, of the words of an index, has one of some words
// or beginnings. Words are told apart by one weight for each character, as LIKE does; "=" finds
// them by the key, and would find more in a collation where characters have several.
func HasWord(col *expr.Col, s fulltext.Search, terms []fulltext.Term) (conds []expr.Node, err error) {
	text := func(w string) expr.Node { return expr.TextConst(w, col.T.Coll) }
	any := func(to expr.Node, name string, args ...expr.Node) expr.Node {
		n, e := expr.NewCall(expr.Lookup(name), args...)
		if e == nil && to != nil {
			n, e = expr.NewCall(expr.Lookup("or"), to, n)
		}
		err = cmp.Or(err, e)
		return n
	}
	var same, alike expr.Node
	for _, t := range terms {
		for _, w := range s.Forms(t) {
			like := []expr.Node{col, text(strings.ReplaceAll(w, "_", `\_`)), text(`\`)}
			if alike = any(alike, "like", like...); t.Prefix {
				same = any(same, "like", like...)
			} else {
				same = any(same, "=", col, text(w))
			}
		}
	}
	if conds = append(conds, same); uca.Expands(col.T.Coll) {
		conds = append(conds, alike)
	}
	return conds, err
}
