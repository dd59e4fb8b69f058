package query

import (
	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/sql/result"
)

// describe are the columns of a result as clients see them.
func (s *statement) describe() []*querypb.Field { return result.Describe(s.ctx, s.out, s.keyFlags) }

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
