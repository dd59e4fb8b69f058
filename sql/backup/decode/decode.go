// Package decode makes rows of tables of the records of a backup, which may be anything.
package decode

import (
	"context"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/schema"
)

// Row decodes a row, and says where it belongs in a table.
func Row(ctx context.Context, t *schema.Table, d *archive.Decoder, r *archive.Record) (row sql.Row, ref schema.RowRef,
	err error) {
	row = make(sql.Row, len(t.Cols))
	if err := t.DecodeRow(ctx, r.Value, row); err != nil {
		return nil, ref, d.Bad("a row of table %s.%s cannot be decoded: %v", t.Desc.DB, t.Desc.Name, err)
	}
	if ref, err = t.RefIn(ctx, row, schema.RowRef{PK: r.PK}); err != nil {
		return nil, ref, d.Bad("a row of table %s.%s has no key: %v", t.Desc.DB, t.Desc.Name, err)
	}
	if string(ref.PK) != string(r.PK) {
		return nil, ref, d.Bad("a row of table %s.%s lies under the key of another one", t.Desc.DB, t.Desc.Name)
	}
	if len(t.PK) == 0 {
		if _, rest, err := base.TakeUint64(r.PK); err != nil || len(rest) > 0 {
			return nil, ref, d.Bad("a row of table %s.%s has no row id", t.Desc.DB, t.Desc.Name)
		}
	}
	return row, ref, nil
}
