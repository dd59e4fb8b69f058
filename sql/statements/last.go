package statements

import (
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/sql/session"
)

// CostSchema are the columns of SHOW GODWIT STATEMENT COST.
func CostSchema() (s sql.Schema) {
	for _, c := range []struct {
		name string
		of   sql.Type
	}{
		{"statement", types.LongText}, {"wan_round_trips", types.Float64}, {"wan_messages", types.Int64}, {"wan_bytes", types.Int64},
		{"rows_moved", types.Int64}, {"milliseconds", types.Float64},
		{"program", types.LongText},
	} {
		s = append(s, &sql.Column{Name: c.name, Type: c.of, Nullable: true})
	}
	return s
}

// ShowCost shows what the statement before this one cost on the WAN.
func ShowCost(ctx *sql.Context) ([]sql.Row, error) {
	s := session.Of(ctx)
	if s == nil {
		return nil, nil
	}
	c := s.LastCost
	var program any
	if c.Program != "" {
		program = c.Program
	}
	return []sql.Row{{c.Kind, float64(c.Hops) / 2, c.Messages, c.Bytes, c.Moves,
		float64(c.Elapsed) / float64(time.Millisecond), program}}, nil
}
