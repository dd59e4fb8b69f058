// Package verify compares the secondary indexes of a table with its rows, in both directions: each
// row has the entry that it must have, and there is no entry besides.
//
// All of it is read at the snapshot of one transaction, in batches, so that a table of any size
// takes the memory of a batch, and changes meanwhile neither wait nor matter. The rows are read
// once, and the entries that they must have are looked up. Rows have entries of their own, so an
// index that has as many entries as were found that way has none besides. Only if it has more are
// its entries followed to their rows, to tell which.
//
// An index over a virtual column is compared less closely, since what its entries must be is not
// stored: each entry leads to a row, and there are as many as rows.
package verify

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
)

const (
	// batchRows is how many rows or entries are read at once.
	batchRows = 4096
	// batchKeys is how many keys are looked up at once.
	batchKeys = 512
	// shown is how many findings of an index, and how many unreadable rows, are told one by one.
	shown = 10
)

// Result is what a comparison has found.
type Result struct {
	Rows    int64
	Indexes []Index // those that have entries, and can be read
	// Unreadable rows do not decode. What entries they must have is not known.
	Unreadable int64
	Texts      []string // about the first of these
}

// Index is what was found of one index.
type Index struct {
	Name    string
	Entries int64
	Wanted  int64 // entries that there must be
	Missing int64 // rows whose entry is not there, or leads to another row
	Extra   int64 // entries that no row must have
	Texts   []string
}

// Damaged reports whether anything is not as it must be.
func (r *Result) Damaged() bool {
	return r.Unreadable > 0 || slices.ContainsFunc(r.Indexes, func(x Index) bool { return x.Missing+x.Extra > 0 })
}

// Messages compares the indexes of a table with its rows, at a snapshot of now, and says what
// CHECK TABLE answers: Msg_type and Msg_text, as MySQL words them where it has such a line. Errors
// are as clients get them (schema.ClientError).
func Messages(ctx context.Context, db kv.DB, t *schema.Table) ([][2]string, error) {
	snap := db.Begin(kv.Options{ReadOnly: true})
	defer snap.Rollback(context.Background())
	r, err := Table(ctx, snap, db.Topology(), kv.HomeRegion(db), t)
	if err != nil {
		return nil, schema.ClientError(err)
	}
	return r.messages(), nil
}

func (r *Result) messages() (out [][2]string) {
	add := func(kind, text string) { out = append(out, [2]string{kind, text}) }
	for _, s := range r.Texts {
		add("error", s)
	}
	if n := r.Unreadable - int64(len(r.Texts)); n > 0 {
		add("error", fmt.Sprintf("%d more rows cannot be read", n))
	}
	for _, x := range r.Indexes {
		for _, s := range x.Texts {
			add("error", "Index '"+x.Name+"': "+s)
		}
		if x.Missing+x.Extra > 0 {
			add("warning", fmt.Sprintf("Index '%s' contains %d entries, should be %d: %d are missing, %d are too much", x.Name,
				x.Entries, x.Wanted, x.Missing, x.Extra))
		}
	}
	if r.Damaged() {
		add("error", "Corrupt")
		return out
	}
	return [][2]string{{"status", "OK"}}
}

// Reader is what a comparison needs of a transaction ([kv.Txn]).
type Reader interface {
	Get(ctx context.Context, keys []base.Key, lock kv.LockMode) ([]kv.Row, error)
	Scan(ctx context.Context, req kv.ScanRequest) (kv.ScanResult, error)
}

