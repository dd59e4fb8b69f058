package statements

import "strings"

// AsksForCost reports whether a statement may read what the one before has cost. Most statements
// have no system variable: only those that do are put into lower case.
func AsksForCost(query string) bool {
	return strings.Contains(query, "@@") && strings.Contains(strings.ToLower(query), "@@last_statement_")
}
