package bound

import (
	"strings"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression/function/json"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/expr/collate"
	"github.com/godwitdb/godwit/sql/expr/jsondoc"
)

// jsonSearch is JSON_SEARCH as our own engine has it: it can be interrupted, like [like].
type jsonSearch struct{ *json.JSONSearch }

// WithChildren implements sql.Expression.
func (s *jsonSearch) WithChildren(ctx *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	e, err := s.JSONSearch.WithChildren(ctx, children...)
	if err != nil {
		return nil, err
	}
	return &jsonSearch{e.(*json.JSONSearch)}, nil
}

// Eval implements sql.Expression.
func (s *jsonSearch) Eval(ctx *sql.Context, row sql.Row) (any, error) {
	ask := func() error { return interrupted(ctx) }
	doc, ok, err := s.document(ctx, row, ask)
	if err != nil || !ok {
		return nil, err
	}
	which, ok, err := evalText(ctx, s.OneOrAll, row)
	if err != nil || !ok {
		return nil, err
	}
	all := strings.EqualFold(which, "all")
	if !all && !strings.EqualFold(which, "one") {
		return nil, mysql.NewSQLError(3154, "42000", "The oneOrAll argument to json_search may take these values: 'one' or 'all'.")
	}
	pattern, ok, err := evalText(ctx, s.Search, row)
	if err != nil || !ok {
		return nil, err
	}
	escape, err := s.escape(ctx, row)
	if err != nil {
		return nil, err
	}
	var paths []*jsondoc.Path
	for _, e := range s.Paths {
		text, ok, err := evalText(ctx, e, row)
		if err != nil || !ok {
			return nil, err
		}
		p, err := jsondoc.ParsePath(text)
		if err != nil {
			return nil, mysql.NewSQLError(3143, "42000", "%s", err)
		}
		paths = append(paths, p)
	}
	match := collate.Of(sql.Collation_utf8mb4_bin).NewLike(pattern, escape)
	v, ok, err := jsondoc.Search(doc, paths, all, func(text string) (bool, error) { return match.Match(text, ask) })
	if err != nil || !ok {
		return nil, err
	}
	return types.JSONDocument{Val: v}, nil
}

// document is the document that is searched; ok is false if it is NULL.
func (s *jsonSearch) document(ctx *sql.Context, row sql.Row, ask func() error) (doc any, ok bool, err error) {
	v, err := s.JSON.Eval(ctx, row)
	if err != nil || v == nil {
		return nil, false, err
	}
	if v, err = sql.UnwrapAny(ctx, v); err != nil {
		return nil, false, err
	}
	switch v := v.(type) {
	case sql.JSONWrapper:
		text, err := types.JsonToMySqlString(ctx, v)
		if err != nil {
			return nil, false, err
		}
		doc, err = jsondoc.ReadAsking(text, ask)
		return doc, true, err
	case string:
		if doc, err = jsondoc.Parse(v, ask); err == nil {
			return doc, true, nil
		}
		if gone := ask(); gone != nil {
			return nil, false, gone
		}
		return nil, false, mysql.NewSQLError(3141, "22032", "Invalid JSON text in argument 1 to function json_search: %s", err)
	}
	return nil, false, mysql.NewSQLError(3146, "22032", "Invalid data type for JSON data in argument 1 to function "+
		"json_search; a JSON string or JSON type is required.")
}

// escape is the character that takes the meaning from the one after it.
func (s *jsonSearch) escape(ctx *sql.Context, row sql.Row) (rune, error) {
	if s.Escape == nil {
		return '\\', nil
	}
	text, ok, err := evalText(ctx, s.Escape, row)
	if err != nil || !ok || text == "" {
		return '\\', err
	}
	r, n := utf8.DecodeRuneInString(text)
	if n < len(text) {
		return 0, json.ErrBadEscape
	}
	return r, nil
}