// Table compares the indexes of a table with its rows, as the transaction sees them, which must be
// one that is read only. If the table's definition was another one at its snapshot, the error is
// one that is tried again (1213).
func Table(ctx context.Context, k Reader, top *base.Topology, home base.RegionID, t *schema.Table) (*Result, error) {
	c := &check{ctx: ctx, k: k, t: t, home: home, want: make([]bool, len(t.Cols))}
	for _, e := range t.EngineIndexes() {
		i := e.(*schema.EngineIndex)
		if i.Index == nil || !i.Index.Desc.Stored() {
			continue
		}
		x := &index{Index: Index{Name: i.Index.Desc.Name}, x: i.Index, spans: i.Spans(top.Regions, schema.KeyRange{})}
		for _, col := range i.Index.Cols {
			c.want[col.Pos] = true
			x.virtual = x.virtual || t.Cols[col.Pos].Desc.Virtual
		}
		c.indexes = append(c.indexes, x)
	}
	return c.run()
}

// check is one comparison.
type check struct {
	Result
	ctx     context.Context
	k       Reader
	t       *schema.Table
	home    base.RegionID // that rows without one have
	want    []bool        // the columns that entries are made of
	indexes []*index
}

type index struct {
	Index
	x       *schema.Index
	spans   []base.Span
	virtual bool
	found   int64 // entries that rows must have, and that are there
}

func (c *check) run() (*Result, error) {
	def, err := c.k.Get(c.ctx, []base.Key{c.t.Key}, kv.LockNone)
	if err != nil {
		return nil, err
	}
	if def[0].TS != c.t.TS {
		return nil, base.Errorf(base.CodeSchemaChanged, "table %s was changed when its check began", c.t.Desc.Name)
	}
	if err := c.scan(c.t.RowSpans(nil), c.rows); err != nil {
		return nil, err
	}
	for _, x := range c.indexes {
		if x.Wanted = c.Rows - c.Unreadable; x.virtual {
			x.Wanted = c.Rows
		}
		if err := c.count(x); err != nil {
			return nil, err
		}
		c.Indexes = append(c.Indexes, x.Index)
	}
	return &c.Result, nil
}

// scan reads spans, batch by batch.
func (c *check) scan(spans []base.Span, each func([]kv.Row) error) error {
	req := &kv.ScanRequest{Spans: spans, Limit: batchRows}
	for req != nil {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		res, err := c.k.Scan(c.ctx, *req)
		if err != nil {
			return err
		}
		if err := each(res.Rows); err != nil {
			return err
		}
		req = res.Next
	}
	return nil
}

