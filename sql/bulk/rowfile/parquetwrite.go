package rowfile

import (
	"fmt"
	"io"
	"math/big"
	"reflect"
	"strconv"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
)

// groupBytes and groupRows bound a row group, as values are.
const (
	groupBytes = 8 << 20
	groupRows  = 100_000
)

// MostPrecision is that of a DECIMAL that Parquet has as one. Others are texts: many readers would
// make floats of them.
const MostPrecision = 38

// ordered is a group whose fields keep their order.
type ordered struct {
	parquet.Group
	fields []parquet.Field
}

func (g ordered) Fields() []parquet.Field { return g.fields }
func (g ordered) GoType() reflect.Type    { return reflect.TypeFor[map[string]any]() }

type orderedField struct {
	parquet.Node
	name string
}

func (f orderedField) Name() string { return f.name }

// Value implements parquet.Field. Rows are written as values, and not as Go's.
func (f orderedField) Value(base reflect.Value) reflect.Value {
	return base.MapIndex(reflect.ValueOf(f.name))
}

type parquetWriter struct {
	w     *parquet.GenericWriter[any]
	cols  []Column
	made  []func([]byte) (parquet.Value, error)
	row   parquet.Row
	bytes int64 // of the row group
	rows  int
}

func createParquet(w io.Writer, compression string, cols []Column) (p *parquetWriter, err error) {
	defer guard(&err)
	p = &parquetWriter{cols: cols}
	g := ordered{Group: parquet.Group{}}
	for _, c := range cols {
		if _, ok := g.Group[c.Name]; ok || c.Name == "" {
			return nil, fmt.Errorf("the column %q has no name of its own: name it in the SELECT with AS", c.Name)
		}
		n, made := nodeOf(c)
		n = parquet.Optional(n)
		g.Group[c.Name] = n
		g.fields, p.made = append(g.fields, orderedField{n, c.Name}), append(p.made, made)
	}
	codec := map[string]compress.Codec{"": &parquet.Uncompressed, "snappy": &parquet.Snappy, Gzip: &parquet.Gzip, Zstd: &parquet.Zstd}[compression]
	if codec == nil {
		return nil, fmt.Errorf("a Parquet file has no compression %q: there are snappy, gzip, zstd and none", compression)
	}
	p.w = parquet.NewGenericWriter[any](w, parquet.NewSchema("godwit", g), parquet.Compression(codec), parquet.CreatedBy("godwit", "", ""))
	return p, nil
}

// Buffered implements Writer.
func (p *parquetWriter) Buffered() int64 { return p.bytes }

// Close implements Writer.
func (p *parquetWriter) Close() (err error) {
	defer guard(&err)
	return p.w.Close()
}

// Write implements Writer.
func (p *parquetWriter) Write(row [][]byte) (err error) {
	defer guard(&err)
	p.row = p.row[:0]
	for i, v := range row {
		x, level := parquet.NullValue(), 0
		if v != nil {
			if x, err = p.made[i](v); err != nil {
				return fmt.Errorf("column %q: %w", p.cols[i].Name, err)
			}
			level = 1
		}
		p.row = append(p.row, x.Level(0, level, i))
		p.bytes += int64(len(v)) + 1
	}
	if _, err := p.w.WriteRows([]parquet.Row{p.row}); err != nil {
		return err
	}
	if p.rows++; p.bytes >= groupBytes || p.rows >= groupRows {
		p.bytes, p.rows = 0, 0
		return p.w.Flush()
	}
	return nil
}

// nodeOf is a column of a schema, and what makes its values of texts.
func nodeOf(c Column) (parquet.Node, func([]byte) (parquet.Value, error)) {
	switch c.Type {
	case Bytes:
		return parquet.Leaf(parquet.ByteArrayType), bytesValue
	case JSON:
		return parquet.JSON(), bytesValue
	case Int:
		return parquet.Int(64), func(b []byte) (parquet.Value, error) {
			n, err := strconv.ParseInt(string(b), 10, 64)
			return parquet.Int64Value(n), err
		}
	case Uint:
		return parquet.Uint(64), func(b []byte) (parquet.Value, error) {
			n, err := strconv.ParseUint(string(b), 10, 64)
			return parquet.Int64Value(int64(n)), err
		}
	case Float:
		return parquet.Leaf(parquet.FloatType), func(b []byte) (parquet.Value, error) {
			f, err := strconv.ParseFloat(string(b), 32)
			return parquet.FloatValue(float32(f)), err
		}
	case Double:
		return parquet.Leaf(parquet.DoubleType), func(b []byte) (parquet.Value, error) {
			f, err := strconv.ParseFloat(string(b), 64)
			return parquet.DoubleValue(f), err
		}
	case Date:
		return parquet.Date(), func(b []byte) (parquet.Value, error) {
			t, err := time.Parse("2006-01-02", string(b))
			return parquet.Int32Value(int32(t.Unix() / 86400)), noTime(b, err)
		}
	case DateTime, Timestamp:
		return parquet.TimestampAdjusted(parquet.Microsecond, c.Type == Timestamp), func(b []byte) (parquet.Value, error) {
			t, err := time.Parse("2006-01-02 15:04:05.999999", string(b))
			return parquet.Int64Value(t.UnixMicro()), noTime(b, err)
		}
	case Decimal:
		if c.Precision <= MostPrecision {
			return decimalNode(c.Precision, c.Scale)
		}
	}
	return parquet.String(), bytesValue
}

func bytesValue(b []byte) (parquet.Value, error) { return parquet.ByteArrayValue(b), nil }

// noTime says that Parquet has no such time.
func noTime(b []byte, err error) error {
	if err != nil {
		return fmt.Errorf("a Parquet file has no time %q: let the SELECT make NULL or a text of it", b)
	}
	return nil
}

// decimalNode has numbers as integers of 32 or 64 bits, or of as many bytes as their digits need.
func decimalNode(precision, scale int) (parquet.Node, func([]byte) (parquet.Value, error)) {
	digits := func(b []byte) (*big.Int, error) {
		text := string(b)
		frac := 0
		for i := range b {
			if b[i] == '.' {
				text, frac = string(b[:i])+string(b[i+1:]), len(b)-i-1
			}
		}
		n, ok := new(big.Int).SetString(text, 10)
		if !ok || frac > scale {
			return nil, fmt.Errorf("%q is no DECIMAL(%d,%d)", b, precision, scale)
		}
		return n.Mul(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale-frac)), nil)), nil
	}
	if precision <= 9 {
		return parquet.Decimal(scale, precision, parquet.Int32Type), func(b []byte) (parquet.Value, error) {
			n, err := digits(b)
			if err != nil {
				return parquet.Value{}, err
			}
			return parquet.Int32Value(int32(n.Int64())), nil
		}
	}
	if precision <= 18 {
		return parquet.Decimal(scale, precision, parquet.Int64Type), func(b []byte) (parquet.Value, error) {
			n, err := digits(b)
			if err != nil {
				return parquet.Value{}, err
			}
			return parquet.Int64Value(n.Int64()), nil
		}
	}
	const size = 16
	return parquet.Decimal(scale, precision, parquet.FixedLenByteArrayType(size)), func(b []byte) (parquet.Value, error) {
		n, err := digits(b)
		if err != nil {
			return parquet.Value{}, err
		}
		if n.Sign() < 0 {
			n.Add(n, new(big.Int).Lsh(big.NewInt(1), 8*size))
		}
		return parquet.FixedLenByteArrayValue(n.FillBytes(make([]byte, size))), nil
	}
}
