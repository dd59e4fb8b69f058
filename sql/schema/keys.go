package schema

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/base"
)

// AppendKey encodes a value of the column in the order of its type and
// collation. length is the index prefix length, 0 for all.
func (c *Column) AppendKey(ctx context.Context, k []byte, v any, length int64) ([]byte, error) {
	if v == nil {
		return base.AppendNull(k), nil
	}
	switch c.Kind {
	case KindInt, KindDatetime, KindTimespan:
		if n, ok := c.signed(v); ok {
			return base.AppendInt64(k, n), nil
		}
		return nil, badValue(c, v)
	case KindUint:
		if n, ok := ToUint64(v); ok {
			return base.AppendUint64(k, n), nil
		}
		return nil, badValue(c, v)
	case KindFloat:
		if f, ok := toFloat(v); ok {
			return base.AppendFloat64(k, f), nil
		}
		return nil, badValue(c, v)
	case KindDecimal:
		if d, ok := v.(decimal.Decimal); ok {
			return c.appendDecimalKey(k, d), nil
		}
		return nil, badValue(c, v)
	}
	raw, err := c.bytesOf(ctx, v)
	if err != nil {
		return nil, err
	}
	if c.Kind != KindString || c.Binary && !c.Desc.Padded {
		return base.AppendBytes(k, cutPrefix(raw, length, c.Kind == KindString)), nil
	}
	return base.AppendBytes(k, c.textKey(string(raw), length, false)), nil
}

// AppendBegin encodes what the keys of all texts begin with that begin with one, character by
// character as LIKE compares them. length is as in [Column.AppendKey].
func (c *Column) AppendBegin(k []byte, text string, length int64) []byte {
	if c.Desc.Expanded {
		text = c.uca.Closed(text)
	}
	if c.Binary && !c.Desc.Padded {
		return base.AppendBegin(k, cutPrefix([]byte(text), length, true))
	}
	return base.AppendBegin(k, c.textKey(text, length, true))
}

// cutPrefix takes the first n characters (or bytes); n = 0 takes all.
func cutPrefix(b []byte, n int64, chars bool) []byte {
	if n == 0 {
		return b
	}
	if !chars {
		return b[:min(int64(len(b)), n)]
	}
	i := 0
	for ; n > 0 && i < len(b); n-- {
		_, w := utf8.DecodeRune(b[i:])
		i += w
	}
	return b[:i]
}

// textKey is a text in the order of its collation. begin leaves out what depends on what comes
// next.
func (c *Column) textKey(s string, length int64, begin bool) []byte {
	switch {
	case length == 0:
		length = math.MaxInt64
	case !c.Desc.Expanded:
		s, length = string(cutPrefix([]byte(s), length, true)), math.MaxInt64
	}
	if c.Desc.Padded {
		return c.padded(s, length, begin)
	}
	out := make([]byte, 0, 2*len(s))
	var ws []int32
	var one [1]int32
	for len(s) > 0 && length > 0 {
		ws, s = c.take(s, &one)
		for _, w := range ws[:min(int64(len(ws)), length)] {
			out = appendWeight(out, uint32(w))
		}
		length -= int64(len(ws))
	}
	return out
}

// take is the weights that a text begins with, and the rest of the text. one is room for a weight.
func (c *Column) take(s string, one *[1]int32) (weights []int32, rest string) {
	switch {
	case c.Binary:
		one[0] = int32(s[0])
		return one[:], s[1:]
	case c.Desc.Expanded:
		return c.uca.Next(s)
	}
	r, n := utf8.DecodeRuneInString(s)
	one[0] = c.uca.One(r)
	return one[:], s[n:]
}

// appendWeight encodes a weight in 1 byte below 0x80, in 2 below 0x4000, else in 5.
func appendWeight(b []byte, x uint32) []byte {
	switch {
	case x < 0x80:
		return append(b, byte(x))
	case x < 0x4000:
		return append(b, 0x80|byte(x>>8), byte(x))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xc0), x)
}

