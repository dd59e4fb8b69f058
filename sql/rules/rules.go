package rules

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// mends are what is wrapped around rules of the engine, by the names of these.
var mends = map[string]func(analyzer.RuleFunc) analyzer.RuleFunc{
	"optimizeJoins":   keepFilters,
	"simplifyFilters": keepEscapes,
}

// Install puts the mends into an analyzer. It returns the names of those that found no rule: the
// engine has changed, and they do nothing.
func Install(a *analyzer.Analyzer) (missing []string) {
	found := map[string]bool{}
	for _, b := range a.Batches {
		mended := make([]analyzer.Rule, len(b.Rules)) // the engine's lists are shared
		for i, r := range b.Rules {
			if mend := mends[r.Id.String()]; mend != nil {
				found[r.Id.String()] = true
				r.Apply = mend(r.Apply)
			}
			mended[i] = r
		}
		b.Rules = mended
	}
	for name := range mends {
		if !found[name] {
			missing = append(missing, name)
		}
	}
	return missing
}

// topJoins rewrites the joins that are below no other join of the same statement.
func topJoins(ctx *sql.Context, n sql.Node, f func(*plan.JoinNode) (sql.Node, transform.TreeIdentity, error)) (sql.Node,
	transform.TreeIdentity, error) {
	if _, ok := n.(sql.OpaqueNode); ok {
		return n, transform.SameTree, nil
	}
	if j, ok := n.(*plan.JoinNode); ok {
		return f(j)
	}
	var fresh []sql.Node
	for i, c := range n.Children() {
		k, same, err := topJoins(ctx, c, f)
		if err != nil {
			return n, transform.SameTree, err
		}
		if same {
			continue
		}
		if fresh == nil {
			fresh = append(fresh, n.Children()...)
		}
		fresh[i] = k
	}
	if fresh == nil {
		return n, transform.SameTree, nil
	}
	n, err := n.WithChildren(ctx, fresh...)
	return n, transform.NewTree, err
}
