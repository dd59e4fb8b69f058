package bound

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression/function/aggregation"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// askEvery is how many values of a document are looked at between two questions whether the
// statement has ended.
const askEvery = 1024

// jsonAggregate is the name of an aggregate that makes a JSON document; empty: it makes none.
func jsonAggregate(a sql.Aggregation) string {
	switch a.(type) {
	case *aggregation.JsonArray:
		return "json_arrayagg"
	case *aggregation.JSONObjectAgg:
		return "json_objectagg"
	}
	return ""
}

// packet makes a document NULL whose text is longer than max_allowed_packet, with the warning that
// MySQL has for results of functions.
func packet(ctx *sql.Context, function string, v any) (any, error) {
	doc, ok := v.(types.JSONDocument)
	if !ok {
		return v, nil
	}
	most, err := ctx.GetSessionVariable(ctx, "max_allowed_packet")
	if err != nil {
		return nil, err
	}
	var limit int
	switch n := most.(type) {
	case int64:
		limit = int(n)
	case uint64: // once it is set
		limit = int(n)
	}
	l := &jsonLength{ctx: ctx, left: limit}
	if err := l.take(doc.Val); err != nil {
		return nil, err
	}
	if l.left < 0 {
		ctx.Warn(1301, "Result of %s() was larger than max_allowed_packet (%d) - truncated", function, limit)
		return nil, nil
	}
	return v, nil
}

// jsonLength counts the bytes of a document's text.
type jsonLength struct {
	ctx  *sql.Context
	left int // below 0: the text is too long, and was not looked at to its end
	seen int
}

func (l *jsonLength) take(v any) error {
	if l.seen++; l.seen%askEvery == 0 {
		if err := l.ctx.Err(); err != nil {
			return err
		}
	}
	switch v := v.(type) {
	case []any:
		l.left -= max(2, 2*len(v)) // brackets, and ", " between values
		for i := 0; i < len(v) && l.left >= 0; i++ {
			if err := l.take(v[i]); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		l.left -= max(2, 4*len(v)) // and ": " behind each name
		for name, x := range v {
			if err := l.take(name); err != nil || l.left < 0 {
				return err
			}
			if err := l.take(x); err != nil || l.left < 0 {
				return err
			}
		}
		return nil
	}
	text, err := types.JSONDocument{Val: v}.JSONString()
	l.left -= len(text)
	return err
}
