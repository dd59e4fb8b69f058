package ddl

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// SelectedCollations gives the columns that a SELECT computes the collations of its expressions:
// the types that the engine has for results of functions are of its own default collation.
func SelectedCollations(ctx *sql.Context, n *plan.TableCopier) error {
	made, ok := n.Destination.(*plan.CreateTable)
	if !ok {
		return nil
	}
	var p *plan.Project
	transform.Inspect(n.Source, func(n sql.Node) bool {
		if found, ok := n.(*plan.Project); ok && p == nil {
			p = found
		}
		return p == nil
	})
	if p == nil {
		return nil
	}
	of := map[string]sql.Expression{}
	for i, c := range p.Schema(ctx) {
		of[strings.ToLower(c.Name)] = p.Projections[i]
	}
	for _, c := range made.PkSchema().Schema {
		t, ok := c.Type.(sql.TypeWithCollation)
		e := of[strings.ToLower(c.Name)]
		if !ok || e == nil || t.Collation() != sql.Collation_Default {
			continue
		}
		coll, _ := sql.GetCoercibility(ctx, e)
		if coll == sql.Collation_Default || coll == sql.Collation_binary || coll == sql.Collation_Unspecified {
			continue
		}
		typ, err := t.WithNewCollation(coll)
		if err != nil {
			return err
		}
		c.Type = typ
	}
	return nil
}
