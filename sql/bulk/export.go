package bulk

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/hold"
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/sql/backup/place"
	"github.com/godwitdb/godwit/sql/bulk/rowfile"
	"github.com/godwitdb/godwit/sql/bulk/share"
	"github.com/godwitdb/godwit/sql/standin"
)

// The mark of an export lies among its files while it runs: by it a node knows that it sees them.
const mostMark = 1 << 10

func markOf(id uint64) string { return fmt.Sprintf("export%d.job", id) }

// exported is the record of a file that is complete, by its number in its unit.
type exported struct {
	Name   string `json:"name"`
	Rows   int64  `json:"rows"`
	Bytes  int64  `json:"bytes"`
	SHA256 []byte `json:"sha256"`
}

// exporter exports a unit. The files that are there must be the first ones of what this run of the
// query yields: its rows may come in another order than those of the run before, or be others, as
// with RAND(). So each file is made again, and kept if it is the same one. From the first one on
// that is not, all are those of this run.
type exporter struct {
	*work
	c      *share.Claim
	prefix string     // of the names of its files
	before []exported // files of runs before that may be kept

	cols []rowfile.Column
	bits []bool
	row  [][]byte

	n    int // files that are complete
	buf  bytes.Buffer
	w    rowfile.Writer
	rows int64 // of the file
}

// export does units of an export. The node that leads keeps the snapshot.
func (w *work) export(ctx context.Context) outcome {
	if !w.leads() {
		return outcome{err: w.units(ctx)}
	}
	rows, err := w.exportAll(ctx)
	return outcome{rows: rows, err: err}
}

// clean removes what an export has left that has failed.
func (w *work) clean(ctx context.Context, cause error) {
	// Workers that do not know yet that it is over note no file any more, and remove theirs. The
	// files of a node that goes on must stay.
	err := w.book.Fail(ctx, failureOf(cause), w.lease)
	if errors.Is(err, job.ErrLost) || errors.Is(err, job.ErrEnded) {
		return
	}
	if err == nil {
		if w.p, err = w.g.Policy.Open(ctx, w.o.Place, false); err == nil {
			err = errors.Join(w.remove(ctx, fmt.Sprintf("export%d-", w.id), nil), w.unmark(ctx), w.p.Close())
		}
	}
	if err != nil {
		w.g.Log.Warn("files of an export that failed were not removed", "job", w.id, "err", err)
	}
}

// exportAll leads an export.
func (w *work) exportAll(ctx context.Context) ([]sql.Row, error) {
	if w.o.Moment != 0 {
		var h *hold.Hold
		err := w.again(ctx, func(ctx context.Context) (err error) {
			h, err = hold.Take(ctx, w.g.DB, w.o.Moment, "EXPORT "+w.o.what())
			return err
		})
		if err != nil {
			return nil, err
		}
		defer w.keep(ctx, h)()
	}
	err := w.p.Write(ctx, markOf(w.id), []byte("an export writes files here; they are complete once this file is gone\n"))
	if err != nil && (w.lease.Term() == 1 || !errors.Is(err, fs.ErrExist)) {
		return nil, err
	}
	if err == nil {
		if err := w.still(ctx); err != nil {
			return nil, err
		}
	}
	step(w.id, "marked")
	if err := w.units(ctx); err != nil {
		return nil, err
	}
	step(w.id, "exported")
	rows, names, err := w.files(ctx)
	n, _ := w.job.Progress()
	for _, r := range rows {
		n -= r[1].(int64)
	}
	w.job.Did(int(max(-n, 0))) // a node that has died may not have come to say so
	if err == nil {            // who has lost the lease may have read what is left of the book
		err = w.again(ctx, func(ctx context.Context) error { return w.book.Begin(ctx, w.lease) })
	}
	if err == nil {
		err = w.remove(ctx, fmt.Sprintf("export%d-", w.id), names)
	}
	step(w.id, "swept")
	if err == nil {
		err = w.unmark(ctx)
	}
	step(w.id, "unmarked")
	return rows, err
}

// still fails if another node goes on with the job. If it has even ended it, the mark that this
// node has made goes.
func (w *work) still(ctx context.Context) error {
	err := w.again(ctx, func(ctx context.Context) error { return w.book.Begin(ctx, w.lease) })
	if errors.Is(err, job.ErrLost) || errors.Is(err, job.ErrEnded) {
		off, done := afterwards(ctx, nil)
		defer done()
		r, ferr := job.Find(off, w.g.DB, w.id)
		if ferr == nil && (r == nil || r.State != job.Running) {
			ferr = w.unmark(off)
		}
		if ferr != nil {
			w.g.Log.Warn("the mark of an export that is over may be left", "job", w.id, "err", ferr)
		}
	}
	return err
}