// appendDecimalKey encodes coefficient + 10^65-ish offset at the column's scale in fixed width.
func (c *Column) appendDecimalKey(k []byte, d decimal.Decimal) []byte {
	n := d.Shift(c.scale).Round(0).BigInt()
	offset := new(big.Int).Lsh(big.NewInt(1), uint(8*c.width-1))
	n.Add(n, offset)
	b := make([]byte, c.width)
	if n.Sign() < 0 {
		n.SetInt64(0)
	}
	if n.BitLen() > 8*c.width {
		for i := range b {
			b[i] = 0xff
		}
	} else {
		n.FillBytes(b)
	}
	return base.AppendBytes(k, b)
}

// temporaryShard is the shard in the keys of temporary tables. No shard has their rows.
const temporaryShard base.ShardID = 1

// ShardOf hashes an encoded distribution value to a data shard, if all rows have one placement.
func (t *Table) ShardOf(enc []byte) base.ShardID {
	switch t.Desc.Locality.Kind {
	case Global:
		return base.MetaShard
	case MultiMaster:
		return base.EpochShard
	case Temporary:
		return temporaryShard
	}
	if sets := t.Desc.Locality.Sets; sets != nil {
		return t.Desc.setShard(xxhash.Sum64(enc) % uint64(len(sets)*t.Desc.Shards))
	}
	return t.hashed(t.Desc.firstShard(), enc)
}

// hashed is the shard to which a value is hashed, of those behind one.
func (t *Table) hashed(before int, enc []byte) base.ShardID {
	return base.ShardID(before + 1 + int(xxhash.Sum64(enc)%uint64(t.Desc.Shards)))
}

// Shards are all shards that hold rows of the table.
func (t *Table) Shards() []base.ShardID {
	switch t.Desc.Locality.Kind {
	case Global:
		return []base.ShardID{base.MetaShard}
	case MultiMaster:
		return []base.ShardID{base.EpochShard}
	case Temporary:
		return []base.ShardID{temporaryShard}
	}
	if t.parts != nil {
		var all []base.ShardID
		for at := range t.parts.places {
			all = append(all, t.shardsIn(at)...)
		}
		return all
	}
	if sets := t.Desc.Locality.Sets; sets != nil {
		out := make([]base.ShardID, len(sets)*t.Desc.Shards)
		for i := range out {
			out[i] = t.Desc.setShard(uint64(i))
		}
		return out
	}
	out := make([]base.ShardID, t.Desc.Shards)
	for i := range out {
		out[i] = base.ShardID(t.Desc.firstShard() + i + 1)
	}
	return out
}

// RowRef is where a row is: its shard and the primary-key part of its key.
type RowRef struct {
	Shard base.ShardID
	PK    []byte
}

// Is reports whether two places are the same.
func (r RowRef) Is(o RowRef) bool { return r.Shard == o.Shard && string(r.PK) == string(o.PK) }

// RowKey is the key of the row at a place.
func (t *Table) RowKey(r RowRef) base.Key {
	return append(t.Prefix(r.Shard, 0, 0), r.PK...)
}

// RefOf computes where a row with a primary key is.
func (t *Table) RefOf(ctx context.Context, row sql.Row) (RowRef, error) {
	var r RowRef
	at := 0
	if t.parts != nil {
		var err error
		if at, err = t.part(ctx, row[t.parts.pos]); err != nil {
			return r, err
		}
	}
	for i, p := range t.PK {
		var err error
		if r.PK, err = t.Cols[p].AppendKey(ctx, r.PK, row[p], 0); err != nil {
			return r, err
		}
		if i == 0 {
			r.Shard = t.shardOf(at, r.PK)
		}
	}
	return r, nil
}

