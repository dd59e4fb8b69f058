package rowfile

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// parquetReader reads the rows of a Parquet file, whose columns are values, and no lists or groups.
type parquetReader struct {
	file   *parquet.File
	names  []string
	texts  []func([]byte, parquet.Value) ([]byte, error)
	at     Position
	groups []parquet.RowGroup
	rows   parquet.Rows
	batch  []parquet.Row
	n, i   int // rows of the batch, and how many were read of it
	buf    []byte
	ends   []int
}

// parquetRows is how many rows are read at once, and parquetBuffer how many bytes of a column.
const (
	parquetRows   = 64
	parquetBuffer = 256 << 10
)

// guard makes a panic of the library an error of the file.
func guard(err *error) {
	if r := recover(); r != nil {
		*err = &BadError{Why: fmt.Sprintf("the Parquet file is damaged: %v", r)}
	}
}

// Divide divides a Parquet file into about n parts: it returns the numbers of the rows at which the
// second part and those behind it begin, which are beginnings of groups of rows.
func Divide(in Source, n int) (begins []int64, err error) {
	defer guard(&err)
	if err := footer(in); err != nil {
		return nil, err
	}
	f, err := parquet.OpenFile(in, in.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, &BadError{Why: fmt.Sprintf("it is no Parquet file: %v", err)}
	}
	row := int64(0)
	for _, g := range f.RowGroups() {
		if k := int64(len(begins)) + 1; row > 0 && k < int64(n) && row >= f.NumRows()/int64(n)*k {
			begins = append(begins, row)
		}
		row += g.NumRows()
	}
	return begins, nil
}

func openParquet(in Source, at Position) (r Reader, err error) {
	defer guard(&err)
	if err := footer(in); err != nil {
		return nil, err
	}
	f, err := parquet.OpenFile(in, in.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true),
		parquet.ReadBufferSize(parquetBuffer))
	if err != nil {
		return nil, &BadError{Why: fmt.Sprintf("it is no Parquet file: %v", err)}
	}
	p := &parquetReader{file: f, at: at, groups: f.RowGroups()}
	for _, c := range f.Root().Columns() {
		if !c.Leaf() || c.Repeated() {
			return nil, &BadError{Why: fmt.Sprintf("column %q has lists or groups of values, which cannot be read", c.Name())}
		}
		text, err := textOf(c.Type())
		if err != nil {
			return nil, &BadError{Why: fmt.Sprintf("column %q: %v", c.Name(), err)}
		}
		p.names, p.texts = append(p.names, c.Name()), append(p.texts, text)
	}
	left := at.Row
	for len(p.groups) > 0 && left >= p.groups[0].NumRows() {
		left -= p.groups[0].NumRows()
		p.groups = p.groups[1:]
	}
	if len(p.groups) > 0 {
		p.open()
		if err := p.rows.SeekToRow(left); err != nil {
			return nil, &BadError{Line: at.Row + 1, Why: err.Error()}
		}
	}
	return p, nil
}

// mostFooter bounds what describes a file, as it lies at its end.
const mostFooter = 64 << 20

// footer looks at the end of a file before the library keeps as much as is said there.
func footer(in Source) error {
	var b [8]byte
	if in.Size() < 12 {
		return &BadError{Why: "it is no Parquet file: it is too short"}
	}
	if _, err := in.ReadAt(b[:], in.Size()-8); err != nil && err != io.EOF {
		return &BadError{Why: err.Error()}
	}
	n := int64(binary.LittleEndian.Uint32(b[:]))
	if string(b[4:]) != "PAR1" {
		return &BadError{Why: "it is no Parquet file, or is cut off, or encrypted"}
	}
	if n > min(in.Size()-12, mostFooter) {
		return &BadError{Why: fmt.Sprintf("its description has %d bytes, which is more than the file has, or than %d", n, mostFooter)}
	}
	return nil
}

func (p *parquetReader) open() {
	p.rows = p.groups[0].Rows()
	if p.batch == nil {
		p.batch = make([]parquet.Row, parquetRows)
	}
}

// Columns are the names of the columns.
func (p *parquetReader) Columns() []string { return p.names }

// fill reads the next rows.
func (p *parquetReader) fill() error {
	for {
		if len(p.groups) == 0 {
			return io.EOF
		}
		n, err := p.rows.ReadRows(p.batch)
		if p.n, p.i = n, 0; n > 0 {
			return nil
		}
		if err == nil {
			err = io.ErrNoProgress
		}
		if err != io.EOF {
			return &BadError{Line: p.at.Row + 1, Why: err.Error()}
		}
		if err := p.rows.Close(); err != nil {
			return &BadError{Line: p.at.Row + 1, Why: err.Error()}
		}
		p.rows = nil
		if p.groups = p.groups[1:]; len(p.groups) > 0 {
			p.open()
		}
	}
}