// keep renews a hold until the function that it returns is called. Unless the job is over another
// node goes on, and takes one of its own before this one ends.
func (w *work) keep(ctx context.Context, h *hold.Hold) (release func()) {
	stop := job.Regularly(ctx, hold.Every, func(ctx context.Context) bool {
		if err := h.Renew(kv.WithPatience(ctx, kv.NewPatience())); err != nil && ctx.Err() == nil {
			w.g.Log.Warn("the snapshot of an export could not be held for longer yet", "job", w.id, "err", err)
		}
		return true
	})
	return func() {
		stop()
		cause := context.Cause(ctx)
		if errors.Is(cause, errClosing) || errors.Is(cause, job.ErrLost) {
			return
		}
		off, done := afterwards(ctx, cause)
		defer done()
		if err := h.Release(off); err != nil {
			w.g.Log.Warn("the snapshot of an export is kept until its hold ends", "job", w.id, "in", hold.Lasts, "err", err)
		}
	}
}

// unmark removes the mark, if it is still there.
func (w *work) unmark(ctx context.Context) error {
	err := w.p.Remove(ctx, markOf(w.id))
	if err == nil {
		return nil
	}
	if _, rerr := w.p.Read(ctx, markOf(w.id), mostMark); errors.Is(rerr, fs.ErrNotExist) {
		return nil
	}
	return err
}

