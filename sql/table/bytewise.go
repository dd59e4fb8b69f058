package table

import (
	"context"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
)

// bytewise is the type of a text whose values are equal only if their bytes are. The engine leaves
// out changes of rows that its types say are none; under a collation that would be changes of case
// and accents.
type bytewise struct{ sql.StringType }

// Compare implements sql.Type: texts that the collation takes for equal are ordered by their bytes.
func (b bytewise) Compare(ctx context.Context, x, y any) (int, error) {
	c, err := b.StringType.Compare(ctx, x, y)
	if c != 0 || err != nil {
		return c, err
	}
	s, ok := x.(string)
	t, also := y.(string)
	if !ok || !also {
		return 0, nil
	}
	return strings.Compare(s, t), nil
}

// Bytewise is a type that tells apart all values that differ in their bytes: another one only for
// texts with a collation.
func Bytewise(t sql.Type) sql.Type {
	s, ok := t.(sql.StringType)
	if _, done := t.(bytewise); done || !ok || !s.IsStringType() || s.Collation() == sql.Collation_binary {
		return t
	}
	return bytewise{s}
}

// BytewiseSchema is a schema that tells apart all values that differ in their bytes.
func BytewiseSchema(sch sql.Schema) sql.Schema {
	out := make(sql.Schema, len(sch))
	for i, c := range sch {
		k := *c
		k.Type = Bytewise(c.Type)
		out[i] = &k
	}
	return out
}

// CompareBytes makes the schema of the table a bytewise one.
func (t *Table) CompareBytes() {
	if t.exact == nil {
		t.exact = BytewiseSchema(t.Schema(nil))
	}
}
