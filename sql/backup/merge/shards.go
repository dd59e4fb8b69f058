package merge

import (
	"bytes"
	"context"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/backup/archive"
)

// Shard is a shard of a table that backups have rows of.
type Shard struct {
	ID    base.ShardID
	Table base.TableID
	// Open begins to read the rows of each place, and Close is told that all of them were read.
	Open  func(context.Context) ([]*Rows, error)
	Close func([]*Rows) error
}

func (s *Shard) head() []byte { return archive.LogKey(s.ID, s.Table, nil, 0)[:archive.LogHead] }

// Each calls fn for all rows that there are once changes were applied, in the order of shards,
// tables and keys. d is the file of a row, nil if it is a change: then it is in the log's piece
// with a number. Changes may be of shards and tables that backups have nothing of.
func Each(ctx context.Context, shards []Shard, c *Changes,
	fn func(t base.TableID, r *archive.Record, d *archive.Decoder, file int) error) error {
	slices.SortFunc(shards, func(a, b Shard) int { return bytes.Compare(a.head(), b.head()) })
	for len(shards) > 0 || !c.Done {
		var rows []*Rows
		var s *Shard
		head := []byte(nil)
		if len(shards) > 0 {
			head = shards[0].head()
		}
		if !c.Done && (head == nil || bytes.Compare(c.Change.PK[:archive.LogHead], head) < 0) {
			head = c.Change.PK[:archive.LogHead]
		} else {
			s, shards = &shards[0], shards[1:]
			var err error
			if rows, err = s.Open(ctx); err != nil {
				return err
			}
		}
		if err := each(ctx, head, rows, c, fn); err != nil {
			return err
		}
		if s != nil {
			if err := s.Close(rows); err != nil {
				return err
			}
		}
	}
	return nil
}

// each does so for one shard.
func each(ctx context.Context, head []byte, rows []*Rows, c *Changes,
	fn func(base.TableID, *archive.Record, *archive.Decoder, int) error) error {
	t := archive.LogTable(head)
	for _, r := range rows {
		if err := r.Next(ctx); err != nil {
			return err
		}
	}
	for {
		var least *Rows
		for _, r := range rows {
			if !r.Done && (least == nil || bytes.Compare(r.Rec.PK, least.Rec.PK) < 0) {
				least = r
			}
		}
		changed := !c.Done && bytes.HasPrefix(c.Change.PK, head)
		switch {
		case least == nil && !changed:
			return nil
		case !changed, least != nil && bytes.Compare(least.Rec.PK, c.Change.PK[archive.LogHead:]) < 0:
			if err := fn(t, &least.Rec, least.Dec, 0); err != nil {
				return err
			}
			if err := least.Next(ctx); err != nil {
				return err
			}
			continue
		}
		now := c.Change.Record
		now.PK = now.PK[archive.LogHead:]
		for _, r := range rows { // a row may have moved from one place to another
			if !r.Done && bytes.Equal(r.Rec.PK, now.PK) {
				if err := r.Next(ctx); err != nil {
					return err
				}
			}
		}
		if !now.Deleted {
			if err := fn(t, &now, nil, c.Change.File); err != nil {
				return err
			}
		}
		if err := c.Next(); err != nil {
			return err
		}
	}
}
