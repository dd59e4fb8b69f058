package fn

import (
	"cmp"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/collate"
	"github.com/godwitdb/godwit/sql/expr/jsondoc"
)

// JSON_TYPE is left to the library of the engine: a document is a text here, which does not tell an
// unsigned number from a signed one.

// jsonCall is a call of a JSON function for one row. Its first error stays.
type jsonCall struct {
	name string
	env  *expr.Env
	a    []*expr.Vec
	i    int32
	err  error
	null bool // an argument is NULL, and so is the result
	docs jsondoc.Reading
}

// doc is an argument as a document: a text is parsed.
func (c *jsonCall) doc(k int) any {
	if c.err != nil || c.null {
		return nil
	}
	x := c.a[k]
	if x.IsNull(c.i) {
		c.null = true
		return nil
	}
	var d any
	switch x.T.Kind {
	case expr.JSON:
		d, c.err = jsondoc.ReadAsking(x.S[c.i], c.docs.Ask)
	case expr.Text:
		var err error
		if d, err = jsondoc.Parse(x.S[c.i], c.docs.Ask); err != nil {
			c.err = cmp.Or[error](c.docs.Err, mysql.NewSQLError(3141, "22032", "Invalid JSON text in argument %d to function %s: %s", k+1,
				c.name, err))
		}
	case expr.Bytes:
		c.err = mysql.NewSQLError(3144, "22032", "Cannot create a JSON value from a string with CHARACTER SET 'binary'.")
	default:
		c.err = mysql.NewSQLError(3146, "22032", "Invalid data type for JSON data in argument %d to function %s; a JSON string "+
			"or JSON type is required.", k+1, c.name)
	}
	return d
}

// value is an argument as a value in a document.
func (c *jsonCall) value(k int) any { return expr.JsonScalar(c.a[k], c.i, c.env) }

// text is an argument as a text.
func (c *jsonCall) text(k int) string {
	if c.err != nil || c.null {
		return ""
	}
	if c.a[k].IsNull(c.i) {
		c.null = true
		return ""
	}
	return string(c.a[k].AppendText(nil, c.i))
}

// path is an argument that is a path; one says that it must not lead to several parts.
func (c *jsonCall) path(k int, one bool) *jsondoc.Path {
	s := c.text(k)
	if c.err != nil || c.null {
		return &jsondoc.Path{}
	}
	p, err := jsondoc.ParsePath(s)
	switch {
	case err != nil:
		c.err = mysql.NewSQLError(3143, "42000", "%s", err)
	case one && p.Many:
		c.err = mysql.NewSQLError(3149, "42000",
			"In this situation, path expressions may not contain the * and ** tokens or an array range.")
	default:
		return p
	}
	return &jsondoc.Path{}
}

// jsonFunc registers a function whose result is a document, or missing.
func jsonFunc(names string, least, most int, f func(c *jsonCall) (v any, ok bool)) {
	jsonOf(names, least, most, expr.TypeJSON, func(c *jsonCall, v *expr.Vec) {
		d, ok := f(c)
		if !ok {
			c.null = true
			return
		}
		if c.err != nil || c.null {
			return
		}
		limit := c.env.PacketLimit()
		text, fits, err := jsondoc.Within(d, limit, c.env.Err)
		if c.err = err; !fits && err == nil {
			c.null = !c.env.Fits(c.name, limit+1)
		}
		v.S[c.i] = text
	})
}

// jsonNumber registers one whose result is a number, or missing.
func jsonNumber(names string, least, most int, f func(c *jsonCall) (n int, ok bool)) {
	jsonOf(names, least, most, expr.TypeInt, func(c *jsonCall, v *expr.Vec) {
		n, ok := f(c)
		if v.I[c.i] = int64(n); !ok {
			c.null = true
		}
	})
}

func jsonTest(names string, least, most int, f func(c *jsonCall) bool) {
	t := expr.TypeBool
	jsonOf(names, least, most, t, func(c *jsonCall, v *expr.Vec) {
		if v.I[c.i] = 0; f(c) {
			v.I[c.i] = 1
		}
	})
}

