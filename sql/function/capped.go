package function

import (
	"strings"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	builtin "github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/vitess/go/mysql"
)

// What some of the engine's functions take for a long argument grows faster than the argument: in
// time, in which they cannot be interrupted, in memory, or in depth of the stack. So there are
// limits.

// Limit is how long an argument of a function may be, in bytes.
type Limit struct {
	// From is the first argument that it is for.
	From int
	// Only: it is for this argument only, not for those behind it.
	Only bool
	Most int
}

const (
	patternBytes = 64 << 10 // of regular expressions, formats and paths
	shapeBytes   = 1 << 20  // geometries as text, and documents that are indented
)

// Limits are those of a function by its name in lower case; nil: it has none.
func Limits(name string) *Limit {
	switch {
	case strings.HasPrefix(name, "regexp_"):
		return &Limit{1, true, patternBytes}
	case strings.HasPrefix(name, "st_") && (strings.HasSuffix(name, "text") || strings.HasSuffix(name, "txt") ||
		strings.HasSuffix(name, "geojson") || strings.HasSuffix(name, "wkb")):
		return &Limit{0, true, shapeBytes}
	}
	if l, ok := limits[name]; ok {
		return &l
	}
	return nil
}

var limits = map[string]Limit{
	"export_set":   {1, false, 512 << 10}, // 64 of two of them
	"json_pretty":  {0, true, shapeBytes},
	"date_format":  {1, true, patternBytes},
	"time_format":  {1, true, patternBytes},
	"str_to_date":  {1, true, patternBytes},
	"json_extract": {1, false, patternBytes}, "json_value": {1, true, patternBytes}, "json_length": {1, true, patternBytes},
	"json_keys": {1, true, patternBytes}, "json_remove": {1, false, patternBytes}, "json_search": {4, false, patternBytes},
	"json_contains": {2, true, patternBytes}, "json_contains_path": {2, false, patternBytes},
}

// ErrTooLong is the error of an argument that is longer than its limit.
func ErrTooLong(name string, most int) error {
	if strings.HasPrefix(name, "regexp_") {
		return mysql.NewSQLError(3700, "HY000", "The regular expression pattern exceeds limits on size or complexity: it has "+
			"more than %d bytes", most)
	}
	return mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support '%s() of a text of more than %d bytes'",
		name, most)
}

func length(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []byte:
		return len(v)
	}
	return 0
}

// Of reports whether the limit is for an argument.
func (l *Limit) Of(arg int) bool { return arg == l.From || arg > l.From && !l.Only }

// Over reports whether a value is longer than the limit.
func (l *Limit) Over(v any) bool {
	return length(v) > l.Most
}

// capped are the engine's functions that have limits, by name.
var capped = sync.OnceValue(func() map[string]sql.Function {
	out := map[string]sql.Function{}
	for _, f := range builtin.BuiltIns {
		name := strings.ToLower(f.FunctionName())
		if l := Limits(name); l != nil {
			out[name] = cappedFunction(name, l, f)
		}
	}
	return out
})

func cappedFunction(name string, l *Limit, f sql.Function) sql.Function {
	return sql.FunctionN{Name: name, Fn: func(ctx *sql.Context, args ...sql.Expression) (sql.Expression, error) {
		given := make([]sql.Expression, len(args))
		for i, a := range args {
			given[i] = a
			if k, ok := a.(*expression.Literal); l.Of(i) && !(ok && !l.Over(k.Value())) {
				given[i] = &limited{a, name, l}
			}
		}
		return f.NewInstance(ctx, given)
	}}
}

// limited is an argument that may not be longer than a limit.
type limited struct {
	sql.Expression
	function string
	limit    *Limit
}

// Children implements sql.Expression.
func (x *limited) Children() []sql.Expression { return []sql.Expression{x.Expression} }

// WithChildren implements sql.Expression.
func (x *limited) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	if len(children) != 1 {
		return nil, sql.ErrInvalidChildrenNumber.New(x, len(children), 1)
	}
	return &limited{children[0], x.function, x.limit}, nil
}

// Eval implements sql.Expression.
func (x *limited) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	v, err := x.Expression.Eval(ctx, row)
	if err == nil && x.limit.Over(v) {
		return nil, ErrTooLong(x.function, x.limit.Most)
	}
	return v, err
}
