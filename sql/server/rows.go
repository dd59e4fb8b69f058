package server

import (
	"context"
	"fmt"
	"strings"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
)

// MoveRow is what package txn/mover needs for rows of tables: it adds index entries to the move,
// and holds the schema of the table until the transaction commits. Rows of tables that are homed as
// a whole stay.
func (s *Server) MoveRow(ctx context.Context, tx kv.Txn, kr kv.Row, to base.RegionID, opts kv.MoveOptions) error {
	snap, err := s.g.Catalog.Current(ctx)
	if err != nil {
		return err
	}
	t := snap.ByID[kr.Key.Table()]
	if t == nil || t.Desc.Home() != 0 || kr.Key.Index() != 0 {
		return nil
	}
	tx.Pin(max(t.TS, snap.At), t.Key)
	return t.MoveRow(ctx, tx, kr, to, opts)
}

// Catalog is where tables are described.
func (s *Server) Catalog() *schema.Catalog { return s.g.Catalog }

// Split gives a table so many shards of its own; see [ddl.Env.Split].
func (s *Server) Split(ctx context.Context, t base.TableID, n int) error { return s.g.Split(ctx, t, n) }

// TableName names the table that a row belongs to; empty if this node does not know it.
func (s *Server) TableName(key base.Key) string {
	if snap := s.g.Catalog.Loaded(); snap != nil && snap.ByID[key.Table()] != nil {
		d := snap.ByID[key.Table()].Desc
		return d.DB + "." + d.Name
	}
	return ""
}

// RowName is a row's table and primary key, for people: where a key does not hold a column's value,
// but only how it sorts, its bytes.
func (s *Server) RowName(key base.Key) string {
	snap := s.g.Catalog.Loaded()
	if snap == nil || snap.ByID[key.Table()] == nil || key.Index() != 0 {
		return key.String()
	}
	t := snap.ByID[key.Table()]
	rest := schema.RefOfKey(key).PK
	var parts []string
	for _, p := range t.PK {
		v, tail, ok := t.Cols[p].TakeKey(rest)
		if !ok {
			break
		}
		parts, rest = append(parts, v), tail
	}
	if len(t.PK) == 0 {
		if id, tail, err := base.TakeUint64(rest); err == nil {
			parts, rest = append(parts, fmt.Sprintf("row %d", id)), tail
		}
	}
	if len(rest) > 0 {
		parts = append(parts, fmt.Sprintf("%x", rest))
	}
	return fmt.Sprintf("%s.%s(%s)", t.Desc.DB, t.Desc.Name, strings.Join(parts, ", "))
}

// Movable reports whether the policy may move a key: rows of tables that are REGIONAL BY ROW. Index
// entries follow their rows.
func (s *Server) Movable(key base.Key) bool {
	kind, ok := s.localityOf(key)
	return ok && key.Index() == 0 && kind == schema.ByRow
}

// Whole reports whether a key is of a table that is REGIONAL BY TABLE.
func (s *Server) Whole(key base.Key) bool {
	kind, ok := s.localityOf(key)
	return ok && kind == schema.ByTable
}

// localityOf is how the rows of a key's table are homed, if this node knows the table.
func (s *Server) localityOf(key base.Key) (kind schema.LocalityKind, ok bool) {
	if snap := s.g.Catalog.Loaded(); snap != nil {
		if t := snap.ByID[key.Table()]; t != nil {
			return t.Desc.Locality.Kind, true
		}
	}
	return "", false
}
