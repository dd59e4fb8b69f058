package session

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/schema"
)

// Function finds a stored function; nil: there is none. Before it says so it reads the catalog
// again, once for each statement: another node may just have made the function.
func (s *Session) Function(ctx *sql.Context, db, name string) (*schema.ObjectDesc, error) {
	snap, err := s.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	lower := strings.ToLower(name)
	if o := s.env.SystemFunction; o != nil && snap.Database(db) == nil {
		if f := o(db, lower); f != nil {
			return f, nil
		}
	}
	if d := snap.Database(db); d != nil && d.Objects[schema.IxFunction][lower] != nil {
		return d.Objects[schema.IxFunction][lower], nil
	}
	if snap, err = s.Refresh(ctx); err != nil {
		return nil, err
	}
	if d := snap.Database(db); d != nil {
		return d.Objects[schema.IxFunction][lower], nil
	}
	return nil, nil
}
