package bulk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/sql/bulk/rowfile"
	"github.com/godwitdb/godwit/sql/bulk/share"
	"github.com/godwitdb/godwit/sql/schema"
)

// importer does an import.
type importer struct {
	*work
	at     string // of the place
	table  *schema.Table
	chunks chan *chunk

	bytes  atomic.Int64 // that were read of files here
	size   int64        // of all files
	errors atomic.Int64 // rows that were left out, as far as this node knows
}

// importing does units of an import.
func (w *work) importing(ctx context.Context) (end outcome) {
	m := &importer{work: w, chunks: make(chan *chunk)}
	m.at = w.o.Place[:strings.LastIndexByte(w.o.Place, '/')+1]
	for _, f := range w.o.Files {
		m.size += f.Size
	}
	var err error
	if m.table, err = w.g.table(ctx, w.o); err != nil {
		return outcome{err: err}
	}
	var head *share.Head
	if err = w.again(ctx, func(ctx context.Context) (err error) { head, err = w.book.Head(ctx); return err }); err == nil && head == nil {
		err = job.ErrLost
	}
	if err != nil {
		return outcome{err: err}
	}
	m.errors.Store(head.Errors)
	if err = m.run(ctx); err != nil || !w.leads() {
		return outcome{err: err}
	}
	return m.sum(ctx)
}

// sum is what the statement answers once all is loaded.
func (m *importer) sum(ctx context.Context) outcome {
	var t tally
	var head *share.Head
	err := m.again(ctx, func(ctx context.Context) (err error) {
		t = tally{}
		for u := range m.us {
			if err = m.book.Each(ctx, u, func(_ uint64, value []byte) error {
				p, err := partOf(m.id, u, value)
				t.add(p.tally)
				return err
			}); err != nil {
				return err
			}
		}
		head, err = m.book.Head(ctx)
		return err
	})
	if err == nil && head == nil {
		err = job.ErrLost
	}
	if err != nil {
		return outcome{err: err}
	}
	done, _ := m.job.Progress()
	m.job.Did(int(max(t.Rows-done, 0))) // a node that has died may not have come to say so
	m.job.Total(t.Rows)
	return outcome{ts: m.g.DB.Clock(), wrong: head.Wrong, rows: []sql.Row{{int64(m.id), int64(len(m.o.Files)),
		t.Rows - t.Errors - t.Skipped, t.Skipped, t.Errors, m.size}}}
}

// run reads files, and loads their chunks side by side.
func (m *importer) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for range m.o.Options.Threads {
		wg.Go(func() {
			if err := m.worker(ctx); err != nil {
				cancel(err)
			}
		})
	}
	err := m.each(ctx, func(c *share.Claim) error {
		var r *parts
		err := m.again(ctx, func(ctx context.Context) (err error) { r, err = openParts(ctx, c, m.us[c.Unit]); return err })
		if err == nil {
			err = m.read(ctx, r)
		}
		if err != nil {
			return err
		}
		return m.closed(ctx, r)
	})
	if err != nil {
		cancel(err)
	}
	close(m.chunks)
	wg.Wait()
	return context.Cause(ctx)
}

// closed notes that a chunk of a unit, or its reader, has ended. With the last one the unit is
// done.
func (m *importer) closed(ctx context.Context, r *parts) error {
	if r.open.Add(-1) > 0 {
		return nil
	}
	step(m.id, "loaded")
	return m.again(ctx, r.Finish)
}

// bad is what is wrong in a file.
func (m *importer) bad(file int, line int64, err error) error {
	return &fileError{name: m.at + m.o.Files[file].Name, line: line, err: err}
}

// read divides a unit into chunks, but for what was loaded of it.
func (m *importer) read(ctx context.Context, r *parts) error {
	file := r.unit.File
	in, err := openFile(ctx, m.p, m.o.Files[file])
	if err != nil {
		return m.bad(file, 0, err)
	}
	defer in.Close()
	source := &counted{Source: in, n: &m.bytes, w: m.me}
	for at := (rowfile.Position{}); ; {
		var most int64
		if at, most = r.next(at); at.Row > r.unit.From {
			m.g.Log.Debug("an import goes on in a file", "job", m.id, "file", m.o.Files[file].Name, "row", at.Row)
		}
		if r.unit.To > 0 && at.Row >= r.unit.To {
			return nil
		}
		over := false
		if at, over, err = m.readFrom(ctx, r, source, at, most); err != nil || over {
			return err
		}
	}
}