// HiddenRef is the row of a table without primary key that has a hidden id.
func (t *Table) HiddenRef(id uint64) RowRef {
	pk := base.AppendUint64(nil, id)
	return RowRef{t.ShardOf(pk), pk}
}

// RefOfKey splits the key of a row.
func RefOfKey(k base.Key) RowRef { return RowRef{k.Shard(), k[base.IndexPrefixLen:]} }

// Index entry values: 0x00 and a uvarint say that the primary-key part is the tail
// of the key after so many bytes of index columns, in the shard of the entry;
// 0x01, shard and bytes carry it in the value.
const (
	entryTail  byte = 0
	entryCarry byte = 1
)

// IndexEntry makes the entry of a row in an index. home is the row's home
// and matters for by-home indexes only.
func (t *Table) IndexEntry(ctx context.Context, x *Index, row sql.Row, r RowRef, home base.RegionID) (key base.Key,
	value []byte, err error) {
	var room [64]byte
	cols, first, null := room[:0], []byte(nil), false
	for i, c := range x.Cols {
		null = null || row[c.Pos] == nil
		if cols, err = t.Cols[c.Pos].AppendKey(ctx, cols, row[c.Pos], c.length); err != nil {
			return nil, nil, err
		}
		if i == 0 {
			first = cols[:len(cols):len(cols)]
		}
	}
	shard := r.Shard
	if x.Desc.Class == ClassUnique {
		shard = t.shardOf(t.partAt(r.Shard), first)
	}
	prefix := t.Prefix(shard, x.Desc.Key(), home)
	key = append(append(make(base.Key, 0, len(prefix)+len(cols)+len(r.PK)), prefix...), cols...)
	if x.Desc.Unique() && !null {
		value = binary.BigEndian.AppendUint16([]byte{entryCarry}, uint16(r.Shard))
		return key, append(value, r.PK...), nil
	}
	key = append(key, r.PK...)
	if shard != r.Shard {
		value = binary.BigEndian.AppendUint16([]byte{entryCarry}, uint16(r.Shard))
		return key, append(value, r.PK...), nil
	}
	return key, binary.AppendUvarint(append(make([]byte, 0, 3), entryTail), uint64(len(cols))), nil
}

// PrefixLen is the length of the fixed part of the keys of an index.
func (x *Index) PrefixLen() int {
	if x != nil && x.Desc.Class == ClassByHome {
		return base.IndexPrefixLen + 1
	}
	return base.IndexPrefixLen
}

// EntryRef finds the row of an index entry.
func (x *Index) EntryRef(key base.Key, value []byte) (RowRef, error) {
	if len(value) > 1 {
		switch value[0] {
		case entryTail:
			n, k := binary.Uvarint(value[1:])
			if k > 0 && n <= uint64(len(key)) && x.PrefixLen()+int(n) <= len(key) {
				return RowRef{key.Shard(), key[x.PrefixLen()+int(n):]}, nil
			}
		case entryCarry:
			if len(value) > 3 {
				return RowRef{base.ShardID(binary.BigEndian.Uint16(value[1:])), value[3:]}, nil
			}
		}
	}
	return RowRef{}, base.Errorf(base.CodeCorrupt, "entry %s of index %s cannot be decoded", key, x.Desc.Name)
}

// TakeKey reads a value of the column from a key, if keys hold it.
func (c *Column) TakeKey(k []byte) (text string, rest []byte, ok bool) {
	switch c.Kind {
	case KindInt:
		v, rest, err := base.TakeInt64(k)
		return fmt.Sprint(v), rest, err == nil
	case KindUint:
		v, rest, err := base.TakeUint64(k)
		return fmt.Sprint(v), rest, err == nil
	case KindString:
		if c.Binary {
			v, rest, err := base.TakeBytes(k)
			if err == nil && c.Desc.Padded {
				v, err = unpad(v)
			}
			return "'" + string(v) + "'", rest, err == nil
		}
	}
	return "", k, false
}
