package binlog

import (
	"fmt"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/feed"
	"github.com/godwitdb/godwit/sql/schema"
)

// mapping is a table as the stream has made it known.
type mapping struct {
	t      *schema.Table
	id     uint64
	cols   []*column
	unique []int // positions of the columns of unique indexes beside the primary key
	body   []byte
}

// lenenc appends a length as the protocol encodes it.
func lenenc(b []byte, n uint64) []byte {
	switch {
	case n < 251:
		return append(b, byte(n))
	case n < 1<<16:
		return le.AppendUint16(append(b, 252), uint16(n))
	case n < 1<<24:
		return append(b, 253, byte(n), byte(n>>8), byte(n>>16))
	}
	return le.AppendUint64(append(b, 254), n)
}

func bitmap(n int, set func(int) bool) []byte {
	b := make([]byte, (n+7)/8)
	for i := range n {
		if set(i) {
			b[i/8] |= 1 << (i % 8)
		}
	}
	return b
}

// mapped is how a table is known to the client; a new definition gets a new number.
func (e *encoder) mapped(t *schema.Table) (*mapping, error) {
	if m := e.tables[t.Desc.ID]; m != nil && m.t == t {
		return m, nil
	}
	e.nextID++
	m := &mapping{t: t, id: e.nextID}
	for i, c := range t.Cols {
		if c.Desc.HiddenSystem {
			continue // of an index over an expression: replicas have none such
		}
		o, err := columnOf(c, i, e.maria)
		if err != nil {
			return nil, fmt.Errorf("column %s of table %s.%s: %w", c.Desc.Name, t.Desc.DB, t.Desc.Name, err)
		}
		m.cols = append(m.cols, o)
	}
	for _, x := range t.Indexes {
		for _, c := range x.Cols {
			if x.Desc.Unique() {
				m.unique = append(m.unique, c.Pos)
			}
		}
	}
	m.describe()
	if len(e.tables) > 1000 {
		clear(e.tables) // of tables that are gone
	}
	if e.tables == nil {
		e.tables = map[base.TableID]*mapping{}
	}
	e.tables[t.Desc.ID] = m
	return m, nil
}

// describe makes the body of the table map.
func (m *mapping) describe() {
	b := le.AppendUint64(nil, m.id)[:6]
	b = le.AppendUint16(b, 1)
	for _, n := range []string{m.t.Desc.DB, m.t.Desc.Name} {
		b = append(append(append(b, byte(len(n))), n...), 0)
	}
	b = lenenc(b, uint64(len(m.cols)))
	var meta []byte
	for _, c := range m.cols {
		b, meta = append(b, c.typ), append(meta, c.meta...)
	}
	b = append(lenenc(b, uint64(len(meta))), meta...)
	b = append(b, bitmap(len(m.cols), func(i int) bool { return m.t.Cols[m.cols[i].pos].Desc.Nullable })...)
	m.body = m.optional(b)
}

// optional adds what MySQL does with binlog_row_metadata = FULL.
func (m *mapping) optional(b []byte) []byte {
	const (
		signs      = 1
		charsets   = 2
		names      = 4
		sets       = 5
		enums      = 6
		primary    = 8
		ofElements = 10
	)
	field := func(typ byte, body []byte) {
		if len(body) > 0 {
			b = append(lenenc(append(b, typ), uint64(len(body))), body...)
		}
	}
	var numeric []*column
	var name, set, enum, key []byte
	var charset, elements []uint16
	at := map[int]int{}
	for i, c := range m.cols {
		at[c.pos] = i
		d := m.t.Cols[c.pos].Desc
		name = append(lenenc(name, uint64(len(d.Name))), d.Name...)
		if c.numeric {
			numeric = append(numeric, c)
		}
		switch {
		case c.members == nil && c.charset != 0:
			charset = append(charset, c.charset)
		case c.members != nil:
			elements = append(elements, c.charset)
			to := &enum
			if c.meta[0] == colSet {
				to = &set
			}
			*to = lenenc(*to, uint64(len(c.members)))
			for _, s := range c.members {
				*to = append(lenenc(*to, uint64(len(s))), s...)
			}
		}
	}
	sign := make([]byte, (len(numeric)+7)/8) // the first column is the highest bit
	for i, c := range numeric {
		if c.unsigned {
			sign[i/8] |= 0x80 >> (i % 8)
		}
	}
	for _, p := range m.t.PK {
		key = lenenc(key, uint64(at[p]))
	}
	field(signs, sign)
	collations := func(typ byte, of []uint16) {
		body, each := collated(of)
		field(typ+each, body)
	}
	collations(charsets, charset)
	field(names, name)
	field(sets, set)
	field(enums, enum)
	field(primary, key)
	collations(ofElements, elements)
	return b
}

