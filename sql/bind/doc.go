// Package bind makes a query of package algebra of the text of a SELECT, UPDATE, DELETE, INSERT or
// REPLACE: it parses (with TiDB's parser), finds what names mean, expands views and common table
// expressions, and derives types. A [Change] is a query whose rows are written.
//
// Names follow MySQL: GROUP BY looks among the columns of FROM before the aliases of the SELECT
// list, HAVING and ORDER BY the other way round; a name that is not found is looked for in the
// queries around. Aggregates belong to the innermost query that has a column of their arguments.
//
// What the binder does not do is an *Unsupported error with a short, stable reason: the statement
// is then run by go-mysql-server, and counted by that reason. Errors of the user are errors of
// MySQL with its numbers. Most of them are left to that engine, too, which words them; a *Refusal
// is one that it would not see.
//
// Some functions have arguments that are words in SQL. They are constants of type Text here, in
// lower case, where the word stood last or first:
//
//	date_add(x, n, 'day')  date_sub(x, n, 'day')      DATE_ADD(x, INTERVAL n DAY), x + INTERVAL n DAY
//	extract('year', x)  timestampadd('day', n, x)  timestampdiff('day', x, y)  get_format('date', x)
//	trim(x)  trim(x, chars)  trim(x, chars, 'leading')      also 'trailing', 'both'
//	position(a, b)                                    is locate(a, b)
//
// Other forms are calls of functions with these names: "istrue", "isfalse", "isnull", "isnottrue",
// "isnotfalse", "isnotnull" (never NULL), "not", "neg", "~", "like" (value, pattern, escape),
// "regexp_like", "xor", "div", "%", "between". NOT LIKE and the like are "not" of these.
package bind
