package virtual

import (
	"reflect"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
)

// Topic is a state of the cluster, or a list of its events.
type Topic struct {
	Name    string // one lower-case word
	Comment string
	Columns []TopicColumn
}

// TopicColumn is a column of a topic.
type TopicColumn struct {
	Name string
	Kind TopicKind
}

// TopicColumns are columns of one kind.
func TopicColumns(kind TopicKind, names ...string) (out []TopicColumn) {
	for _, n := range names {
		out = append(out, TopicColumn{Name: n, Kind: kind})
	}
	return out
}

// TopicKind is the type of a column.
type TopicKind uint8

// Columns of a topic may be NULL, whatever they are.
const (
	TopicText  TopicKind = iota // string
	TopicInt                    // any integer of Go
	TopicFloat                  // float64
	TopicBool                   // bool
	TopicTime                   // time.Time
	TopicJSON                   // string of a JSON document
)

func (k TopicKind) typ() sql.Type {
	switch k {
	case TopicInt:
		return types.Int64
	case TopicFloat:
		return types.Float64
	case TopicBool:
		return types.Boolean
	case TopicTime:
		return topicTime
	case TopicJSON:
		return types.JSON
	}
	return types.LongText
}

var topicTime = types.MustCreateDatetimeType(sqltypes.Datetime, 6)

// Schema is that of a topic's table in a database.
func (t *Topic) Schema(db string) sql.Schema {
	s := make(sql.Schema, len(t.Columns))
	for i, c := range t.Columns {
		s[i] = &sql.Column{Name: c.Name, Type: c.Kind.typ(), Nullable: true, Source: t.Name, DatabaseSource: db}
	}
	return s
}

// Row is a row of values as the engine wants it.
func (t *Topic) Row(ctx *sql.Context, values []any) (sql.Row, error) {
	out := make(sql.Row, len(values))
	for i, v := range values {
		switch x := v.(type) {
		case nil:
			continue
		case bool:
			v = int8(0)
			if x {
				v = int8(1)
			}
		case time.Time:
			if x.IsZero() {
				continue
			}
			v = x.UTC()
		default: // integers of named types
			if r := reflect.ValueOf(v); r.CanInt() {
				v = r.Int()
			} else if r.CanUint() {
				v = r.Uint()
			}
		}
		var err error
		if out[i], _, err = t.Columns[i].Kind.typ().Convert(ctx, v); err != nil {
			return nil, err
		}
	}
	return out, nil
}
