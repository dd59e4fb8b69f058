package event

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/godwitdb/godwit/sql/schema"
)

// CSVHeader is the line that the file of a table begins with. Its first column says what has
// happened: "upsert" or "delete". Columns of the table follow, as it is defined now.
func (f *Format) CSVHeader(t *schema.Table) []byte {
	b := []byte("__event")
	if f.Updated {
		b = append(b, ",__updated"...)
	}
	for _, p := range Stored(t) {
		b = appendQuoted(append(b, ','), t.Cols[p].Desc.Name)
	}
	return b
}

// EncodeCSV words a change as a line. NULL is nothing at all, and an empty text is "". Of a deleted
// row there is the key alone.
func (f *Format) EncodeCSV(ctx context.Context, c *Change) (key, value []byte, err error) {
	if key, err = appendKey(ctx, nil, c); err != nil {
		return nil, nil, err
	}
	row, b := c.After, []byte("upsert")
	if row == nil {
		row, b = c.Before, []byte("delete")
	}
	if f.Updated {
		b = append(append(b, ','), Timestamp(c.TS)...)
	}
	for _, p := range Stored(c.Table) {
		b = append(b, ',')
		if row[p] == nil || c.After == nil && !c.Table.InPK(p) {
			continue
		}
		j, err := AppendValue(ctx, nil, c.Table.Cols[p], row[p])
		if err != nil {
			return nil, nil, err
		}
		s := string(j)
		if _, document := row[p].(interface {
			ToInterface(context.Context) (any, error)
		}); !document && len(j) > 0 && j[0] == '"' {
			if err := json.Unmarshal(j, &s); err != nil {
				return nil, nil, err
			}
		}
		b = appendQuoted(b, s)
	}
	return key, b, nil
}

// appendQuoted appends a field as RFC 4180 has it.
func appendQuoted(b []byte, s string) []byte {
	if s != "" && !strings.ContainsAny(s, ",\"\r\n") && s[0] != ' ' {
		return append(b, s...)
	}
	return append(append(append(b, '"'), strings.ReplaceAll(s, `"`, `""`)...), '"')
}
