package bind

import (
	"errors"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind/tree"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/jsontable"
)

// jsonTable binds JSON_TABLE, whose document may use columns of the tables before it.
func (q *query) jsonTable(n *ast.TableSource, src *tree.JSONTable) (algebra.Rel, []column, error) {
	alias := n.AsName.O
	if alias == "" {
		return nil, nil, fail(3667, "42000", "Every table function must have an alias")
	}
	t, err := jsontable.New(src.Def, alias, q.b.s.Collation)
	if err != nil {
		var unknown *jsontable.ErrType
		if errors.As(err, &unknown) {
			return nil, nil, unsupported("JSON_TABLE column of another type")
		}
		return nil, nil, &Refusal{Err: err}
	}
	q.several = true
	x := &exprs{q: q, s: &scope{outer: q.scope.outer, q: q, cols: q.before}, clause: "a table function argument"}
	doc, err := x.scalar(src.Doc)
	if err != nil {
		return nil, nil, err
	}
	if expr.HasSub(doc) {
		return nil, nil, &Refusal{fail(1210, "HY000", "Incorrect arguments to JSON_TABLE"), sql.ErrInvalidArgument.New("JSON_TABLE")}
	}
	expr.Cols(doc, func(id expr.ColID) {
		for i := range q.before {
			if q.before[i].id == id {
				q.lateral[id] = true
			}
		}
	})
	rel := &algebra.Unfold{In: &algebra.Values{Rows: [][]expr.Node{{}}}, Name: alias, Doc: doc, Table: t}
	var cols []column
	for _, c := range t.Columns {
		id := q.b.newID()
		rel.IDs = append(rel.IDs, id)
		cols = append(cols, column{id: id, name: c.Name, table: alias, typ: c.Type,
			org: Origin{Table: alias, Column: c.Name}})
	}
	return rel, cols, nil
}
