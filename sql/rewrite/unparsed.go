package rewrite

import (
	"regexp"

	"github.com/godwitdb/godwit/sql/ddl"
)

// What MySQL can do and the parser does not know: to be told what is not supported helps more than
// the place where its text was not understood.
var unparsed = []struct {
	text *regexp.Regexp
	err  error
}{
	// Not that of a window, which stands behind a parenthesis.
	{regexp.MustCompile(`(?is)^\s*(?:CREATE|ALTER)\s+(?:TEMPORARY\s+)?TABLE\b.*[^(\s]\s*\bPARTITION\s+BY\b`), ddl.ErrPartitions},
	{regexp.MustCompile(`(?is)^\s*ALTER\s+TABLE\s+\S+\s+(?:[A-Z]+\s+PARTITION|REMOVE\s+PARTITIONING)\b`), ddl.ErrPartitions},
	{regexp.MustCompile(`(?is)^\s*HANDLER\s+\S+\s+(?:OPEN|READ|CLOSE)\b`), ddl.NotYet("HANDLER", "SELECT reads by any index, "+
		"with ORDER BY and LIMIT")},
	{regexp.MustCompile(`(?is)^\s*HELP\s`), ddl.NotYet("HELP", "the manual of MySQL 8.0 tells what statements do, "+
		"and Godwit's docs/sql.md what differs")},
	{regexp.MustCompile(`(?is)^\s*SHOW\s+PROFILES?\b`), ddl.NotYet("SHOW PROFILE", "EXPLAIN ANALYZE and SHOW GODWIT STATEMENT COST "+
		"tell where the time of a statement goes")},
	{regexp.MustCompile(`(?is)^\s*(?:UN)?INSTALL\s+(?:PLUGIN|COMPONENT|SONAME)\b`), ddl.NotYet("INSTALL PLUGIN",
		"there are no plugins: docs/sql.md lists what there is")},
}

// Unparsed is the error for a statement that does not parse, if it is one of MySQL's that Godwit
// lacks; nil for all others.
func Unparsed(text string) error {
	for _, u := range unparsed {
		if u.text.MatchString(text) {
			return u.err
		}
	}
	return nil
}
