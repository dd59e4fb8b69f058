package fn

import (
	"strings"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/collate"
	"github.com/godwitdb/godwit/sql/expr/fulltext"
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

// wordKey makes keys of words by the collation of the last column.
func wordKey(c *expr.Call) func(string) string {
	coll := collate.Of(c.Args[len(c.Args)-1].Type().Coll)
	if coll.Binary {
		return func(w string) string { return w }
	}
	return func(w string) string { return string(coll.AppendWeights(nil, w)) }
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
