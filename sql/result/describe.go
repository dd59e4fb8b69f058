package result

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/schema"
)

// Describe are the columns of a result as clients see them. keys are the flags of a base column
// that say what keys it is part of.
func Describe(ctx *sql.Context, columns []bind.Output, keys func(db, table, column string) querypb.MySqlFlag) []*querypb.Field {
	results := ctx.GetCharacterSetResults()
	out := make([]*querypb.Field, len(columns))
	for i, c := range columns {
		t := c.Type.ClientType()
		f := &querypb.Field{
			Name: c.Name, OrgName: c.Name, Table: c.Table, OrgTable: c.Table, Database: c.DB, Type: t.Type(),
			Charset: uint32(sql.Collation_Default.CharacterSet()), ColumnLength: t.MaxTextResponseByteLength(ctx),
		}
		if c.Column != "" {
			f.OrgName, f.OrgTable = c.Column, c.OrgTable
		}
		if ct, ok := t.(sql.TypeWithCollation); ok {
			f.Charset = uint32(ct.Collation().CharacterSet())
		}
		switch {
		case types.IsBinaryType(t), t.Type() == sqltypes.Bit:
			f.Charset = uint32(sql.Collation_binary)
		case results != sql.CharacterSet_Unspecified:
			f.Charset = uint32(results)
		}
		var flags querypb.MySqlFlag
		if c.Type.NotNull {
			flags |= querypb.MySqlFlag_NOT_NULL_FLAG
		}
		if types.IsUnsigned(t) {
			flags |= querypb.MySqlFlag_UNSIGNED_FLAG
		}
		f.Flags = uint32(flags | keys(c.DB, c.OrgTable, c.Column))
		switch x := t.(type) {
		case sql.DecimalType:
			f.Decimals = uint32(x.Scale())
		case sql.DatetimeType:
			f.Decimals = uint32(x.Precision())
		}
		if c.Type.Kind == expr.Duration {
			f.Decimals, f.ColumnLength = uint32(c.Type.Scale), schema.TimeLength(c.Type.Scale)
		}
		out[i] = f
	}
	return out
}