// get looks keys up, so many at once.
func (c *check) get(keys []base.Key) (out []kv.Row, err error) {
	for some := range slices.Chunk(keys, batchKeys) {
		rows, err := c.k.Get(c.ctx, some, kv.LockNone)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, nil
}

// row is a row of the table, with the columns of indexes.
type row struct {
	ref  schema.RowRef
	home base.RegionID
	cols sql.Row
}

// decode reads a row; ok is false if it cannot be read.
func (c *check) decode(kr kv.Row) (r row, ok bool, err error) {
	r = row{schema.RefOfKey(kr.Key), kr.Home, make(sql.Row, len(c.t.Cols))}
	if r.home == 0 {
		r.home = c.t.HomeFor(r.ref.Shard, c.home)
	}
	err = c.t.DecodeCols(c.ctx, kr.Value, r.cols, c.want)
	if base.CodeOf(err) == base.CodeCorrupt {
		return r, false, nil
	}
	return r, err == nil, err
}

// rows looks up the entries that some rows must have.
func (c *check) rows(rows []kv.Row) error {
	read := make([]row, 0, len(rows))
	for _, kr := range rows {
		r, ok, err := c.decode(kr)
		if err != nil {
			return err
		}
		c.Rows++
		if !ok {
			note(&c.Unreadable, &c.Texts, "the row "+c.name(r.ref)+" cannot be read")
			continue
		}
		read = append(read, r)
	}
	for _, x := range c.indexes {
		if x.virtual {
			continue
		}
		if err := c.entries(x, read); err != nil {
			return err
		}
	}
	return nil
}

// entries looks up the entries that some rows must have in an index.
func (c *check) entries(x *index, rows []row) error {
	keys, values := make([]base.Key, len(rows)), make([][]byte, len(rows))
	for i, r := range rows {
		var err error
		if keys[i], values[i], err = c.t.IndexEntry(c.ctx, x.x, r.cols, r.ref, r.home); err != nil {
			return err
		}
	}
	found, err := c.get(keys)
	if err != nil {
		return err
	}
	for i, e := range found {
		switch {
		case e.Value == nil:
			note(&x.Missing, &x.Texts, "the row "+c.name(rows[i].ref)+" has no entry")
		case !bytes.Equal(e.Value, values[i]):
			note(&x.Missing, &x.Texts, "the entry of the row "+c.name(rows[i].ref)+" leads elsewhere")
		default:
			x.found++
		}
	}
	return nil
}

// count compares the number of entries of an index with what its rows must have, and tells which
// are too much if there are more.
func (c *check) count(x *index) error {
	err := c.scan(x.spans, func(es []kv.Row) error {
		x.Entries += int64(len(es))
		return nil
	})
	if err != nil || x.Entries == x.found && !x.virtual {
		return err
	}
	if err := c.scan(x.spans, func(es []kv.Row) error { return c.follow(x, es) }); err != nil {
		return err
	}
	if n := x.Wanted - (x.Entries - x.Extra); x.virtual && n > 0 {
		x.Missing = n
		x.Texts = append(x.Texts, fmt.Sprintf("%d rows have no entry (over a virtual column: which ones is not known)", n))
	}
	return nil
}

// follow looks up the rows that entries lead to.
func (c *check) follow(x *index, es []kv.Row) error {
	var keys []base.Key
	var of []kv.Row
	for _, e := range es {
		ref, err := x.x.EntryRef(e.Key, e.Value)
		if err != nil {
			note(&x.Extra, &x.Texts, "an entry cannot be decoded: "+hex.EncodeToString(e.Key))
			continue
		}
		keys, of = append(keys, c.t.RowKey(ref)), append(of, e)
	}
	rows, err := c.get(keys)
	if err != nil {
		return err
	}
	for i, kr := range rows {
		if err := c.judge(x, of[i], kr); err != nil {
			return err
		}
	}
	return nil
}

// judge compares an entry with the one that the row must have to which it leads.
func (c *check) judge(x *index, e, kr kv.Row) error {
	if kr.Value == nil {
		note(&x.Extra, &x.Texts, "an entry leads to the row "+c.name(schema.RefOfKey(kr.Key))+", which is not there")
		return nil
	}
	if x.virtual {
		return nil
	}
	r, ok, err := c.decode(kr)
	if err != nil || !ok {
		return err
	}
	key, value, err := c.t.IndexEntry(c.ctx, x.x, r.cols, r.ref, r.home)
	if err != nil {
		return err
	}
	if !bytes.Equal(key, e.Key) || !bytes.Equal(value, e.Value) {
		why := "has other values"
		if n := base.IndexPrefixLen; x.x.Desc.Class == schema.ClassByHome && len(e.Key) > n && e.Key[n] != key[n] {
			why = "has another home"
		}
		note(&x.Extra, &x.Texts, "an entry leads to the row "+c.name(r.ref)+", which "+why)
	}
	return nil
}

// note counts a finding, and keeps the text of the first ones.
func note(n *int64, texts *[]string, text string) {
	*n++
	if len(*texts) < shown {
		*texts = append(*texts, text)
	}
}

// name is a row for people: its primary key, as far as keys show it.
func (c *check) name(ref schema.RowRef) string {
	rest := ref.PK
	var vals []string
	for _, p := range c.t.PK {
		text, after, ok := c.t.Cols[p].TakeKey(rest)
		if !ok {
			return "0x" + hex.EncodeToString(ref.PK)
		}
		vals, rest = append(vals, text), after
	}
	if len(vals) == 0 {
		return "0x" + hex.EncodeToString(ref.PK)
	}
	return "(" + strings.Join(vals, ", ") + ")"
}