// Next implements Reader.
func (p *parquetReader) Next(rec *Record) (err error) {
	defer guard(&err)
	if p.i == p.n {
		if err := p.fill(); err != nil {
			return err
		}
	}
	row := p.batch[p.i]
	p.i++
	p.at.Row++
	rec.Line, rec.Columns, rec.Fields = p.at.Row, p.names, rec.Fields[:0]
	if len(row) != len(p.names) {
		return &BadError{Line: p.at.Row, Why: fmt.Sprintf("the row has %d values for %d columns", len(row), len(p.names))}
	}
	p.buf, p.ends = p.buf[:0], p.ends[:0]
	for i, v := range row {
		if !v.IsNull() {
			if p.buf, err = p.texts[i](p.buf, v); err != nil {
				return &BadError{Line: p.at.Row, Why: fmt.Sprintf("column %q: %v", p.names[i], err)}
			}
		}
		p.ends = append(p.ends, len(p.buf))
	}
	from := 0
	for i, end := range p.ends {
		rec.Fields = append(rec.Fields, Field{Text: p.buf[from:end], Null: row[i].IsNull()})
		from = end
	}
	return nil
}

// Position implements Reader.
func (p *parquetReader) Position() Position { return p.at }

// Close implements Reader.
func (p *parquetReader) Close() (err error) {
	defer guard(&err)
	if p.rows != nil {
		return p.rows.Close()
	}
	return nil
}

type texter = func([]byte, parquet.Value) ([]byte, error)

// textOf is how values of a column are written. Timestamps are written in UTC.
func textOf(t parquet.Type) (texter, error) {
	l := t.LogicalType()
	if l == nil {
		return physicalText(t)
	}
	switch l := l.Value.(type) {
	case *format.DecimalType:
		return decimalText(t.Kind(), int(l.Scale))
	case *format.DateType:
		return dateText, nil
	case *format.TimestampType:
		unit := l.Unit.Value
		if unit == nil || t.Kind() != parquet.Int64 {
			return physicalText(t)
		}
		return func(b []byte, v parquet.Value) ([]byte, error) { return timeText(b, at(v.Int64(), unit.Duration())) }, nil
	case *format.TimeType:
		if unit := l.Unit.Value; unit != nil {
			return timeOfDay(t.Kind(), unit.Duration()), nil
		}
	case *format.UUIDType:
		return uuidText, nil
	case *format.Float16Type:
		return float16Text, nil
	case *format.IntType:
		if !l.IsSigned {
			return unsignedText(t.Kind()), nil
		}
	case *format.BsonType, *format.ListType, *format.MapType:
		return nil, fmt.Errorf("the type %v cannot be read", t.LogicalType())
	}
	return physicalText(t)
}

func physicalText(t parquet.Type) (texter, error) {
	switch t.Kind() {
	case parquet.Boolean:
		return func(b []byte, v parquet.Value) ([]byte, error) {
			if v.Boolean() {
				return append(b, '1'), nil
			}
			return append(b, '0'), nil
		}, nil
	case parquet.Int32:
		return func(b []byte, v parquet.Value) ([]byte, error) {
			return strconv.AppendInt(b, int64(v.Int32()), 10), nil
		}, nil
	case parquet.Int64:
		return func(b []byte, v parquet.Value) ([]byte, error) { return strconv.AppendInt(b, v.Int64(), 10), nil }, nil
	case parquet.Int96: // of programs that knew no other timestamps: nanoseconds of a Julian day
		return func(b []byte, v parquet.Value) ([]byte, error) {
			x := v.Int96()
			const epoch = 2440588
			nanos := int64(uint64(x[0]) | uint64(x[1])<<32)
			return timeText(b, time.Unix((int64(x[2])-epoch)*86400, 0).Add(time.Duration(nanos)).UTC())
		}, nil
	case parquet.Float:
		return func(b []byte, v parquet.Value) ([]byte, error) { return floatText(b, float64(v.Float()), 32) }, nil
	case parquet.Double:
		return func(b []byte, v parquet.Value) ([]byte, error) { return floatText(b, v.Double(), 64) }, nil
	case parquet.ByteArray, parquet.FixedLenByteArray:
		return func(b []byte, v parquet.Value) ([]byte, error) { return append(b, v.ByteArray()...), nil }, nil
	}
	return nil, fmt.Errorf("the type %v cannot be read", t)
}

