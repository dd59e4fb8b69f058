package bound

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/base"
)

// ErrTooSlow is what a client is told whose SELECT took longer than it was to.
var ErrTooSlow = mysql.NewSQLError(3024, "HY000",
	"Query execution was interrupted, maximum statement execution time exceeded")

var reMaxTime = regexp.MustCompile(`(?is)^[\s(]*select\s*/\*\+[^*]*\bmax_execution_time\s*\(\s*(\d+)\s*\)`)

// mostHint is how much of a statement is looked at for a hint.
const mostHint = 512

// MaxTime is how long a statement may take, 0 without a bound: for a SELECT it is what its hint
// says, or the session's max_execution_time in ms. As in MySQL, other statements have no bound.
func MaxTime(ms int64, query string) time.Duration {
	if len(query) > mostHint {
		query = query[:mostHint]
	}
	if ms == 0 && !base.ContainsFold(query, "max_execution_time") {
		return 0
	}
	switch Kind(query) {
	case "select", "with", "table", "values":
	default:
		return 0
	}
	if m := reMaxTime.FindStringSubmatch(query); m != nil {
		if n, err := strconv.ParseUint(m[1], 10, 32); err == nil {
			ms = int64(n)
		}
	}
	return time.Duration(ms) * time.Millisecond
}

// common are the words with which most statements begin, so that they need not be made anew.
var common = func() map[string]string {
	m := map[string]string{}
	for _, w := range []string{"select", "insert", "update", "delete", "replace", "begin", "start", "commit", "rollback",
		"set", "show", "with"} {
		m[w], m[strings.ToUpper(w)] = w, w
	}
	return m
}()

// Kind is the first word of a statement, in lower case.
func Kind(q string) string {
	q = strings.TrimLeft(q, " \t\r\n(")
	for strings.HasPrefix(q, "/*") {
		i := strings.Index(q, "*/")
		if i < 0 {
			break
		}
		q = strings.TrimLeft(q[i+2:], " \t\r\n(")
	}
	if i := strings.IndexAny(q, " \t\n\r;("); i >= 0 {
		q = q[:i]
	}
	if len(q) > 16 {
		q = q[:16]
	}
	if w, ok := common[q]; ok {
		return w
	}
	return strings.ToLower(q)
}