func jsonOf(names string, least, most int, t expr.Type, f func(c *jsonCall, v *expr.Vec)) {
	sig{names: names, min: least, max: most, args: "*", nulls: true, ret: maybe(t),
		make: func(_ *expr.Call, k *expr.Compiler) (rowEval, error) {
			name := strings.Fields(names)[0]
			return func(a []*expr.Vec, i int32, v *expr.Vec) error {
				c := &jsonCall{name: name, env: k.Env, a: a, i: i, docs: jsondoc.Reading{Ended: k.Env.Err, Mem: k.Env.Mem}}
				defer c.docs.Done()
				f(c, v)
				if c.err != nil {
					return c.err
				}
				if c.null || t.Kind == expr.Text && !k.Env.Fits(name, len(v.S[i])) {
					v.SetNull(int(i))
				}
				return nil
			}, nil
		}}.register()
}

// jsonText is the type of texts that JSON functions make.
var jsonText = expr.TextType(0, sql.Collation_utf8mb4_bin, expr.CoerceImplicit)

func init() {
	jsonFunc("json_extract", 2, -1, jsonExtract)
	jsonFunc("json_array", 0, -1, func(c *jsonCall) (any, bool) {
		out := []any{}
		for k := range c.a {
			out = append(out, c.value(k))
		}
		return out, true
	})
	jsonFunc("json_object", 0, -1, jsonObject)
	edits := func(name string, absent, present bool) {
		jsonFunc(name, 3, -1, func(c *jsonCall) (any, bool) {
			return c.edit(func(v any) jsondoc.Change {
				return func(old any, there bool) (any, bool) {
					if there && present || !there && absent {
						return v, true
					}
					return old, there
				}
			})
		})
	}
	edits("json_set", true, true)
	edits("json_insert", true, false)
	edits("json_replace", false, true)
	jsonFunc("json_array_append json_append", 3, -1, func(c *jsonCall) (any, bool) {
		return c.edit(func(v any) jsondoc.Change {
			return func(old any, there bool) (any, bool) {
				if !there {
					return nil, false
				}
				if a, ok := old.([]any); ok {
					return append(append([]any(nil), a...), v), true
				}
				return []any{old, v}, true
			}
		})
	})
	jsonFunc("json_array_insert", 3, -1, jsonArrayInsert)
	jsonFunc("json_remove", 2, -1, jsonRemove)
	jsonFunc("json_merge_patch", 2, -1, jsonMergePatch)
	jsonFunc("json_merge_preserve json_merge", 2, -1, func(c *jsonCall) (any, bool) {
		d := c.doc(0)
		for k := 1; k < len(c.a); k++ {
			d = jsondoc.MergePreserve(d, c.doc(k))
		}
		return d, true
	})
	jsonFunc("json_keys", 1, 2, func(c *jsonCall) (any, bool) {
		o, ok := c.part().(*jsondoc.Object)
		if !ok {
			return nil, false
		}
		out := []any{}
		for _, k := range o.Keys {
			out = append(out, k)
		}
		return out, true
	})
	jsonFunc("json_search", 3, -1, jsonSearch)
	jsonNumber("json_length", 1, 2, func(c *jsonCall) (int, bool) {
		switch v := c.part().(type) {
		case []any:
			return len(v), true
		case *jsondoc.Object:
			return len(v.Keys), true
		}
		return 1, true
	})
	jsonNumber("json_depth", 1, 1, func(c *jsonCall) (int, bool) { return jsondoc.Depth(c.doc(0)), true })
	jsonTest("json_contains", 2, 3, func(c *jsonCall) bool {
		d, x := c.doc(0), c.doc(1)
		if len(c.a) > 2 {
			found := c.path(2, true).Find(d)
			if len(found) == 0 {
				c.null = true
				return false
			}
			d = found[0]
		}
		return jsondoc.Contains(d, x)
	})
	jsonTest("json_overlaps", 2, 2, func(c *jsonCall) bool { return jsondoc.Overlaps(c.doc(0), c.doc(1)) })
	jsonTest("json_contains_path", 3, -1, jsonContainsPath)
	member := func(c *jsonCall) bool {
		if c.a[0].IsNull(c.i) {
			c.null = true
			return false
		}
		v, d := c.value(0), c.doc(1)
		a, ok := d.([]any)
		if !ok {
			a = []any{d}
		}
		for _, x := range a {
			if jsondoc.Compare(v, x) == 0 {
				return true
			}
		}
		return false
	}
	jsonTest("json_memberof", 2, 2, member)
	jsonOf("json_valid", 1, 1, expr.TypeBool, func(c *jsonCall, v *expr.Vec) {
		x := c.a[0]
		if v.I[c.i] = 0; x.IsNull(c.i) {
			c.null = true
		} else if x.T.Kind == expr.JSON {
			v.I[c.i] = 1
		} else if x.T.Kind == expr.Text {
			if _, err := jsondoc.Parse(x.S[c.i], c.env.Err); err == nil {
				v.I[c.i] = 1
			}
		}
	})
	jsonOf("json_pretty", 1, 1, jsonText, func(c *jsonCall, v *expr.Vec) { v.S[c.i] = jsondoc.Pretty(c.doc(0)) })
	jsonOf("json_quote", 1, 1, jsonText, func(c *jsonCall, v *expr.Vec) {
		v.S[c.i] = string(jsondoc.AppendQuoted(nil, c.text(0)))
	})
	jsonOf("json_unquote", 1, 1, jsonText, jsonUnquote)
	jsonOf("json_value", 2, 2, jsonText, jsonValue)
}