func floatText(b []byte, f float64, bits int) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return b, fmt.Errorf("%v is no number of MySQL", f)
	}
	return strconv.AppendFloat(b, f, 'g', -1, bits), nil
}

func unsignedText(k parquet.Kind) texter {
	return func(b []byte, v parquet.Value) ([]byte, error) {
		if k == parquet.Int32 {
			return strconv.AppendUint(b, uint64(uint32(v.Int32())), 10), nil
		}
		return strconv.AppendUint(b, uint64(v.Int64()), 10), nil
	}
}

// decimalText writes numbers that are stored as integers.
func decimalText(k parquet.Kind, scale int) (texter, error) {
	if scale < 0 || scale > 76 {
		return nil, fmt.Errorf("a DECIMAL of the scale %d cannot be read", scale)
	}
	point := func(b []byte, digits string) []byte {
		if digits[0] == '-' {
			b, digits = append(b, '-'), digits[1:]
		}
		for len(digits) <= scale {
			digits = "0" + digits
		}
		b = append(b, digits[:len(digits)-scale]...)
		if scale > 0 {
			b = append(append(b, '.'), digits[len(digits)-scale:]...)
		}
		return b
	}
	switch k {
	case parquet.Int32:
		return func(b []byte, v parquet.Value) ([]byte, error) { return point(b, strconv.Itoa(int(v.Int32()))), nil }, nil
	case parquet.Int64:
		return func(b []byte, v parquet.Value) ([]byte, error) {
			return point(b, strconv.FormatInt(v.Int64(), 10)), nil
		}, nil
	case parquet.ByteArray, parquet.FixedLenByteArray:
		return func(b []byte, v parquet.Value) ([]byte, error) {
			raw := v.ByteArray()
			if len(raw) > 64 {
				return b, fmt.Errorf("a DECIMAL of %d bytes cannot be read", len(raw))
			}
			n := new(big.Int).SetBytes(raw)
			if len(raw) > 0 && raw[0]&0x80 != 0 {
				n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
			}
			return point(b, n.String()), nil
		}, nil
	}
	return nil, fmt.Errorf("a DECIMAL of %v cannot be read", k)
}

func dateText(b []byte, v parquet.Value) ([]byte, error) {
	return yearly(b, time.Unix(int64(v.Int32())*86400, 0).UTC(), "2006-01-02")
}

// at is a moment in units since 1970.
func at(n int64, unit time.Duration) time.Time {
	per := int64(time.Second / unit)
	s, rest := n/per, n%per
	if rest < 0 {
		s, rest = s-1, rest+per
	}
	return time.Unix(s, rest*int64(unit)).UTC()
}

func timeText(b []byte, t time.Time) ([]byte, error) {
	return yearly(b, t, "2006-01-02 15:04:05.999999999")
}

func yearly(b []byte, t time.Time, layout string) ([]byte, error) {
	if y := t.Year(); y < 0 || y > 9999 {
		return b, fmt.Errorf("the year %d is none of MySQL", y)
	}
	return t.AppendFormat(b, layout), nil
}

func timeOfDay(k parquet.Kind, unit time.Duration) texter {
	return func(b []byte, v parquet.Value) ([]byte, error) {
		n := v.Int64()
		if k == parquet.Int32 {
			n = int64(v.Int32())
		}
		if n < 0 || n > int64(24*time.Hour/unit) {
			return b, fmt.Errorf("%d is no time of a day", n)
		}
		d := time.Duration(n) * unit
		b = fmt.Appendf(b, "%02d:%02d:%02d", d/time.Hour, d/time.Minute%60, d/time.Second%60)
		if frac := d % time.Second; frac != 0 {
			b = fmt.Appendf(b, ".%09d", frac)
		}
		return b, nil
	}
}

func uuidText(b []byte, v parquet.Value) ([]byte, error) {
	u, err := uuid.FromBytes(v.ByteArray())
	return append(b, u.String()...), err
}

func float16Text(b []byte, v parquet.Value) ([]byte, error) {
	raw := v.ByteArray()
	if len(raw) != 2 {
		return b, fmt.Errorf("a FLOAT16 has %d bytes", len(raw))
	}
	h := binary.LittleEndian.Uint16(raw)
	exp, frac := int(h>>10&31), float64(h&1023)
	var f float64
	switch exp {
	case 0:
		f = math.Ldexp(frac, -24)
	case 31:
		f = math.Inf(1)
		if frac != 0 {
			f = math.NaN()
		}
	default:
		f = math.Ldexp(1024+frac, exp-25)
	}
	if h&0x8000 != 0 {
		f = -f
	}
	return floatText(b, f, 32)
}