// collated are the collations of columns as MySQL has them: the one that most columns have, and
// those of others by their numbers, or, if that is shorter, of each column. The type of the field
// is larger by each then. mysql-binlog-connector-java, which Debezium has, fails on the latter for
// ENUM and SET (0.29.2): MySQL writes them for tables only that mix collations of these.
func collated(of []uint16) (b []byte, each byte) {
	if len(of) == 0 {
		return nil, 0
	}
	count := map[uint16]int{}
	most := of[0]
	for _, c := range of {
		count[c]++
	}
	for _, c := range of {
		if count[c] > count[most] {
			most = c
		}
	}
	b = lenenc(nil, uint64(most))
	var all []byte
	for i, c := range of {
		if all = lenenc(all, uint64(c)); c != most {
			b = lenenc(lenenc(b, uint64(i)), uint64(c))
		}
	}
	if len(all) < len(b) {
		return all, 1
	}
	return b, 0
}

// image appends a row.
func (m *mapping) image(b []byte, row sql.Row) ([]byte, error) {
	b = append(b, bitmap(len(m.cols), func(i int) bool { return row[m.cols[i].pos] == nil })...)
	for _, c := range m.cols {
		v := row[c.pos]
		if v == nil {
			continue
		}
		var err error
		if b, err = c.put(b, v); err != nil {
			return nil, fmt.Errorf("column %s of table %s.%s: %w", m.t.Cols[c.pos].Desc.Name, m.t.Desc.DB, m.t.Desc.Name, err)
		}
	}
	return b, nil
}

// What rows events do.
const (
	insert = iota
	update
	remove
)

// rowsType is the type of an event that does something with rows.
func (e *encoder) rowsType(what int) byte {
	if e.maria {
		return [...]byte{typeWriteRowsV1, typeUpdateRowsV1, typeDeleteRowsV1}[what]
	}
	return [...]byte{typeWriteRows, typeUpdateRows, typeDeleteRows}[what]
}

// rows makes an event of images.
func (e *encoder) rows(ts base.Timestamp, m *mapping, what int, images []byte, last bool) []byte {
	const endOfStatement, noForeignKeys = 1, 2
	flags := uint16(noForeignKeys)
	if last {
		flags |= endOfStatement
	}
	b := le.AppendUint64(make([]byte, 0, len(images)+64), m.id)[:6]
	b = le.AppendUint16(b, flags)
	if !e.maria {
		b = le.AppendUint16(b, 2)
	}
	b = lenenc(b, uint64(len(m.cols)))
	all := bitmap(len(m.cols), func(int) bool { return true })
	b = append(b, all...)
	if what == update {
		b = append(b, all...)
	}
	return e.event(e.rowsType(what), ts, 0, append(b, images...))
}

// eventBytes is how large an event of rows grows; tests have less.
var eventBytes = 256 << 10

// work is what is to be done with rows of one table: images, in events.
type work struct {
	m      *mapping
	what   int
	events [][]byte // images of full events, and of the last one
}

// add adds the images of a change.
func (w *work) add(rows ...sql.Row) (bytes int, err error) {
	if n := len(w.events); n == 0 || len(w.events[n-1]) >= eventBytes {
		w.events = append(w.events, nil)
	}
	last := &w.events[len(w.events)-1]
	was := len(*last)
	for _, row := range rows {
		if *last, err = w.m.image(*last, row); err != nil {
			return 0, err
		}
	}
	return len(*last) - was, nil
}

