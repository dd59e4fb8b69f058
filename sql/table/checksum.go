package table

import (
	"errors"
	"hash/crc32"
	"io"

	"github.com/dolthub/go-mysql-server/sql"
)

// Checksum adds up all rows, in any order. It is of their values, not of how they are stored.
func (t *Table) Checksum(ctx *sql.Context) (int64, error) {
	it, err := t.ScanAll(ctx)
	if err != nil {
		return 0, err
	}
	defer it.Close(ctx)
	var sum uint32
	var buf []byte
	for {
		row, err := it.Next(ctx)
		if errors.Is(err, io.EOF) {
			return int64(sum), nil
		}
		if err != nil {
			return 0, err
		}
		buf = buf[:0]
		for i, c := range t.Def.Cols {
			if row[i] == nil {
				buf = append(buf, 0)
				continue
			}
			v, err := c.Type.SQL(ctx, nil, row[i])
			if err != nil {
				return 0, err
			}
			buf = append(append(buf, 1), v.Raw()...)
			buf = append(buf, 0)
		}
		sum += crc32.ChecksumIEEE(buf)
	}
}
