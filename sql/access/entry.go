package access

import (
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/schema"
)

// entryColumn is a column of the key of an index entry.
type entryColumn struct {
	kind schema.Kind
	to   int // the vector; -1: not wanted
}

// covered are the columns of a table whose values the entries of an index have: whole numbers and
// times of the index itself and of the primary key. Keys of texts have weights of a collation, from
// which the text cannot be told.
func (t *Table) covered(i *schema.EngineIndex) []int {
	out := []int{}
	if t.target {
		return out
	}
	for j, p := range i.Positions {
		if i.PrefixLength(j) == 0 && t.readable(p) {
			out = append(out, p)
		}
	}
	for _, p := range t.st.Def.PK {
		if t.readable(p) && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// readable reports whether a key has the value of a column in its stored form.
func (t *Table) readable(p int) bool {
	c := t.st.Def.Cols[p]
	if c.Desc.Virtual {
		return false
	}
	switch c.Kind {
	case schema.KindInt, schema.KindUint, schema.KindDatetime:
		switch t.cols[p].Type.Kind {
		case expr.Int, expr.Uint, expr.Date, expr.Datetime, expr.Timestamp:
			return true
		}
	}
	return false
}

// entries decodes entries of an index instead of rows.
type entries struct {
	d     *decoder
	index *schema.Index
	key   []entryColumn // up to the last that is wanted
	pk    []entryColumn
}

// entriesOf is how the entries of the index that is read are decoded. It is nil if rows are needed:
// for columns that entries do not have, and where rows are to be locked.
func (r *rows) entriesOf() *entries {
	if r.src.Index == nil || r.src.Take != kv.LockNone || r.read.Lock != 0 || r.src.Table.Def != r.t.st.Def {
		return nil
	}
	have := r.t.idx[r.read.Index].Covers
	for _, c := range r.read.Cols {
		if !slices.Contains(have, c) {
			return nil
		}
	}
	e := &entries{d: r.dec, index: r.src.Index}
	found := set{}
	e.key = e.columns(r.t, r.index.Positions, r.index, found)
	if e.pk = e.columns(r.t, r.t.st.Def.PK, nil, found); len(found) < len(r.read.Cols) {
		return nil
	}
	return e
}

type set map[int]bool

// columns are the columns of a part of the key; found are those that are wanted and there.
func (e *entries) columns(t *Table, at []int, i *schema.EngineIndex, found set) (out []entryColumn) {
	last := 0
	for j, p := range at {
		c := entryColumn{kind: t.st.Def.Cols[p].Kind, to: -1}
		whole := i == nil || i.PrefixLength(j) == 0
		if to := e.d.dest[p]; to >= 0 && whole && !found[p] && t.readable(p) {
			found[p], c.to, last = true, to, j+1
		}
		out = append(out, c)
	}
	return out[:last]
}

// decode makes the batch's row r of an entry.
func (e *entries) decode(entry *kv.Row, b *expr.Batch, r int) error {
	if n := e.index.PrefixLen(); n <= len(entry.Key) {
		if err := e.take(e.key, entry.Key[n:], b, r); err != nil || len(e.pk) == 0 {
			return err
		}
	}
	ref, err := e.index.EntryRef(entry.Key, entry.Value)
	if err != nil {
		return err
	}
	return e.take(e.pk, ref.PK, b, r)
}

func (e *entries) take(cols []entryColumn, k []byte, b *expr.Batch, r int) error {
	for _, c := range cols {
		null, rest, err := base.TakeNull(k)
		if err != nil {
			return e.d.corrupt()
		}
		if null {
			if k = rest; c.to >= 0 {
				b.Cols[c.to].SetNull(r)
			}
			continue
		}
		if k, err = e.value(c, k, b, r); err != nil {
			return e.d.corrupt()
		}
	}
	return nil
}

// value takes a value that is not NULL from a key.
func (e *entries) value(c entryColumn, k []byte, b *expr.Batch, r int) (rest []byte, err error) {
	var n int64
	switch c.kind {
	case schema.KindUint, schema.KindFloat:
		var u uint64
		u, rest, err = base.TakeUint64(k)
		n = int64(u)
	case schema.KindInt, schema.KindDatetime, schema.KindTimespan:
		n, rest, err = base.TakeInt64(k)
	default:
		_, rest, err = base.TakeBytes(k)
	}
	if err != nil || c.to < 0 {
		return rest, err
	}
	if v := b.Cols[c.to]; c.kind == schema.KindDatetime {
		v.I[r] = e.d.packed(v.T.Kind, n)
	} else {
		v.I[r] = n
	}
	return rest, nil
}