// write makes events: a table map, and rows behind it.
func (w *work) write(e *encoder, ts base.Timestamp, send func([]byte) error) error {
	if len(w.events) == 0 {
		return nil
	}
	if err := send(e.event(typeTableMap, ts, 0, w.m.body)); err != nil {
		return err
	}
	for i, images := range w.events {
		if err := send(e.rows(ts, w.m, w.what, images, i == len(w.events)-1)); err != nil {
			return err
		}
	}
	return nil
}

// gatheredBytes is how large the images of one table grow before they are written; tests have less.
// What is written when depends on the changes alone, not on how a feed cuts them into parts: a file
// has to be the same whenever it is made.
var gatheredBytes = 1 << 20

// transaction orders the changes of one: a client checks unique indexes row by row. So rows go
// before others come that may need their place.
type transaction struct {
	ts    base.Timestamp
	fresh map[*schema.Table]bool // tables without rows before this transaction
	m     *mapping               // the table whose rows are gathered; nil: none yet
	works [3]*work
	bytes int     // of their images
	later []*work // what has to wait for the end
	begun bool    // the client has heard of it
}

// part writes what can be written of a part, and keeps the rest.
func (x *transaction) part(e *encoder, changes []feed.Change, send func([]byte) error) error {
	for i := range changes {
		c := &changes[i]
		if x.m == nil || x.m.t != c.Table || x.bytes >= gatheredBytes {
			if err := x.write(e, send); err != nil {
				return err
			}
			m, err := e.mapped(c.Table)
			if err != nil {
				return err
			}
			x.m, x.bytes = m, 0
			for what := range x.works {
				x.works[what] = &work{m: m, what: what}
			}
		}
		if err := x.add(c); err != nil {
			return err
		}
	}
	return nil
}

// add gathers a change.
func (x *transaction) add(c *feed.Change) error {
	var n, more int
	var err error
	switch {
	case c.Before == nil:
		n, err = x.works[insert].add(c.After)
	case c.After == nil:
		n, err = x.works[remove].add(c.Before)
	case x.m.moves(c):
		if n, err = x.works[remove].add(c.Before); err == nil {
			more, err = x.works[insert].add(c.After)
		}
	default:
		n, err = x.works[update].add(c.Before, c.After)
	}
	x.bytes += n + more
	return err
}

// write writes what was gathered.
func (x *transaction) write(e *encoder, send func([]byte) error) error {
	if x.m == nil {
		return nil
	}
	m := x.m
	x.m = nil
	if err := x.works[remove].write(e, x.ts, send); err != nil {
		return err
	}
	if err := x.works[update].write(e, x.ts, send); err != nil {
		return err
	}
	if len(m.unique) > 0 && !x.fresh[m.t] {
		x.later = append(x.later, x.works[insert])
		return nil
	}
	return x.works[insert].write(e, x.ts, send)
}

// moves reports whether a change is of a column of a unique index: another row of the transaction
// may take its old value, or have had its new one.
func (m *mapping) moves(c *feed.Change) bool {
	for _, p := range m.unique {
		a, errA := m.value(p, c.Before)
		b, errB := m.value(p, c.After)
		if errA != nil || errB != nil || string(a) != string(b) {
			return true
		}
	}
	return false
}

// value is a value of a column as it is written; nil for NULL.
func (m *mapping) value(pos int, row sql.Row) ([]byte, error) {
	for _, c := range m.cols {
		if c.pos == pos && row[pos] != nil {
			return c.put([]byte{}, row[pos])
		}
	}
	return nil, nil
}

// end writes what was gathered, and what had to wait.
func (x *transaction) end(e *encoder, send func([]byte) error) error {
	if err := x.write(e, send); err != nil {
		return err
	}
	for _, w := range x.later {
		if err := w.write(e, x.ts, send); err != nil {
			return err
		}
	}
	x.later = nil
	return nil
}
