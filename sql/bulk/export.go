package bulk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/sql/backup/place"
	"github.com/godwitdb/godwit/sql/bulk/rowfile"
	"github.com/godwitdb/godwit/sql/standin"
)

// The mark of an export lies among its files while it runs: by it a node knows that it sees them.
const mostMark = 1 << 10

func markOf(id uint64) string { return fmt.Sprintf("export%d.job", id) }

// exporter does an export.
type exporter struct {
	*work
	prefix string // of the names of its files
	cols   []rowfile.Column
	bits   []bool
	row    [][]byte

	n    int // files that were written
	buf  bytes.Buffer
	w    rowfile.Writer
	rows int64 // of the file
	done []sql.Row
}

// export does the work of an export.
func (w *work) export(ctx context.Context) outcome {
	id := w.lease.ID()
	x := &exporter{work: w, prefix: fmt.Sprintf("export%d-%d-", id, w.lease.Term())}
	err := w.p.Write(ctx, markOf(id), []byte("an export writes files here; they are complete once this file is gone\n"))
	if w.lease.Term() > 1 { // another node has begun
		err = x.remove(ctx, fmt.Sprintf("export%d-", id))
	}
	if err == nil {
		err = x.run(ctx)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, errClosing) {
		return outcome{err: err}
	}
	off, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	if err != nil {
		if rerr := x.remove(off, x.prefix); rerr != nil {
			w.g.Log.Warn("files of an export that failed were not removed", "job", id, "err", rerr)
		}
	}
	return outcome{rows: x.done, err: errors.Join(err, w.p.Remove(off, markOf(id)))}
}

// remove removes files of this export.
func (x *exporter) remove(ctx context.Context, prefix string) error {
	names, err := place.Top(ctx, x.p)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			if err := x.p.Remove(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// run reads the rows and writes the files.
func (x *exporter) run(ctx context.Context) error {
	in, err := x.g.open(ctx, x.o.account())
	if err != nil {
		return err
	}
	defer in.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if c, ok := in.conn.Conn.(*standin.Conn); ok {
		c.Running(cancel)
	}
	err = x.g.Query(ctx, in.conn, x.o.Query, func(r *sqltypes.Result, _ bool) error {
		if x.cols == nil {
			if err := x.columns(r.Fields); err != nil {
				return err
			}
		}
		for _, row := range r.Rows {
			if err := x.write(ctx, row); err != nil {
				return err
			}
		}
		x.job.Did(len(r.Rows))
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	if x.cols == nil {
		return errors.New("EXPORT INTO writes the rows of a SELECT: the statement has none")
	}
	if x.w == nil && x.n == 0 { // a file without rows has the columns all the same
		if err := x.begin(); err != nil {
			return err
		}
	}
	return x.end(ctx)
}

func (x *exporter) begin() (err error) {
	x.buf.Reset()
	x.w, err = rowfile.Create(&x.buf, &x.o.Options.Format, x.cols)
	return err
}

// write writes a row, and the file once it is full.
func (x *exporter) write(ctx context.Context, row []sqltypes.Value) error {
	if x.w == nil {
		if err := x.begin(); err != nil {
			return err
		}
	}
	for i, v := range row {
		switch {
		case v.IsNull():
			x.row[i] = nil
		case x.cols[i].Type == rowfile.Float:
			f, err := strconv.ParseFloat(v.ToString(), 64)
			if err != nil {
				return err
			}
			x.row[i] = strconv.AppendFloat(nil, f, 'g', -1, 32)
		case x.bits[i]:
			var n uint64
			for _, b := range v.Raw() {
				n = n<<8 | uint64(b)
			}
			x.row[i] = fmt.Append(nil, n)
		default:
			if x.row[i] = v.Raw(); x.row[i] == nil {
				x.row[i] = []byte{}
			}
		}
	}
	if err := x.w.Write(x.row); err != nil {
		return err
	}
	x.rows++
	if o := x.o.Options; o.FileRows > 0 && x.rows >= o.FileRows || int64(x.buf.Len())+x.w.Buffered() >= o.FileBytes {
		return x.end(ctx)
	}
	return nil
}

// end writes the file that was begun.
func (x *exporter) end(ctx context.Context) error {
	if x.w == nil {
		return nil
	}
	if err := x.w.Close(); err != nil {
		return err
	}
	x.n++
	name := fmt.Sprintf("%s%06d%s", x.prefix, x.n, x.o.Options.Format.Extension())
	if err := x.p.Write(ctx, name, x.buf.Bytes()); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	x.done = append(x.done, sql.Row{name, x.rows, int64(x.buf.Len())})
	x.w, x.rows = nil, 0
	return nil
}

// columns takes the columns of the result.
func (x *exporter) columns(fields []*querypb.Field) error {
	x.row = make([][]byte, len(fields))
	for i, f := range fields {
		c := rowfile.Column{Name: f.Name, Type: typeOf(f)}
		if slices.Contains(x.o.Floats, i) {
			c.Type = rowfile.Float
		}
		if c.Type == rowfile.Decimal {
			c.Scale = int(f.Decimals)
			c.Precision = int(f.ColumnLength)
			if c.Scale > 0 {
				c.Precision--
			}
			if f.Flags&uint32(querypb.MySqlFlag_UNSIGNED_FLAG) == 0 {
				c.Precision--
			}
			c.Precision = min(max(c.Precision, c.Scale, 1), 65)
		}
		x.cols, x.bits = append(x.cols, c), append(x.bits, f.Type == sqltypes.Bit)
	}
	return nil
}

// binary is the character set of bytes.
const binary = uint32(mysql.CharacterSetBinary)

// typeOf is what a column of a result holds. TIME may be longer than a day, so it is a text.
func typeOf(f *querypb.Field) rowfile.Type {
	switch f.Type {
	case sqltypes.Int8, sqltypes.Int16, sqltypes.Int24, sqltypes.Int32, sqltypes.Int64, sqltypes.Year:
		return rowfile.Int
	case sqltypes.Uint8, sqltypes.Uint16, sqltypes.Uint24, sqltypes.Uint32, sqltypes.Uint64, sqltypes.Bit:
		return rowfile.Uint
	case sqltypes.Float32:
		return rowfile.Float
	case sqltypes.Float64:
		return rowfile.Double
	case sqltypes.Decimal:
		return rowfile.Decimal
	case sqltypes.Date:
		return rowfile.Date
	case sqltypes.Datetime:
		return rowfile.DateTime
	case sqltypes.Timestamp:
		return rowfile.Timestamp
	case sqltypes.TypeJSON:
		return rowfile.JSON
	case sqltypes.Geometry, sqltypes.Vector:
		return rowfile.Bytes
	case sqltypes.Binary, sqltypes.VarBinary, sqltypes.Blob:
		if f.Charset == binary {
			return rowfile.Bytes
		}
	}
	return rowfile.Text
}
