// Package algebra is the form of a query between the binder (package bind), the optimiser (package
// opt) and those who describe tables (package access).
//
// A query is a tree of relational operators. Each column that an operator makes has a number
// (expr.ColID) that is unique in the statement; expressions name columns by it, never by position.
// So a tree can be rewritten without renumbering, and an operator yields its columns in any order:
// Cols says which.
//
//   - Trees are immutable once they are built; a rewriting makes new nodes.
//   - The Type of an expr.Col is the type of the column where it is used: a column is NOT NULL
//     below an outer join, and may be NULL above it.
//   - Conditions are conjunctions (slices of nodes); a row passes when each is TRUE.
//   - A subquery in an expression is an expr.Sub whose Rel is a Rel of this package. Its Outer are
//     the columns of the queries around it that it uses. The optimiser makes joins or an Apply of
//     it.
//
// The catalog is seen through Table. Nothing here reads rows.
package algebra
