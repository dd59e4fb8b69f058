package follow

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Name is a table or another object in a database.
type Name struct{ DB, Of string }

func (n Name) String() string { return n.DB + "." + n.Of }

// Quoted is the name in a statement.
func (n Name) Quoted() string { return QuoteName(n.DB) + "." + QuoteName(n.Of) }

// Column is a column of a table.
type Column struct {
	Name      string
	Data      string // DATA_TYPE in lower case
	Charset   string // of texts, else ""
	Unsigned  bool
	Generated bool
	OnUpdate  bool // what is not written becomes the present time
}

// Binary reports whether values are bytes without a character set.
func (c *Column) Binary() bool {
	switch c.Data {
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry", "point", "linestring", "polygon",
		"multipoint", "multilinestring", "multipolygon", "geometrycollection", "vector":
		return true
	}
	return false
}

// Float reports whether values are not exact.
func (c *Column) Float() bool { return c.Data == "float" || c.Data == "double" }

// Table is a table with rows of its own.
type Table struct {
	Name
	Engine  string
	Columns []Column
	Key     []int // positions of the primary key's columns
}

// Stored are the columns that a statement may write.
func (t *Table) Stored() []Column {
	return slices.DeleteFunc(slices.Clone(t.Columns), func(c Column) bool { return c.Generated })
}

// Position is a place in a binary log: a file, and the offset of the next event in it.
type Position struct {
	File string `json:"file"`
	Off  uint64 `json:"off"`
}

func (p Position) String() string {
	if p.File == "" {
		return ""
	}
	return p.File + ":" + strconv.FormatUint(p.Off, 10)
}

// Query reads all rows of a query as texts; NULL is "". args take the places of question marks.
type Query func(ctx context.Context, query string, args ...any) ([][]string, error)

// ErrGone says that a server has no such table, or does not show it.
var ErrGone = errors.New("there is no table")

// ReadTable reads the columns and the primary key of a table, from either server.
func ReadTable(ctx context.Context, q Query, n Name) (*Table, error) {
	t := &Table{Name: n}
	rows, err := q(ctx, `SELECT column_name, data_type, character_set_name, column_type, extra FROM information_schema.columns
WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position`, n.DB, n.Of)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		t.Columns = append(t.Columns, Column{Name: r[0], Data: strings.ToLower(r[1]), Charset: strings.ToLower(r[2]),
			Unsigned: strings.Contains(strings.ToLower(r[3]), "unsigned"), Generated: strings.Contains(strings.ToUpper(r[4]), " GENERATED"), OnUpdate: strings.Contains(strings.ToLower(r[4]), "on update")})
	}
	if len(t.Columns) == 0 {
		return nil, fmt.Errorf("%w %s, or it may not be seen", ErrGone, n)
	}
	rows, err = q(ctx, `SELECT column_name FROM information_schema.statistics
WHERE table_schema = ? AND table_name = ? AND index_name = 'PRIMARY' ORDER BY seq_in_index`, n.DB, n.Of)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		i := slices.IndexFunc(t.Columns, func(c Column) bool { return strings.EqualFold(c.Name, r[0]) })
		if i < 0 {
			return nil, fmt.Errorf("the primary key of %s has an unknown column %s", n, r[0])
		}
		t.Key = append(t.Key, i)
	}
	return t, nil
}

// Check says why the binary log of a source cannot be followed, if so. q reads from the source.
func Check(ctx context.Context, q Query) error {
	for _, x := range []struct{ variable, want, say string }{
		{"log_bin", "1", "the source writes no binary log: start it with --log-bin"},
		{"binlog_format", "ROW", "SET GLOBAL binlog_format = 'ROW' at the source, and reconnect its clients"},
		{"binlog_row_image", "FULL", "SET GLOBAL binlog_row_image = 'FULL' at the source, and reconnect its clients"},
		{"log_bin_compress", "0", "SET GLOBAL log_bin_compress = 0 at the source"},
		{"binlog_transaction_compression", "0", "SET GLOBAL binlog_transaction_compression = 0 at the source, and reconnect its clients"},
		{"binlog_row_value_options", "", "SET GLOBAL binlog_row_value_options = '' at the source, and reconnect its clients"},
	} {
		rows, err := q(ctx, "SELECT @@GLOBAL."+x.variable)
		if NumberOf(err) == errNoSuchVar {
			continue // of the other product
		}
		if err != nil {
			return err
		}
		if len(rows) == 0 || !strings.EqualFold(rows[0][0], x.want) {
			return Unknown{fmt.Errorf("the source has %s = %s: %s", x.variable, slices.Concat(rows...), x.say)}
		}
	}
	return nil
}

// QuoteName quotes an identifier.
func QuoteName(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }

// QuoteText quotes a text for a server that takes backslashes.
func QuoteText(b []byte, s string) []byte {
	b = append(b, '\'')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\'', '\\':
			b = append(b, '\\', c)
		case 0:
			b = append(b, '\\', '0')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case 26:
			b = append(b, '\\', 'Z')
		default:
			b = append(b, c)
		}
	}
	return append(b, '\'')
}

// AppendHex writes bytes as a literal.
func AppendHex(b, v []byte) []byte {
	b = append(b, "x'"...)
	b = hex.AppendEncode(b, v)
	return append(b, '\'')
}

// InsertInto is the head of a statement that writes rows of the columns.
func InsertInto(n Name, columns []Column) []byte {
	b := []byte("INSERT INTO " + n.Quoted() + " (")
	for i, c := range columns {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, QuoteName(c.Name)...)
	}
	return append(b, ") VALUES "...)
}
