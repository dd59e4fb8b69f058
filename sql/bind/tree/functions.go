package tree

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// Renamed are functions that the parser knows by other names.
var Renamed = map[string]string{
	"substr": "substring", "mid": "substring", "mod": "%", "power": "pow", "ceil": "ceiling", "lcase": "lower", "ucase": "upper",
	"adddate": "date_add", "subdate": "date_sub", "character_length": "char_length", "octet_length": "length",
	"session_user": "user", "system_user": "user", "current_timestamp": "now", "localtime": "now", "localtimestamp": "now",
	"current_date": "curdate", "current_time": "curtime",
	"json_memberof": "member of", "schema": "database", "dayofmonth": "day", "regexp": "regexp_like",
	"insert_func": "insert", "position": "locate",
}

// LeftAlone are functions whose values depend on more than their arguments and the session, or that
// have effects on the session.
var LeftAlone = map[string]bool{
	"get_lock": true, "release_lock": true, "release_all_locks": true,
	"is_free_lock": true, "is_used_lock": true,
	"load_file": true, "values": true, "default": true, "name_const": true,
	"nextval": true, "lastval": true, "setval": true,
	"master_pos_wait": true,
}

// JSONValues are functions that take values into documents, where TRUE is no number, and say which
// of their arguments these are.
var JSONValues = func() map[string]func(i int) bool {
	out := map[string]func(int) bool{
		"json_array":    func(int) bool { return true },
		"json_object":   func(i int) bool { return i%2 == 1 },
		"json_memberof": func(i int) bool { return i == 0 },
	}
	for _, f := range []string{"json_set", "json_insert", "json_replace", "json_array_append", "json_array_insert"} {
		out[f] = func(i int) bool { return i >= 2 && i%2 == 0 }
	}
	return out
}()

// Trims are the forms of TRIM(... FROM ...).
var Trims = map[ast.TrimDirectionType]string{
	ast.TrimBothDefault: "trim", ast.TrimBoth: "trim", ast.TrimLeading: "trim_leading", ast.TrimTrailing: "trim_trailing",
}

// Assignments makes a SELECT of the values of SET @a = x, @b = y, and tells the names; there are
// none if it is another statement, or sets something else.
func Assignments(stmt ast.StmtNode) (values ast.StmtNode, names []string) {
	set, ok := stmt.(*ast.SetStmt)
	if !ok {
		return nil, nil
	}
	list := &ast.FieldList{}
	for _, v := range set.Variables {
		if v.IsSystem || v.Value == nil || strings.EqualFold(v.Name, ast.SetNames) || strings.EqualFold(v.Name, ast.SetCharset) {
			return nil, nil
		}
		list.Fields = append(list.Fields, &ast.SelectField{Expr: v.Value})
		names = append(names, v.Name)
	}
	return &ast.SelectStmt{SelectStmtOpts: &ast.SelectStmtOpts{}, Fields: list}, names
}

// Plain makes some forms of calls others: TIMESTAMPADD(unit, n, x) is x + INTERVAL n unit, and
// CHAR(n, ... USING set) converts what CHAR(n, ...) is.
func Plain(n *ast.FuncCallExpr) *ast.FuncCallExpr {
	switch n.FnName.L {
	case ast.TimestampAdd:
		if len(n.Args) == 3 {
			return call(ast.DateAdd, n.Args[2], n.Args[1], n.Args[0])
		}
	case ast.CharFunc:
		last := len(n.Args) - 1
		c := call("char", n.Args[:last]...)
		if l, ok := n.Args[last].(*Literal); ok && l.V != nil {
			return call(ast.Convert, c, n.Args[last])
		}
		return c
	}
	return n
}

func call(name string, args ...ast.ExprNode) *ast.FuncCallExpr {
	return &ast.FuncCallExpr{FnName: ast.NewCIStr(name), Args: args}
}
