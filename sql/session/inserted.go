package session

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/tape"
)

// Inserted is a row that a transaction has inserted without a look at its keys: the commit finds a
// key that was there. The words of that error have the row's values.
type Inserted struct {
	Table *schema.Table
	Value []byte // the row as it is stored
	Row   sql.Row
	Keys  []InsertedKey
}

// InsertedKey is a key of such a row.
type InsertedKey struct {
	Key   base.Key
	Index *schema.Index // nil: the primary key
}

// insertedRows are all such rows of a transaction. They may be millions, and are read only if one
// of them is in the way of the commit: so they lie one behind the other on a tape.
type insertedRows struct {
	tape   tape.Tape
	tables []*schema.Table
	buf    []byte
}

// What stands before a key in a record.
const (
	keyOfRow   = 0 // of the primary key
	keyOfIndex = 1 // of an index, whose number follows
	// keyWithText is of an index with columns that are not stored: its number, and behind the key
	// the error's text for the client and its values for the engine.
	keyWithText = 2
)

// NoteInserted notes a row. Nothing of it is kept as it is.
func (t *Txn) NoteInserted(ctx context.Context, in *Inserted) error {
	l := &t.inserted
	if l.tape.Ctx == nil {
		l.tape.Ctx = ctx
	}
	at := slices.Index(l.tables, in.Table)
	if at < 0 {
		at = len(l.tables)
		l.tables = append(l.tables, in.Table)
	}
	b := binary.AppendUvarint(l.buf[:0], uint64(at))
	b = appendBytes(b, in.Value)
	for _, k := range in.Keys {
		if k.Index == nil {
			b = append(b, keyOfRow)
			b = appendBytes(b, k.Key)
			continue
		}
		number := uint64(slices.Index(in.Table.Indexes, k.Index))
		if !in.Table.Virtual {
			b = binary.AppendUvarint(append(b, keyOfIndex), number)
			b = appendBytes(b, k.Key)
			continue
		}
		row := t.Session.shown(in.Table, in.Row)
		text, _ := schema.DuplicateKey(in.Table, k.Index, row, nil)
		values := ""
		for _, c := range k.Index.Cols {
			values += fmt.Sprint(row[c.Pos])
		}
		b = binary.AppendUvarint(append(b, keyWithText), number)
		b = appendBytes(appendBytes(appendBytes(b, k.Key), []byte(text)), []byte(values))
	}
	l.buf = b
	return t.inserted.tape.Add(b)
}

func appendBytes(b, v []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(v))), v...) }

// reader takes a record apart.
type reader struct{ b []byte }

func (r *reader) number() int {
	n, k := binary.Uvarint(r.b)
	r.b = r.b[k:]
	return int(n)
}

func (r *reader) bytes() []byte {
	n := r.number()
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

// duplicate is the error of a key that was there; nil: none of these rows has it.
func (l *insertedRows) duplicate(s *Session, key base.Key) (err error) {
	l.tape.Rewind()
	for l.tape.Plays() {
		record, err := l.tape.Next()
		if err != nil {
			return err
		}
		r := &reader{record}
		table := l.tables[r.number()]
		value := r.bytes()
		for len(r.b) > 0 {
			kind, x := r.number(), (*schema.Index)(nil)
			var text, values []byte
			if kind != keyOfRow {
				x = table.Indexes[r.number()]
			}
			k := r.bytes()
			if kind == keyWithText {
				text, values = r.bytes(), r.bytes()
			}
			if key.Compare(k) == 0 {
				if kind == keyWithText {
					s.Stmt.Duplicate = string(text)
					return sql.NewUniqueKeyErr("["+string(values)+"]", false, nil)
				}
				return l.told(s, table, x, value)
			}
		}
	}
	return nil
}

// told is the error of a row.
func (l *insertedRows) told(s *Session, table *schema.Table, x *schema.Index, value []byte) error {
	row := make(sql.Row, len(table.Cols))
	if err := table.DecodeRow(context.Background(), value, row); err != nil {
		return schema.ClientError(err)
	}
	return DuplicateKey(s, table, x, row, nil)
}

// held is what is in memory, in bytes.
func (l *insertedRows) held() int64 { return l.tape.Held() + int64(cap(l.buf)) }

// end forgets the rows.
func (l *insertedRows) end() {
	l.tape.Clear()
	*l = insertedRows{}
}