// jsonValue is the scalar that a path leads to, as a text; NULL if it leads to anything else.
func jsonValue(c *jsonCall, v *expr.Vec) {
	d := c.doc(0)
	p := c.path(1, false)
	if c.err != nil || c.null {
		return
	}
	found := p.Find(d)
	if c.null = len(found) != 1; c.null {
		return
	}
	switch x := found[0].(type) {
	case string:
		v.S[c.i] = x
	case nil, []any, *jsondoc.Object:
		c.null = true
	default:
		v.S[c.i] = jsondoc.Text(x)
	}
}

func jsonExtract(c *jsonCall) (any, bool) {
	d := c.doc(0)
	many := len(c.a) > 2
	var found []any
	for k := 1; k < len(c.a); k++ {
		p := c.path(k, false)
		many = many || p.Many
		found = append(found, p.Find(d)...)
	}
	switch {
	case len(found) == 0:
		return nil, false
	case many:
		return found, true
	}
	return found[0], true
}

func jsonObject(c *jsonCall) (any, bool) {
	if len(c.a)%2 != 0 {
		c.err = mysql.NewSQLError(1582, "42000", "Incorrect parameter count in the call to native function 'json_object'")
		return nil, false
	}
	o := &jsondoc.Object{}
	for k := 0; k < len(c.a); k += 2 {
		if c.a[k].IsNull(c.i) {
			c.err = mysql.NewSQLError(3158, "22032", "JSON documents may not contain NULL member names.")
			return nil, false
		}
		o.Set(c.text(k), c.value(k+1))
	}
	return o, true
}

// edit changes a document by pairs of a path and a value.
func (c *jsonCall) edit(change func(v any) jsondoc.Change) (any, bool) {
	d := c.doc(0)
	for k := 1; k+1 < len(c.a); k += 2 {
		p := c.path(k, true)
		if c.err != nil || c.null {
			return nil, false
		}
		d = p.Edit(d, change(c.value(k+1)))
	}
	if len(c.a)%2 == 0 {
		c.err = mysql.NewSQLError(1582, "42000", "Incorrect parameter count in the call to native function '%s'", c.name)
	}
	return d, true
}

func jsonArrayInsert(c *jsonCall) (any, bool) {
	d := c.doc(0)
	for k := 1; k+1 < len(c.a); k += 2 {
		p := c.path(k, true)
		if c.err != nil || c.null {
			return nil, false
		}
		var ok bool
		if d, ok = p.Insert(d, c.value(k+1)); !ok {
			c.err = mysql.NewSQLError(3165, "42000", "A path expression is not a path to a cell in an array.")
		}
	}
	return d, true
}

