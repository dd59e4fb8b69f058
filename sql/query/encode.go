package query

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/schema"
)

// describe are the columns of a result as clients see them.
func (s *statement) describe() []*querypb.Field {
	results := s.ctx.GetCharacterSetResults()
	out := make([]*querypb.Field, len(s.out))
	for i, c := range s.out {
		t := c.Type.ClientType()
		f := &querypb.Field{
			Name: c.Name, OrgName: c.Name, Table: c.Table, OrgTable: c.Table, Database: c.DB, Type: t.Type(),
			Charset: uint32(sql.Collation_Default.CharacterSet()), ColumnLength: t.MaxTextResponseByteLength(s.ctx),
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
		f.Flags = uint32(flags | s.keyFlags(c.DB, c.OrgTable, c.Column))
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

// keyFlags are those of a base column.
func (s *statement) keyFlags(db, tab, col string) (flags querypb.MySqlFlag) {
	t := s.cat.stored(db, tab)
	if t == nil {
		return 0
	}
	for _, c := range t.Full {
		if c.Name != col {
			continue
		}
		if c.PrimaryKey {
			flags |= querypb.MySqlFlag_PRI_KEY_FLAG
		}
		if c.AutoIncrement {
			flags |= querypb.MySqlFlag_AUTO_INCREMENT_FLAG
		}
	}
	return flags
}