// files are the files of all units.
func (w *work) files(ctx context.Context) (rows []sql.Row, names map[string]bool, err error) {
	err = w.again(ctx, func(ctx context.Context) error {
		rows, names = nil, map[string]bool{}
		for u := range w.us {
			err := w.book.Each(ctx, u, func(_ uint64, value []byte) error {
				f, err := exportedOf(w.id, u, value)
				rows, names[f.Name] = append(rows, sql.Row{f.Name, f.Rows, f.Bytes}), true
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return rows, names, err
}

func exportedOf(job uint64, unit int, value []byte) (f exported, err error) {
	if err := json.Unmarshal(value, &f); err != nil {
		return f, base.Errorf(base.CodeCorrupt, "a record of job %d, unit %d: %v", job, unit, err)
	}
	return f, nil
}

// seesFiles reports whether a file of the export is there.
func (g *Env) seesFiles(ctx context.Context, p place.Place, id uint64, units int) (sees bool) {
	for u := 0; u < units && !sees; u++ {
		_ = share.Of(g.DB, id).Each(ctx, u, func(_ uint64, value []byte) error {
			f, err := exportedOf(id, u, value)
			if err == nil && !sees {
				in, err := p.Object(ctx, f.Name)
				if sees = err == nil; sees {
					return in.Close()
				}
			}
			return err
		})
	}
	return sees
}

// remove removes the files of this export that begin with a prefix, but for some.
func (w *work) remove(ctx context.Context, prefix string, but map[string]bool) error {
	names, err := place.Top(ctx, w.p)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, prefix) && !but[name] {
			if err := w.p.Remove(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// units does units of the export, one after the other.
func (w *work) units(ctx context.Context) error {
	return w.each(ctx, func(c *share.Claim) error {
		x := &exporter{work: w, c: c, prefix: fmt.Sprintf("export%d-%d-", w.id, c.Unit+1)}
		names := map[string]bool{}
		err := w.again(ctx, func(ctx context.Context) error {
			x.before = nil
			clear(names)
			return c.Records(ctx, func(_ uint64, value []byte) error {
				f, err := exportedOf(w.id, c.Unit, value)
				x.before, names[f.Name] = append(x.before, f), true
				return err
			})
		})
		if err == nil && c.Term() > 1 { // what the worker before has not come to note
			if err = w.remove(ctx, x.prefix, names); err == nil {
				x.torn(ctx)
			}
		}
		if err == nil {
			err = x.run(ctx)
		}
		if err == nil {
			step(w.id, "unit")
			err = w.again(ctx, c.Finish)
		}
		return err
	})
}

// torn removes the file that the workers before may have been writing in a directory when they
// died.
func (x *exporter) torn(ctx context.Context) {
	for term := uint64(1); term < x.c.Term(); term++ {
		_ = x.p.Remove(ctx, x.name(term, len(x.before)+1)+".partial") // mostly there is none
	}
}

// name is that of a file. A worker that is believed dead writes none that the next one writes.
func (x *exporter) name(term uint64, n int) string {
	return fmt.Sprintf("%s%d-%06d%s", x.prefix, term, n, x.o.Options.Format.Extension())
}

// query is that of the unit.
func (x *exporter) query() string {
	if where := x.us[x.c.Unit].Where; where != "" {
		return x.o.Query + " WHERE " + where
	}
	return x.o.Query
}

// run reads the rows and writes the files.
func (x *exporter) run(ctx context.Context) error {
	in, err := x.g.open(ctx, x.o)
	if err != nil {
		return err
	}
	defer in.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if c, ok := in.conn.Conn.(*standin.Conn); ok {
		c.Running(cancel)
	}
	in.s.NextAsOf = x.o.Moment
	var own error // as it is: the query words it anew
	err = x.g.Query(ctx, in.conn, x.query(), func(r *sqltypes.Result, _ bool) error {
		own = x.take(ctx, r)
		return own
	})
	if err = cmp.Or(own, err); err != nil {
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
	if err := x.end(ctx); err != nil {
		return err
	}
	return x.drop(ctx, x.n) // if this run has yielded less than the one before
}

// take takes rows of the result.
func (x *exporter) take(ctx context.Context, r *sqltypes.Result) error {
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
	return ctx.Err()
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
	sum := sha256.Sum256(x.buf.Bytes())
	f := exported{Name: x.name(x.c.Term(), x.n), Rows: x.rows, Bytes: int64(x.buf.Len()), SHA256: sum[:]}
	x.w, x.rows = nil, 0
	step(x.id, "made")
	if x.n <= len(x.before) {
		if b := x.before[x.n-1]; b.Rows == f.Rows && b.Bytes == f.Bytes && bytes.Equal(b.SHA256, f.SHA256) && x.there(ctx, b) {
			return nil
		}
		if err := x.drop(ctx, x.n-1); err != nil {
			return err
		}
	}
	if err := x.p.Write(ctx, f.Name, x.buf.Bytes()); err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	step(x.id, "written")
	err := x.again(ctx, func(ctx context.Context) error {
		return x.c.Run(ctx, func(t kv.Txn) error {
			if err := x.book.Going(ctx, t); err != nil {
				return err
			}
			return x.c.Put(t, uint64(x.n), &f)
		})
	})
	if err != nil { // it does not count
		if !errors.Is(err, errClosing) { // then the next one removes it
			x.disown(ctx, f)
		}
		return err
	}
	step(x.id, "noted")
	x.did(f.Rows)
	return nil
}

// disown removes a file unless it was noted: who has ended the job, or does the unit now, may have
// looked for such files before it was there.
func (x *exporter) disown(ctx context.Context, f exported) {
	off, done := afterwards(ctx, nil)
	defer done()
	noted := false
	err := x.c.Records(off, func(n uint64, value []byte) error {
		r, err := exportedOf(x.id, x.c.Unit, value)
		noted = noted || r.Name == f.Name
		return err
	})
	if err == nil && !noted {
		err = x.p.Remove(off, f.Name)
	}
	if err != nil && x.there(off, f) {
		x.g.Log.Warn("a file of an export that does not count was not removed", "job", x.id, "file", f.Name, "err", err)
	}
}

// there reports whether a file has as many bytes as it should.
func (x *exporter) there(ctx context.Context, f exported) bool {
	in, err := x.p.Object(ctx, f.Name)
	if err != nil {
		return false
	}
	size := in.Size()
	return in.Close() == nil && size == f.Bytes
}

// drop removes all files of runs before but the first ones.
func (x *exporter) drop(ctx context.Context, keep int) error {
	if keep >= len(x.before) {
		return nil
	}
	gone := x.before[keep:]
	err := x.again(ctx, func(ctx context.Context) error {
		return x.c.Run(ctx, func(t kv.Txn) error {
			for i := range gone {
				x.c.Delete(t, uint64(keep+i+1))
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	x.before = x.before[:keep]
	for _, f := range gone {
		if err := x.p.Remove(ctx, f.Name); err != nil && x.there(ctx, f) {
			return err
		}
	}
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
