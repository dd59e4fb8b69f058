package rules

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
)

// mends are what is wrapped around rules of the engine, by the names of these.
var mends = map[string]func(analyzer.RuleFunc) analyzer.RuleFunc{
	"optimizeJoins":      func(optimize analyzer.RuleFunc) analyzer.RuleFunc { return keepFilters(fewOrders(optimize)) },
	"simplifyFilters":    keepEscapes,
	"applyHashIn":        collatedIn,
	"ResolveAlterColumn": func(r analyzer.RuleFunc) analyzer.RuleFunc { return renameTwice(keepChanges(r)) },
	// the first of all
	"applyDefaultSelectLimit": shortNumbers,
}

// Install puts the mends into an analyzer. It returns the names of those that found no rule: the
// engine has changed, and they do nothing.
func Install(a *analyzer.Analyzer) (missing []string) {
	for name, mend := range mends {
		if !Around(a, name, mend) {
			missing = append(missing, name)
		}
	}
	engines()
	return missing
}

// Around puts a mend around a rule of an analyzer. It reports whether there is such a rule.
func Around(a *analyzer.Analyzer, name string, mend func(analyzer.RuleFunc) analyzer.RuleFunc) (found bool) {
	return around(a, mend, func(r string) bool { return r == name })
}

// AroundEach puts a mend around all rules of an analyzer.
func AroundEach(a *analyzer.Analyzer, mend func(analyzer.RuleFunc) analyzer.RuleFunc) {
	around(a, mend, func(string) bool { return true })
}

func around(a *analyzer.Analyzer, mend func(analyzer.RuleFunc) analyzer.RuleFunc, which func(name string) bool) (found bool) {
	for _, b := range a.Batches {
		rules := make([]analyzer.Rule, len(b.Rules)) // the engine's lists are shared
		for i, r := range b.Rules {
			if which(r.Id.String()) {
				found = true
				r.Apply = mend(r.Apply)
			}
			rules[i] = r
		}
		b.Rules = rules
	}
	return found
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
