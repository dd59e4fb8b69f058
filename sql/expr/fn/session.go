package fn

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/google/uuid"

	"github.com/godwitdb/godwit/sql/expr"
)

// What the session knows of its last statement, and of itself. LAST_INSERT_ID(x) also tells it.

func init() {
	fact := func(name string, of func(*expr.Facts) int64, t expr.Type) {
		t.NotNull = true
		sig{names: name, nulls: true, perStatement: true, ret: returns(t),
			make: func(_ *expr.Call, k *expr.Compiler) (rowEval, error) {
				n := of(&k.Env.Facts)
				return func(_ []*expr.Vec, i int32, v *expr.Vec) error {
					v.I[i] = n
					return nil
				}, nil
			}}.register()
	}
	fact("found_rows", func(f *expr.Facts) int64 { return f.FoundRows }, expr.TypeInt)
	fact("row_count", func(f *expr.Facts) int64 { return f.RowCount }, expr.TypeInt)
	fact("connection_id", func(f *expr.Facts) int64 { return int64(f.ConnectionID) }, expr.TypeUint)
	fact("$last_insert_id", func(f *expr.Facts) int64 { return int64(f.LastInsertID) }, expr.TypeUint)
	word := func(names string, of func(*expr.Facts) string) {
		sig{names: names, nulls: true, perStatement: true,
			ret: maybe(expr.TextType(288, sql.Collation_utf8mb3_general_ci, expr.CoerceSysconst)),
			make: func(_ *expr.Call, k *expr.Compiler) (rowEval, error) {
				s := of(&k.Env.Facts)
				return func(_ []*expr.Vec, i int32, v *expr.Vec) error {
					if v.S[i] = s; s == "" {
						v.SetNull(int(i))
					}
					return nil
				}, nil
			}}.register()
	}
	word("database", func(f *expr.Facts) string { return f.Database })
	word("user", func(f *expr.Facts) string { return f.User })
	word("version", func(f *expr.Facts) string { return f.Version })
	word("current_user", func(f *expr.Facts) string { return f.CurrentUser })
	ofType := func(name string, of func(sql.CollationID) string) {
		sig{names: name, min: 1, max: 1, args: "*", nulls: true, ret: returns(expr.TextType(64, sql.Collation_utf8mb3_general_ci, expr.CoerceSysconst)),
			make: func(c *expr.Call, _ *expr.Compiler) (rowEval, error) {
				s := of(c.Args[0].Type().Coll)
				return func(_ []*expr.Vec, i int32, v *expr.Vec) error {
					v.S[i] = s
					return nil
				}, nil
			}}.register()
	}
	ofType("collation", sql.CollationID.Name)
	ofType("charset", func(c sql.CollationID) string { return c.CharacterSet().Name() })
	sig{names: "coercibility", min: 1, max: 1, args: "*", nulls: true, ret: returns(expr.TypeInt),
		make: func(c *expr.Call, _ *expr.Compiler) (rowEval, error) {
			t := c.Args[0].Type()
			n := int64(t.Coercibility)
			if t.Kind == expr.Text && t.Coercibility == expr.CoerceNumeric {
				n = int64(expr.CoerceLiteral) // a text that a function makes
			}
			return func(_ []*expr.Vec, i int32, v *expr.Vec) error {
				v.I[i] = n
				return nil
			}, nil
		}}.register()
	sig{names: "uuid", volatile: true, ret: returns(expr.TextType(36, sql.Collation_Default, expr.CoerceNumeric)),
		make: func(_ *expr.Call, k *expr.Compiler) (rowEval, error) {
			key := k.Env.UUID
			if key == nil {
				key = func() (string, error) { return uuid.NewString(), nil }
			}
			return func(_ []*expr.Vec, i int32, v *expr.Vec) (err error) {
				v.S[i], err = key()
				return err
			}, nil
		}}.register()
	// The value of a subquery of which there must be one row; the second argument counts them.
	sig{names: "$one_row", min: 2, max: 2, args: "*i", nulls: true, volatile: false,
		ret: func(c *expr.Call) (expr.Type, error) { return c.Args[0].Type().AsNull(), nil },
		make: func(*expr.Call, *expr.Compiler) (rowEval, error) {
			return func(a []*expr.Vec, i int32, v *expr.Vec) error {
				if !a[1].IsNull(i) && a[1].I[i] > 1 {
					return mysql.NewSQLError(1242, "21000", "Subquery returns more than 1 row")
				}
				v.Put(int(i), a[0].At(i))
				return nil
			}, nil
		}}.register()
	sig{names: "$in_charset", min: 2, max: 2, args: "s*", ret: textFrom(nil, 0),
		make: func(c *expr.Call, _ *expr.Compiler) (rowEval, error) {
			name := c.Args[1].(*expr.Const).V.S
			set, err := sql.ParseCharacterSet(name)
			if err != nil {
				return nil, err
			}
			return func(a []*expr.Vec, i int32, v *expr.Vec) error {
				v.S[i] = within(a[0].S[i], set)
				return nil
			}, nil
		}}.register()
	sig{names: "last_insert_id", min: 1, max: 1, args: "i", nulls: true, volatile: true, ret: maybe(expr.TypeUint),
		make: func(_ *expr.Call, k *expr.Compiler) (rowEval, error) {
			tell := k.Env.TellID
			return func(a []*expr.Vec, i int32, v *expr.Vec) error {
				var id int64
				if a[0].IsNull(i) {
					v.SetNull(int(i))
				} else {
					id = a[0].I[i]
					v.I[i] = id
				}
				if tell != nil {
					tell(uint64(id))
				}
				return nil
			}, nil
		}}.register()
}

// within is a text with question marks for letters that a character set does not have.
func within(s string, set sql.CharacterSetID) string {
	enc := set.Encoder()
	if enc == nil {
		return s
	}
	if _, ok := enc.Encode([]byte(s)); ok {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if _, ok := enc.Encode([]byte(string(r))); ok {
			b.WriteRune(r)
		} else {
			b.WriteByte('?')
		}
	}
	return b.String()
}