func jsonRemove(c *jsonCall) (any, bool) {
	d := c.doc(0)
	for k := 1; k < len(c.a); k++ {
		p := c.path(k, true)
		if c.err == nil && !c.null && p.Whole() {
			c.err = mysql.NewSQLError(3153, "42000", "The path expression '$' is not allowed in this context.")
		}
		if c.err != nil || c.null {
			return nil, false
		}
		d = p.Edit(d, func(any, bool) (any, bool) { return nil, false })
	}
	return d, true
}

// jsonMergePatch: a NULL makes all NULL, unless a later document is not an object.
func jsonMergePatch(c *jsonCall) (any, bool) {
	var d any
	null := false
	for k := range c.a {
		c.null = false
		x := c.doc(k)
		_, object := x.(*jsondoc.Object)
		switch {
		case c.err != nil:
			return nil, false
		case c.null:
			null = true
		case !object:
			d, null = x, false
		case k == 0:
			d = x
		default:
			d = jsondoc.MergePatch(d, x)
		}
	}
	c.null = null
	return d, true
}

// part is the document, or the part of it that the second argument leads to.
func (c *jsonCall) part() any {
	d := c.doc(0)
	if len(c.a) < 2 {
		return d
	}
	found := c.path(1, true).Find(d)
	if len(found) == 0 {
		c.null = true
		return nil
	}
	return found[0]
}

// oneOrAll reads the argument that says how many are wanted.
func (c *jsonCall) oneOrAll(k int) (all bool) {
	s := strings.ToLower(c.text(k))
	if c.err == nil && !c.null && s != "one" && s != "all" {
		c.err = mysql.NewSQLError(3154, "42000",
			"The oneOrAll argument to %s may take these values: 'one' or 'all'.", c.name)
	}
	return s == "all"
}

func jsonContainsPath(c *jsonCall) bool {
	d := c.doc(0)
	all := c.oneOrAll(1)
	for k := 2; k < len(c.a); k++ {
		p := c.path(k, false)
		if c.err != nil || c.null {
			return false
		}
		if has := len(p.Find(d)) > 0; has != all {
			return has
		}
	}
	return all
}

func jsonUnquote(c *jsonCall, v *expr.Vec) {
	x := c.a[0]
	switch {
	case x.IsNull(c.i):
		c.null = true
		return
	case x.T.Kind == expr.JSON:
		d := c.doc(0)
		s, ok := d.(string)
		if !ok {
			s = jsondoc.Text(d)
		}
		v.S[c.i] = s
		return
	}
	s := c.text(0)
	if v.S[c.i] = s; len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return
	}
	d, err := jsondoc.Parse(s, c.env.Err)
	if err != nil {
		c.err = mysql.NewSQLError(3141, "22032", "Invalid JSON text in argument 1 to function json_unquote: %s", err)
		return
	}
	v.S[c.i], _ = d.(string)
}

// jsonSearch are the paths to texts that are like a pattern.
func jsonSearch(c *jsonCall) (any, bool) {
	d := c.doc(0)
	all := c.oneOrAll(1)
	pattern := c.text(2)
	escape := '\\'
	if len(c.a) > 3 && !c.a[3].IsNull(c.i) {
		for _, r := range c.text(3) {
			escape = r
			break
		}
	}
	if c.err != nil || c.null {
		return nil, false
	}
	like := collate.Of(sql.Collation_utf8mb4_bin).NewLike(pattern, escape)
	var paths []*jsondoc.Path
	for k := 4; k < len(c.a); k++ {
		paths = append(paths, c.path(k, false))
		if c.err != nil || c.null {
			return nil, false
		}
	}
	v, ok, err := jsondoc.Search(d, paths, all, func(s string) (bool, error) { return like.Match(s, c.env.Err) })
	if err != nil {
		c.err = err
	}
	return v, ok
}