// readFrom reads a file from a position up to a row.
func (m *importer) readFrom(ctx context.Context, of *parts, in rowfile.Source, at rowfile.Position, most int64) (_ rowfile.Position, over bool, err error) {
	file := of.unit.File
	r, err := rowfile.Open(ctx, in, &m.o.Options.Format, at)
	if err != nil {
		return at, false, m.bad(file, 0, err)
	}
	defer r.Close()
	var c *chunk
	var rec rowfile.Record
	for r.Position().Row < most {
		before := r.Position()
		if err = r.Next(&rec); err != nil {
			over = errors.Is(err, io.EOF)
			break
		}
		if c != nil && (len(c.ends) >= m.rows() || len(c.text) >= chunkBytes || !same(c.into.names, rec.Columns)) {
			if err = m.send(ctx, c); err != nil {
				return at, false, err
			}
			c = nil
		}
		if c == nil {
			c = &chunk{of: of, part: part{From: before}}
			if c.into, err = m.o.into(m.table, rec.Columns); err != nil {
				return at, false, m.bad(file, 0, err)
			}
		}
		c.add(&rec)
		c.To = r.Position()
	}
	if err != nil && !over {
		return at, false, m.bad(file, 0, err)
	}
	if c != nil {
		err = m.send(ctx, c)
	} else {
		err = nil
	}
	return r.Position(), over, err
}

// same reports whether two lists of names are the same list.
func same(a, b []string) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// rows is how many rows a chunk has at most.
func (m *importer) rows() int {
	if m.o.Options.OnDuplicate == onDuplicateIgnore {
		return ignoredRows
	}
	return chunkRows
}

func (m *importer) send(ctx context.Context, c *chunk) error {
	c.Rows = int64(len(c.ends))
	c.of.open.Add(1)
	select {
	case m.chunks <- c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// worker loads chunks.
func (m *importer) worker(ctx context.Context) error {
	in, err := m.g.open(ctx, m.o)
	if err != nil {
		return err
	}
	defer in.close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case c, ok := <-m.chunks:
			if !ok {
				return nil
			}
			err := m.load(ctx, in, c)
			if err == nil {
				err = m.closed(ctx, c.of)
			}
			if err != nil {
				return err
			}
			if afterChunk != nil {
				afterChunk(m)
			}
		}
	}
}

// afterChunk is called behind each chunk that was loaded, in tests.
var afterChunk func(*importer)

// errLoaded: the chunk was loaded before.
var errLoaded = errors.New("the rows were loaded before")

// load loads a chunk, without the rows that are wrong, if there may be some.
func (m *importer) load(ctx context.Context, in *inner, c *chunk) error {
	begin := time.Now()
	for wait := 10 * time.Millisecond; ; {
		err := m.once(ctx, in, c)
		switch {
		case err == nil, errors.Is(err, errLoaded):
			m.loaded(ctx, c)
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, job.ErrLost), c.last != nil && errors.Is(err, c.last):
			return err
		case transient(err):
			if time.Since(begin) > longest {
				return err
			}
			m.g.Log.Debug("a chunk of an import is tried again", "job", m.id, "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(wait/2 + rand.N(wait)):
			}
			wait = min(2*wait, time.Second)
		case errors.Is(err, errNotOurs):
			return err
		default:
			if err := m.without(ctx, in, c, err); err != nil {
				return err
			}
		}
	}
}

// loaded notes that a chunk was loaded.
func (m *importer) loaded(ctx context.Context, c *chunk) {
	merge := c.of.loaded(c.part)
	m.did(c.Rows)
	if m.leads() {
		done, _ := m.job.Progress()
		if read := min(m.bytes.Load()+m.work.read.Load(), m.size); read > 0 { // a guess
			m.job.Total(max(done, int64(float64(done)*float64(m.size)/float64(read))))
		}
	}
	if !merge {
		return
	}
	if err := c.of.merge(kv.WithPatience(ctx, kv.NewPatience())); err != nil && ctx.Err() == nil {
		m.g.Log.Debug("records of an import were not merged", "job", m.id, "err", err)
	}
}

