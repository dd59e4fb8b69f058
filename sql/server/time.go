package server

import (
	"bytes"
	"context"

	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// timeColumns mends results of the engine, which shows six digits of the second of each TIME:
// columns of tables have those that were declared, other values a fraction only if there is one.
type timeColumns struct {
	g *gateway
	s *session.Session
	// digits are those of each column: undeclared if it is no column of a table, other if it is no
	// TIME.
	digits []int
}

const (
	undeclared = -1
	otherType  = -2
)

// mend is called with the parts of one result in order.
func (t *timeColumns) mend(ctx context.Context, r *sqltypes.Result) {
	if len(r.Fields) > 0 {
		t.describe(ctx, r.Fields)
	}
	if t.digits == nil {
		return
	}
	for _, row := range r.Rows {
		for i, v := range row {
			if i < len(t.digits) && t.digits[i] != otherType && !v.IsNull() {
				row[i] = sqltypes.MakeTrusted(v.Type(), shownTime(v.Raw(), t.digits[i]))
			}
		}
	}
}

func shownTime(b []byte, digits int) []byte {
	if n := len(b) - 1 - schema.MaxTimeDigits; n < 0 || b[n] != '.' {
		return b
	}
	if digits == undeclared {
		return bytes.TrimSuffix(b, []byte(".000000"))
	}
	return schema.TimeText(b, digits)
}

// describe finds the columns that are TIMEs, and completes their descriptions.
func (t *timeColumns) describe(ctx context.Context, fields []*querypb.Field) {
	t.digits = nil
	for i, f := range fields {
		if f.Type != sqltypes.Time {
			continue
		}
		if t.digits == nil {
			t.digits = make([]int, len(fields))
			for k := range t.digits {
				t.digits[k] = otherType
			}
		}
		t.digits[i] = t.declared(ctx, f)
		if n := t.digits[i]; n != undeclared {
			f.Decimals, f.ColumnLength = uint32(n), schema.TimeLength(n)
		}
	}
}

// declared are the digits of the column of a table; undeclared if a field is none, as far as its
// description tells.
func (t *timeColumns) declared(ctx context.Context, f *querypb.Field) int {
	snap, err := t.g.Catalog.Current(ctx)
	if err != nil || f.OrgTable == "" {
		return undeclared
	}
	def := t.s.Temporary(f.Database, f.OrgTable)
	if def == nil {
		def = snap.Table(f.Database, f.OrgTable)
	}
	if def == nil {
		return undeclared
	}
	i := def.Desc.ColByName(f.OrgName)
	if i < 0 || def.Cols[i].Kind != schema.KindTimespan {
		return undeclared
	}
	return def.Cols[i].Digits
}
