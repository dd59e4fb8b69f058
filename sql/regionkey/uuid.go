// Package regionkey has UUID() make keys that begin with the region of the client.
package regionkey

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/google/uuid"

	"github.com/godwitdb/godwit/base"
)

// Maker makes the keys of one node. They begin with the region and the time. A random key falls
// into a gap that any region may own, which costs a trip to ask; one of these falls behind the last
// one that its own region made.
//
//	bits   0-3   region, 1 to 14
//	bits   4-47  milliseconds since 1970: until 2527
//	bits  48-51  version 8 (RFC 9562: vendor-specific)
//	bits  52-63  count within the millisecond
//	bits  64-65  variant
//	bits  66-127 random
type Maker struct {
	mu   sync.Mutex
	last uint64 // milliseconds and count
}

// next makes a key of a region; they rise, also when the clock steps back.
func (u *Maker) next(r base.RegionID, now time.Time) (uuid.UUID, error) {
	var id uuid.UUID
	if _, err := rand.Read(id[8:]); err != nil {
		return id, err
	}
	u.mu.Lock()
	u.last = max(u.last+1, uint64(now.UnixMilli())<<12)
	at := u.last
	u.mu.Unlock()
	binary.BigEndian.PutUint64(id[:], uint64(r)<<60|at>>12<<16|8<<12|at&0xfff)
	id[8] = id[8]&0x3f | 0x80
	return id, nil
}

// Text is a key of a region as UUID() shows it.
func (u *Maker) Text(r base.RegionID) (string, error) {
	id, err := u.next(r, time.Now())
	return id.String(), err
}

// Keys makes what UUID() answers in a change of a region: random keys, unless there are several
// regions.
func (u *Maker) Keys(several func() bool) func(base.RegionID) (string, error) {
	return func(r base.RegionID) (string, error) {
		if several() {
			return u.Text(r)
		}
		id, err := uuid.NewRandom()
		return id.String(), err
	}
}

// homeUUID is UUID() in the values of an INSERT.
type homeUUID struct {
	function.UUIDFunc
	m *Maker
	r base.RegionID
}

// Eval implements sql.Expression.
func (h *homeUUID) Eval(*sql.Context, sql.Row) (any, error) { return h.m.Text(h.r) }

// WithChildren implements sql.Expression.
func (h *homeUUID) WithChildren(_ *sql.Context, children ...sql.Expression) (sql.Expression, error) {
	if len(children) != 0 {
		return nil, sql.ErrInvalidChildrenNumber.New(h, len(children), 0)
	}
	return h, nil
}

// Insert has the UUID() calls of an INSERT make keys of the client's region. The engine knows
// UUID() by its type, so this comes after it has analyzed the statement.
func (u *Maker) Insert(ctx *sql.Context, r base.RegionID, n *plan.InsertInto) error {
	if n.Source == nil {
		return nil
	}
	src, same, err := transform.NodeExprs(ctx, n.Source,
		func(_ *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
			if _, ok := e.(*function.UUIDFunc); ok {
				return &homeUUID{m: u, r: r}, transform.NewTree, nil
			}
			return e, transform.SameTree, nil
		})
	if err == nil && same == transform.NewTree {
		n.Source = src
	}
	return err
}