// once tries to load a chunk.
func (m *importer) once(ctx context.Context, in *inner, c *chunk) error {
	exact := m.o.Options.OnDuplicate != onDuplicateIgnore
	l := &loading{query: m.o.query(c.into), file: bytes.NewReader(c.text), exact: exact}
	l.before = func(ctx context.Context, k kv.Txn) error {
		done, err := c.of.note(ctx, k, &c.part)
		switch {
		case err != nil:
			return err
		case done:
			return errLoaded
		case len(c.wrong) == 0:
			return nil
		}
		ok, err := m.book.LeftOut(ctx, k, c.wrong, m.o.Options.MaxErrors)
		if err == nil && !ok {
			err = c.last // other nodes have left out rows, too
		}
		return err
	}
	n := uint64(len(c.ends))
	if n == 0 { // all of its rows are wrong
		_, err := kv.Run(ctx, m.g.DB, kv.Options{}, func(t kv.Txn) error { return l.before(ctx, t) })
		return err
	}
	l.after = func(k kv.Txn, affected uint64) error {
		c.Skipped = int64(n - min(n, affected))
		return c.of.put(k, &c.part)
	}
	return in.load(ctx, l)
}

// without takes the first row out of a chunk that cannot be stored.
func (m *importer) without(ctx context.Context, in *inner, c *chunk, cause error) error {
	exact := m.o.Options.OnDuplicate != onDuplicateIgnore
	try := func(n int) error { // the first n rows
		if n == 0 {
			return nil
		}
		for {
			err := in.load(ctx, &loading{query: m.o.query(c.into), file: bytes.NewReader(c.first(n)), exact: exact, trial: true})
			if err == nil || ctx.Err() != nil || !transient(err) {
				return err
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	good, bad := 0, len(c.ends)
	for bad-good > 1 {
		n := (good + bad) / 2
		err := try(n)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			good = n
		} else {
			bad, cause = n, err
		}
	}
	line := c.line[bad-1]
	err := m.bad(c.of.unit.File, line, errors.New(worded(cause)))
	if !rowError(cause) || m.errors.Add(1) > m.o.Options.MaxErrors {
		return err
	}
	c.Errors++
	c.drop(bad - 1)
	m.g.Log.Warn("a line of an import is left out", "job", m.id, "err", err)
	c.wrong, c.last = append(c.wrong, err.Error()), err
	return nil
}

// atRow is what a statement says of the row of its text.
var atRow = regexp.MustCompile(` at row \d+$|^Row \d+ `)

// worded is an error without the row of a text that nobody has seen.
func worded(err error) string {
	var me *mysql.SQLError
	if errors.As(err, &me) {
		s := atRow.ReplaceAllString(me.Message, "")
		if s != me.Message && strings.HasPrefix(me.Message, "Row ") {
			s = "the line " + s
		}
		return fmt.Sprintf("%s (error %d)", s, me.Num)
	}
	return err.Error()
}

// transient reports whether a chunk may be loaded when it is tried again.
func transient(err error) bool {
	if base.Retryable(err) || base.CodeOf(err) == base.CodeAmbiguous { // of what is noted beside
		return true
	}
	var me *mysql.SQLError
	return errors.As(err, &me) && (me.Num == schema.ErrLockDeadlock || me.Num == schema.ErrLockWaitTimeout ||
		me.Num == schema.ErrUnknown && strings.HasPrefix(me.Message, "The outcome of the commit is unknown"))
}

// rowError reports whether an error is that of a row, and not of the table or the user.
func rowError(err error) bool {
	var me *mysql.SQLError
	if !errors.As(err, &me) {
		return false
	}
	switch me.Num {
	case 1044, 1045, 1142, 1143, 1146, 1049, 1054, 1064, 1227, 1235, 1290, 1317, 1041, 1038, 3024:
		return false
	}
	return true
}

// counted counts what is read of a file.
type counted struct {
	rowfile.Source
	n *atomic.Int64
	w *share.Worker
}

func (c *counted) count(n int) {
	c.n.Add(int64(n))
	c.w.Did(0, int64(n))
}

// ReadAt implements io.ReaderAt.
func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.Source.ReadAt(p, off)
	c.count(n)
	return n, err
}

// From implements rowfile.Source.
func (c *counted) From(ctx context.Context, offset int64) (io.ReadCloser, error) {
	r, err := c.Source.From(ctx, offset)
	if err != nil {
		return nil, err
	}
	return &countedReader{r, c}, nil
}

type countedReader struct {
	io.ReadCloser
	of *counted
}

// Read implements io.Reader.
func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.of.count(n)
	return n, err
}
